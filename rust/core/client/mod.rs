//! The write client: what happens around a write.
//!
//! Checks against the table, rollback of failed writes, the write itself, and the services that go with it, in Hudi's
//! order. The rooms `write` and `services` do not know each other; here they meet.

mod checks;
mod merge_rows;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;

use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::metadata::WriteStat;
use crate::interrupt;
use crate::services::archive::archive;
use crate::services::clean::clean;
use crate::services::clustering::{self, Clustered, ClusteredFile, ClusteringJob, ClusteringOptions, Planned, Portion};
use crate::services::compaction::{self, Compacted, CompactionJob, CompactionOptions, Kind};
use crate::services::rollback::rollback_failed_writes;
use crate::storage::{Storage, StorageOptions};
use crate::table::{HudiTable, Options, TableConfig, TableSpec, TableType};
use crate::timeline::{META_FOLDER, SystemClock, Turn};
use crate::write::task::{DistributedWrite, TaskPlan, TaskReport};
use crate::write::{CommitOutcome, Operation, WriteRequest, drop_metadata_table, run_write};

pub use checks::check_writable;
pub use merge_rows::{MergeRequest, RowStream, merge_rows};

/// Nobody takes so long to write a file of the timeline.
const UNFINISHED: Duration = Duration::from_secs(10);

/// Creates a table.
pub fn create_table(
    uri: &str,
    schema: &Schema,
    options: BTreeMap<String, String>,
    storage_options: &StorageOptions,
) -> Result<HudiTable> {
    let options = Options::new(options)?;
    let storage = Storage::open(uri, storage_options)?;
    TableSpec { options: &options, schema, keep_schema: true }.create(storage, Arc::new(SystemClock))
}

/// Opens the table, or creates it for data of this schema when there is none.
pub fn open_or_create(
    uri: &str,
    schema: &Schema,
    options: BTreeMap<String, String>,
    storage_options: &StorageOptions,
) -> Result<HudiTable> {
    match HudiTable::open(uri, options.clone(), storage_options) {
        Err(e) if e.kind() == ErrorKind::TableNotFound => {
            let options = Options::new(options)?;
            let storage = Storage::open(uri, storage_options)?;
            TableSpec { options: &options, schema, keep_schema: false }.create(storage, Arc::new(SystemClock))
        }
        other => other,
    }
}

/// Writes, with everything that goes before and after.
pub fn write(table: &HudiTable, request: WriteRequest) -> Result<CommitOutcome> {
    let (table, _turn) = ready_to_write(table)?;
    let outcome = run_write(&table, request).or_else(|e| given_up(&table, e))?;
    after_write(&table, &outcome)?;
    Ok(outcome)
}

/// The error of a failed write. What the write left is invisible; removing it now spares the next writer the work.
fn given_up(table: &HudiTable, error: Error) -> Result<CommitOutcome> {
    // Without the lock nothing can be rolled back, and to wait for it could take as long as before.
    if error.kind() == ErrorKind::Lock {
        tracing::warn!("without the table lock, what the write left stays for the next writer to roll back");
    } else if let Err(again) = interrupt::clean_up(|| rollback_failed_writes(table, &drop_metadata_table)) {
        tracing::warn!("the failed write is left for the next writer to roll back: {again}");
    }
    Err(error.with("table", table.storage().uri()))
}

/// The table as it is when it is our turn to write, free of what crashed writers left.
fn ready_to_write(table: &HudiTable) -> Result<(HudiTable, Turn)> {
    let turn = table.timeline_writer()?.take_turn()?;
    let table = ready_to_serve(table)?;
    rollback_failed_writes(&table, &drop_metadata_table)?;
    Ok((table, turn))
}

/// The table as it is now. Another process may be writing to it: its pending write is left alone.
fn ready_to_serve(table: &HudiTable) -> Result<HudiTable> {
    let table = table.reload()?;
    check_writable(&table)?;
    let writer = table.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    TableConfig::finish_update(table.storage())?;
    for folder in [META_FOLDER, table.config().timeline().folder.as_str()] {
        table.storage().remove_unfinished(folder, UNFINISHED)?;
    }
    Ok(table)
}

/// A write whose rows are merged in tasks of other processes, while it is its turn.
pub struct BegunWrite {
    write: DistributedWrite,
    turn: Turn,
}

impl BegunWrite {
    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        self.write.plan()
    }
}

