//! Writes whose middle steps run in tasks of several processes (Spark).
//!
//! | step | where |
//! |---|---|
//! | [`DistributedWrite::begin`]: instant, schema | driver |
//! | [`Router`]: key, partition and route of each row | tasks, rows as they come |
//! | shuffle by partition and route, sort within | Spark |
//! | [`apply_routes`]: merge each route's rows into its file group, or make new files | tasks |
//! | [`DistributedWrite::commit`] | driver |
//!
//! A route is the id of a file group, or `+n`: bucket n of the partition's new rows. Equal keys have equal routes, so
//! the rows of a key meet in one task. A bloom filter may send a new key to a file group that does not hold it; there
//! it is found to be new and is added, which is as good a place as any.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, StringBuilder, UInt32Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::assignment::{SmallFile, room_in_small_files};
use super::commit::{CommitOutcome, PendingCommit};
use super::config::{Operation, WriteConfig};
use super::context::WriteContext;
use super::create_file::FileCreator;
use super::incoming::{Incoming, Preparer};
use super::merge_file::{MergeRows, merge_file};
use super::operation::{encoding_of_keys, group_of, pending_file_groups, record_size, replaced_groups};
use super::tagging::{Tagging, tag};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::{BaseFileReader, KeyRange};
use crate::format::avro::metadata::WriteStat;
use crate::format::avro::schema::{avro_to_arrow_schema, table_schema_to_avro};
use crate::format::bloom::BloomFilter;
use crate::merge::{RowRef, hash_key};
use crate::table::keygen::{KeyGenConfig, KeyGenerator};
use crate::table::{HudiTable, KeyQuery, SchemaChange, TableSchema, TableView, conform_batch, key_arrays, lookup_keys};

/// Columns that a [`Router`] adds.
pub const ROUTE_COLUMNS: [&str; 3] = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_route"];

/// What the tasks of a write have to know, as text that crosses processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TaskPlan {
    /// Requested time of the write.
    pub instant: String,
    /// `hoodie.datasource.write.operation`.
    pub operation: String,
    /// The table's columns after the write, as Avro.
    pub schema: String,
    /// Buckets of new rows in each partition.
    pub buckets: u32,
    /// Bytes of a record on average.
    pub record_size: u64,
}

/// The driver's side of a write.
pub struct DistributedWrite {
    table: HudiTable,
    pending: PendingCommit,
    operation: Operation,
    schema: SchemaRef,
    plan: TaskPlan,
}

impl DistributedWrite {
    /// Checks the data's columns and takes the instant. The caller has rolled failed writes back.
    pub fn begin(table: &HudiTable, operation: Operation, given: &Schema, buckets: u32) -> Result<Self> {
        let config = WriteConfig::new(table.options())?;
        let keys = encoding_of_keys(table)?;
        refuse_what_tasks_cannot_do(table, &config, &keys, operation, given)?;
        let view = table.view(None)?;
        let old = TableSchema::resolve(table.config(), &view)?.map(|s| s.data);
        let schema = match (operation, old) {
            (Operation::Delete, Some(old)) => old,
            (_, old) => SchemaChange { null_for_missing: config.null_for_missing }.apply(old.as_deref(), given)?,
        };
        // Missing or unusable key and ordering columns are found before the instant is taken.
        Preparer::new(operation, schema.clone(), keys, given)?;
        let record_size = record_size(table, &view, &config)?;
        let mut pending = PendingCommit::request(table, operation)?;
        pending.start(BTreeMap::new())?;
        let plan = TaskPlan {
            instant: pending.instant().to_owned(),
            operation: operation.name().to_owned(),
            schema: table_schema_to_avro(&schema, table.config().name(), false)?,
            buckets: buckets.max(1),
            record_size,
        };
        Ok(Self { table: table.clone(), pending, operation, schema, plan })
    }

    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        &self.plan
    }

    /// Publishes what the tasks wrote.
    pub fn commit(self, stats: Vec<WriteStat>) -> Result<CommitOutcome> {
        let view = self.table.view(Some(self.pending.instant()))?;
        let replaced = match self.operation {
            Operation::InsertOverwrite => {
                let touched = stats.iter().filter_map(|s| s.partition_path.clone()).collect();
                replaced_groups(&view, touched)?
            }
            Operation::InsertOverwriteTable => replaced_groups(&view, view.partitions()?.into_iter().collect())?,
            _ => BTreeMap::new(),
        };
        self.pending.commit(stats, replaced, &self.schema)
    }
}

