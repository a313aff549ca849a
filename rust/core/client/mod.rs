//! The write client: what happens around a write.
//!
//! Checks against the table, rollback of failed writes, the write itself, and the services that go with it, in Hudi's
//! order. The modules `write` and `services` do not use each other; this one uses both.

mod altering;
mod checks;
mod going_back;
mod indexing;
mod merge_rows;
mod repairing;
mod upgrading;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;

use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::metadata::WriteStat;
use crate::interrupt;
use crate::metadata_table::FOLDER as METADATA_FOLDER;
use crate::parallel::both;
use crate::services::archive::archive_if_due;
use crate::services::clean::clean_from;
use crate::services::clustering::{
    self, Clustered, ClusteredFile, ClusteringJob, ClusteringOptions, ClusteringTask, Planned,
};
use crate::services::compaction::{self, Compacted, CompactionJob, CompactionOptions, Kind};
use crate::services::metadata_table::serve_metadata_table;
use crate::services::rollback::{Leftovers, roll_back_leftovers, rollback_failed_writes};
use crate::storage::{Storage, StorageOptions};
use crate::table::{HudiTable, MissingFiles, Options, TableConfig, TableSpec, TableType};
use crate::timeline::heartbeat::HEARTBEATS;
use crate::timeline::{META_FOLDER, SystemClock, Timeline, WriterLease};
use crate::timings::Timings;
use crate::transaction::{Concurrency, FailedWrites};
use crate::write::task::{DistributedWrite, TaskPlan, TaskReport};
use crate::write::{CommitOutcome, Committed, Operation, WriteRequest, run_write};

pub use altering::{ColumnPlace, SchemaEdit, update_schema};
pub(crate) use checks::check_writable;
pub use going_back::{clean, create_savepoint, delete_savepoint, restore, rollback};
pub use indexing::{
    Expression, begin_index, commit_index, drop_index, drop_metadata_table, index, rebuild_metadata_table,
};
pub use merge_rows::{MergeRequest, merge_rows};
pub use repairing::{Repaired, repair};
pub use upgrading::upgrade;

/// Longest time that a writer takes to write a file of the timeline.
const UNFINISHED: Duration = Duration::from_secs(10);
/// The timeline of the metadata table.
const METADATA_TIMELINE: &str = ".hoodie/metadata/.hoodie/timeline";
const METADATA_HISTORY: &str = ".hoodie/metadata/.hoodie/timeline/history";
const INDEX_DEFINITIONS: &str = ".hoodie/.index_defs";
const SCHEMA_FOLDER: &str = ".hoodie/.schema";
/// How often a plan is retried if other writers archive or clean meanwhile.
const LOOKS: u32 = 4;

/// Creates a table.
pub fn create_table(
    uri: &str,
    schema: &Schema,
    options: BTreeMap<String, String>,
    storage_options: &StorageOptions,
) -> Result<HudiTable> {
    create(uri, &Options::new(options)?, schema, storage_options, true)
}

fn create(
    uri: &str,
    options: &Options,
    schema: &Schema,
    storage_options: &StorageOptions,
    keep_schema: bool,
) -> Result<HudiTable> {
    let spec = TableSpec { options, schema, keep_schema };
    checks::check_new(options, &spec.properties()?)?;
    spec.create(Storage::open(uri, storage_options)?, Arc::new(SystemClock))
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
            create(uri, &Options::new(options)?, schema, storage_options, false)
        }
        other => other,
    }
}

/// Writes, with the checks before and the table services after.
pub fn write(table: &HudiTable, request: WriteRequest) -> Result<CommitOutcome> {
    let mut timings = Timings::default();
    let Ready { table, timeline, _lease: lease } = timings.timed("lease", || ready_to_write(table))?;
    let missing = MissingFiles::since(&table, &timeline);
    let Committed { mut outcome, timeline, ending } =
        missing.explained(|| run_write(&table, timeline, request)).map_err(|e| roll_back_failed(&table, e))?;
    outcome.timings.iter().for_each(|(stage, time)| timings.add(stage, time));
    drop(lease);
    timings.timed("services", || {
        after_write(&table, &mut outcome, timeline);
        outcome.warnings.extend(ending.finish());
    });
    let (instant, operation) = (&outcome.instant, outcome.operation);
    tracing::info!(
        table = table.storage().uri(),
        instant,
        operation,
        files = outcome.stats.len(),
        "committed: {timings}"
    );
    Ok(CommitOutcome { timings, ..outcome })
}

