//! Opens the metadata table, and finds and reads its partitions.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::committed::CommittedFiles;
use super::files::{FileRecords, ListedFiles};
use super::index_definitions::IndexDefinitions;
use super::instants::ValidInstants;
use super::keys::{partition_hash, partition_name};
use super::kind::Kind;
use super::lag;
use super::listing::{MetadataListing, PROPERTIES};
use super::lost_files::lost_file;
use super::made_at::made_at;
use super::merge::ShardReader;
use super::slice::{each_logged, each_stored};
use super::{COLUMN_STATS, FILES, FOLDER, MetadataRows, PARTITION_STATS, REBUILD};
use crate::error::{Error, Result};
use crate::file_group::log::LogBatch;
use crate::file_group::{FileGroup, FileSlice, group_files};
use crate::format::log::Wanted;
use crate::parallel::both;
use crate::storage::Storage;
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// The metadata table of a table, as a snapshot of both timelines shows it.
pub struct MetadataTable {
    storage: Storage,
    partitions: Vec<String>,
    listing: MetadataListing,
    instants: ValidInstants,
    /// Files that commits wrote since a time.
    committed: Mutex<Option<(String, Arc<CommittedFiles>)>>,
}

/// The files of a partition of the metadata table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionSummary {
    /// Its name.
    pub name: String,
    /// How many file groups it has.
    pub shards: usize,
    /// Bytes of the base files of their newest slices.
    pub base_size: u64,
    /// How many log files these slices have.
    pub logs: usize,
    /// Bytes of the log files.
    pub log_size: u64,
    /// The newest instant that wrote to it.
    pub latest_instant: Option<String>,
}

impl MetadataTable {
    /// Opens the metadata table of a table: its properties and its timeline. `partitions` are those that the table names
    /// as complete.
    ///
    /// # Errors
    /// `Corrupt` for properties that are missing, damaged or not those of a metadata table; `Unsupported` for other
    /// versions than 8 and 9; `Storage`.
    pub(crate) fn open(storage: &Storage, timeline: &Timeline, partitions: Vec<String>) -> Result<Self> {
        let listing = MetadataListing::read(storage, timeline.config())
            .map_err(|e| e.with("table", storage.uri()).with("file", PROPERTIES).remedy(REBUILD))?;
        Ok(Self::of_listing(storage, timeline, listing, partitions))
    }

    /// The same by a look at the metadata table that was taken already, after the timeline of the table was.
    pub(crate) fn of_listing(
        storage: &Storage,
        table: &Timeline,
        listing: MetadataListing,
        partitions: Vec<String>,
    ) -> Self {
        let instants = ValidInstants::new(table, listing.timeline().clone());
        Self { storage: storage.clone(), partitions, listing, instants, committed: Mutex::default() }
    }

    /// Names of the partitions.
    pub fn partitions(&self) -> &[String] {
        &self.partitions
    }

    /// Whether there is such a partition.
    pub(crate) fn has(&self, partition: &str) -> bool {
        self.partitions.iter().any(|name| name == partition)
    }

    /// The first completed action of the table that it does not have, if it is not kept up to date.
    pub(crate) fn first_missing(&self, table: &Timeline) -> Option<String> {
        lag::first_missing(table, self.instants.metadata()).map(|instant| instant.requested.clone())
    }

    /// Whether it has something that was completed after the timeline of the table was read.
    pub(crate) fn is_ahead_of(&self, table: &Timeline) -> bool {
        lag::is_ahead(table, self.instants.metadata())
    }

    /// Its timeline.
    pub(crate) fn timeline(&self) -> &Timeline {
        self.instants.metadata()
    }

    /// Whether the records of an instant are read.
    pub(super) fn counts(&self, instant: &str) -> bool {
        self.instants.is_valid(instant)
    }

