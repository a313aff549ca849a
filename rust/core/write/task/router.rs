//! Routes for rows whose partition says where their key may be: the usual write.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::sync::OnceLock;

use arrow::array::{Array, AsArray, RecordBatch, StringArray, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{FieldRef, Schema};
use arrow_row::{RowConverter, SortField};

use super::TaskPlan;
use super::keyer::{Keyer, NumberedPacker};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::{BaseFileReader, KeyRange};
use crate::format::bloom::BloomFilter;
use crate::merge::{hash_bytes, hash_key};
use crate::table::{HudiTable, OpenFiles, key_arrays};
use crate::write::config::Operation;
use crate::write::locate::buckets::{BucketGroups, StoredKeys};
use crate::write::locate::log_keys::Logs;
use crate::write::locate::pending_file_groups::PendingFileGroups;
use crate::write::route::spread::NewRows;
use crate::write::setup::WriteSetup;

/// A file group that may hold a key.
struct Candidate {
    slice: FileSlice,
    /// Of its base file, if that has rows.
    filter: Option<Filter>,
    /// Hashes of all keys of the base file, once its filter was not sure.
    keys: OnceLock<HashSet<u64>>,
    /// Hashes of keys in its log files, where these may hold others than the base file.
    logged: HashSet<u64>,
    /// Hashes of keys that those log files delete.
    deleted: HashSet<u64>,
}

impl Candidate {
    fn might_hold(&self, key: &str, hash: u64) -> bool {
        self.filter.as_ref().is_some_and(|filter| filter.might_hold(key, hash)) || self.logged.contains(&hash)
    }
}

enum Filter {
    Bloom(KeyRange, Box<BloomFilter>),
    /// Hashes of all keys of the file, where the footer has no filter.
    Hashes(HashSet<u64>),
}

impl Filter {
    fn might_hold(&self, key: &str, hash: u64) -> bool {
        match self {
            Filter::Bloom(range, filter) => range.contains(key) && filter.might_contain(key),
            Filter::Hashes(hashes) => hashes.contains(&hash),
        }
    }
}

struct RoutePartition {
    path: String,
    candidates: Vec<Candidate>,
    new_rows: NewRows,
    /// Whether it was found that it takes new rows.
    takes_new_rows: OnceLock<()>,
    /// Of a write with a bucket index.
    buckets: Option<BucketGroups>,
}

/// What rows without a key of their own are spread by. A task may run again with its rows in another order, when those that
/// take them have begun: only what a row says leads it to where it went before.
fn content_hashes(rows: &RecordBatch) -> Result<Vec<u64>> {
    let of_field = |field: &FieldRef| SortField::new(field.data_type().clone());
    let (fields, columns): (Vec<SortField>, Vec<_>) = (rows.schema().fields().iter().map(of_field))
        .zip(rows.columns().iter().cloned())
        .filter(|(field, _)| RowConverter::supports_fields(std::slice::from_ref(field)))
        .unzip();
    if columns.is_empty() {
        return Ok(vec![0; rows.num_rows()]);
    }
    let converted = RowConverter::new(fields)?.convert_columns(&columns)?;
    Ok(converted.iter().map(|row| hash_bytes(row.as_ref())).collect())
}

/// Gives rows their routes.
pub struct Router {
    table: HudiTable,
    setup: WriteSetup,
    plan: TaskPlan,
    keyer: Keyer,
    packer: NumberedPacker,
    partitions: HashMap<String, RoutePartition>,
    pending_groups: PendingFileGroups,
    /// Of a table that has log files.
    logs: Option<Logs>,
}

impl Router {
    /// A router for the task of this number.
    pub fn new(table: &HudiTable, plan: &TaskPlan, given: &Schema, task: usize) -> Result<Self> {
        let setup = WriteSetup::of_task(table, plan)?;
        let keyer = Keyer::new(&setup, given, task)?;
        let pending_groups = PendingFileGroups::of(table, &setup.view)?;
        let (columns, _) = table.file_settings(&setup.schema)?;
        let logs = Logs::new(table, &setup.view, &columns, plan.log_writes.clone())?;
        let (packer, partitions) = (NumberedPacker::new(plan)?, HashMap::new());
        Ok(Self { table: table.clone(), setup, plan: plan.clone(), keyer, packer, partitions, pending_groups, logs })
    }

    /// Adds rows with their routes; rows of a delete that meet nothing are left out. Packed rows come back when many wait.
    pub fn add(&mut self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let (keys, partitions) = self.keyer.keys(batch)?;
        if self.setup.looks_up() || self.setup.fills_small_files() {
            let unknown = partitions.paths.iter().filter(|path| !self.partitions.contains_key(*path));
            self.setup.view.list_ahead(&unknown.cloned().collect::<Vec<_>>())?;
        }
        for path in &partitions.paths {
            self.load(path)?;
        }
        let mut rows: Vec<u32> = Vec::with_capacity(keys.len());
        let mut routes = StringBuilder::with_capacity(keys.len(), keys.len() * 40);
        let path_of = |id: &u32| partitions.paths.get(*id as usize).map(String::as_str);
        let paths: StringArray = partitions.ids.iter().map(path_of).collect();
        if paths.len() != keys.len() || paths.null_count() > 0 {
            let known = paths.len() - paths.null_count();
            return Err(Error::internal(format!("of {} rows the partitions of {known} are known", keys.len())));
        }
        let hashes = self.setup.bucket_index.as_ref().map(|index| index.hashes(&keys)).unwrap_or_default();
        let contents = if self.setup.keys.generates_keys() { content_hashes(batch)? } else { Vec::new() };
        for row in 0..keys.len() {
            let path = paths.value(row);
            let partition = self.partitions.get(path);
            let partition = partition.ok_or_else(|| {
                Error::internal("the file groups of a partition were not loaded").with("partition", path)
            })?;
            if let (Some(groups), Some(hash)) = (&partition.buckets, hashes.get(row)) {
                if self.write_bucket(groups, groups.bucket(*hash), &mut routes)? {
                    rows.push(row as u32);
                }
                continue;
            }
            let hash = contents.get(row).copied().unwrap_or_else(|| hash_key(keys.value(row)));
            for route in self.routes_of(partition, keys.value(row), hash)? {
                rows.push(row as u32);
                routes.append_value(route);
            }
        }
        let rows = UInt32Array::from(rows);
        let paths = take(&paths, &rows, None)?.as_string().clone();
        self.packer.add(&mut self.keyer, batch, &rows, (paths, routes.finish()))
    }

    /// The rows that still wait.
    pub fn finish(&mut self) -> Result<Option<RecordBatch>> {
        self.packer.flush()
    }

    /// Adds the route to a bucket; none for the delete of a key that is not there.
    fn write_bucket(&self, groups: &BucketGroups, bucket: u32, routes: &mut StringBuilder) -> Result<bool> {
        match groups.slice(bucket) {
            Some(slice) => {
                self.pending_groups.check_update(&self.table, slice)?;
                routes.append_value(&slice.file_id);
            }
            None if self.setup.operation == Operation::Delete => return Ok(false),
            None => {
                write!(routes, "+{bucket}").map_err(|e| Error::internal(e.to_string()))?;
                routes.append_value("");
            }
        }
        Ok(true)
    }

    fn routes_of(&self, partition: &RoutePartition, key: &str, hash: u64) -> Result<Vec<String>> {
        let found: Vec<&Candidate> = partition.candidates.iter().filter(|c| c.might_hold(key, hash)).collect();
        let found = if found.len() > 1 { self.really_holding(found, hash)? } else { found };
        for candidate in &found {
            // A filter that is not sure must not keep a new row out of the table.
            if self.pending_groups.refuses(&candidate.slice) && self.holds(candidate, hash)? {
                self.pending_groups.check_update(&self.table, &candidate.slice)?;
            }
        }
        let found: Vec<&Candidate> = found.into_iter().filter(|c| !self.pending_groups.refuses(&c.slice)).collect();
        if !found.is_empty() {
            return Ok(found.iter().map(|c| c.slice.file_id.clone()).collect());
        }
        if let Some(candidate) = partition.candidates.iter().find(|c| c.deleted.contains(&hash)) {
            self.pending_groups.check_update(&self.table, &candidate.slice)?;
            return Ok(vec![candidate.slice.file_id.clone()]);
        }
        if self.setup.operation == Operation::Delete {
            return Ok(Vec::new());
        }
        if partition.takes_new_rows.get().is_none() && self.setup.fills_small_files() {
            self.setup.refuse_without_buckets(&partition.path, &self.setup.view.latest_slices(&partition.path)?)?;
            let _ = partition.takes_new_rows.set(());
        }
        Ok(vec![partition.new_rows.route(hash)])
    }

    /// Of several files that might hold a key, those that do. A new key goes to the first.
    fn really_holding<'c>(&self, candidates: Vec<&'c Candidate>, hash: u64) -> Result<Vec<&'c Candidate>> {
        let mut holding = Vec::new();
        for candidate in &candidates {
            if self.holds(candidate, hash)? {
                holding.push(*candidate);
            }
        }
        if holding.is_empty() {
            holding.extend(candidates.into_iter().take(1));
        }
        Ok(holding)
    }

    /// Whether a file has a key with this hash.
    fn holds(&self, candidate: &Candidate, hash: u64) -> Result<bool> {
        if candidate.logged.contains(&hash) {
            return Ok(true);
        }
        match (&candidate.filter, candidate.keys.get()) {
            (None, _) => Ok(false),
            (Some(Filter::Hashes(hashes)), _) | (_, Some(hashes)) => Ok(hashes.contains(&hash)),
            // Read once, and not for each key: a filter that holds more keys than it was made for is often unsure.
            (Some(Filter::Bloom(..)), None) => {
                let hashes = self.key_hashes(&candidate.slice)?;
                let known = hashes.contains(&hash);
                let _ = candidate.keys.set(hashes);
                Ok(known)
            }
        }
    }

    fn key_hashes(&self, slice: &FileSlice) -> Result<HashSet<u64>> {
        let Some(base) = &slice.base else { return Ok(HashSet::new()) };
        let storage = self.table.storage();
        let named = |e: Error| e.with("table", storage.uri()).with("file", &base.path);
        let mut hashes = HashSet::new();
        for keys in key_arrays(storage, base, self.setup.virtual_keys().as_ref())? {
            hashes.extend(keys.map_err(named)?.iter().flatten().map(hash_key));
        }
        Ok(hashes)
    }

    fn load(&mut self, partition: &str) -> Result<()> {
        if self.partitions.contains_key(partition) {
            return Ok(());
        }
        let slices = match self.setup.looks_up() || self.setup.fills_small_files() {
            true => self.setup.slices_of(partition)?,
            false => Vec::new(),
        };
        let new_rows = NewRows::new(&self.setup, self.plan.new_rows(), &slices, &self.pending_groups);
        let mut of_partition = RoutePartition {
            path: partition.to_owned(),
            candidates: Vec::new(),
            new_rows,
            takes_new_rows: OnceLock::new(),
            buckets: None,
        };
        if self.setup.bucket_index.is_some() {
            of_partition.buckets = self.buckets(partition, slices)?;
        } else if self.setup.looks_up() {
            let suspects = match &self.logs {
                Some(logs) => logs.keys.of(slices.iter())?.iter().map(|s| s.file_id.clone()).collect(),
                None => HashSet::new(),
            };
            for slice in slices {
                let filter = self.filter(&slice)?;
                let is_suspect = suspects.contains(&slice.file_id);
                let (logged, deleted) = if is_suspect { self.logged(&slice)? } else { Default::default() };
                if filter.is_some() || is_suspect {
                    let candidate = Candidate { slice, filter, keys: OnceLock::new(), logged, deleted };
                    of_partition.candidates.push(candidate);
                }
            }
        }
        self.partitions.insert(partition.to_owned(), of_partition);
        Ok(())
    }

    /// The file groups of a partition in a bucket index, once some stored keys were compared.
    fn buckets(&self, partition: &str, slices: Vec<FileSlice>) -> Result<Option<BucketGroups>> {
        let Some(index) = &self.setup.bucket_index else { return Ok(None) };
        let named = |e: Error| e.with("table", self.table.storage().uri());
        let groups = BucketGroups::of(index, partition, slices).map_err(named)?;
        let (opened, virtual_keys) = (OpenFiles::default(), self.setup.virtual_keys());
        let stored = StoredKeys {
            storage: self.table.storage(),
            opened: &opened,
            virtual_keys: virtual_keys.as_ref(),
            logs: self.logs.as_ref(),
        };
        stored.check(index, &groups, std::iter::empty())?;
        Ok(Some(groups))
    }

    /// Hashes of keys that the log files of a slice hold, and of those that they delete.
    fn logged(&self, slice: &FileSlice) -> Result<(HashSet<u64>, HashSet<u64>)> {
        let (mut held, mut deleted) = (HashSet::new(), HashSet::new());
        if let Some(logs) = &self.logs {
            logs.reader.each_key_in_logs(slice, &mut |key, is_deleted| {
                if is_deleted { &mut deleted } else { &mut held }.insert(hash_key(key));
            })?;
        }
        Ok((held, deleted))
    }

    fn filter(&self, slice: &FileSlice) -> Result<Option<Filter>> {
        let Some(base) = &slice.base else { return Ok(None) };
        let storage = self.table.storage();
        let named = |e: Error| e.with("table", storage.uri()).with("file", &base.path);
        let reader = BaseFileReader::open(storage.reader(&base.path, base.size)?).map_err(named)?;
        if reader.rows() == 0 {
            return Ok(None);
        }
        if self.setup.virtual_keys().is_none()
            && let (Some(range), Some(bloom)) = (reader.key_range(), reader.bloom_filter().map_err(named)?)
        {
            return Ok(Some(Filter::Bloom(range, Box::new(bloom.clone()))));
        }
        Ok(Some(Filter::Hashes(self.key_hashes(slice)?)))
    }
}
