//! What every unit of a write shares.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{BooleanArray, RecordBatch, StringArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::BaseFileOptions;
use crate::format::avro::schema::table_schema_to_avro;
use crate::merge::{MergeMode, MergeRule, OrderingValues, Records, lies_in};
use crate::storage::{SpillOptions, Storage};
use crate::table::{HudiTable, MergeSettings, OpenFiles, TableType, with_meta_columns};
use crate::transaction::{ChangeLogSettings, DataFiles};
use crate::write::config::WriteConfig;

/// One write, as its units see it.
#[derive(Clone)]
pub(crate) struct WriteContext {
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
    /// Whether log files take the rows that meet stored records.
    pub appends: bool,
    /// Deletes by key win whatever the order says.
    pub delete_by_key: bool,
    /// Whether meta columns are filled.
    pub populate_meta: bool,
    /// Options.
    pub config: WriteConfig,
    /// How many bytes of rows are kept in memory, and where the others go.
    pub spill: SpillOptions,
    /// Threads for the columns of one file.
    pub file_threads: usize,
    /// Base files that were opened to look keys up.
    pub opened: Arc<OpenFiles>,
    /// What change data logs hold; `None` where the table captures no changes.
    pub changes: Option<Arc<ChangeLogSettings>>,
    /// Makes its data files; `None` before it has an instant.
    pub files: Option<Arc<DataFiles>>,
}

impl WriteContext {
    /// The context of a write to a table whose columns become `data_schema`.
    pub(crate) fn new(table: &HudiTable, config: WriteConfig, instant: &str, data_schema: SchemaRef) -> Result<Self> {
        let settings = table.config();
        let (file_schema, base_file) = table.file_settings(&data_schema)?;
        let populate_meta = settings.populates_meta_fields();
        let config = WriteConfig { base_file, ..config };
        let changes = ChangeLogSettings::new(table, &file_schema)?.map(Arc::new);
        Ok(Self {
            storage: table.storage().clone(),
            instant: instant.to_owned(),
            file_schema,
            settings: table.merge_settings()?,
            given_columns: None,
            kept_partition_columns: Vec::new(),
            key_columns: table.key_config()?.exact_key_columns(&data_schema),
            log_schema: None,
            appends: settings.table_type() == TableType::MergeOnRead,
            delete_by_key: false,
            populate_meta,
            data_schema,
            config,
            spill: table.spill_options()?,
            file_threads: 1,
            opened: Arc::default(),
            changes,
            files: None,
        })
    }

    /// Takes rows that have only some columns; the others stay as they are stored.
    ///
    /// # Errors
    /// `InvalidOption` when a column that orders records is not among them; those of
    /// [`MergeRule::with_partial_records`].
    pub(crate) fn take_partial_rows(&mut self, given: &[String], table_name: &str) -> Result<()> {
        let given: HashSet<&str> = given.iter().map(String::as_str).collect();
        let has = |name: &str| given.contains(name);
        if let Some(missing) =
            self.settings.ordering.iter().find(|name| !given.iter().any(|column| lies_in(name, column)))
        {
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
    pub(crate) fn batch_mode(&self) -> MergeMode {
        match &self.settings.rule {
            MergeRule::Pick(mode) | MergeRule::Partial(mode) => *mode,
            MergeRule::Fill(..) | MergeRule::Payload(_) | MergeRule::Custom(_) | MergeRule::Missing(_) => {
                MergeMode::CommitTime
            }
        }
    }

    /// The ordering values of rows; none when the table has no ordering columns.
    pub(crate) fn ordering(&self, batch: &RecordBatch) -> Result<OrderingValues> {
        self.settings.ordering(batch)
    }

    /// Rows of the write as records. They may bring only some columns.
    pub(crate) fn records(
        &self,
        data: RecordBatch,
        ordering: OrderingValues,
        keys: StringArray,
        deleted: Option<BooleanArray>,
    ) -> Records {
        let rows = data.num_rows();
        let all = |value: bool| {
            let bits = if value { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) };
            BooleanArray::new(bits, None)
        };
        let present = self.given_columns.as_ref().map(|names| {
            let names: HashSet<&str> = names.iter().map(String::as_str).collect();
            let (given, not_given) = (all(true), all(false));
            let is_given =
                |f: &FieldRef| if names.contains(f.name().as_str()) { given.clone() } else { not_given.clone() };
            data.schema_ref().fields().iter().map(is_given).collect()
        });
        let deleted = deleted.unwrap_or_else(|| all(false));
        Records { ordering, keys, deleted, delete_block: None, present, data }
    }

    /// How base files are written.
    pub(crate) fn base_file_options(&self) -> BaseFileOptions {
        BaseFileOptions { threads: self.file_threads, ..self.config.base_file.clone() }
    }

    /// Makes the data files of the write.
    pub(crate) fn files(&self) -> Result<&DataFiles> {
        self.files.as_deref().ok_or_else(|| Error::internal("a file of a write that has no instant yet"))
    }
}