/// Rolls back a failed write, unless the options leave that to others, and returns its error. What the write left is
/// invisible, but the next writer would have to roll it back.
fn roll_back_failed(table: &HudiTable, error: Error) -> Error {
    if !rolls_back_eagerly(table) {
        tracing::info!(table = table.storage().uri(), "the failed write is left on the timeline, as the options say");
    } else if error.kind() == ErrorKind::Lock {
        // A rollback needs the lock too, and waiting for it again could take as long as before.
        tracing::warn!("without the table lock, the failed write is left for the next writer to roll back");
    } else if let Err(again) = interrupt::clean_up(|| rollback_failed_writes(table)) {
        tracing::warn!("the failed write is left for the next writer to roll back: {again}");
    }
    error.with("table", table.storage().uri())
}

/// Whether failed writes are rolled back at once, and not by the cleaner or by nobody.
fn rolls_back_eagerly(table: &HudiTable) -> bool {
    let policy = Concurrency::from_options(table.options()).map(|concurrency| concurrency.failed_writes);
    // Options that make no sense were refused before the write began.
    policy.is_ok_and(|policy| policy == FailedWrites::Eager)
}

/// Runs `attempt` on a timeline; runs it again on a reloaded one if an instant was archived, or a file cleaned, after
/// the timeline was loaded.
fn from_timeline<T>(
    table: &HudiTable,
    mut timeline: Timeline,
    mut attempt: impl FnMut(Timeline) -> Result<T>,
) -> Result<T> {
    for _ in 1..LOOKS {
        match attempt(timeline) {
            Err(e) if e.kind() == ErrorKind::NotFound => timeline = table.timeline()?,
            other => return other,
        }
    }
    attempt(timeline)
}

/// A table that is ready for a write.
struct Ready {
    table: HudiTable,
    /// Its newest timeline.
    timeline: Timeline,
    _lease: Option<WriterLease>,
}

/// Waits for the writer lease, reopens the table and rolls back failed writes. Upgrades an older table if the options ask for
/// it.
fn ready_to_write(table: &HudiTable) -> Result<Ready> {
    let upgraded = upgrading::upgrade_if_asked(table)?;
    let table = upgraded.as_ref().unwrap_or(table);
    let lease = acquire_writer_lease(table)?;
    let (table, left) = ready_to_serve(table)?;
    let timeline = match Concurrency::from_options(table.options())?.failed_writes {
        FailedWrites::Eager => roll_back_leftovers(&table, left)?.1,
        FailedWrites::Lazy | FailedWrites::Never => left.into_timeline(),
    };
    Ok(Ready { table, timeline, _lease: lease })
}

/// Waits for the writer lease, unless `hoodoo.write.lease` is false: then the second of two writers to commit plans its
/// write again.
fn acquire_writer_lease(table: &HudiTable) -> Result<Option<WriterLease>> {
    // Its writers do not wait for each other.
    let shares = Concurrency::from_options(table.options()).is_ok_and(|concurrency| concurrency.non_blocking);
    match !shares && table.options().flag("hoodoo.write.lease", true)? {
        true => table.timeline_writer()?.acquire_writer_lease().map(Some),
        false => Ok(None),
    }
}

/// Reopens the table; pending writes of other writers stay.
fn ready_to_serve(table: &HudiTable) -> Result<(HudiTable, Leftovers)> {
    reopen(table, check_writable)
}

fn reopen(table: &HudiTable, check: impl Fn(&HudiTable, &Timeline) -> Result<()>) -> Result<(HudiTable, Leftovers)> {
    let storage = table.storage();
    let look = || Leftovers::look(storage, table.config().timeline());
    let (fresh, mut left) = both(storage.is_remote(), || table.reload(), look)?;
    if fresh.config().timeline() != table.config().timeline() {
        left = Leftovers::look(storage, fresh.config().timeline())?;
    }
    let fresh = checked(fresh, left.timeline(), check)?;
    // An object store has no half-written files, and a lock costs requests.
    if storage.is_remote() && !fresh.config().is_of_backup() {
        return Ok((fresh, left));
    }
    let writer = fresh.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    TableConfig::finish_update(storage)?;
    remove_unfinished(&fresh)?;
    Ok((fresh, left))
}

