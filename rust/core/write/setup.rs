//! What the steps of one write have in common, in whatever process they run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};

use super::commit::delete_partition::partition_generator;
use super::commit::pending::PlannedFrom;
use super::commit::replaced::file_groups;
use super::config::{IndexType, Operation, WriteConfig};
use super::locate::bucket_writers::refuse_new_rows;
use super::locate::buckets::Buckets;
use super::locate::known_keys::KnownKeys;
use super::locate::log_keys::Logs;
use super::locate::lookup::{Tagged, Tagging};
use super::locate::record_index::{IndexLookup, metadata_table_of};
use super::locate::tagging::tag;
use super::prepare::incoming::{Incoming, Preparer, is_anywhere};
use super::prepare::key_encoding::encoding_of_keys;
use super::prepare::partial_rows::{
    check_partial, check_required, check_without_ids, missing_nullable, nothing_to_keep, with_missing,
};
use super::rewrite::context::WriteContext;
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, bucket_of_file_id, shared_file_id};
use crate::merge::{MergeRule, missing};
use crate::metadata_table::RECORD_INDEX;
use crate::table::keygen::KeyGenConfig;
use crate::table::{
    BucketIndex, BucketSettings, Evolution, HudiTable, MergeSettings, OpenFiles, SchemaChange, TableSchema, TableType,
    TableView,
};
use crate::transaction::{Concurrency, DataFiles};

/// A write to a table as a view shows it, checked against the columns of the rows.
pub(in crate::write) struct WriteSetup {
    pub(in crate::write) table: HudiTable,
    pub(in crate::write) operation: Operation,
    pub(in crate::write) config: WriteConfig,
    pub(in crate::write) keys: KeyGenConfig,
    /// Tells the buckets of keys, where the index is one of buckets.
    pub(in crate::write) bucket_index: Option<BucketIndex>,
    pub(in crate::write) settings: MergeSettings,
    /// The table that the write is planned from.
    pub(in crate::write) view: TableView,
    /// The table's columns before the write; `None` where it has none yet, and in tasks.
    pub(in crate::write) old_schema: Option<SchemaRef>,
    /// The table's columns after the write, without meta columns.
    pub(in crate::write) schema: SchemaRef,
    /// The columns that the rows of a partial upsert have: the others keep their stored values.
    pub(in crate::write) given: Option<Vec<String>>,
    /// Whether writers of a table do not block each other.
    pub(in crate::write) non_blocking: bool,
}

impl WriteSetup {
    /// Checks a write of rows with these columns, and says how it may change the schema. Until it does, see
    /// [`WriteSetup::widen`], the schema is the narrow one. Nothing is written.
    ///
    /// # Errors
    /// `InvalidOption`, `Schema` and `Unsupported` for rows that the table cannot take by this operation.
    pub(in crate::write) fn new(
        table: &HudiTable,
        view: TableView,
        operation: Operation,
        given: &Schema,
        partial: bool,
    ) -> Result<(Self, Evolution)> {
        check_partial(partial, operation)?;
        let keys = encoding_of_keys(table)?;
        if operation == Operation::Delete && keys.generates_keys() {
            return Err(Error::unsupported("a table with generated keys has no columns to delete by")
                .with("table", table.storage().uri())
                .remedy("Upsert rows with _hoodie_is_deleted into a table with key columns instead"));
        }
        let config = WriteConfig::of_table(table)?;
        let bucket_index = match config.index {
            IndexType::Bucket => Some(BucketIndex::new(BucketSettings::of_table(table, &keys, view.timeline())?)?),
            _ => None,
        };
        let old_schema = TableSchema::resolve(table.config(), &view)?.map(|s| s.data);
        let evolution = evolution(&config, operation, old_schema.as_ref(), given, partial);
        let evolution = evolution.map_err(|e| e.with("table", table.storage().uri()))?;
        let setup = Self {
            table: table.clone(),
            operation,
            config,
            keys,
            bucket_index,
            settings: table.merge_settings()?,
            view,
            old_schema,
            schema: evolution.narrow.clone(),
            given: partial.then(|| given.fields().iter().map(|f| f.name().clone()).collect()),
            non_blocking: Concurrency::from_options(table.options())?.non_blocking,
        };
        setup.refuse_blocking()?;
        setup.check_columns(given)?;
        Ok((setup, evolution))
    }