    /// The shards of a partition by file id, with all their file slices.
    ///
    /// # Errors
    /// `InvalidOption` for a partition that is not there; `Corrupt` if a shard has lost files; `Storage`.
    pub(crate) fn groups(&self, partition: &str) -> Result<Vec<FileGroup>> {
        self.check_name(partition)?;
        let folder = format!("{FOLDER}/{partition}");
        let files = self.listing.files(&self.storage, &folder)?;
        let mut groups = group_files(&folder, &files, &self.instants);
        if let Some(since) = self.unclear(&groups) {
            let history = HistoryReader::new(&self.storage, self.instants.metadata().config());
            let entries = history.read(Some(&since), None, LoadMode::Action)?;
            let writes = entries.into_iter().filter(|e| e.action.is_write() && !e.completed.is_empty());
            let known = self.instants.with_archived(writes.map(|e| (e.requested, e.completed)).collect());
            groups = group_files(&folder, &files, &known);
        }
        match lost_file(&files, &groups, &self.instants) {
            None => Ok(groups),
            Some(file) => Err(Error::corrupt(
                "a file of the metadata table is of no instant that is known: without it, records would be missed",
            )
            .with("table", self.storage.uri())
            .with("file", file)
            .remedy(REBUILD)),
        }
    }

    /// The newest file slice of each shard of a partition, by file id.
    ///
    /// # Errors
    /// `InvalidOption` for a partition that is not there; `Corrupt` if it has no files; `Storage`.
    pub(crate) fn shards(&self, partition: &str) -> Result<Vec<FileSlice>> {
        let slices = self.newest_slices(partition)?;
        self.check_slices(partition, &slices)?;
        Ok(slices)
    }

    fn newest_slices(&self, partition: &str) -> Result<Vec<FileSlice>> {
        let groups = self.groups(partition)?;
        let slices: Vec<FileSlice> = groups.into_iter().filter_map(|group| group.slices.into_iter().next()).collect();
        if slices.is_empty() {
            return Err(Error::corrupt("a partition of the metadata table has no files")
                .with("table", self.storage.uri())
                .with("file", format!("{FOLDER}/{partition}"))
                .remedy(REBUILD));
        }
        Ok(slices)
    }

    /// Checks that the files of slices are those that commits wrote.
    fn check_slices(&self, partition: &str, slices: &[FileSlice]) -> Result<()> {
        let counts = |instant: &str| self.instants.is_valid(instant);
        // Commits before all of the slices tell only whether a whole shard is gone. Without one, more is read of the table;
        // but keys would be looked for in the wrong shard.
        let first = slices.iter().map(|slice| slice.base_instant.as_str()).min().unwrap_or_default();
        let since = if matches!(partition, FILES | COLUMN_STATS | PARTITION_STATS) { first } else { "" };
        let committed = self.committed(since)?;
        let made_at = || made_at(&self.storage, self.instants.metadata(), partition);
        committed.check(partition, slices, counts, made_at, &self.storage).map_err(|e| e.remedy(REBUILD))
    }

    fn check_name(&self, partition: &str) -> Result<()> {
        if !self.has(partition) {
            return Err(Error::invalid_option(format!("the metadata table has no partition '{partition}'"))
                .with("table", self.storage.uri())
                .remedy(format!("It has {}", self.partitions.join(", "))));
        }
        Ok(())
    }

    /// The first archived log file of which only the history can tell whether it belongs behind a later base file.
    fn unclear(&self, groups: &[FileGroup]) -> Option<String> {
        let metadata = self.instants.metadata();
        let unclear = groups.iter().flat_map(|group| {
            let newest = group.slices.iter().find_map(|slice| slice.base.as_ref()).map(|base| base.instant.as_str());
            let logs = group.slices.iter().flat_map(|slice| &slice.logs);
            logs.filter(move |log| {
                // Those that initialized a partition come before everything else.
                !log.instant.starts_with("0000")
                    && metadata.completion_time(&log.instant).is_none()
                    && newest.is_some_and(|base| base > log.instant.as_str())
            })
        });
        unclear.map(|log| log.instant.clone()).min()
    }