/// The table, if it passes a check. That is done again where another writer dropped or added a partition of the metadata table
/// meanwhile: by the properties of before, it looks damaged.
fn checked(
    mut table: HudiTable,
    timeline: &Timeline,
    check: impl Fn(&HudiTable, &Timeline) -> Result<()>,
) -> Result<HudiTable> {
    for _ in 1..LOOKS {
        let Err(error) = check(&table, timeline) else { return Ok(table) };
        let now = table.reload()?;
        let is_as_before = now.config().metadata_partitions() == table.config().metadata_partitions();
        if error.kind() != ErrorKind::Corrupt || is_as_before {
            return Err(error);
        }
        table = now;
    }
    check(&table, timeline).map(|()| table)
}

/// Removes what killed processes left of the metadata files that they were writing to a local disk.
fn remove_unfinished(table: &HudiTable) -> Result<()> {
    let timeline = table.config().timeline();
    let mut folders =
        vec![META_FOLDER, &timeline.folder, &timeline.history_folder, HEARTBEATS, SCHEMA_FOLDER, INDEX_DEFINITIONS];
    let partitions = table.config().metadata_partitions();
    if !partitions.is_empty() {
        folders.extend([METADATA_TIMELINE, METADATA_HISTORY]);
    }
    let of_metadata: Vec<String> = partitions.iter().map(|name| format!("{METADATA_FOLDER}/{name}")).collect();
    folders.extend(of_metadata.iter().map(String::as_str));
    folders.iter().try_for_each(|folder| table.storage().remove_unfinished(folder, UNFINISHED))
}

/// A write whose rows are merged in tasks of other processes, and its writer lease.
pub struct BegunWrite {
    write: DistributedWrite,
    lease: Option<WriterLease>,
}

impl BegunWrite {
    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        self.write.plan()
    }
}

/// Begins a write whose rows are merged in tasks of other processes. It holds the writer lease until it is committed,
/// aborted or dropped. `partial`: the rows of an upsert have only some columns. `widened`: columns that take the types
/// of the data.
pub fn begin_distributed(
    table: &HudiTable,
    operation: Operation,
    given: &Schema,
    engine: (u32, usize),
    partial: bool,
    widened: &[String],
) -> Result<BegunWrite> {
    let Ready { table, _lease: lease, .. } = ready_to_write(table)?;
    Ok(BegunWrite { write: DistributedWrite::begin(&table, operation, given, engine, partial, widened)?, lease })
}

/// Commits the results of the tasks and runs the inline services. `entries` get into the metadata of the commit, beside those
/// of the options.
pub fn commit_distributed(
    table: &HudiTable,
    begun: BegunWrite,
    reports: Vec<TaskReport>,
    entries: BTreeMap<String, String>,
) -> Result<CommitOutcome> {
    let BegunWrite { write, lease } = begun;
    let Committed { mut outcome, timeline, ending } =
        write.commit(reports, entries).map_err(|e| roll_back_failed(table, e))?;
    drop(lease);
    after_write(table, &mut outcome, timeline);
    outcome.warnings.extend(ending.finish());
    Ok(outcome)
}

/// Rolls back a write that is aborted; `begun` is `None` if its commit failed.
pub fn abort_distributed(table: &HudiTable, begun: Option<BegunWrite>) -> Result<()> {
    let _lease = match begun {
        Some(BegunWrite { write, lease }) => {
            // Drops its heartbeat, with which it would not be rolled back.
            drop(write);
            lease
        }
        None => acquire_writer_lease(table)?,
    };
    match rolls_back_eagerly(table) {
        true => rollback_failed_writes(table).map(|_| ()),
        false => Ok(()),
    }
}

/// Runs the inline services after a commit. Their failures are warnings: a caller that retried on an error would write
/// the rows twice.
fn after_write(table: &HudiTable, outcome: &mut CommitOutcome, timeline: Timeline) {
    let option = "hoodie.clustering.rollback.pending.replacecommit.on.conflict";
    let rolled_back = match table.options().flag(option, false) {
        Ok(true) => clustering::roll_back_outdated(table, &outcome.stats).map(|_| ()),
        other => other.map(|_| ()),
    };
    settle(table, "rolling back pending clusterings", rolled_back, &mut outcome.warnings);
    after_commit(table, &mut outcome.warnings, timeline);
}

/// Rolls back a planned clustering, with the files that were written for it.
///
/// # Errors
/// Those of [`clustering::roll_back`].
pub fn roll_back_clustering(table: &HudiTable, instant: &str) -> Result<()> {
    clustering::roll_back(&table.reload()?, instant)
}

