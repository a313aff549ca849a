//! The driver's side: from the instant to the commit.

use std::collections::{BTreeMap, BTreeSet};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::ipc::reader::StreamReader;
use base64_simd::STANDARD;
use serde::{Deserialize, Serialize};

use super::PLACE_COLUMNS;
use super::located::LocatedRows;
use super::pack::{ROW, columns_on_the_way, own_fields, stream_header};
use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::format::avro::schema::table_schema_to_avro;
use crate::table::{BucketIndex, BucketSettings, HudiTable, schema_changes};
use crate::write::commit::commit_statistics::RecentCommits;
use crate::write::commit::delete_partition::refuse_busy;
use crate::write::commit::pending::{Committed, PendingCommit};
use crate::write::config::Operation;
use crate::write::locate::log_keys::LogWrites;
use crate::write::prepare::conformer::check_identity;
use crate::write::setup::WriteSetup;

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
    /// Keys are looked for in all partitions or in the record index: the rows of a key have to meet before they get a route.
    pub whole_table: bool,
    /// Whether the rows of a key become one, so that they have to be together.
    pub combines: bool,
    /// What tells the buckets of keys, where the index is one of buckets.
    pub bucket_index: Option<BucketSettings>,
    /// What the newest commits tell of log files.
    pub log_writes: LogWrites,
    /// The columns that the rows have, where what they lack stays as it is stored.
    pub given: Option<Vec<String>>,
    /// The columns that rows take along, as the header of an Arrow IPC stream in base64.
    pub columns: String,
    /// Rows that the engine passes to a task at a time; 0: all of them.
    pub batch_rows: usize,
}

impl TaskPlan {
    /// The columns of rows on their way to the tasks that apply them, or, if `located` is false, to those that look their
    /// keys up.
    pub(super) fn columns_on_the_way(&self, located: bool) -> Result<SchemaRef> {
        let broken = || Error::corrupt("the plan of a write does not tell the columns of its rows");
        let header = STANDARD.decode_to_vec(self.columns.as_bytes()).map_err(|e| broken().caused_by(e))?;
        let given = StreamReader::try_new(header.as_slice(), None).map_err(|e| broken().caused_by(e))?.schema();
        let [position, moved, located_by] = PLACE_COLUMNS;
        let row = Field::new(ROW, DataType::Int64, true);
        let places = [
            Field::new(position, DataType::Int64, true),
            Field::new(moved, DataType::Boolean, true),
            Field::new(located_by, DataType::Int64, true),
        ];
        let added: Vec<Field> = std::iter::once(row).chain(places.into_iter().filter(|_| located)).collect();
        Ok(columns_on_the_way(own_fields(&given), &added))
    }

    /// Buckets of new rows in each partition, and bytes of a record on average.
    pub(super) fn new_rows(&self) -> (u32, u64) {
        (self.buckets, self.record_size)
    }
}

/// What a task tells the driver, as text that crosses processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TaskReport {
    /// A file was written.
    File(Box<WriteStat>),
    /// There were rows for this partition, of an operation that replaces the partitions of its rows.
    Partition(String),
    /// Rows that were located first.
    Located(LocatedRows),
}

impl TaskReport {
    /// The report of a file.
    pub(super) fn file(stat: WriteStat) -> Self {
        Self::File(Box::new(stat))
    }
}

/// The driver's side of a write.
pub(crate) struct DistributedWrite {
    setup: WriteSetup,
    pending: PendingCommit,
    plan: TaskPlan,
    notes: Vec<String>,
}

impl DistributedWrite {
    /// Checks the data's columns and takes the instant. The caller has rolled failed writes back. `partial`: the rows of
    /// an upsert have only some columns. `batch_rows`: how
    /// many the engine passes at a time. `widened`: columns that take the types of the data, for their values need it.
    pub(crate) fn begin(
        table: &HudiTable,
        operation: Operation,
        given: &Schema,
        (buckets, batch_rows): (u32, usize),
        partial: bool,
        widened: &[String],
    ) -> Result<Self> {
        let (mut setup, evolution) = WriteSetup::new(table, table.view(None)?, operation, given, partial)?;
        check_identity(&setup.keys, &evolution, widened)?;
        setup.widen(&evolution, widened);
        let commits = RecentCommits::new(&setup.view);
        let record_size = commits.record_size(&setup.config)?;
        let log_writes = commits.log_writes(&setup.config)?.for_tasks();
        let planned_from = setup.planned_from()?;
        let pending = PendingCommit::begin(table, operation, planned_from, BTreeMap::new(), None, true)?;
        let plan = TaskPlan {
            instant: pending.instant().to_owned(),
            operation: operation.name().to_owned(),
            schema: table_schema_to_avro(&setup.schema, table.config().name(), false)?,
            buckets: buckets.max(1),
            record_size,
            log_writes,
            whole_table: setup.locates_first(given),
            combines: setup.combines(),
            bucket_index: setup.bucket_index.as_ref().map(BucketIndex::settings).cloned(),
            given: setup.given.clone(),
            batch_rows,
            columns: STANDARD.encode_to_string(stream_header(&columns_on_the_way(own_fields(given), &[]))?),
        };
        Ok(Self { setup, pending, plan, notes: evolution.notes })
    }

    /// What the tasks need.
    pub(crate) fn plan(&self) -> &TaskPlan {
        &self.plan
    }

    /// Publishes what the tasks did, with these entries in the metadata of the commit.
    pub(crate) fn commit(self, reports: Vec<TaskReport>, entries: BTreeMap<String, String>) -> Result<Committed> {
        let Self { setup, pending, notes, .. } = self;
        let view = setup.table.view(Some(pending.instant()))?;
        let (mut stats, mut touched) = (Vec::with_capacity(reports.len()), BTreeSet::new());
        let mut located = LocatedRows::default();
        for report in reports {
            match report {
                TaskReport::File(stat) => stats.push(*stat),
                TaskReport::Partition(partition) => _ = touched.insert(partition),
                TaskReport::Located(rows) => located.add(rows),
            }
        }
        if let Err(e) = located.check() {
            pending.take_back()?;
            return Err(e.with("table", setup.table.storage().uri()));
        }
        let replaced = match setup.replaced(&view, touched) {
            Err(e) if e.is_outdated_plan() => {
                pending.take_back()?;
                return Err(e);
            }
            other => other?,
        };
        if setup.operation == Operation::DeletePartition {
            refuse_busy(&setup.table, &view, &replaced)?;
        }
        let mut done = pending.with_entries(entries).commit(stats, replaced, &setup.schema)?;
        done.outcome.schema_changes = schema_changes(setup.old_schema.as_ref(), &setup.schema);
        done.outcome.warnings.extend(notes);
        Ok(done)
    }
}
