//! One action on a table, from its instant to its completion: the steps that all writes and table services share.
//!
//! | step | what |
//! |---|---|
//! | begin | heartbeat, then the instant, requested and inflight, under the table lock; or an existing plan is taken over |
//! | [`DataFiles`], [`NewFile`], [`RollingFileWriter`] | marker, then the data file, then its write stat |
//! | complete | under the lock: load the timeline, check for conflicts ([`conflicts`]), commit to the metadata table, create the completed instant |
//! | end | delete markers and heartbeat, release the lock |
//!
//! An action is invisible before it is completed. If it fails, the next write rolls it back: its markers say which
//! files it wrote.

mod change_log;
mod concurrency;
mod conflicts;
mod data_files;
mod early_conflicts;
mod key_index;
mod metadata_table;
mod new_file;
pub(crate) mod record_index;
mod rolling_file_writer;
mod secondary_index;
mod unbegun;

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::file_group::markers::{
    clean_up, delete_markers, delete_these, marked_files, markers_left, remove_unreported_files,
};
use crate::file_group::written_at;
use crate::format::instant::{Action, Instant, State};
use crate::interrupt;
use crate::metadata_table::write::remove_instants;
use crate::parallel::{BackgroundTask, both};
use crate::storage::FileMeta;
use crate::table::HudiTable;
use crate::table::commit_metadata::completed_metadata;
use crate::timeline::{Heartbeat, LockGuard, Published, Timeline, TimelineWriter};

pub(crate) use change_log::{ChangeLog, ChangeLogSettings};
pub(crate) use concurrency::{Concurrency, FailedWrites, writers_first};
pub(crate) use conflicts::{Footprint, Intent, refuse_outdated, refuse_planned};
pub(crate) use data_files::{DataFiles, write_partition_metadata};
pub(crate) use early_conflicts::{refuse_early, refuse_writers};
pub use key_index::{KeyIndexPlan, SliceUnit};
pub(crate) use key_index::{read_keys, write_shards};
pub(crate) use metadata_table::{
    BuildRequest, Follow, IndexBuild, IndexPlan, RangeReader, Undo, drop_all, drop_partition, read_unit,
};
pub use metadata_table::{Expression, FilesPlan, FilesUnit, IndexReport};
pub(crate) use new_file::{NewFile, WrittenFile, empty_stat, stat_count};
pub(crate) use new_file::{commit_metadata, reported_files};
pub(crate) use rolling_file_writer::{FILE_NAME, FileSize, RollingFileSettings, RollingFileWriter};

/// An action that is under way.
pub(crate) struct Transaction {
    table: HudiTable,
    timeline: TimelineWriter,
    instant: Instant,
    /// `None` once it has ended.
    heartbeat: Option<Heartbeat>,
    files: Arc<DataFiles>,
    /// Waits for the inflight file, if it is still in flight to the store.
    inflight: Option<BackgroundTask<Result<()>>>,
    /// Whether tasks of other processes write the data files; a repeated task writes its files twice.
    has_tasks: bool,
    /// Writes that were requested before this one, and had not begun when it did.
    earlier: Vec<Instant>,
    /// From its beginning to its end, in the log.
    span: tracing::Span,
}

/// An action that has been completed.
pub(crate) struct Completed {
    /// The action.
    pub instant: Instant,
    /// The timeline with it.
    pub timeline: Timeline,
    /// What failed after it was published.
    pub warnings: Vec<String>,
    /// Work in the background that ends when this is dropped.
    pub ending: Ending,
}

/// Work that has to end before the call does: releasing the lock, removing markers and heartbeat.
pub(crate) struct Ending {
    _released: BackgroundTask<()>,
    removed: Option<BackgroundTask<Option<String>>>,
}

impl Ending {
    /// Waits for the end. Returns what failed; the action is committed all the same.
    pub(crate) fn finish(self) -> Option<String> {
        // Dropping waits for the work too, even on an interrupt.
        self.removed.and_then(|removed| removed.wait().ok().flatten())
    }
}

impl Transaction {
    /// Creates a new instant on the timeline, inflight. `plan` makes the content of the requested file from the
    /// timeline under the lock; `profile` is the content of the inflight one. `held`: the table lock, if the caller
    /// holds it during the action, with the timeline that was loaded under it. `has_tasks`: whether other processes write its files.
    ///
    /// # Errors
    /// `Conflict` while a restore is pending; `Lock`; `Storage`.
    pub(crate) fn begin(
        table: &HudiTable,
        action: Action,
        held: Option<(&LockGuard, &Timeline)>,
        has_tasks: bool,
        plan: impl FnOnce(&Timeline) -> Result<Vec<u8>>,
        profile: Vec<u8>,
    ) -> Result<Self> {
        let timeline = table.timeline_writer()?;
        let timeline = match held {
            Some((held, _)) => timeline.clone().with_lock(timeline.lock().holding(held)),
            None => timeline,
        };
        // Before the instant exists: without a heartbeat it would look failed.
        let heartbeat = |time: &str| match action.is_write() {
            true => Heartbeat::of_write(table.storage(), table.clock(), time),
            false => Heartbeat::start(table.storage(), table.clock(), time),
        };
        let mut earlier = Vec::new();
        let plan = |timeline: &Timeline| {
            earlier = unbegun::before(timeline, None);
            plan(timeline)
        };
        let begun =
            timeline.begin(action, heartbeat, |timeline, _| plan(timeline), profile, held.map(|(_, known)| known))?;
        let files = DataFiles::new(table, &begun.instant.requested).arc();
        Ok(Self {
            span: span_of(table, &begun.instant),
            table: table.clone(),
            timeline,
            instant: begun.instant,
            heartbeat: Some(begun.heartbeat),
            files,
            inflight: Some(begun.inflight),
            has_tasks,
            earlier,
        })
    }