    /// Refuses, beside writers that do not wait, what replaces file groups that they append to.
    fn refuse_blocking(&self) -> Result<()> {
        if !self.non_blocking {
            return Ok(());
        }
        let indexes = self.table.config().metadata_partitions();
        if let Some(index) = indexes.iter().find(|name| *name == RECORD_INDEX || name.starts_with("secondary_index_")) {
            // The metadata table orders what writers say of a key by when they began, not by when they completed.
            return Err(Error::unsupported(format!(
                "writers with NON_BLOCKING_CONCURRENCY_CONTROL cannot keep the index {index}: it would lose keys"
            ))
            .with("table", self.table.storage().uri())
            .remedy(format!("Drop the index, t.drop_index({index:?}), or write with OPTIMISTIC_CONCURRENCY_CONTROL")));
        }
        if !matches!(self.operation, Operation::InsertOverwrite | Operation::InsertOverwriteTable) {
            return Ok(());
        }
        let operation = self.operation.name().to_ascii_lowercase();
        Err(Error::unsupported(format!(
            "{operation} is not supported with NON_BLOCKING_CONCURRENCY_CONTROL, as in Hudi"
        ))
        .with("table", self.table.storage().uri())
        .remedy("Stop the other writers, and write with OPTIMISTIC_CONCURRENCY_CONTROL"))
    }

    /// Missing or unusable key and ordering columns are found before anything is on the timeline.
    fn check_columns(&self, given: &Schema) -> Result<()> {
        if self.operation == Operation::DeletePartition {
            return partition_generator(&self.keys, given).map(|_| ());
        }
        self.preparer(&self.schema, given)?;
        if self.given.is_some() {
            let context = self.context("", None)?;
            if self.appends() {
                let schema = TableSchema::resolve(self.table.config(), &self.view)?;
                check_without_ids(&self.table, schema.as_ref())?;
                // A record of a log file may come to stand alone: when what it was merged with is deleted and compacted away.
                check_required(&context)?;
            }
        }
        Ok(())
    }

    /// Lets columns have the wider types that the rows declare.
    pub(in crate::write) fn widen(&mut self, evolution: &Evolution, columns: &[String]) {
        self.schema = evolution.widened(columns);
    }

    /// What the write is planned from.
    pub(in crate::write) fn planned_from(&self) -> Result<PlannedFrom> {
        PlannedFrom::of(&self.table, &self.view, self.old_schema.clone())
    }

    /// Whether log files take the rows that meet stored records.
    pub(in crate::write) fn appends(&self) -> bool {
        self.table.config().table_type() == TableType::MergeOnRead
    }

    /// Whether keys of rows are looked up. A bucket index has one place for each key, so that inserts meet stored records.
    pub(in crate::write) fn looks_up(&self) -> bool {
        match self.operation {
            Operation::Upsert | Operation::Delete => !self.keys.generates_keys(),
            Operation::Insert | Operation::BulkInsert => self.bucket_index.is_some(),
            _ => false,
        }
    }

    /// Whether keys are looked up before it is known to which file group their rows go, in all partitions or in the record
    /// index: the rows of a key have to be together for that.
    pub(in crate::write) fn locates_first(&self, given: &Schema) -> bool {
        let index = self.config.index;
        self.looks_up() && (index.is_global() || index.is_record_level() || self.is_anywhere(given))
    }

    /// Whether rows of these columns are deletes that do not say in which partition they are.
    pub(in crate::write) fn is_anywhere(&self, given: &Schema) -> bool {
        is_anywhere(self.operation, &self.keys, given)
    }

    /// Whether inserts replace the record of their key in the small file that they go to.
    pub(in crate::write) fn merges_inserts(&self) -> bool {
        self.operation == Operation::Insert
            && self.bucket_index.is_none()
            && !self.config.allow_duplicates_on_insert
            && !self.keys.generates_keys()
    }

    /// Whether rows of one key become one.
    pub(in crate::write) fn combines(&self) -> bool {
        let wanted = match self.operation {
            Operation::Upsert => true,
            Operation::Delete | Operation::DeletePartition => false,
            Operation::Insert | Operation::BulkInsert if self.bucket_index.is_some() => true,
            _ => self.config.combine_before_insert || self.merges_inserts(),
        };
        wanted && !self.keys.generates_keys()
    }

