//! What every unit of a write shares.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::config::WriteConfig;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::file_group::join;
use crate::file_group::markers::{MarkerType, create_marker, delete_markers, has_marker};
use crate::format::avro::metadata::{RuntimeStats, WriteStat};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::field_lookup::FieldLookup;
use crate::merge::{MergeMode, MergeRule, OrderingValues};
use crate::storage::{FileWriter, SpillOptions, Storage};
use crate::table::{HudiTable, MergeSettings, with_meta_columns};

/// One write, as its units see it.
#[derive(Clone)]
pub struct WriteContext {
    /// The table's files.
    pub storage: Storage,
    /// Requested time of the write.
    pub instant: String,
    /// The table's columns after this write, without meta columns.
    pub data_schema: SchemaRef,
    /// The columns of base files.
    pub file_schema: SchemaRef,
    /// How records are merged.
    pub settings: MergeSettings,
    /// Columns of the table that the rows do not have, so that stored values stay (partial updates). `None`: rows are
    /// whole.
    pub given_columns: Option<Vec<String>>,
    /// Partition columns whose stored value is kept when a row is updated (global index without moves).
    pub kept_partition_columns: Vec<String>,
    /// Columns whose values the record key tells exactly: they cannot differ between rows of one key.
    pub key_columns: Vec<String>,
    /// The columns of log blocks and their Avro schema, where these are not those of base files.
    pub log_schema: Option<(SchemaRef, String)>,
    /// Whether meta columns are filled.
    pub populate_meta: bool,
    /// Whether the partition metadata file is a Parquet file.
    pub parquet_partition_metadata: bool,
    /// Options.
    pub config: WriteConfig,
    /// How many bytes of rows are kept in memory, and where the others go.
    pub spill: SpillOptions,
    /// Threads for the columns of one file.
    pub file_threads: usize,
    /// Set in a task that may outlive the write: the table whose timeline tells whether the write is still under way.
    pub watched: Option<HudiTable>,
}

impl WriteContext {
    /// The context of a write to a table whose columns become `data_schema`.
    pub fn new(table: &HudiTable, config: WriteConfig, instant: &str, data_schema: SchemaRef) -> Result<Self> {
        let settings = table.config();
        let (file_schema, base_file) = table.file_settings(&data_schema)?;
        let populate_meta = settings.populates_meta_fields();
        let config = WriteConfig { base_file, ..config };
        Ok(Self {
            storage: table.storage().clone(),
            instant: instant.to_owned(),
            file_schema,
            settings: table.merge_settings()?,
            given_columns: None,
            kept_partition_columns: Vec::new(),
            key_columns: table.key_config()?.exact_key_columns(&data_schema),
            log_schema: None,
            populate_meta,
            parquet_partition_metadata: settings.partition_metadata_as_parquet(),
            data_schema,
            config,
            spill: table.spill_options()?,
            file_threads: 1,
            watched: None,
        })
    }

    /// Takes rows that have only some columns; the others stay as they are stored.
    ///
    /// # Errors
    /// `InvalidOption` when a column that orders records is not among them; those of
    /// [`MergeRule::with_partial_records`].
    pub fn take_partial_rows(&mut self, given: &Schema, table_name: &str) -> Result<()> {
        let lookup = FieldLookup::new(given.fields());
        let has = |name: &str| lookup.has(name);
        if let Some(missing) = self.settings.ordering.iter().find(|name| !has(name)) {
            return Err(Error::invalid_option(format!("the rows lack the ordering column '{missing}'"))
                .with("column", missing)
                .remedy("Partial updates need it too: it says whether they are newer than what is stored"));
        }
        self.settings.rule = self.settings.rule.with_partial_records()?;
        let fields = self.data_schema.fields().iter();
        let kept = fields.filter(|f| has(f.name())).cloned().collect::<Vec<_>>();
        self.given_columns = Some(kept.iter().map(|f| f.name().clone()).collect());
        // Those of keys and partitions too, though they cannot change: when the record that is changed was deleted
        // meanwhile, these rows stand alone.
        let in_log = Schema::new(kept);
        self.log_schema = Some((with_meta_columns(&in_log), table_schema_to_avro(&in_log, table_name, true)?));
        Ok(())
    }

    /// By which mode rows of one key in a write become one; those of rules that make a record of their own have become
    /// one before.
    pub fn batch_mode(&self) -> MergeMode {
        match &self.settings.rule {
            MergeRule::Pick(mode) | MergeRule::Partial(mode) => *mode,
            MergeRule::Fill(..) | MergeRule::Payload(_) | MergeRule::Custom(_) | MergeRule::Missing(_) => {
                MergeMode::CommitTime
            }
        }
    }

    /// The ordering values of rows; none when the table has no ordering columns.
    pub fn ordering(&self, batch: &RecordBatch) -> Result<OrderingValues> {
        self.settings.ordering(batch)
    }