    /// The files that commits wrote since a time, or since an earlier one.
    fn committed(&self, since: &str) -> Result<Arc<CommittedFiles>> {
        let mut known = self.committed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, files)) = known.as_ref().filter(|(from, _)| from.as_str() <= since) {
            return Ok(files.clone());
        }
        let read =
            CommittedFiles::read(&self.storage, self.instants.metadata(), since).map_err(|e| e.remedy(REBUILD))?;
        let files = Arc::new(read);
        *known = Some((since.to_owned(), files.clone()));
        Ok(files)
    }

    /// What is in a partition, by its files.
    ///
    /// # Errors
    /// Those of [`MetadataTable::shards`].
    pub fn summary(&self, partition: &str) -> Result<PartitionSummary> {
        let slices = self.shards(partition)?;
        let logs = || slices.iter().flat_map(|slice| &slice.logs);
        let bases = || slices.iter().filter_map(|slice| slice.base.as_ref());
        let instants = logs().map(|log| &log.instant).chain(bases().map(|base| &base.instant));
        Ok(PartitionSummary {
            name: partition.to_owned(),
            shards: slices.len(),
            base_size: bases().map(|base| base.size).sum(),
            logs: logs().count(),
            log_size: logs().map(|log| log.size).sum(),
            latest_instant: instants.max().cloned(),
        })
    }

    /// The partitions of the table and the files in them.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn files(&self) -> Result<ListedFiles> {
        self.wanted_files(Wanted::All)
    }

    /// The files in these partitions.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn files_in(&self, partitions: &BTreeSet<&str>) -> Result<ListedFiles> {
        let mut keys: Vec<String> = partitions.iter().map(|path| partition_name(path).to_owned()).collect();
        keys.sort_unstable();
        self.wanted_files(Wanted::Keys(&keys))
    }

    /// What the records of these keys say.
    fn wanted_files(&self, wanted: Wanted<'_>) -> Result<ListedFiles> {
        let slices = self.newest_slices(FILES)?;
        // A damaged file is best told by what commits say of it.
        let check = || self.check_slices(FILES, &slices);
        let ((), listed) = both(self.storage.is_remote(), check, || self.files_of(&slices, wanted))?;
        listed.check().map_err(|e| e.with("table", self.storage.uri()).remedy(REBUILD))?;
        Ok(listed)
    }

    fn files_of(&self, slices: &[FileSlice], wanted: Wanted<'_>) -> Result<ListedFiles> {
        let mut listed = ListedFiles::default();
        let columns = ["key", Kind::Files.column()];
        for slice in slices {
            let mut records = FileRecords::default();
            let counts = |t: &str| self.instants.is_valid(t);
            each_logged(&self.storage, slice, counts, wanted, &columns, &mut |content| match content {
                LogBatch::Records(stored) => records.add_logged(&stored),
                LogBatch::Deletes(deletes) => {
                    records.delete(&deletes.keys);
                    Ok(())
                }
            })
            .map_err(|e| e.remedy(REBUILD))?;
            if let Some(base) = &slice.base {
                let rows = Kind::Files.batch_rows();
                each_stored(&self.storage, base, wanted, &columns, rows, &Ok, &mut |stored| records.add_base(&stored))
                    .map_err(|e| e.remedy(REBUILD))?;
            }
            records.finish(&mut listed);
        }
        Ok(listed)
    }

    /// Passes the rows of a partition to `each`, shard after shard. Beside the columns of [`MetadataTable::rows`] they
    /// have their `key`.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`; and those of `each`.
    pub(crate) fn each_row(&self, partition: &str, each: &mut dyn FnMut(RecordBatch) -> Result<()>) -> Result<()> {
        let kind = self.kind(partition)?;
        if kind == Kind::Files {
            return each(self.files()?.to_batch()?);
        }
        let reader = self.reader(kind, Wanted::All);
        for slice in self.shards(partition)? {
            reader.each_row(&slice, |t| self.instants.is_valid(t), each).map_err(|e| e.remedy(REBUILD))?;
        }
        Ok(())
    }

    /// Passes the rows of a partition to `each`, with the number of their shard.
    ///
    /// # Errors
    /// Those of [`MetadataTable::each_row`].
    pub(crate) fn each_row_by_shard(
        &self,
        partition: &str,
        each: &mut dyn FnMut(usize, RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let kind = self.kind(partition)?;
        let shards = self.shards(partition)?;
        shards
            .iter()
            .enumerate()
            .try_for_each(|(number, shard)| self.each_wanted(kind, shard, Wanted::All, &mut |rows| each(number, rows)))
    }

    /// Passes the rows of one shard that are wanted to `each`.
    ///
    /// # Errors
    /// Those of [`MetadataTable::each_row`].
    pub(super) fn each_wanted(
        &self,
        kind: Kind,
        shard: &FileSlice,
        wanted: Wanted<'_>,
        each: &mut dyn FnMut(RecordBatch) -> Result<()>,
    ) -> Result<()> {
        let reader = self.reader(kind, wanted);
        reader.each_row(shard, |t| self.instants.is_valid(t), each).map_err(|e| e.remedy(REBUILD))
    }

    fn reader<'a>(&'a self, kind: Kind, wanted: Wanted<'a>) -> ShardReader<'a> {
        ShardReader { storage: &self.storage, kind, zone: self.instants.metadata().config().zone, wanted }
    }

    /// All rows of a partition, in columns that are named by what they hold.
    ///
    /// # Errors
    /// Those of [`MetadataTable::each_row`].
    pub fn rows(&self, partition: &str) -> Result<MetadataRows> {
        let kind = self.kind(partition)?;
        if kind == Kind::Files {
            let batch = self.files()?.to_batch()?;
            return Ok(MetadataRows { schema: batch.schema(), batches: vec![batch] });
        }
        let names = match kind {
            Kind::ColumnStats => self.partition_hashes()?,
            _ => HashMap::new(),
        };
        let schema = public(&RecordBatch::new_empty(kind.flat_schema()), kind, &names)?.schema();
        let mut batches = Vec::new();
        self.each_row(partition, &mut |rows| {
            batches.push(public(&rows, kind, &names)?);
            Ok(())
        })?;
        Ok(MetadataRows { schema, batches })
    }

    pub(super) fn kind(&self, partition: &str) -> Result<Kind> {
        self.check_name(partition)?;
        Kind::of(partition, || Ok(self.definitions()?.index_type(partition) == Some("bloom_filters")))
    }

    /// The definitions of the table's indexes.
    pub(crate) fn definitions(&self) -> Result<IndexDefinitions> {
        IndexDefinitions::read(&self.storage, None)
    }

    /// Partition paths by the part of a key that stands for them.
    fn partition_hashes(&self) -> Result<HashMap<String, String>> {
        let partitions = self.files()?.partitions;
        Ok(partitions.into_iter().map(|partition| (partition_hash(&partition), partition)).collect())
    }
}

