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
use crate::parallel::both;
use crate::services::archive::archive_if_due;
use crate::services::clean::clean_from;
use crate::services::clustering::{self, Clustered, ClusteredFile, ClusteringJob, ClusteringOptions, Planned, Portion};
use crate::services::compaction::{self, Compacted, CompactionJob, CompactionOptions, Kind};
use crate::services::rollback::{Leftovers, roll_back_leftovers, rollback_failed_writes};
use crate::storage::{Storage, StorageOptions};
use crate::table::{HudiTable, Options, TableConfig, TableSpec, TableType};
use crate::timeline::{META_FOLDER, SystemClock, Timeline, Turn};
use crate::timings::Timings;
use crate::write::task::{DistributedWrite, TaskPlan, TaskReport};
use crate::write::{CommitOutcome, Committed, Operation, WriteRequest, run_write};

pub use checks::check_writable;
pub use merge_rows::{MergeRequest, RowStream, merge_rows};

/// Nobody takes so long to write a file of the timeline.
const UNFINISHED: Duration = Duration::from_secs(10);
/// How often something is planned from a timeline that others archive meanwhile.
const LOOKS: u32 = 4;

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
    let mut timings = Timings::default();
    let Ready { table, timeline, _turn } = timings.timed("lease", || ready_to_write(table))?;
    let Committed { mut outcome, timeline, ending } =
        run_write(&table, timeline, request).map_err(|e| given_up(&table, e))?;
    outcome.timings.iter().for_each(|(stage, time)| timings.add(stage, time));
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

/// The error of a failed write. What the write left is invisible; removing it now spares the next writer the work.
fn given_up(table: &HudiTable, error: Error) -> Error {
    // Without the lock nothing can be rolled back, and to wait for it could take as long as before.
    if error.kind() == ErrorKind::Lock {
        tracing::warn!("without the table lock, what the write left stays for the next writer to roll back");
    } else if let Err(again) = interrupt::clean_up(|| rollback_failed_writes(table)) {
        tracing::warn!("the failed write is left for the next writer to roll back: {again}");
    }
    error.with("table", table.storage().uri())
}

/// Does something from a timeline that was loaded a moment ago; once more from a new one when an instant was archived, or a
/// file cleaned, between the look at the timeline and the reading.
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

/// A table that may be written to now.
struct Ready {
    table: HudiTable,
    /// Its timeline as it is now.
    timeline: Timeline,
    _turn: Option<Turn>,
}

/// The table as it is when it is our turn to write, free of what crashed writers left.
fn ready_to_write(table: &HudiTable) -> Result<Ready> {
    let turn = take_turn(table)?;
    let (table, left) = ready_to_serve(table)?;
    let (_, timeline) = roll_back_leftovers(&table, left)?;
    Ok(Ready { table, timeline, _turn: turn })
}

/// Waits for other writers of this machine, unless `hoodoo.write.turns` is false: then whoever commits second plans its
/// write anew.
fn take_turn(table: &HudiTable) -> Result<Option<Turn>> {
    match table.options().flag("hoodoo.write.turns", true)? {
        true => table.timeline_writer()?.take_turn().map(Some),
        false => Ok(None),
    }
}

/// The table as it is now, with what other writers have there: their pending writes are left alone.
fn ready_to_serve(table: &HudiTable) -> Result<(HudiTable, Leftovers)> {
    let storage = table.storage();
    let look = || Leftovers::look(storage, table.config().timeline());
    let (fresh, mut left) = both(storage.is_remote(), || table.reload(), look)?;
    if fresh.config().timeline() != table.config().timeline() {
        left = Leftovers::look(storage, fresh.config().timeline())?;
    }
    check_writable(&fresh, left.timeline())?;
    // In an object store there is nothing that is half written, and a lock costs requests.
    if storage.is_remote() && !fresh.config().is_of_backup() {
        return Ok((fresh, left));
    }
    let writer = fresh.timeline_writer()?;
    let _held = writer.lock().acquire()?;
    TableConfig::finish_update(storage)?;
    for folder in [META_FOLDER, fresh.config().timeline().folder.as_str()] {
        storage.remove_unfinished(folder, UNFINISHED)?;
    }
    Ok((fresh, left))
}

/// A write whose rows are merged in tasks of other processes, while it is its turn.
pub struct BegunWrite {
    write: DistributedWrite,
    turn: Option<Turn>,
}

impl BegunWrite {
    /// What the tasks need.
    pub fn plan(&self) -> &TaskPlan {
        self.write.plan()
    }
}

/// Begins a write whose rows are merged in tasks of other processes. No other writer of this machine gets its turn before
/// that one is committed, aborted or dropped. `partial`: the rows of an upsert have only some columns.
/// `widened`: columns that take the types of the data.
pub fn begin_distributed(
    table: &HudiTable,
    operation: Operation,
    given: &Schema,
    engine: (u32, usize),
    partial: bool,
    widened: &[String],
) -> Result<BegunWrite> {
    let Ready { table, _turn: turn, .. } = ready_to_write(table)?;
    Ok(BegunWrite { write: DistributedWrite::begin(&table, operation, given, engine, partial, widened)?, turn })
}