/// Begins a write whose rows are merged in tasks of other processes. No other writer of this machine gets its turn before
/// that one is committed, aborted or dropped. `partial`: the rows of an upsert have only some columns.
pub fn begin_distributed(
    table: &HudiTable,
    operation: Operation,
    given: &Schema,
    buckets: u32,
    partial: bool,
) -> Result<BegunWrite> {
    let (table, turn) = ready_to_write(table)?;
    Ok(BegunWrite { write: DistributedWrite::begin(&table, operation, given, buckets, partial)?, turn })
}

/// Commits what the tasks did, and runs the inline services.
pub fn commit_distributed(table: &HudiTable, begun: BegunWrite, reports: Vec<TaskReport>) -> Result<CommitOutcome> {
    let BegunWrite { write, turn: _turn } = begun;
    let outcome = write.commit(reports).or_else(|e| given_up(table, e))?;
    after_write(table, &outcome)?;
    Ok(outcome)
}

/// Rolls back what a write that was given up left; `None` when its commit failed.
pub fn abort_distributed(table: &HudiTable, begun: Option<BegunWrite>) -> Result<()> {
    let _turn = match begun {
        Some(BegunWrite { turn, .. }) => turn,
        None => table.timeline_writer()?.take_turn()?,
    };
    rollback_failed_writes(table, &drop_metadata_table).map(|_| ())
}

fn after_write(table: &HudiTable, outcome: &CommitOutcome) -> Result<()> {
    if table.options().flag("hoodie.clustering.rollback.pending.replacecommit.on.conflict", false)? {
        let rolled_back = clustering::roll_back_outdated(table, &outcome.stats);
        settle(table, "rolling back plans of clusterings", rolled_back.map(|_| ()))?;
    }
    after_commit(table)
}

/// Takes a planned clustering off the timeline, with what was written for it.
///
/// # Errors
/// Those of [`clustering::roll_back`].
pub fn roll_back_clustering(table: &HudiTable, instant: &str) -> Result<()> {
    clustering::roll_back(&table.reload()?, instant)
}

/// Plans a compaction of what has log files; its requested time, or `None` when there is nothing to compact.
pub fn schedule_compaction(table: &HudiTable) -> Result<Option<String>> {
    let (table, _turn) = ready_to_write(table)?;
    compaction::schedule(&table, Kind::Base)
}

/// Carries out a planned compaction: that with the given requested time, or all that are planned, or, when there is none,
/// one that is planned now. `None` when there is nothing to compact.
pub fn compact(table: &HudiTable, instant: Option<&str>) -> Result<Option<CommitOutcome>> {
    compact_kind(table, Kind::Base, instant)
}

/// Merges the log files of slices with each other: planned log compactions, or else one of all slices with as many log
/// files as `hoodie.log.compaction.blocks.threshold` says. `None` when there is nothing to merge.
pub fn log_compact(table: &HudiTable) -> Result<Option<CommitOutcome>> {
    compact_kind(table, Kind::Log, None)
}

/// Plans a clustering; its requested time, or `None` when there is nothing to cluster or it is not due.
pub fn schedule_clustering(table: &HudiTable) -> Result<Option<String>> {
    clustering::schedule(&ready_to_serve(table)?)
}

/// Carries out a planned clustering: that with the given requested time, or all that are planned, or, when there is none or
/// `anew` says so, one that is planned now. `None` when there is nothing to cluster.
///
/// # Errors
/// Those of [`clustering::run`].
pub fn cluster(table: &HudiTable, instant: Option<&str>, anew: bool) -> Result<Option<CommitOutcome>> {
    let table = ready_to_serve(table)?;
    let mut last = None;
    for (instant, is_new) in planned_clusterings(&table, instant, anew)? {
        last = run_clustering(&table, &instant, is_new)?.or(last);
    }
    Ok(last.map(clustered))
}

/// Requested times of plans to be carried out, and whether they were made for that.
fn planned_clusterings(table: &HudiTable, instant: Option<&str>, anew: bool) -> Result<Vec<(String, bool)>> {
    if let Some(instant) = instant {
        return Ok(vec![(instant.to_owned(), false)]);
    }
    let mut planned: Vec<(String, bool)> = match anew {
        true => Vec::new(),
        false => clustering::pending(table)?.into_iter().map(|p| (p.instant, false)).collect(),
    };
    if planned.is_empty() {
        planned.extend(clustering::schedule_now(table)?.map(|instant| (instant, true)));
    }
    Ok(planned)
}

/// Carries a plan out. One that was made for that and turns out to be impossible does not stay, to keep writers away.
fn run_clustering(table: &HudiTable, instant: &str, is_new: bool) -> Result<Option<Clustered>> {
    clustering::run(table, instant, &drop_metadata_table).map_err(|e| given_up_clustering(table, instant, is_new, e))
}