    /// Continues an instant that is inflight and has a heartbeat.
    pub(crate) fn take_over(
        table: &HudiTable,
        timeline: TimelineWriter,
        instant: Instant,
        heartbeat: Heartbeat,
        has_tasks: bool,
    ) -> Self {
        let files = DataFiles::new(table, &instant.requested).arc();
        let (span, table, heartbeat) = (span_of(table, &instant), table.clone(), Some(heartbeat));
        Self { table, timeline, instant, heartbeat, files, inflight: None, has_tasks, earlier: Vec::new(), span }
    }

    /// Lets it wait for writes of Hudi that were requested before it and have not looked at the table yet, by the timeline that
    /// was loaded when it was taken over.
    #[must_use]
    pub(crate) fn behind(self, timeline: &Timeline) -> Self {
        Self { earlier: unbegun::before(timeline, Some(&self.instant.requested)), ..self }
    }

    /// The instant.
    pub(crate) fn instant(&self) -> &Instant {
        &self.instant
    }

    /// Requested time.
    pub(crate) fn requested(&self) -> &str {
        &self.instant.requested
    }

    /// The table.
    pub(crate) fn table(&self) -> &HudiTable {
        &self.table
    }

    /// Makes transitions on its timeline.
    pub(crate) fn timeline(&self) -> &TimelineWriter {
        &self.timeline
    }

    /// Takes the table lock before the action is completed, which is then done while it is held.
    ///
    /// # Errors
    /// `Lock`; `Storage`.
    pub(crate) fn hold_lock(&mut self) -> Result<LockGuard> {
        let held = self.timeline.lock().acquire()?;
        self.timeline = self.timeline.clone().with_lock(self.timeline.lock().holding(&held));
        Ok(held)
    }

    /// Makes the data files of this process.
    pub(crate) fn files(&self) -> &Arc<DataFiles> {
        &self.files
    }