/// Commits what the tasks did, and runs the inline services.
pub fn commit_distributed(table: &HudiTable, begun: BegunWrite, reports: Vec<TaskReport>) -> Result<CommitOutcome> {
    let BegunWrite { write, turn: _turn } = begun;
    let Committed { mut outcome, timeline, ending } = write.commit(reports).map_err(|e| given_up(table, e))?;
    after_write(table, &mut outcome, timeline);
    outcome.warnings.extend(ending.finish());
    Ok(outcome)
}

/// Rolls back what a write that was given up left; `None` when its commit failed.
pub fn abort_distributed(table: &HudiTable, begun: Option<BegunWrite>) -> Result<()> {
    let _turn = match begun {
        Some(BegunWrite { write, turn }) => {
            // With it goes its heartbeat, which would keep it from being rolled back.
            drop(write);
            turn
        }
        None => take_turn(table)?,
    };
    rollback_failed_writes(table).map(|_| ())
}

/// What runs behind a commit. It stands whatever becomes of that: who took an error for a failed write and tried again would
/// write twice.
fn after_write(table: &HudiTable, outcome: &mut CommitOutcome, timeline: Timeline) {
    let option = "hoodie.clustering.rollback.pending.replacecommit.on.conflict";
    let rolled_back = match table.options().flag(option, false) {
        Ok(true) => clustering::roll_back_outdated(table, &outcome.stats).map(|_| ()),
        other => other.map(|_| ()),
    };
    settle(table, "rolling back plans of clusterings", rolled_back, &mut outcome.warnings);
    after_commit(table, &mut outcome.warnings, timeline);
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
    let Ready { table, timeline, _turn } = ready_to_write(table)?;
    from_timeline(&table, timeline, |timeline| compaction::schedule(&table, timeline, Kind::Base))
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
    let (table, left) = ready_to_serve(table)?;
    from_timeline(&table, left.into_timeline(), |timeline| clustering::schedule(&table, timeline))
}

/// Carries out a planned clustering: that with the given requested time, or all that are planned, or, when there is none or
/// `anew` says so, one that is planned now. `None` when there is nothing to cluster.
///
/// # Errors
/// Those of [`clustering::run`].
pub fn cluster(table: &HudiTable, instant: Option<&str>, anew: bool) -> Result<Option<CommitOutcome>> {
    let (table, left) = ready_to_serve(table)?;
    let mut last: Option<Clustered> = None;
    for (instant, is_new) in planned_clusterings(&table, left.into_timeline(), instant, anew)? {
        last =
            newest(&table, "the next clustering", last, run_clustering(&table, &instant, is_new), |c| &mut c.warnings)?;
    }
    Ok(last.map(clustered))
}

/// Of services that are carried out one after the other, the newest that completed, with the warnings of all. The failure of
/// one is an error as long as none is complete.
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

/// Requested times of plans to be carried out, and whether they were made for that.
fn planned_clusterings(
    table: &HudiTable,
    timeline: Timeline,
    instant: Option<&str>,
    anew: bool,
) -> Result<Vec<(String, bool)>> {
    if let Some(instant) = instant {
        return Ok(vec![(instant.to_owned(), false)]);
    }
    from_timeline(table, timeline, |timeline| {
        let mut planned: Vec<(String, bool)> = match anew {
            true => Vec::new(),
            false => clustering::planned(table, &timeline)?.into_iter().map(|instant| (instant, false)).collect(),
        };
        if planned.is_empty() {
            planned.extend(clustering::schedule_now(table, timeline)?.map(|instant| (instant, true)));
        }
        Ok(planned)
    })
}