fn given_up_clustering(table: &HudiTable, instant: &str, is_new: bool, error: Error) -> Error {
    let impossible = matches!(error.kind(), ErrorKind::InvalidOption | ErrorKind::Unsupported | ErrorKind::Schema);
    if is_new
        && (impossible || interrupt::is_set())
        && let Err(e) = interrupt::clean_up(|| clustering::roll_back(table, instant))
    {
        tracing::warn!(table = table.storage().uri(), instant, "the plan of a clustering is left behind: {e}");
    }
    error
}

/// Begins a clustering whose groups are rewritten by other processes: that with the given requested time, or the oldest
/// that is planned, or, when there is none or `anew` says so, one that is planned now; with what their tasks are to
/// rewrite. `None` when there is nothing to cluster.
///
/// # Errors
/// Those of [`clustering::run`].
pub fn begin_clustering(
    table: &HudiTable,
    instant: Option<&str>,
    anew: bool,
) -> Result<Option<(ClusteringJob, Vec<Portion>)>> {
    let table = ready_to_serve(table)?;
    let planned = planned_clusterings(&table, instant, anew)?;
    let Some((instant, is_new)) = planned.first() else { return Ok(None) };
    let begin = || {
        let Some(job) = ClusteringJob::begin(&table, instant)? else { return Ok(None) };
        let portions = job.portions()?;
        Ok(Some((job, portions)))
    };
    begin().map_err(|e| given_up_clustering(&table, instant, *is_new, e))
}

/// Publishes what other processes rewrote.
///
/// # Errors
/// Those of [`ClusteringJob::complete`].
pub fn commit_clustering(job: ClusteringJob, files: Vec<ClusteredFile>) -> Result<CommitOutcome> {
    job.complete(files, &drop_metadata_table).map(clustered)
}

fn clustered(done: Clustered) -> CommitOutcome {
    CommitOutcome {
        instant: done.instant,
        completed: done.completed,
        operation: "CLUSTER",
        stats: done.stats,
        replaced: done.replaced,
    }
}

/// What would be planned now, due or not. Writes nothing.
pub fn explain_clustering(table: &HudiTable) -> Result<Option<Planned>> {
    clustering::explain(&table.reload()?)
}

fn compact_kind(table: &HudiTable, kind: Kind, instant: Option<&str>) -> Result<Option<CommitOutcome>> {
    let (table, turn) = ready_to_write(table)?;
    let mut planned = match instant {
        Some(instant) => vec![instant.to_owned()],
        None => compaction::pending(&table, kind)?,
    };
    if planned.is_empty() {
        planned.extend(compaction::schedule(&table, kind)?);
    }
    // Writers go on meanwhile.
    drop(turn);
    let mut last = None;
    for instant in &planned {
        last = compaction::run(&table, instant, &drop_metadata_table)?.or(last);
    }
    if last.is_some() {
        clean_and_archive_in_turn(&table)?;
    }
    Ok(last.map(outcome))
}

/// Begins a compaction whose operations are carried out by other processes: the oldest that is planned, or that with the
/// given requested time, or one that is planned now. `None` when there is nothing to compact.
pub fn begin_compaction(table: &HudiTable, instant: Option<&str>) -> Result<Option<CompactionJob>> {
    let (table, _turn) = ready_to_write(table)?;
    let planned = match instant {
        Some(instant) => Some(instant.to_owned()),
        None => compaction::pending(&table, Kind::Base)?.into_iter().next(),
    };
    let planned = match planned {
        Some(planned) => Some(planned),
        None => compaction::schedule(&table, Kind::Base)?,
    };
    planned.map_or(Ok(None), |instant| CompactionJob::begin(&table, &instant))
}

/// Publishes what other processes compacted, and runs the services that go with it.
pub fn commit_compaction(table: &HudiTable, job: CompactionJob, stats: Vec<WriteStat>) -> Result<CommitOutcome> {
    let done = job.complete(stats, &drop_metadata_table)?;
    clean_and_archive_in_turn(&table.reload()?)?;
    Ok(outcome(done))
}

fn outcome(done: Compacted) -> CommitOutcome {
    CommitOutcome {
        instant: done.instant,
        completed: done.completed,
        operation: done.kind.operation(),
        stats: done.stats,
        replaced: BTreeMap::new(),
    }
}