fn refuse_what_tasks_cannot_do(
    table: &HudiTable,
    config: &WriteConfig,
    keys: &KeyGenConfig,
    operation: Operation,
    given: &Schema,
) -> Result<()> {
    let looks_up = matches!(operation, Operation::Upsert | Operation::Delete);
    let uri = table.storage().uri();
    if looks_up && config.index.is_global() {
        return Err(Error::unsupported("a global index is not supported on Spark")
            .with("table", uri)
            .remedy("Use hoodie.index.type=BLOOM or SIMPLE, or write without Spark (hoodoo.write)"));
    }
    let has = |name: &str| given.field_with_name(name.split('.').next().unwrap_or_default()).is_ok();
    if operation == Operation::Delete && !keys.partition_fields.iter().all(|f| has(&f.name)) {
        return Err(Error::schema("a delete on Spark needs the partition columns of the rows").with("table", uri));
    }
    if operation == Operation::Delete && keys.generates_keys() {
        return Err(Error::unsupported("a table with generated keys has no columns to delete by").with("table", uri));
    }
    Ok(())
}

/// What tasks of one write have in common.
struct TaskSetup {
    operation: Operation,
    config: WriteConfig,
    keys: KeyGenConfig,
    view: TableView,
    schema: SchemaRef,
}

impl TaskSetup {
    fn new(table: &HudiTable, plan: &TaskPlan) -> Result<Self> {
        Ok(Self {
            operation: Operation::parse(&plan.operation)?,
            config: WriteConfig::new(table.options())?,
            keys: encoding_of_keys(table)?,
            view: table.view(Some(&plan.instant))?,
            schema: Arc::new(avro_to_arrow_schema(&plan.schema)?),
        })
    }

    fn looks_up(&self) -> bool {
        matches!(self.operation, Operation::Upsert | Operation::Delete) && !self.keys.generates_keys()
    }

    fn fills_small_files(&self) -> bool {
        matches!(self.operation, Operation::Insert | Operation::Upsert)
    }
}

/// A file that may hold a key.
struct Candidate {
    slice: FileSlice,
    filter: Filter,
    busy: bool,
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
    candidates: Vec<Candidate>,
    /// Buckets of new rows: ids of small files, in proportion to their room, or none.
    small: Vec<String>,
}

/// Gives rows their routes.
pub struct Router {
    table: HudiTable,
    setup: TaskSetup,
    plan: TaskPlan,
    generator: KeyGenerator,
    key_schema: SchemaRef,
    partitions: HashMap<String, RoutePartition>,
    busy: HashSet<(String, String)>,
}

impl Router {
    /// A router for one task.
    pub fn new(table: &HudiTable, plan: &TaskPlan, given: &Schema) -> Result<Self> {
        let setup = TaskSetup::new(table, plan)?;
        let names = setup.keys.record_key_fields.iter().chain(setup.keys.partition_fields.iter().map(|f| &f.name));
        let wanted: HashSet<&str> = names.map(|n| n.split('.').next().unwrap_or_default()).collect();
        let fields = setup.schema.fields().iter().filter(|f| wanted.contains(f.name().as_str())).cloned();
        let key_schema = Arc::new(Schema::new(fields.collect::<Fields>()));
        for name in wanted {
            given.field_with_name(name).map_err(|_| Error::schema(format!("the data lack the column '{name}'")))?;
        }
        let generator = KeyGenerator::new(setup.keys.clone(), &key_schema)?;
        let busy = pending_file_groups(table, &setup.view)?;
        Ok(Self {
            table: table.clone(),
            setup,
            plan: plan.clone(),
            generator,
            key_schema,
            partitions: HashMap::new(),
            busy,
        })
    }