/// Plans a compaction of the file slices with log files. Returns its requested time, or `None` if there is nothing to
/// compact.
pub fn schedule_compaction(table: &HudiTable) -> Result<Option<String>> {
    let Ready { table, timeline, _lease } = ready_to_write(table)?;
    from_timeline(&table, timeline, |timeline| compaction::schedule(&table, timeline, Kind::Base))
}

/// Executes a planned compaction: the one with the given requested time, or all planned ones, or, if there is none, a
/// new one. `None` if there is nothing to compact.
pub fn compact(table: &HudiTable, instant: Option<&str>) -> Result<Option<CommitOutcome>> {
    compact_kind(table, Kind::Base, instant)
}

/// Executes the planned log compactions, or else a new one of all file slices with at least
/// `hoodie.log.compaction.blocks.threshold` log blocks. `None` if there is nothing to merge.
pub fn log_compact(table: &HudiTable) -> Result<Option<CommitOutcome>> {
    compact_kind(table, Kind::Log, None)
}

/// Plans a clustering. Returns its requested time, or `None` if there is nothing to cluster or it is not due.
pub fn schedule_clustering(table: &HudiTable) -> Result<Option<String>> {
    let (table, left) = ready_to_serve(table)?;
    from_timeline(&table, left.into_timeline(), |timeline| clustering::schedule(&table, timeline))
}

/// Executes a planned clustering: the one with the given requested time, or all planned ones, or, if there is none or
/// `new_plan` is set, a new one. `None` if there is nothing to cluster.
///
/// # Errors
/// Those of [`clustering::run`].
pub fn cluster(table: &HudiTable, instant: Option<&str>, new_plan: bool) -> Result<Option<CommitOutcome>> {
    let (table, left) = ready_to_serve(table)?;
    let missing = MissingFiles::since(&table, left.timeline());
    let mut last: Option<Clustered> = None;
    let named = instant.is_some();
    for (instant, is_new) in planned_clusterings(&table, left.into_timeline(), instant, new_plan)? {
        let done = missing.explained(|| run_clustering(&table, &instant, is_new));
        // A plan of its own that cannot be carried out is taken back, and is an error.
        let done = if named || is_new { done } else { unless_ended(&table, &instant, done) };
        last = newest(&table, "the next clustering", last, done, |c| &mut c.warnings)?;
    }
    Ok(last.map(clustered))
}

/// The result of a plan that this call found on the timeline, which is no error if another process ended the plan before
/// this one began.
fn unless_ended<T>(table: &HudiTable, instant: &str, done: Result<Option<T>>) -> Result<Option<T>> {
    match done {
        Err(e) if e.kind() == ErrorKind::InvalidOption => {
            if table.timeline()?.is_pending(instant) {
                Err(e)
            } else {
                Ok(None)
            }
        }
        other => other,
    }
}

/// Combines the results of services that run one after the other: the newest that completed, with the warnings of all.
/// A failure is an error if none has completed before.
fn newest<T>(
    table: &HudiTable,
    service: &str,
    before: Option<T>,
    outcome: Result<Option<T>>,
    warnings: fn(&mut T) -> &mut Vec<String>,
) -> Result<Option<T>> {
    let Some(mut before) = before else { return outcome };
    match outcome {
        Ok(None) => {}
        Ok(Some(mut done)) => {
            warnings(&mut done).splice(0..0, std::mem::take(warnings(&mut before)));
            before = done;
        }
        Err(e) => settle(table, service, Err(e), warnings(&mut before)),
    }
    Ok(Some(before))
}

/// Requested times of the plans to execute, and whether each was made by this call.
fn planned_clusterings(
    table: &HudiTable,
    timeline: Timeline,
    instant: Option<&str>,
    new_plan: bool,
) -> Result<Vec<(String, bool)>> {
    if let Some(instant) = instant {
        return Ok(vec![(instant.to_owned(), false)]);
    }
    from_timeline(table, timeline, |timeline| {
        let mut planned: Vec<(String, bool)> = match new_plan {
            true => Vec::new(),
            false => clustering::planned(table, &timeline)?.into_iter().map(|instant| (instant, false)).collect(),
        };
        if planned.is_empty() {
            planned.extend(clustering::schedule_now(table, timeline)?.map(|instant| (instant, true)));
        }
        Ok(planned)
    })
}