/// Carries a plan out. One that was made for that and turns out to be impossible does not stay, to keep writers away.
fn run_clustering(table: &HudiTable, instant: &str, is_new: bool) -> Result<Option<Clustered>> {
    clustering::run(table, instant).map_err(|e| given_up_clustering(table, instant, is_new, e))
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
    let (table, left) = ready_to_serve(table)?;
    let planned = planned_clusterings(&table, left.into_timeline(), instant, anew)?;
    let Some((instant, is_new)) = planned.first() else { return Ok(None) };
    let begin = || {
        let Some(job) = ClusteringJob::begin(&table, instant, true)? else { return Ok(None) };
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

/// What would be planned now, due or not. Writes nothing.
pub fn explain_clustering(table: &HudiTable) -> Result<Option<Planned>> {
    clustering::explain(&table.reload()?)
}

fn compact_kind(table: &HudiTable, kind: Kind, instant: Option<&str>) -> Result<Option<CommitOutcome>> {
    let Ready { table, timeline, _turn: turn } = ready_to_write(table)?;
    let mut planned = match instant {
        Some(instant) => vec![instant.to_owned()],
        None => compaction::pending(&timeline, kind),
    };
    if planned.is_empty() {
        planned.extend(from_timeline(&table, timeline, |timeline| compaction::schedule(&table, timeline, kind))?);
    }
    // Writers go on meanwhile.
    drop(turn);
    let mut last: Option<Compacted> = None;
    for instant in &planned {
        let done = compaction::run(&table, instant);
        last = newest(&table, "the next compaction", last, done, |c| &mut c.warnings)?;
    }
    if let Some(done) = &mut last {
        clean_and_archive_in_turn(&table, &mut done.warnings);
    }
    Ok(last.map(outcome))
}

/// Begins a compaction whose operations are carried out by other processes: the oldest that is planned, or that with the
/// given requested time, or one that is planned now. `None` when there is nothing to compact.
pub fn begin_compaction(table: &HudiTable, instant: Option<&str>) -> Result<Option<CompactionJob>> {
    let Ready { table, timeline, _turn } = ready_to_write(table)?;
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

/// Publishes what other processes compacted, and runs the services that go with it.
pub fn commit_compaction(table: &HudiTable, job: CompactionJob, stats: Vec<WriteStat>) -> Result<CommitOutcome> {
    let mut done = job.complete(stats)?;
    match table.reload() {
        Ok(table) => clean_and_archive_in_turn(&table, &mut done.warnings),
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

/// After a write to a merge-on-read table: plans that wait, and one that is due. The timeline as it is then; `None` where
/// something was planned or carried out.
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
            // What another process carries out is left to it.
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

/// After a write: plans that wait, and one that is due. Returns whether something was looked for.
fn cluster_inline(table: &HudiTable, warnings: &mut Vec<String>) -> Result<bool> {
    let options = ClusteringOptions::from_options(table.options())?;
    if !(options.inline || options.schedule_inline) {
        return Ok(false);
    }
    let mut pending = clustering::planned(table, &table.timeline()?)?;
    if options.inline {
        for instant in std::mem::take(&mut pending) {
            // What another process carries out is left to it.
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

/// A plan whose file groups others have written to is taken back, and the other plans are carried out all the same.
fn run_unless_outdated(table: &HudiTable, instant: &str, is_new: bool, warnings: &mut Vec<String>) -> Result<()> {
    match run_clustering(table, instant, is_new) {
        Ok(done) => warnings.extend(done.into_iter().flat_map(|done| done.warnings)),
        Err(e) if e.kind() == ErrorKind::Conflict => settle(table, "clustering", Err(e), warnings),
        Err(e) => return Err(e),
    }
    Ok(())
}

/// Inline services after a commit, which stands; what they could not do is added to its warnings.
fn after_commit(table: &HudiTable, warnings: &mut Vec<String>, timeline: Timeline) {
    match table.options().flag("hoodie.table.services.enabled", true) {
        Ok(true) => {}
        other => return settle(table, "table services", other.map(|_| ()), warnings),
    }
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

/// The same after a service that has completed: who does not get a turn leaves it to the next write.
fn clean_and_archive_in_turn(table: &HudiTable, warnings: &mut Vec<String>) {
    match take_turn(table) {
        Ok(_turn) => clean_and_archive(table, warnings, None),
        Err(e) => settle(table, "cleaning", Err(e), warnings),
    }
}

/// `timeline`: as it is now, where that is known.
fn clean_and_archive(table: &HudiTable, warnings: &mut Vec<String>, timeline: Option<Timeline>) {
    let is_on = |option: &str| {
        Ok(table.options().flag("hoodie.table.services.enabled", true)? && table.options().flag(option, true)?)
    };
    let now = |known: Option<Timeline>| known.map_or_else(|| table.timeline(), Ok);
    let mut known = timeline;
    let cleaned = is_on("hoodie.clean.automatic").and_then(|on| match on {
        true => from_timeline(table, now(known.clone())?, |timeline| clean_from(table, timeline)),
        false => Ok(None),
    });
    if !matches!(cleaned, Ok(None)) {
        known = None;
    }
    settle(table, "cleaning", cleaned.map(|_| ()), warnings);
    let archived = is_on("hoodie.archive.automatic").and_then(|on| match on {
        true => from_timeline(table, now(known)?, |timeline| archive_if_due(table, &timeline).map(|_| ())),
        false => Ok(()),
    });
    settle(table, "archiving", archived, warnings);
}

/// What comes of a service that ran after a commit: never an error, for one that asks to try again would have the rows
/// written twice.
fn settle(table: &HudiTable, service: &str, outcome: Result<()>, warnings: &mut Vec<String>) {
    let Err(e) = outcome else { return };
    let what = match e.kind() {
        // Another process has the lock, or does the same now.
        ErrorKind::Lock | ErrorKind::Conflict | ErrorKind::Interrupted => "is left for the next write",
        _ => "failed",
    };
    tracing::warn!(table = table.storage().uri(), "{service} after a commit {what}: {e}");
    // Whoever was faster does it: nothing that a user could mend.
    if e.kind() == ErrorKind::Conflict {
        return;
    }
    warnings.push(format!("the commit stands, but {service} after it {what}: {e}"));
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
