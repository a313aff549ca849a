//! Writes whose steps run in the threads of one process.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Stopwatch};

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::Schema;

use super::commit::commit_statistics::RecentCommits;
use super::commit::delete_partition::{delete_partitions, partitions_named, partitions_of_data};
use super::commit::pending::{Committed, PendingCommit};
use super::commit::retry::planned_anew;
use super::config::Operation;
use super::locate::buckets::Buckets;
use super::locate::log_keys::{LogWrites, Logs};
use super::locate::lookup::Tagged;
use super::locate::new_rows::rows_to_insert;
use super::locate::pending_file_groups::PendingFileGroups;
use super::prepare::combine::combine_rows;
use super::prepare::incoming::Incoming;
use super::prepare::partial_rows::check_required;
use super::rewrite::context::WriteContext;
use super::rewrite::create_file::create_files;
use super::rewrite::group::rewrite_group;
use super::route::units::{Unit, Units};
use super::setup::WriteSetup;
use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::interrupt;
use crate::parallel::run_parallel;
use crate::table::gone;
use crate::table::keygen::AutoKeys;
use crate::table::{Evolution, HudiTable, TableSchema, schema_changes};
use crate::timeline::{LockGuard, Timeline};
use crate::timings::{Timings, stopped};

/// Rows that take longer to come are planned from the table as it is then.
const LONG_INPUT: Duration = Duration::from_secs(1);

/// A write.
pub struct WriteRequest {
    /// What is done.
    pub operation: Operation,
    /// The rows; of [`Operation::DeletePartition`]: rows of the partitions to delete, when those are not named.
    pub data: Option<Box<dyn RecordBatchReader + Send>>,
    /// Partitions of [`Operation::DeletePartition`].
    pub partitions: Vec<String>,
    /// Whether the rows of an upsert have only some columns: what they lack stays as it is stored.
    pub partial: bool,
}

/// Writes and commits, from a timeline that was loaded just now. The caller has rolled failed writes back.
pub(crate) fn run_write(table: &HudiTable, timeline: Timeline, request: WriteRequest) -> Result<Committed> {
    let view = table.view_of(timeline)?;
    let WriteRequest { operation, data, partitions, partial } = request;
    if operation != Operation::DeletePartition {
        let data = data.ok_or_else(|| Error::invalid_option("there are no data to write"))?;
        let given = data.schema();
        let (setup, evolution) = WriteSetup::new(table, view, operation, &given, partial)?;
        return InProcess { setup, evolution, timings: Mutex::default() }.run(data);
    }
    let columns = TableSchema::resolve(table.config(), &view)?.map_or_else(|| Arc::new(Schema::empty()), |s| s.data);
    let chosen = data.map(|data| partitions_of_data(&table.key_config()?, &columns, data)).transpose()?;
    planned_anew(table, |anew, held| {
        let view = anew.as_ref().unwrap_or(&view);
        let chosen = chosen.clone().map_or_else(|| partitions_named(view, &partitions), Ok)?;
        // Others may have changed the columns since the first try.
        let columns = TableSchema::resolve(table.config(), view)?.map(|schema| schema.data);
        delete_partitions(table, view, columns, chosen, held)
    })
}

struct InProcess {
    setup: WriteSetup,
    evolution: Evolution,
    timings: Mutex<Timings>,
}

impl InProcess {
    fn run(mut self, data: Box<dyn RecordBatchReader + Send>) -> Result<Committed> {
        let anywhere = self.setup.is_anywhere(&data.schema());
        let begun = Stopwatch::now();
        let (mut incoming, widened) = self.timed("rows", || self.prepare(data))?;
        if begun.elapsed() > LONG_INPUT {
            // What happened meanwhile need not be found out only when all is written.
            self.setup.plan_from(self.setup.table.view(None)?);
            self.check_same_columns()?;
        }
        self.setup.widen(&self.evolution, &widened);
        // Nothing is on the timeline yet: whatever was wrong with the data has been found by now.
        let mut context = self.setup.context("", None)?;
        if self.setup.combines() {
            let everywhere = anywhere || self.setup.config.index.is_global();
            self.timed("rows", || combine_rows(&context, &mut incoming, everywhere))?;
        }
        let table = self.setup.table.clone();
        let mut done = planned_anew(&table, |anew, held| {
            if let Some(view) = anew {
                self.setup.plan_from(view);
                self.check_same_columns()?;
            }
            self.attempt(&mut incoming, &mut context, anywhere, held)
        })?;
        done.outcome.schema_changes = schema_changes(self.setup.old_schema.as_ref(), &self.setup.schema);
        done.outcome.warnings.extend(self.evolution.notes);
        done.outcome.timings = self.timings.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(done)
    }