/// Executes a plan. If this call made the plan and it cannot be executed, the plan is rolled back: it would block
/// writers.
fn run_clustering(table: &HudiTable, instant: &str, is_new: bool) -> Result<Option<Clustered>> {
    clustering::run(table, instant).map_err(|e| discard_failed_clustering(table, instant, is_new, e))
}

fn discard_failed_clustering(table: &HudiTable, instant: &str, is_new: bool, error: Error) -> Error {
    let impossible = matches!(error.kind(), ErrorKind::InvalidOption | ErrorKind::Unsupported | ErrorKind::Schema);
    if is_new
        && (impossible || interrupt::is_set())
        && let Err(e) = interrupt::clean_up(|| clustering::roll_back(table, instant))
    {
        tracing::warn!(table = table.storage().uri(), instant, "the planned clustering was not rolled back: {e}");
    }
    error
}

/// Begins a clustering whose groups are rewritten by other processes: the one with the given requested time, or the
/// oldest planned one, or, if there is none or `new_plan` is set, a new one. `None` if there is nothing to cluster.
///
/// # Errors
/// Those of [`clustering::run`].
pub fn begin_clustering(
    table: &HudiTable,
    instant: Option<&str>,
    new_plan: bool,
) -> Result<Option<(ClusteringJob, Vec<ClusteringTask>)>> {
    let (table, left) = ready_to_serve(table)?;
    let planned = planned_clusterings(&table, left.into_timeline(), instant, new_plan)?;
    let Some((instant, is_new)) = planned.first() else { return Ok(None) };
    let begin = || {
        let Some(job) = ClusteringJob::begin(&table, instant, true)? else { return Ok(None) };
        let tasks = job.tasks()?;
        Ok(Some((job, tasks)))
    };
    begin().map_err(|e| discard_failed_clustering(&table, instant, *is_new, e))
}

/// Commits the files that other processes rewrote.
///
/// # Errors
/// Those of [`ClusteringJob::complete`].
pub fn commit_clustering(job: ClusteringJob, files: Vec<ClusteredFile>) -> Result<CommitOutcome> {
    job.complete(files).map(clustered)
}

fn clustered(done: Clustered) -> CommitOutcome {
    CommitOutcome {
        instant: done.instant,
        completed: done.completed,
        operation: "CLUSTER",
        stats: done.stats,
        replaced: done.replaced,
        schema_changes: Vec::new(),
        warnings: done.warnings,
        timings: Timings::default(),
    }
}

/// Returns the plan that would be made now, due or not. Writes nothing.
pub fn explain_clustering(table: &HudiTable) -> Result<Option<Planned>> {
    clustering::explain(&table.reload()?)
}

fn compact_kind(table: &HudiTable, kind: Kind, instant: Option<&str>) -> Result<Option<CommitOutcome>> {
    let Ready { table, timeline, _lease: lease } = ready_to_write(table)?;
    let missing = MissingFiles::since(&table, &timeline);
    let named = instant.is_some();
    let mut planned = match instant {
        Some(instant) => vec![instant.to_owned()],
        None => compaction::pending(&timeline, kind),
    };
    if planned.is_empty() {
        planned.extend(from_timeline(&table, timeline, |timeline| compaction::schedule(&table, timeline, kind))?);
    }
    // Writers go on meanwhile.
    drop(lease);
    let mut last: Option<Compacted> = None;
    for instant in &planned {
        let done = missing.explained(|| compaction::run(&table, instant));
        let done = if named { done } else { unless_ended(&table, instant, done) };
        last = newest(&table, "the next compaction", last, done, |c| &mut c.warnings)?;
    }
    if let Some(done) = &mut last {
        after_service(&table, &mut done.warnings);
    }
    Ok(last.map(outcome))
}

/// Begins a compaction whose operations are executed by other processes: the one with the given requested time, or the
/// oldest planned one, or a new one. `None` if there is nothing to compact.
pub fn begin_compaction(table: &HudiTable, instant: Option<&str>) -> Result<Option<CompactionJob>> {
    let Ready { table, timeline, _lease } = ready_to_write(table)?;
    let planned = match instant {
        Some(instant) => Some(instant.to_owned()),
        None => compaction::pending(&timeline, Kind::Base).into_iter().next(),
    };
    let planned = match planned {
        Some(planned) => Some(planned),
        None => from_timeline(&table, timeline, |timeline| compaction::schedule(&table, timeline, Kind::Base))?,
    };
    planned.map_or(Ok(None), |instant| CompactionJob::begin(&table, &instant, true))
}