    /// Waits until the action is inflight, before it changes what readers see.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn started(&mut self) -> Result<()> {
        self.inflight.take().map_or(Ok(()), |inflight| inflight.wait()?)
    }

    /// Publishes the action with this metadata. `follow`: what it means for the metadata table. Removes data files that
    /// are not in `reported`. `check` looks for conflicts under the table lock.
    ///
    /// # Errors
    /// `Conflict` if the instant is no longer inflight, if another process took it over, or by `check`; `Lock`;
    /// `Storage`. Then the action is invisible.
    pub(crate) fn complete(
        &mut self,
        body: Vec<u8>,
        follow: Follow<'_>,
        reported: &HashSet<&str>,
        check: impl FnOnce(&Timeline) -> Result<()>,
    ) -> Result<Completed> {
        let _publish =
            self.span.in_scope(|| tracing::debug_span!("publish", instant = %self.instant.requested).entered());
        self.started()?;
        // Log files have their place in a file group by the time at which they are completed.
        if reported.iter().any(|path| !path.rsplit('/').next().is_some_and(|name| name.starts_with('.'))) {
            unbegun::wait(&self.table, &self.timeline, std::mem::take(&mut self.earlier))?;
        }
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let heartbeat = self.heartbeat.as_ref();
        let own = || heartbeat.map_or(Ok(()), Heartbeat::check);
        let ahead = metadata_table::look_ahead(&self.table, requested, follow)?;
        let look = |held: &LockGuard| {
            // The metadata table is not changed any more once the lock is lost: others change it then.
            let table = self.table.locked(held);
            let (found, ()) = both(storage.is_remote(), || metadata_table::look(&table), own)?;
            Ok((table, found))
        };
        let mut warnings = Vec::new();
        let done = self.timeline.complete(&self.instant, body, look, |timeline, (table, metadata_table)| {
            check(timeline)?;
            if self.has_tasks {
                // Files of failed or repeated task attempts would become visible with the action, so they are deleted
                // first.
                remove_unreported_files(storage, requested, reported)?;
            }
            let new_time = |newest: Option<&str>| self.timeline.new_time(newest.max(timeline.newest_time()));
            warnings = metadata_table.follow(&table, timeline, requested, (follow, ahead), new_time)?;
            Ok(())
        });
        let done = done.map_err(|e| self.lost(e, reported))?;
        let mut completed = self.end(done, reported);
        completed.warnings.splice(0..0, warnings);
        Ok(completed)
    }

    /// Removes the markers and the heartbeat.
    fn end(&mut self, done: Published, reported: &HashSet<&str>) -> Completed {
        let (storage, requested) = (self.table.storage(), self.instant.requested.clone());
        let Published { instant, timeline, released } = done;
        let (mut warnings, mut removed) = (Vec::new(), None);
        if self.has_tasks || !storage.is_remote() {
            // A repeated task attempt may have published a file while the action was completed.
            warnings = clean_up(storage, &requested, reported, self.has_tasks);
            self.heartbeat = None;
        } else {
            let mut paths = self.files.markers();
            paths.extend(self.heartbeat.take().map(Heartbeat::into_path));
            let storage = storage.clone();
            let remove = move || {
                let left = interrupt::hold(|| delete_these(&storage, &requested, &paths)).err();
                left.map(|e| markers_left(&requested, &e))
            };
            removed = Some(BackgroundTask::run(true, remove));
        }
        Completed { instant, timeline, warnings, ending: Ending { _released: released, removed } }
    }

    /// The error of an action that was not completed, because another process took it over or rolled it back. Its files are
    /// removed.
    fn lost(&self, error: Error, reported: &HashSet<&str>) -> Error {
        let is_lost = matches!(error.kind(), ErrorKind::Conflict | ErrorKind::Lock) && !error.is_outdated_plan();
        if is_lost && let Err(left) = self.remove_lost(reported) {
            tracing::warn!(instant = %self.instant, "files of an action that is over were left: {left}");
        }
        error
    }

    /// Removes the files that this process wrote, unless the action is a write that is still to be rolled back: a file that
    /// was written after a rollback, or another try, had looked for them would stay, and look like one of a commit.
    fn remove_lost(&self, reported: &HashSet<&str>) -> Result<()> {
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let mut files = self.files.marked();
        files.extend(reported.iter().map(|path| (*path).to_owned()));
        // Never a file that another action wrote.
        let written = |path: &String| written_at(&FileMeta { path: path.clone(), size: 0, modified_ms: 0 });
        files.retain(|path| written(path).is_some_and(|instant| instant == *requested));
        if files.is_empty() {
            return Ok(());
        }
        let now = self.timeline.load()?;
        let is_plan = |i: &Instant| matches!(i.action, Action::Compaction | Action::Clustering);
        if now.pending().any(|i| i.requested == *requested && !is_plan(i)) {
            return Ok(());
        }
        if let Some(done) = completed_metadata(storage, &now, requested)? {
            let stats: Vec<_> = done.partition_to_write_stats.into_values().flatten().collect();
            let named = reported_files(&stats);
            files.retain(|path| !named.contains(path.as_str()));
        }
        storage.delete_all(&files)?;
        delete_these(storage, requested, &self.files.markers())
    }

    /// Removes an action that cannot be published from the timeline, with its files. It was never visible, so no
    /// rollback instant is needed. After a crash in between, the next writer rolls it back.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn take_back(&mut self) -> Result<()> {
        if let Some(inflight) = self.inflight.take() {
            // The inflight file may or may not exist.
            let _ = inflight.wait()?;
        }
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        // Files before their markers: a rollback finds them by these.
        let remove_files = || {
            if self.has_tasks || !storage.is_remote() {
                storage.delete_all(&marked_files(storage, requested)?.unwrap_or_default())?;
                return delete_markers(storage, requested);
            }
            // Only this process has marked any.
            storage.delete_all(&self.files.marked())?;
            delete_these(storage, requested, &self.files.markers())
        };
        both(storage.is_remote(), remove_files, || forget(&self.table, requested))?;
        self.timeline.remove_pending(&Instant { state: State::Inflight, ..self.instant.clone() })
    }
}

/// Takes back what an action committed to the metadata table that did not complete on the table, before its instant leaves
/// the timeline or is begun anew.
///
/// # Errors
/// `Corrupt`; `Storage`.
pub(crate) fn forget(table: &HudiTable, requested: &str) -> Result<()> {
    forget_all(table, &[requested])
}

/// The same of several actions.
///
/// # Errors
/// Those of [`forget`].
pub(crate) fn forget_all(table: &HudiTable, requested: &[&str]) -> Result<()> {
    match remove_instants(table.storage(), table.config().timeline(), requested) {
        // Nobody reads a damaged one, and it is about to be dropped: this must not keep the action that does so from it.
        Err(e) if e.kind() == ErrorKind::Corrupt && !metadata_table::is_wanted(table)? => Ok(()),
        done => done,
    }
}

fn span_of(table: &HudiTable, instant: &Instant) -> tracing::Span {
    tracing::info_span!("transaction", table = table.storage().uri(), instant = %instant)
}