    /// Runs a stage of the write.
    fn timed<T>(&self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let (done, time) = stopped(stage, work);
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).add(stage, time);
        done
    }

    /// The rows were read as rows of these columns.
    fn check_same_columns(&self) -> Result<()> {
        let WriteSetup { table, view, old_schema, .. } = &self.setup;
        if TableSchema::resolve(table.config(), view)?.map(|s| s.data) == *old_schema {
            return Ok(());
        }
        Err(Error::conflict("another writer changed the columns of the table while the rows were read")
            .with("table", table.storage().uri())
            .remedy("Nothing was written; write again"))
    }

    /// The rows, and the columns whose values need wider types.
    fn prepare(&self, data: Box<dyn RecordBatchReader + Send>) -> Result<(Incoming, Vec<String>)> {
        let WriteSetup { table, .. } = &self.setup;
        let given: &Schema = &data.schema();
        let mut preparer = self.setup.preparer(&self.evolution.narrow, given)?;
        preparer.widen_to(self.setup.columns_read(&self.evolution.wide));
        preparer.spill(table.spill_options()?);
        for batch in data {
            interrupt::check()?;
            let batch: RecordBatch = batch.map_err(Error::from)?;
            preparer.add(&batch).map_err(|e| e.with("table", table.storage().uri()))?;
        }
        let widened = preparer.widened().to_vec();
        Ok((preparer.finish(), widened))
    }

    /// Plans the write from the view as it is, carries it out and commits it.
    fn attempt(
        &self,
        incoming: &mut Incoming,
        context: &mut WriteContext,
        anywhere: bool,
        held: Option<&LockGuard>,
    ) -> Result<Committed> {
        let setup = &self.setup;
        let units = self.timed("locate", || self.plan(incoming, context, anywhere)).map_err(gone)?;
        if units.have_new_rows() {
            check_required(context)?;
        }
        let profile = units.profile();
        let planned_from = setup.planned_from()?;
        let begin = || PendingCommit::begin(&setup.table, setup.operation, planned_from.clone(), profile, held, false);
        let pending = self.timed("begin", begin)?;
        context.instant = pending.instant().to_owned();
        context.files = Some(pending.files().clone());
        if setup.keys.generates_keys() {
            incoming.generate_keys(&mut AutoKeys::new(pending.instant(), 0))?;
        }
        let executed = self
            .timed("files", || self.execute(incoming, context, units))
            .and_then(|stats| Ok((stats, setup.replaced(&setup.view, incoming.partitions.iter().cloned().collect())?)));
        let (stats, replaced) = match executed.map_err(gone) {
            Err(e) if e.is_outdated_plan() => {
                pending.take_back()?;
                return Err(e);
            }
            other => other?,
        };
        self.timed("publish", || pending.commit(stats, replaced, &context.data_schema))
    }

    /// What each file group gets.
    fn plan(&self, incoming: &Incoming, context: &WriteContext, anywhere: bool) -> Result<Units> {
        let setup = &self.setup;
        let commits = RecentCommits::new(&setup.view);
        let pending_groups = PendingFileGroups::of(&setup.table, &setup.view)?;
        if setup.looks_up() && !(anywhere || setup.config.index.is_global()) {
            setup.view.list_ahead(&incoming.partitions)?;
        }
        let slices = |partition: &str| setup.slices_of(partition);
        let buckets = setup.buckets_of(&incoming.partitions, anywhere, &slices)?;
        let tagged = match setup.looks_up() {
            true => self.tag(incoming, context, anywhere, &commits, buckets.as_ref())?,
            false => Tagged { updates: Vec::new(), inserts: rows_to_insert(incoming, context, setup.combines())? },
        };
        Units::route(setup, context, incoming, tagged, (&commits, &pending_groups), buckets.as_ref())
    }

    fn tag(
        &self,
        incoming: &Incoming,
        context: &WriteContext,
        anywhere: bool,
        commits: &RecentCommits<'_>,
        buckets: Option<&Buckets<'_>>,
    ) -> Result<Tagged> {
        let setup = &self.setup;
        // An upsert asks these commits for the size of a record anyway.
        let known = match setup.operation {
            Operation::Upsert if buckets.is_none() => commits.log_writes(&setup.config)?.clone(),
            _ => LogWrites::default(),
        };
        let logs = Logs::new(&setup.table, &setup.view, &context.file_schema, known)?;
        setup.tag_in_table(incoming, context, logs.as_ref(), (anywhere, setup.table.threads()?), buckets)
    }

    fn execute(&self, incoming: &Incoming, context: &mut WriteContext, units: Units) -> Result<Vec<WriteStat>> {
        let all: Vec<(usize, Unit)> = units.into_list().into_iter().enumerate().collect();
        let threads = self.setup.table.threads()?;
        context.file_threads = (threads / all.len().max(1)).max(1);
        let context = &*context;
        let stats = run_parallel(all, threads, |(task, unit)| {
            let token = format!("{task}-0-0");
            match unit {
                Unit::Group(met, inserts) => rewrite_group(context, incoming, &met, &inserts, task, &token),
                Unit::New(group, rows) => create_files(context, &group, incoming, &rows, task, &token),
            }
        })?;
        Ok(stats.into_iter().flatten().collect())
    }
}