/// Commits the files that other processes compacted, and runs the inline services.
pub fn commit_compaction(table: &HudiTable, job: CompactionJob, stats: Vec<WriteStat>) -> Result<CommitOutcome> {
    let mut done = job.complete(stats)?;
    match table.reload() {
        Ok(table) => after_service(&table, &mut done.warnings),
        Err(e) => settle(table, "cleaning", Err(e), &mut done.warnings),
    }
    Ok(outcome(done))
}

fn outcome(done: Compacted) -> CommitOutcome {
    CommitOutcome {
        instant: done.instant,
        completed: done.completed,
        operation: done.kind.operation(),
        stats: done.stats,
        replaced: BTreeMap::new(),
        schema_changes: Vec::new(),
        warnings: done.warnings,
        timings: Timings::default(),
    }
}

/// After a write to a merge-on-read table, executes pending compactions and a new one if it is due. Returns the
/// timeline; `None` if it changed.
fn compact_inline(table: &HudiTable, timeline: Timeline, warnings: &mut Vec<String>) -> Result<Option<Timeline>> {
    let mut run = |instant: &str| -> Result<()> {
        let done = compaction::run(table, instant)?;
        warnings.extend(done.into_iter().flat_map(|done| done.warnings));
        Ok(())
    };
    let options = CompactionOptions::from_options(table.options())?;
    let base = (Kind::Base, options.inline, options.inline || options.schedule_inline);
    let mut known = Some(timeline);
    for (kind, runs, plans) in [base, (Kind::Log, options.log_inline, options.log_inline)] {
        if !plans {
            continue;
        }
        let mut timeline = known.take().map_or_else(|| table.timeline(), Ok)?;
        let mut changed = false;
        for instant in if runs { compaction::pending(&timeline, kind) } else { Vec::new() } {
            // One that another process executes is left to it.
            if !compaction::is_under_way(table, &instant)? {
                changed = true;
                run(&instant)?;
            }
        }
        if changed {
            timeline = table.timeline()?;
        }
        if !compaction::pending(&timeline, kind).is_empty() || !compaction::due(table, &timeline, kind)? {
            known = Some(timeline);
            continue;
        }
        let planned = from_timeline(table, timeline, |timeline| compaction::schedule(table, timeline, kind))?;
        if let (true, Some(instant)) = (runs, planned) {
            run(&instant)?;
        }
    }
    Ok(known)
}

/// After a write, executes pending clusterings and a new one if it is due. Returns whether inline clustering is on.
fn cluster_inline(table: &HudiTable, warnings: &mut Vec<String>) -> Result<bool> {
    let options = ClusteringOptions::from_options(table.options())?;
    if !(options.inline || options.schedule_inline) {
        return Ok(false);
    }
    let mut pending = clustering::planned(table, &table.timeline()?)?;
    if options.inline {
        for instant in std::mem::take(&mut pending) {
            // One that another process executes is left to it.
            if clustering::is_under_way(table, &instant)? {
                pending.push(instant);
            } else {
                run_unless_outdated(table, &instant, false, warnings)?;
            }
        }
    }
    if pending.is_empty() {
        let planned = from_timeline(table, table.timeline()?, |timeline| clustering::schedule(table, timeline))?;
        if let (true, Some(instant)) = (options.inline, planned) {
            run_unless_outdated(table, &instant, true, warnings)?;
        }
    }
    Ok(true)
}

/// Rolls back a plan whose file groups other writers changed; the other plans are still executed.
fn run_unless_outdated(table: &HudiTable, instant: &str, is_new: bool, warnings: &mut Vec<String>) -> Result<()> {
    match run_clustering(table, instant, is_new) {
        Ok(done) => warnings.extend(done.into_iter().flat_map(|done| done.warnings)),
        Err(e) if e.kind() == ErrorKind::Conflict => settle(table, "clustering", Err(e), warnings),
        Err(e) => return Err(e),
    }
    Ok(())
}