    /// Marks and starts a base file.
    pub fn start_file(&self, path: &str, kind: MarkerType) -> Result<BaseFileWriter<FileWriter>> {
        create_marker(&self.storage, &self.instant, path, kind)?;
        let sink = self.storage.writer(path)?;
        let options = BaseFileOptions { threads: self.file_threads, ..self.config.base_file.clone() };
        BaseFileWriter::try_new(sink, self.file_schema.clone(), options).map_err(|e| e.with("file", path))
    }

    /// Publishes a base file, unless the write was given up meanwhile. Returns its size.
    pub fn finish_file(&self, path: &str, kind: MarkerType, writer: BaseFileWriter<FileWriter>) -> Result<(u64, u64)> {
        let (sink, stats) = writer.finish().map_err(|e| e.with("table", self.storage.uri()).with("file", path))?;
        Ok((stats.rows, self.publish(path, kind, sink)?))
    }

    /// Publishes a file that is written, unless the write was given up meanwhile. Returns its size.
    pub fn publish(&self, path: &str, kind: MarkerType, sink: FileWriter) -> Result<u64> {
        // A task that outlived its write must not leave a file behind: the markers go when the write is over. Its own is
        // looked for, and not any: there is one for each file of the write.
        if !has_marker(&self.storage, &self.instant, path, kind)? {
            return Err(self.is_over(path));
        }
        let bytes = sink.finish()?;
        // The write may have ended just now. The driver removes files of which it hears nothing before and after it
        // commits; one that was published later still is removed here.
        if !self.is_under_way()? {
            self.storage.delete(path)?;
            delete_markers(&self.storage, &self.instant)?;
            return Err(self.is_over(path));
        }
        Ok(bytes)
    }

    /// Whether the write is still on the timeline; true where nobody watches.
    pub fn is_under_way(&self) -> Result<bool> {
        let Some(table) = &self.watched else { return Ok(true) };
        Ok(table.timeline()?.pending().any(|i| i.requested == self.instant))
    }

    fn is_over(&self, path: &str) -> Error {
        Error::conflict("the write was committed or rolled back while a task was still at work")
            .with("instant", &self.instant)
            .with("file", path)
    }

    /// Makes the partition metadata file when the partition is new.
    pub fn ensure_partition(&self, partition: &str) -> Result<()> {
        let depth = if partition.is_empty() { 0 } else { partition.split('/').count() };
        let name = if self.parquet_partition_metadata {
            ".hoodie_partition_metadata.parquet"
        } else {
            ".hoodie_partition_metadata"
        };
        let path = join(partition, name);
        let found = self.storage.head(&path)?;
        if found.as_ref().is_some_and(|file| file.size > 0) {
            return Ok(());
        }
        let content = if self.parquet_partition_metadata {
            parquet_partition_metadata(&self.instant, depth)?
        } else {
            format!("#partition metadata\ncommitTime={}\npartitionDepth={depth}\n", self.instant).into_bytes()
        };
        if found.is_some() {
            // The power failed while the partition was made.
            return self.storage.replace(&path, content);
        }
        match self.storage.create(&path, content) {
            // Another unit of this write was first.
            Err(e) if e.kind() == crate::error::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    }
}

/// A write stat whose counters are zero, as Hudi writes them, and not null.
pub fn empty_stat(partition: &str, file_id: &str) -> WriteStat {
    let zero = Some(0);
    WriteStat {
        file_id: Some(file_id.to_owned()),
        partition_path: Some(partition.to_owned()),
        prev_commit: Some("null".into()),
        num_writes: zero,
        num_deletes: zero,
        num_update_writes: zero,
        total_write_bytes: zero,
        total_write_errors: zero,
        total_log_records: zero,
        total_updated_records_compacted: zero,
        num_inserts: zero,
        total_log_blocks: zero,
        total_corrupt_log_block: zero,
        total_rollback_blocks: zero,
        file_size_in_bytes: zero,
        total_log_files_compacted: zero,
        total_log_read_time_ms: zero,
        total_log_size_compacted: zero,
        num_updates: zero,
        runtime_stats: Some(RuntimeStats { total_scan_time: zero, total_create_time: zero, total_upsert_time: zero }),
        ..Default::default()
    }
}

fn parquet_partition_metadata(instant: &str, depth: usize) -> Result<Vec<u8>> {
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::KeyValue;
    let schema = Arc::new(Schema::new(vec![Field::new("dummy", DataType::Utf8, true)]));
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, schema, None)?;
    writer.append_key_value_metadata(KeyValue::new("commitTime".into(), instant.to_owned()));
    writer.append_key_value_metadata(KeyValue::new("partitionDepth".into(), depth.to_string()));
    writer.close()?;
    Ok(bytes)
}