    /// The columns of routed batches.
    pub fn schema(given: &Schema) -> SchemaRef {
        let added = ROUTE_COLUMNS.iter().map(|name| Arc::new(Field::new(*name, DataType::Utf8, true)));
        let own = given.fields().iter().filter(|f| !ROUTE_COLUMNS.contains(&f.name().as_str())).cloned();
        Arc::new(Schema::new(own.chain(added).collect::<Vec<FieldRef>>()))
    }

    /// Adds key, partition and route to each row. Rows of a delete that meet nothing are left out.
    pub fn route(&mut self, batch: &RecordBatch) -> Result<RecordBatch> {
        let keyed = conform_batch(batch, &self.key_schema)?;
        let partitions = self.generator.partition_paths(&keyed)?;
        let keys = match self.setup.keys.generates_keys() {
            true => StringArray::from(vec![""; batch.num_rows()]),
            false => self.generator.record_keys(&keyed)?,
        };
        for path in &partitions.paths {
            self.load(path)?;
        }
        let mut rows: Vec<u32> = Vec::with_capacity(keys.len());
        let mut routes = StringBuilder::with_capacity(keys.len(), keys.len() * 40);
        let paths = StringArray::from_iter_values(
            partitions.ids.iter().map(|id| partitions.paths.get(*id as usize).map_or("", String::as_str)),
        );
        for row in 0..keys.len() {
            let Some(partition) = self.partitions.get(paths.value(row)) else { continue };
            for route in self.routes_of(partition, keys.value(row), row)? {
                rows.push(row as u32);
                routes.append_value(route);
            }
        }
        let rows = UInt32Array::from(rows);
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(batch.num_columns() + ROUTE_COLUMNS.len());
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            if !ROUTE_COLUMNS.contains(&field.name().as_str()) {
                columns.push(take(column, &rows, None)?);
            }
        }
        columns.push(take(&keys, &rows, None)?);
        columns.push(take(&paths, &rows, None)?);
        columns.push(Arc::new(routes.finish()));
        Ok(RecordBatch::try_new(Self::schema(&batch.schema()), columns)?)
    }

    fn routes_of(&self, partition: &RoutePartition, key: &str, row: usize) -> Result<Vec<String>> {
        let hash = if self.setup.keys.generates_keys() { row as u64 } else { hash_key(key) };
        let found: Vec<&Candidate> = partition.candidates.iter().filter(|c| c.filter.might_hold(key, hash)).collect();
        let found = if found.len() > 1 { self.really_holding(found, key)? } else { found };
        if let Some(candidate) = found.iter().find(|c| c.busy) {
            return Err(Error::conflict(
                "the write updates a file group that a pending clustering is about to replace",
            )
            .with("table", self.table.storage().uri())
            .with("partition", &candidate.slice.partition)
            .with("file group", &candidate.slice.file_id)
            .remedy("Finish or roll back the pending clustering first"));
        }
        if !found.is_empty() {
            return Ok(found.iter().map(|c| c.slice.file_id.clone()).collect());
        }
        if self.setup.operation == Operation::Delete {
            return Ok(Vec::new());
        }
        let pick = |n: usize| usize::try_from(hash % n.max(1) as u64).unwrap_or_default();
        match partition.small.get(pick(partition.small.len())) {
            Some(small) => Ok(vec![small.clone()]),
            None => Ok(vec![format!("+{}", pick(self.plan.buckets as usize))]),
        }
    }

    /// Of several files that might hold a key, those that do. A new key goes to the first.
    fn really_holding<'c>(&self, candidates: Vec<&'c Candidate>, key: &str) -> Result<Vec<&'c Candidate>> {
        let wanted = hash_key(key);
        let mut holding = Vec::new();
        for candidate in &candidates {
            let Some(base) = &candidate.slice.base else { continue };
            let find = |hash: u64, stored: &str, out: &mut Vec<u32>| {
                if hash == wanted && stored == key {
                    out.push(0);
                }
            };
            let query = KeyQuery { range: None, keys: &[], find: &find };
            let storage = self.table.storage();
            if !lookup_keys(storage, base, self.virtual_keys().as_ref(), &query)?.is_empty() {
                holding.push(*candidate);
            }
        }
        if holding.is_empty() {
            holding.extend(candidates.into_iter().take(1));
        }
        Ok(holding)
    }

    fn virtual_keys(&self) -> Option<KeyGenConfig> {
        (!self.table.config().populates_meta_fields()).then(|| self.setup.keys.clone())
    }

    fn load(&mut self, partition: &str) -> Result<()> {
        if self.partitions.contains_key(partition) {
            return Ok(());
        }
        let slices = match self.setup.looks_up() || self.setup.fills_small_files() {
            true => self.setup.view.latest_slices(partition)?,
            false => Vec::new(),
        };
        let free = slices.iter().filter(|s| !self.busy.contains(&group_of(s)));
        let small: Vec<SmallFile> =
            free.filter_map(|s| Some(SmallFile { file_id: s.file_id.clone(), size: s.base.as_ref()?.size })).collect();
        let small = match self.setup.fills_small_files() {
            true => weighted(&self.setup.config, &small, self.plan.record_size),
            false => Vec::new(),
        };
        let mut candidates = Vec::new();
        if self.setup.looks_up() {
            for slice in slices {
                if let Some(filter) = self.filter(&slice)? {
                    let busy = self.busy.contains(&group_of(&slice));
                    candidates.push(Candidate { slice, filter, busy });
                }
            }
        }
        self.partitions.insert(partition.to_owned(), RoutePartition { candidates, small });
        Ok(())
    }

    fn filter(&self, slice: &FileSlice) -> Result<Option<Filter>> {
        let Some(base) = &slice.base else { return Ok(None) };
        let storage = self.table.storage();
        let named = |e: Error| e.with("table", storage.uri()).with("file", &base.path);
        let reader = BaseFileReader::open(storage.reader(&base.path, base.size)?).map_err(named)?;
        if reader.rows() == 0 {
            return Ok(None);
        }
        let virtual_keys = self.virtual_keys();
        if virtual_keys.is_none()
            && let (Some(range), Some(bloom)) = (reader.key_range(), reader.bloom_filter().map_err(named)?)
        {
            return Ok(Some(Filter::Bloom(range, Box::new(bloom.clone()))));
        }
        let mut hashes = HashSet::new();
        for keys in key_arrays(storage, base, virtual_keys.as_ref())? {
            hashes.extend(keys.map_err(named)?.iter().flatten().map(hash_key));
        }
        Ok(Some(Filter::Hashes(hashes)))
    }
}