/// The columns for users: partitions by name, and without what only merging needs.
fn public(rows: &RecordBatch, kind: Kind, partitions: &HashMap<String, String>) -> Result<RecordBatch> {
    let schema = rows.schema();
    let mut fields: Vec<Arc<Field>> = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (field, column) in schema.fields().iter().zip(rows.columns()) {
        match (field.name().as_str(), kind) {
            ("is_deleted" | "type_info" | "filter", _) | ("key", Kind::PartitionStats | Kind::SecondaryIndex) => {}
            ("key", Kind::ColumnStats) => {
                fields.push(Arc::new(Field::new("partition", DataType::Utf8, true)));
                columns.push(partition_names(column, partitions)?);
            }
            ("file_name", Kind::PartitionStats) => {
                fields.push(Arc::new(field.as_ref().clone().with_name("partition")));
                columns.push(column.clone());
            }
            _ => {
                fields.push(field.clone());
                columns.push(column.clone());
            }
        }
    }
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    Ok(RecordBatch::try_new(schema, columns)?)
}

/// A key is the hash of the column's name, that of the partition and that of the file's name, of 12, 12 and 24 letters.
fn partition_names(keys: &ArrayRef, partitions: &HashMap<String, String>) -> Result<ArrayRef> {
    let keys = keys.as_string_opt::<i32>().ok_or_else(|| Error::internal("keys of rows are not strings"))?;
    let mut names = StringBuilder::with_capacity(keys.len(), 16 * keys.len());
    for key in keys {
        names.append_option(key.and_then(|key| partitions.get(key.get(12..24)?)));
    }
    Ok(Arc::new(names.finish()))
}
