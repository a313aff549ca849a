//! The driver's side: from the instant to the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::format::avro::schema::table_schema_to_avro;
use crate::merge::{MergeRule, missing, nullable};
use crate::table::{HudiTable, SchemaChange, TableSchema, TableType};
use crate::write::commit::{CommitOutcome, PendingCommit};
use crate::write::config::{Operation, WriteConfig};
use crate::write::context::WriteContext;
use crate::write::delete_partition::{partition_generator, refuse_busy};
use crate::write::incoming::Preparer;
use crate::write::log_keys::LogWrites;
use crate::write::operation::{encoding_of_keys, replaced_groups};
use crate::write::partial_rows::{check_partial, check_required, nothing_to_keep, with_missing};
use crate::write::recent_commits::RecentCommits;

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
    /// Keys are looked for in all partitions: the rows of a key have to meet before they get a route.
    pub whole_table: bool,
    /// What the newest commits tell of log files.
    pub log_writes: LogWrites,
    /// The columns that the rows have, where what they lack stays as it is stored.
    pub given: Option<Vec<String>>,
}

/// What a task tells the driver, as text that crosses processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskReport {
    /// A file was written.
    File(Box<WriteStat>),
    /// There were rows for this partition, of an operation that replaces the partitions of its rows.
    Partition(String),
}

impl TaskReport {
    /// The report of a file.
    pub(super) fn file(stat: WriteStat) -> Self {
        Self::File(Box::new(stat))
    }
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
    /// Checks the data's columns and takes the instant. The caller has rolled failed writes back. `partial`: the rows of
    /// an upsert have only some columns.
    pub fn begin(table: &HudiTable, operation: Operation, given: &Schema, buckets: u32, partial: bool) -> Result<Self> {
        check_partial(partial, operation)?;
        let config = WriteConfig::new(table.options())?;
        let keys = encoding_of_keys(table)?;
        if operation == Operation::Delete && keys.generates_keys() {
            return Err(Error::unsupported("a table with generated keys has no columns to delete by")
                .with("table", table.storage().uri())
                .remedy("Upsert rows with _hoodie_is_deleted into a table with key columns instead"));
        }
        let view = table.view(None)?;
        let old = TableSchema::resolve(table.config(), &view)?.map(|s| s.data);
        let schema = match (operation, old) {
            (Operation::Delete | Operation::DeletePartition, old) => old.unwrap_or_else(|| Arc::new(Schema::empty())),
            (_, None) if partial => return Err(nothing_to_keep(table)),
            (_, Some(old)) if partial => SchemaChange::default().apply(Some(&old), &with_missing(given, &old))?,
            (_, old) => SchemaChange { null_for_missing: config.null_for_missing }.apply(old.as_deref(), given)?,
        };
        // Missing or unusable key and ordering columns are found before the instant is taken.
        let looks_up = matches!(operation, Operation::Upsert | Operation::Delete) && !keys.generates_keys();
        let anywhere = match operation {
            Operation::DeletePartition => partition_generator(&keys, given).map(|_| false)?,
            _ => {
                let read = if partial { nullable(&schema) } else { schema.clone() };
                Preparer::new(operation, read, keys, table.merge_settings()?, given)?.is_anywhere()
            }
        };
        if partial {
            let mut context = WriteContext::new(table, config.clone(), "", schema.clone())?;
            context.take_partial_rows(given, table.config().name())?;
            if table.config().table_type() == TableType::MergeOnRead {
                // A record of a log file may come to stand alone.
                check_required(&context)?;
            }
        }
        if let (Operation::Upsert, MergeRule::Missing(id)) = (operation, &table.merge_settings()?.rule) {
            return Err(missing(id).with("table", table.storage().uri()));
        }
        let whole_table = looks_up && (config.index.is_global() || anywhere);
        if whole_table && partial {
            return Err(Error::unsupported("upserts of some columns only from Spark's tasks by a global index")
                .with("table", table.storage().uri())
                .remedy("Use the index BLOOM or SIMPLE, or Table.upsert(partial=True)"));
        }
        if whole_table && operation == Operation::Upsert && table.merge_settings()?.rule.picks().is_none() {
            return Err(Error::unsupported(
                "upserts from Spark's tasks by a global index into a table whose records are merged column by column",
            )
            .with("table", table.storage().uri())
            .remedy("Use the index BLOOM or SIMPLE, or write with hoodoo.write"));
        }
        let commits = RecentCommits::new(&view);
        let (record_size, log_writes) = (commits.record_size(&config)?, commits.log_writes(&config)?.for_tasks());
        let mut pending = PendingCommit::request(table, operation)?;
        pending.start(BTreeMap::new())?;
        let plan = TaskPlan {
            instant: pending.instant().to_owned(),
            operation: operation.name().to_owned(),
            schema: table_schema_to_avro(&schema, table.config().name(), false)?,
            buckets: buckets.max(1),
            record_size,
            log_writes,
            whole_table,
            given: partial.then(|| given.fields().iter().map(|f| f.name().clone()).collect()),
        };
        Ok(Self { table: table.clone(), pending, operation, schema, plan })
    }

    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        &self.plan
    }

    /// Publishes what the tasks did.
    pub fn commit(self, reports: Vec<TaskReport>) -> Result<CommitOutcome> {
        let view = self.table.view(Some(self.pending.instant()))?;
        let (mut stats, mut touched) = (Vec::with_capacity(reports.len()), BTreeSet::new());
        for report in reports {
            match report {
                TaskReport::File(stat) => stats.push(*stat),
                TaskReport::Partition(partition) => _ = touched.insert(partition),
            }
        }
        let replaced = match self.operation {
            Operation::InsertOverwrite | Operation::DeletePartition => replaced_groups(&view, touched)?,
            Operation::InsertOverwriteTable => replaced_groups(&view, view.partitions()?.into_iter().collect())?,
            _ => BTreeMap::new(),
        };
        if self.operation == Operation::DeletePartition {
            refuse_busy(&self.table, &view, &replaced)?;
        }
        self.pending.commit(stats, replaced, &self.schema)
    }
}