/// Small files, each as often as its share of the room is; how many rows there will be is not known yet.
fn weighted(config: &WriteConfig, small: &[SmallFile], record_size: u64) -> Vec<String> {
    let everything = room_in_small_files(config, small, record_size);
    let least = everything.iter().map(|(_, rows)| *rows).min().unwrap_or(1).max(1);
    let mut ids = Vec::new();
    for (id, rows) in everything {
        let share = (rows / least).clamp(1, 64);
        ids.extend(std::iter::repeat_n(id, share));
    }
    ids
}

/// Merges routed rows, which come sorted by partition and route; one write stat for each file.
pub fn apply_routes(
    table: &HudiTable,
    plan: &TaskPlan,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let setup = TaskSetup::new(table, plan)?;
    let context = WriteContext::new(table, setup.config.clone(), &plan.instant, setup.schema.clone())?;
    let mut apply =
        Apply { table, plan, setup: &setup, context: &context, task, token, stats: Vec::new(), creator: None };
    let mut current: Option<((String, String), Vec<RecordBatch>)> = None;
    for batch in batches {
        for (group, rows) in runs(&batch?)? {
            match &mut current {
                Some((known, list)) if *known == group => list.push(rows),
                _ => {
                    if let Some((known, list)) = current.replace((group, vec![rows])) {
                        apply.group(&known, list)?;
                    }
                }
            }
        }
    }
    if let Some((known, list)) = current {
        apply.group(&known, list)?;
    }
    apply.finish()
}