    /// Whether new rows go to small files first.
    pub(in crate::write) fn fills_small_files(&self) -> bool {
        matches!(self.operation, Operation::Insert | Operation::Upsert) && self.bucket_index.is_none()
    }

    /// Refuses new rows for a partition with these file groups if they are of a bucket index and this write has another one.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(in crate::write) fn refuse_without_buckets(&self, partition: &str, slices: &[FileSlice]) -> Result<()> {
        match self.bucket_index {
            // Nothing of the bucket index is left.
            None if self.operation == Operation::InsertOverwriteTable => Ok(()),
            Some(_) => Ok(()),
            None => refuse_new_rows(&self.table, partition, slices),
        }
    }

    /// Plans the write from another view of the table.
    pub(in crate::write) fn plan_from(&mut self, view: TableView) {
        self.view = view;
    }

    /// The file groups of the buckets of these partitions, where the index is one of buckets and the rows say where they
    /// belong. `slices`: the newest slices of a partition; what is overwritten takes no rows.
    ///
    /// # Errors
    /// Those of [`Buckets::new`].
    pub(in crate::write) fn buckets_of(
        &self,
        partitions: &[String],
        anywhere: bool,
        slices: &dyn Fn(&str) -> Result<Vec<FileSlice>>,
    ) -> Result<Option<Buckets<'_>>> {
        let Some(index) = self.bucket_index.as_ref().filter(|_| !anywhere) else { return Ok(None) };
        let none = |_: &str| Ok(Vec::new());
        let buckets = match self.looks_up() {
            true => Buckets::new(index, partitions, slices),
            false => Buckets::new(index, partitions, &none),
        };
        buckets.map(Some).map_err(|e| e.with("table", self.table.storage().uri()))
    }

    /// The newest file slices of a partition. Where writers do not block each other, each bucket has a file group: one that
    /// nobody has begun is a slice without files, and begins with a log file. One whose id a commit has replaced stays out,
    /// because readers would not see it.
    ///
    /// # Errors
    /// Those of listing the partition.
    pub(in crate::write) fn slices_of(&self, partition: &str) -> Result<Vec<FileSlice>> {
        let mut slices = self.view.latest_slices(partition)?;
        let Some(index) = self.bucket_index.as_ref().filter(|_| self.non_blocking) else { return Ok(slices) };
        let begun: BTreeSet<u32> = slices.iter().filter_map(|slice| bucket_of_file_id(&slice.file_id)).collect();
        for bucket in (0..index.buckets_in(partition)).filter(|bucket| !begun.contains(bucket)) {
            let file_id = shared_file_id(bucket);
            if self.view.replaced_at(partition, &file_id).is_none() {
                let (partition, base_instant) = (partition.to_owned(), String::new());
                slices.push(FileSlice { partition, file_id, base_instant, base: None, logs: Vec::new() });
            }
        }
        Ok(slices)
    }

    /// How record keys are computed from columns, where they are not stored.
    pub(in crate::write) fn virtual_keys(&self) -> Option<KeyGenConfig> {
        (!self.table.config().populates_meta_fields()).then(|| self.keys.clone())
    }

    /// The columns that rows are read as, of a table with these columns. What they lack is null for now.
    pub(in crate::write) fn columns_read(&self, schema: &SchemaRef) -> SchemaRef {
        match &self.given {
            Some(given) => missing_nullable(schema, given),
            None => schema.clone(),
        }
    }

    /// Brings rows with the `given` columns to the columns of `schema`.
    pub(in crate::write) fn preparer(&self, schema: &SchemaRef, given: &Schema) -> Result<Preparer> {
        let read = self.columns_read(schema);
        Preparer::new(self.operation, read, self.keys.clone(), self.settings.clone(), given)
    }

    /// What the files of the write have in common.
    pub(in crate::write) fn context(&self, instant: &str, files: Option<Arc<DataFiles>>) -> Result<WriteContext> {
        let mut context = WriteContext::new(&self.table, self.config.clone(), instant, self.schema.clone())?;
        if let Some(columns) = self.table.collected_for_new(&self.schema, self.view.timeline())? {
            context.config.base_file.indexed_columns = Some(columns);
        }
        let schema = TableSchema::resolve(self.table.config(), &self.view)?;
        if let Some(before) = &schema
            && let Some(columns) = self.table.collected_with_new(&before.data, &self.schema)?
        {
            context.config.base_file.indexed_columns = Some(columns);
        }
        context.opened = Arc::new(OpenFiles::new(schema.and_then(|schema| schema.history)));
        context.files = files;
        context.delete_by_key = self.operation == Operation::Delete;
        if self.config.index.is_global() && !self.config.update_partition_path {
            context.kept_partition_columns = self.table.config().partition_fields();
        }
        if let Some(given) = &self.given {
            context.take_partial_rows(given, self.table.config().name())?;
        }
        Ok(context)
    }

    /// Looks up keys in the slices that `slices` gives for a partition, or, for `None`, for the table.
    pub(in crate::write) fn tag(
        &self,
        incoming: &Incoming,
        context: &WriteContext,
        logs: Option<&Logs>,
        (anywhere, threads): (bool, usize),
        slices: &dyn Fn(Option<&str>) -> Result<Vec<FileSlice>>,
        buckets: Option<&Buckets<'_>>,
    ) -> Result<Tagged> {
        let metadata = match self.config.index.is_record_level() {
            true => metadata_table_of(&self.table, &self.view)?,
            false => None,
        };
        let virtual_keys = self.virtual_keys();
        let are_known = self.config.asks_metadata_table && virtual_keys.is_none();
        let tagging = Tagging {
            known: are_known.then(|| KnownKeys::new(&self.table, &self.view)),
            index: metadata.as_deref().map(|metadata| IndexLookup::new(&self.table, metadata)),
            context,
            operation: self.operation,
            global: self.config.index.is_global(),
            anywhere,
            all_copies: self.appends(),
            logs,
            buckets,
            virtual_keys,
            threads,
        };
        let tagged = tag(incoming, &tagging, slices)?;
        if !tagged.updates.is_empty() {
            self.check_merger()?;
        }
        Ok(tagged)
    }

    /// Rows that meet stored records need the table's merger. A log file would take them without it, and nobody here could
    /// read them.
    ///
    /// # Errors
    /// `Unsupported` when it is not there.
    pub(in crate::write) fn check_merger(&self) -> Result<()> {
        match &self.settings.rule {
            MergeRule::Missing(id) if self.operation != Operation::Delete => {
                Err(missing(id).with("table", self.table.storage().uri()))
            }
            _ => Ok(()),
        }
    }

    /// [`WriteSetup::tag`] in the whole table.
    pub(in crate::write) fn tag_in_table(
        &self,
        incoming: &Incoming,
        context: &WriteContext,
        logs: Option<&Logs>,
        (anywhere, threads): (bool, usize),
        buckets: Option<&Buckets<'_>>,
    ) -> Result<Tagged> {
        let slices = |partition: Option<&str>| match partition {
            Some(partition) => self.view.latest_slices(partition),
            None => self.view.all_latest_slices(),
        };
        self.tag(incoming, context, logs, (anywhere, threads), &slices, buckets)
    }

    /// The file groups that the write replaces, as `view` shows them; `touched`: the partitions of its rows.
    pub(in crate::write) fn replaced(
        &self,
        view: &TableView,
        touched: BTreeSet<String>,
    ) -> Result<BTreeMap<String, Vec<String>>> {
        match self.operation {
            Operation::InsertOverwrite | Operation::DeletePartition => file_groups(view, touched),
            Operation::InsertOverwriteTable => file_groups(view, view.partitions()?.into_iter().collect()),
            _ => Ok(BTreeMap::new()),
        }
    }
}

/// How rows of these columns may change the schema of a table.
fn evolution(
    config: &WriteConfig,
    operation: Operation,
    old: Option<&SchemaRef>,
    given: &Schema,
    partial: bool,
) -> Result<Evolution> {
    match (operation, old) {
        (Operation::Delete | Operation::DeletePartition, old) => {
            Ok(Evolution::none(old.cloned().unwrap_or_else(|| Arc::new(Schema::empty()))))
        }
        (_, None) if partial => Err(nothing_to_keep()),
        (_, old) => {
            let null_for_missing = config.null_for_missing && !partial;
            let whole = old.filter(|_| partial).map(|old| with_missing(given, old));
            let given = whole.as_ref().unwrap_or(given);
            Evolution::of(SchemaChange { null_for_missing }, old, given, config.refuse_schema_changes)
        }
    }
}