/// Runs the inline services after a commit; their failures become its warnings.
fn after_commit(table: &HudiTable, warnings: &mut Vec<String>, timeline: Timeline) {
    match table.options().flag("hoodie.table.services.enabled", true) {
        Ok(true) => {}
        other => return settle(table, "table services", other.map(|_| ()), warnings),
    }
    let Some(_lease) = services_lease(table, warnings) else { return };
    let mut known = Some(timeline);
    if table.config().table_type() == TableType::MergeOnRead {
        let compacted = known.take().map_or(Ok(None), |timeline| compact_inline(table, timeline, warnings));
        let compacted = compacted.map(|timeline| known = timeline);
        settle(table, "compaction", compacted, warnings);
    }
    let clustered = cluster_inline(table, warnings).map(|looked| known.take_if(|_| looked));
    settle(table, "clustering", clustered.map(|_| ()), warnings);
    clean_and_archive(table, warnings, known);
}

/// The same after a service that has completed.
fn after_service(table: &HudiTable, warnings: &mut Vec<String>) {
    if let Some(_lease) = services_lease(table, warnings) {
        clean_and_archive(table, warnings, None);
    }
}

/// The right to run inline services. `None` if another writer of this machine runs them now: the next commit does the rest.
fn services_lease(table: &HudiTable, warnings: &mut Vec<String>) -> Option<Option<WriterLease>> {
    let lease = || match table.options().flag("hoodoo.write.lease", true)? {
        true => Ok(table.timeline_writer()?.try_services_lease()?.map(Some)),
        false => Ok(Some(None)),
    };
    lease().unwrap_or_else(|e| {
        settle(table, "table services", Err(e), warnings);
        None
    })
}

/// `timeline`: as it is now, where that is known.
fn clean_and_archive(table: &HudiTable, warnings: &mut Vec<String>, timeline: Option<Timeline>) {
    let is_on = |option: &str| {
        Ok(table.options().flag("hoodie.table.services.enabled", true)? && table.options().flag(option, true)?)
    };
    let now = |known: Option<Timeline>| known.map_or_else(|| table.timeline(), Ok);
    let mut known = timeline;
    let cleaned = is_on("hoodie.clean.automatic").and_then(|on| {
        if on {
            if Concurrency::from_options(table.options())?.failed_writes == FailedWrites::Lazy {
                let left = Leftovers::look(table.storage(), table.config().timeline())?;
                known = Some(roll_back_leftovers(table, left)?.1);
            }
            let (_, timeline) = from_timeline(table, now(known.take())?, |timeline| clean_from(table, timeline))?;
            known = Some(timeline);
        }
        Ok(())
    });
    settle(table, "cleaning", cleaned, warnings);
    // Before archiving, which takes nothing beyond the last compaction of the metadata table.
    let served = is_on("hoodie.table.services.enabled").and_then(|on| match on {
        true => serve_metadata_table(table, || now(known.clone())),
        false => Ok(()),
    });
    settle(table, "maintenance of the metadata table", served, warnings);
    let archived = is_on("hoodie.archive.automatic").and_then(|on| match on {
        true => from_timeline(table, now(known)?, |timeline| archive_if_due(table, &timeline).map(|_| ())),
        false => Ok(()),
    });
    settle(table, "archiving", archived, warnings);
}

/// Turns a failure of a service after a commit into a warning: a caller that retried on an error would write the rows
/// twice.
fn settle(table: &HudiTable, service: &str, outcome: Result<()>, warnings: &mut Vec<String>) {
    let Err(e) = outcome else { return };
    let what = match e.kind() {
        // Another process holds the lock, or runs the same service.
        ErrorKind::Lock | ErrorKind::Conflict | ErrorKind::Interrupted => "is left for the next write",
        _ => "failed",
    };
    tracing::warn!(table = table.storage().uri(), "{service} after a commit {what}: {e}");
    // The other process does it: the user need not do anything.
    if e.kind() == ErrorKind::Conflict {
        return;
    }
    warnings.push(format!("the commit succeeded, but {service} after it {what}: {e}"));
}

/// The operation that the options name.
///
/// # Errors
/// `InvalidOption` for one that does not exist.
pub fn stated_operation(options: &Options) -> Result<Option<Operation>> {
    options.get("hoodie.datasource.write.operation").map(Operation::parse).transpose()
}

/// The operation of a write to a table where the options name none. Rows without keys can only be inserted.
pub fn default_operation(table: &HudiTable) -> Operation {
    match table.config().record_key_fields().is_empty() {
        true => Operation::BulkInsert,
        false => Operation::Upsert,
    }
}

/// Data to write.
pub type Data = Box<dyn RecordBatchReader + Send>;