/// After a write to a merge-on-read table: plans that wait, and one that is due.
fn compact_inline(table: &HudiTable) -> Result<()> {
    let options = CompactionOptions::from_options(table.options())?;
    let base = (Kind::Base, options.inline, options.inline || options.schedule_inline);
    for (kind, runs, plans) in [base, (Kind::Log, options.log_inline, options.log_inline)] {
        if runs {
            for instant in compaction::pending(table, kind)? {
                // What another process carries out is left to it.
                if !compaction::is_under_way(table, &instant)? {
                    compaction::run(table, &instant, &drop_metadata_table)?;
                }
            }
        }
        if !plans || !compaction::pending(table, kind)?.is_empty() || !compaction::due(table, kind)? {
            continue;
        }
        let planned = compaction::schedule(table, kind)?;
        if let (true, Some(instant)) = (runs, planned) {
            compaction::run(table, &instant, &drop_metadata_table)?;
        }
    }
    Ok(())
}

/// After a write: plans that wait, and one that is due.
fn cluster_inline(table: &HudiTable) -> Result<()> {
    let options = ClusteringOptions::from_options(table.options())?;
    let mut pending = if options.inline || options.schedule_inline { clustering::pending(table)? } else { Vec::new() };
    if options.inline {
        for plan in std::mem::take(&mut pending) {
            // What another process carries out is left to it.
            if clustering::is_under_way(table, &plan.instant)? {
                pending.push(plan);
            } else {
                run_unless_outdated(table, &plan.instant, false)?;
            }
        }
    }
    if !(options.inline || options.schedule_inline) || !pending.is_empty() {
        return Ok(());
    }
    if let (true, Some(instant)) = (options.inline, clustering::schedule(table)?) {
        run_unless_outdated(table, &instant, true)?;
    }
    Ok(())
}

/// A plan whose file groups others have written to is taken back, which is no concern of the write before it.
fn run_unless_outdated(table: &HudiTable, instant: &str, is_new: bool) -> Result<()> {
    match run_clustering(table, instant, is_new) {
        Err(e) if e.kind() == ErrorKind::Conflict => {
            tracing::warn!(table = table.storage().uri(), instant, "a clustering was not carried out: {e}");
            Ok(())
        }
        other => other.map(|_| ()),
    }
}

/// Inline services after a commit.
pub fn after_commit(table: &HudiTable) -> Result<()> {
    if !table.options().flag("hoodie.table.services.enabled", true)? {
        return Ok(());
    }
    if table.config().table_type() == TableType::MergeOnRead {
        settle(table, "compaction", compact_inline(table))?;
    }
    settle(table, "clustering", cluster_inline(table))?;
    clean_and_archive(table)
}

/// The same after a service that has completed: who does not get a turn leaves it to the next write.
fn clean_and_archive_in_turn(table: &HudiTable) -> Result<()> {
    match table.timeline_writer()?.take_turn() {
        Ok(_turn) => clean_and_archive(table),
        Err(e) => settle(table, "cleaning", Err(e)),
    }
}

fn clean_and_archive(table: &HudiTable) -> Result<()> {
    let options = table.options();
    if !options.flag("hoodie.table.services.enabled", true)? {
        return Ok(());
    }
    if options.flag("hoodie.clean.automatic", true)? {
        settle(table, "cleaning", clean(table, &drop_metadata_table).map(|_| ()))?;
    }
    if options.flag("hoodie.archive.automatic", true)? {
        settle(table, "archiving", archive(table).map(|_| ()))?;
    }
    Ok(())
}

/// What comes of a service that ran after a commit.
fn settle(table: &HudiTable, service: &str, outcome: Result<()>) -> Result<()> {
    match outcome {
        // Another process has the lock, or does the same now. An error that asks to try again would have the rows written
        // twice.
        Err(e) if matches!(e.kind(), ErrorKind::Lock | ErrorKind::Conflict | ErrorKind::Interrupted) => {
            tracing::warn!(table = table.storage().uri(), "{service} is left for the next write: {e}");
            Ok(())
        }
        Err(e) => {
            Err(Error::new(e.kind(), format!("the write was committed, but {service} after it failed")).caused_by(e))
        }
        Ok(()) => Ok(()),
    }
}

/// The operation of a job that names none: rows without keys are only ever added.
pub fn default_operation(options: &Options) -> Result<Operation> {
    match options.get("hoodie.datasource.write.operation") {
        Some(name) => Operation::parse(name),
        None if options.get("hoodie.table.recordkey.fields").is_none() => Ok(Operation::BulkInsert),
        None => Ok(Operation::Upsert),
    }
}

/// Data to write.
pub type Data = Box<dyn RecordBatchReader + Send>;