/// Cuts a batch where partition or route change.
fn runs(batch: &RecordBatch) -> Result<Vec<((String, String), RecordBatch)>> {
    let text = |name: &str| {
        let column = batch.column_by_name(name).and_then(|c| c.as_string_opt::<i32>());
        column.cloned().ok_or_else(|| Error::schema(format!("the routed rows lack the column {name}")))
    };
    let (partitions, routes) = (text("_hoodie_partition_path")?, text("_hoodie_route")?);
    let mut out = Vec::new();
    let mut begin = 0;
    for row in 1..=batch.num_rows() {
        let goes_on = row < batch.num_rows()
            && partitions.value(row) == partitions.value(begin)
            && routes.value(row) == routes.value(begin);
        if !goes_on {
            let group = (partitions.value(begin).to_owned(), routes.value(begin).to_owned());
            out.push((group, batch.slice(begin, row - begin)));
            begin = row;
        }
    }
    Ok(out)
}

struct Apply<'a> {
    table: &'a HudiTable,
    plan: &'a TaskPlan,
    setup: &'a TaskSetup,
    context: &'a WriteContext,
    task: usize,
    token: &'a str,
    stats: Vec<WriteStat>,
    /// The partition whose new rows are being written; buckets of a partition share files.
    creator: Option<(String, FileCreator<'a>)>,
}

impl<'a> Apply<'a> {
    fn group(&mut self, (partition, route): &(String, String), batches: Vec<RecordBatch>) -> Result<()> {
        let given = batches.first().map(RecordBatch::schema).ok_or_else(|| Error::schema("a route without rows"))?;
        let mut preparer =
            Preparer::new(self.setup.operation, self.setup.schema.clone(), self.setup.keys.clone(), &given)?;
        for batch in &batches {
            preparer.add(batch).map_err(|e| e.with("table", self.table.storage().uri()))?;
        }
        let mut incoming = preparer.finish();
        if self.setup.keys.generates_keys() {
            self.generate_keys(&mut incoming, route)?;
        }
        match route.strip_prefix('+') {
            Some(_) => self.create(partition, &incoming),
            None => self.merge(partition, route, &incoming),
        }
    }

    fn generate_keys(&self, incoming: &mut Incoming, route: &str) -> Result<()> {
        // Unique in the write: the task, the route within it, the row within that.
        incoming.generate_keys(&format!("{}_{}_{route}", self.plan.instant, self.task))
    }

    fn create(&mut self, partition: &str, incoming: &Incoming) -> Result<()> {
        let rows = self.records(incoming, &[])?.1;
        self.append(partition, incoming, &rows)
    }

    fn append(&mut self, partition: &str, incoming: &Incoming, rows: &[RowRef]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.creator.as_ref().is_none_or(|(known, _)| known != partition) {
            self.flush()?;
            let creator = FileCreator::new(self.context, partition, self.task, self.token);
            self.creator = Some((partition.to_owned(), creator));
        }
        match &mut self.creator {
            Some((_, creator)) => creator.append(incoming, rows),
            None => Ok(()),
        }
    }

