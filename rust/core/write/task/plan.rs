//! The driver's side: from the instant to the commit.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::format::avro::schema::table_schema_to_avro;
use crate::merge::{MergeRule, missing};
use crate::table::{ColumnChange, HudiTable, TableSchema, TableType, schema_changes};
use crate::write::commit::delete_partition::{partition_generator, refuse_busy};
use crate::write::commit::pending::{Committed, PendingCommit, PlannedFrom};
use crate::write::commit::recent_commits::RecentCommits;
use crate::write::config::{Operation, WriteConfig};
use crate::write::locate::log_keys::LogWrites;
use crate::write::operation::{encoding_of_keys, evolution, replaced_groups};
use crate::write::prepare::conformer::check_identity;
use crate::write::prepare::incoming::Preparer;
use crate::write::prepare::partial_rows::{check_partial, check_required, missing_nullable};
use crate::write::rewrite::context::WriteContext;

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
    changes: Vec<ColumnChange>,
    notes: Vec<String>,
}

impl DistributedWrite {
    /// Checks the data's columns and takes the instant. The caller has rolled failed writes back. `partial`: the rows of
    /// an upsert have only some columns. `widened`: columns that take the types of the data, for their values need it.
    pub fn begin(
        table: &HudiTable,
        operation: Operation,
        given: &Schema,
        buckets: u32,
        partial: bool,
        widened: &[String],
    ) -> Result<Self> {
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
        let planned_from = PlannedFrom { timeline: view.timeline().clone(), columns: old.clone() };
        let evolution = evolution(&config, operation, old.as_ref(), given, partial);
        let evolution = evolution.map_err(|e| e.with("table", table.storage().uri()))?;
        check_identity(&keys, &evolution, widened)?;
        let schema = evolution.widened(widened);
        // Missing or unusable key and ordering columns are found before the instant is taken.
        let looks_up = matches!(operation, Operation::Upsert | Operation::Delete) && !keys.generates_keys();
        let anywhere = match operation {
            Operation::DeletePartition => partition_generator(&keys, given).map(|_| false)?,
            _ => {
                let read = if partial { missing_nullable(&schema, given) } else { schema.clone() };
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
        let pending = PendingCommit::begin(table, operation, planned_from, BTreeMap::new(), None, true)?;
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
        let changes = schema_changes(old.as_ref(), &schema);
        Ok(Self { table: table.clone(), pending, operation, schema, plan, changes, notes: evolution.notes })
    }

    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        &self.plan
    }

    /// Publishes what the tasks did.
    pub fn commit(self, reports: Vec<TaskReport>) -> Result<Committed> {
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
        let mut done = self.pending.commit(stats, replaced, &self.schema)?;
        done.outcome.schema_changes = self.changes;
        done.outcome.warnings.extend(self.notes);
        Ok(done)
    }
}