    fn merge(&mut self, partition: &str, file_id: &str, incoming: &Incoming) -> Result<()> {
        let slices = self.setup.view.latest_slices(partition)?;
        let slice = slices.into_iter().find(|s| s.file_id == file_id);
        let slice = slice.ok_or_else(|| {
            Error::conflict("a file group went away while rows were on their way to it")
                .with("partition", partition)
                .with("file group", file_id)
        })?;
        let (updates, inserts) = self.records(incoming, std::slice::from_ref(&slice))?;
        if updates.is_empty() && inserts.is_empty() {
            return Ok(());
        }
        // More new rows than the file has room for go on in new files.
        let size = slice.base.as_ref().map_or(0, |b| b.size);
        let room = self.setup.config.max_file_size.saturating_sub(size) / self.plan.record_size.max(1);
        let room = usize::try_from(room).unwrap_or(usize::MAX).max(1).min(inserts.len());
        let (here, elsewhere) = inserts.split_at(room);
        let rows = MergeRows {
            incoming,
            updates: &updates,
            inserts: here,
            delete_by_key: self.setup.operation == Operation::Delete,
        };
        self.stats.push(merge_file(self.context, &slice, &rows, self.task, self.token)?);
        self.append(partition, incoming, elsewhere)
    }

    /// One record for each key: those that meet a stored one, and the new ones.
    fn records(
        &self,
        incoming: &Incoming,
        slices: &[FileSlice],
    ) -> Result<(Vec<super::tagging::MatchedRow>, Vec<RowRef>)> {
        if !self.setup.looks_up() {
            let rows = super::operation::rows_to_insert(
                incoming,
                self.context,
                self.setup.config.combine_before_insert && !self.setup.keys.generates_keys(),
            )?;
            return Ok((Vec::new(), rows.into_values().flatten().collect()));
        }
        let tagging = Tagging {
            context: self.context,
            operation: self.setup.operation,
            global: false,
            anywhere: false,
            virtual_keys: (!self.table.config().populates_meta_fields()).then(|| self.setup.keys.clone()),
            threads: 1,
        };
        let tagged = tag(incoming, &tagging, &|_| Ok(slices.to_vec()))?;
        let updates = tagged.updates.into_iter().flat_map(|u| u.rows).collect();
        Ok((updates, tagged.inserts.into_values().flatten().collect()))
    }

    fn flush(&mut self) -> Result<()> {
        if let Some((_, creator)) = self.creator.take() {
            self.stats.extend(creator.finish()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<WriteStat>> {
        self.flush()?;
        Ok(self.stats)
    }
}

/// Writes rows as they come into new files, a file for each partition at a time (`bulk_insert` without shuffle).
pub fn write_rows(
    table: &HudiTable,
    plan: &TaskPlan,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let setup = TaskSetup::new(table, plan)?;
    let context = WriteContext::new(table, setup.config.clone(), &plan.instant, setup.schema.clone())?;
    let mut creators: BTreeMap<String, FileCreator<'_>> = BTreeMap::new();
    for (number, batch) in batches.enumerate() {
        let batch = batch?;
        let mut preparer = Preparer::new(setup.operation, setup.schema.clone(), setup.keys.clone(), &batch.schema())?;
        preparer.add(&batch).map_err(|e| e.with("table", table.storage().uri()))?;
        let mut incoming = preparer.finish();
        if setup.keys.generates_keys() {
            incoming.generate_keys(&format!("{}_{task}_{number}", plan.instant))?;
        }
        for (partition, rows) in super::operation::rows_to_insert(&incoming, &context, false)? {
            let path = incoming.partition(partition).to_owned();
            let creator = creators.entry(path).or_insert_with_key(|path| FileCreator::new(&context, path, task, token));
            creator.append(&incoming, &rows)?;
        }
    }
    let mut stats = Vec::new();
    for creator in creators.into_values() {
        stats.extend(creator.finish()?);
    }
    Ok(stats)
}
