//! One action on a table, from its instant to its end: what all writes and table services have in common.
//!
//! | step | what |
//! |---|---|
//! | begin | heartbeat, then the instant, requested and inflight, under the table lock; or a plan that is on the timeline is taken over |
//! | [`DataFiles`] | marker, then the data file, then its write stat |
//! | complete | under the lock: the timeline as it is now, the check against what others did, the metadata table, then the completed instant |
//! | after | markers and heartbeat go, the lock is given back |
//!
//! Nobody sees anything of an action before it is completed. What it leaves when it ends before that, the next write rolls
//! back: its markers tell which files those are.

mod data_files;
mod metadata_table;

use std::collections::HashSet;
use std::sync::Arc;

use crate::error::Result;
use crate::file_group::markers::{clean_up, delete_markers, marked_files, markers_left, remove_unreported_files};
use crate::format::instant::{Action, Instant, State};
use crate::interrupt;
use crate::parallel::{Later, both};
use crate::table::HudiTable;
use crate::timeline::{Heartbeat, LockGuard, Published, Timeline, TimelineWriter};

pub use data_files::DataFiles;
pub use metadata_table::drop_metadata_table;

/// An action that is under way.
pub struct Transaction {
    table: HudiTable,
    timeline: TimelineWriter,
    instant: Instant,
    /// `None` once it has ended.
    heartbeat: Option<Heartbeat>,
    files: Arc<DataFiles>,
    /// The inflight file, where it is still on its way.
    inflight: Option<Later<Result<()>>>,
    /// Whether tasks of other processes make data files, perhaps several for one.
    has_tasks: bool,
    /// From its beginning to its end, in the log.
    span: tracing::Span,
}

/// An action that has been completed.
pub struct Completed {
    /// The action.
    pub instant: Instant,
    /// The timeline with it.
    pub timeline: Timeline,
    /// What went wrong after it was published; it stands all the same.
    pub warnings: Vec<String>,
    /// What goes on behind it, until this is dropped.
    pub ending: Ending,
}

/// Work that only has to end before the call does: giving back the lock, removing markers and heartbeat.
pub struct Ending {
    _released: Later<()>,
    removed: Option<Later<Option<String>>>,
}

impl Ending {
    /// Waits for the end. What went wrong by then; the action stands all the same.
    pub fn finish(self) -> Option<String> {
        // An interrupt ends no waiting that drops it: the work is waited for either way.
        self.removed.and_then(|removed| removed.wait().ok().flatten())
    }
}

impl Transaction {
    /// Takes an instant and puts it on the timeline, inflight. `plan` makes the content of the requested file, from the
    /// timeline as it is under the lock; `profile` is that of the inflight one. `held`: the table lock, where the caller holds it for all of the action. `has_tasks`:
    /// whether other processes make its files.
    ///
    /// # Errors
    /// `Conflict` while a restore is unfinished; `Lock`; `Storage`.
    pub fn begin(
        table: &HudiTable,
        action: Action,
        held: Option<&LockGuard>,
        has_tasks: bool,
        plan: impl FnOnce(&Timeline) -> Result<Vec<u8>>,
        profile: Vec<u8>,
    ) -> Result<Self> {
        let timeline = table.timeline_writer()?;
        let timeline = match held {
            Some(held) => timeline.clone().with_lock(timeline.lock().holding(held)),
            None => timeline,
        };
        // Before the instant is there: without a heartbeat it would look like one that failed.
        let alive = |time: &str| match action.is_write() {
            true => Heartbeat::of_write(table.storage(), time),
            false => Heartbeat::start(table.storage(), time),
        };
        let begun = timeline.begin(action, alive, |timeline, _| plan(timeline), profile)?;
        let files = DataFiles::new(table, &begun.instant.requested).arc();
        Ok(Self {
            span: span_of(table, &begun.instant),
            table: table.clone(),
            timeline,
            instant: begun.instant,
            heartbeat: Some(begun.alive),
            files,
            inflight: Some(begun.inflight),
            has_tasks,
        })
    }

    /// Goes on with an instant that is inflight, and whose heartbeat is shown already.
    pub fn take_over(
        table: &HudiTable,
        timeline: TimelineWriter,
        instant: Instant,
        heartbeat: Heartbeat,
        has_tasks: bool,
    ) -> Self {
        let files = DataFiles::new(table, &instant.requested).arc();
        let (span, table, heartbeat) = (span_of(table, &instant), table.clone(), Some(heartbeat));
        Self { table, timeline, instant, heartbeat, files, inflight: None, has_tasks, span }
    }

    /// The instant.
    pub fn instant(&self) -> &Instant {
        &self.instant
    }

    /// Requested time.
    pub fn requested(&self) -> &str {
        &self.instant.requested
    }

    /// The table.
    pub fn table(&self) -> &HudiTable {
        &self.table
    }

    /// Makes transitions on its timeline.
    pub fn timeline(&self) -> &TimelineWriter {
        &self.timeline
    }

    /// Makes the data files of this process.
    pub fn files(&self) -> &Arc<DataFiles> {
        &self.files
    }

    /// Waits until the action is inflight, before it changes what readers see.
    ///
    /// # Errors
    /// `Storage`.
    pub fn started(&mut self) -> Result<()> {
        self.inflight.take().map_or(Ok(()), |inflight| inflight.wait()?)
    }

    /// Publishes the action with this metadata. Data files that are not among the `reported` ones are removed; `check` may
    /// refuse, under the table lock, for what others did meanwhile.
    ///
    /// # Errors
    /// `Conflict` when the instant is no longer inflight, when another process took it over, or by `check`; `Lock`;
    /// `Storage`. Then nothing is visible of the action.
    pub fn complete(
        &mut self,
        body: Vec<u8>,
        reported: &HashSet<&str>,
        check: impl FnOnce(&Timeline) -> Result<()>,
    ) -> Result<Completed> {
        let _publish =
            self.span.in_scope(|| tracing::debug_span!("publish", instant = %self.instant.requested).entered());
        self.started()?;
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let heartbeat = self.heartbeat.as_ref();
        let own = || heartbeat.map_or(Ok(()), Heartbeat::check);
        let look = || both(storage.is_remote(), || metadata_table::look(storage), own);
        let done = self.timeline.complete(&self.instant, body, look, |timeline, (metadata_table, ())| {
            check(timeline)?;
            if self.has_tasks {
                // Files of failed or doubled task attempts would be visible with the action, so they go before it.
                remove_unreported_files(storage, requested, reported)?;
            }
            metadata_table.drop(&self.table)
        })?;
        Ok(self.end(done, reported))
    }

    /// Removes what showed that the action was under way.
    fn end(&mut self, done: Published, reported: &HashSet<&str>) -> Completed {
        let (storage, requested) = (self.table.storage(), self.instant.requested.clone());
        let Published { instant, timeline, released } = done;
        let (mut warnings, mut removed) = (Vec::new(), None);
        if self.has_tasks || !storage.is_remote() {
            // A doubled task attempt may have published a file while the action was completed.
            warnings = clean_up(storage, &requested, reported, self.has_tasks);
            self.heartbeat = None;
        } else {
            let mut paths = self.files.markers();
            paths.extend(self.heartbeat.take().map(Heartbeat::into_path));
            let storage = storage.clone();
            let remove = move || {
                let left = interrupt::hold(|| storage.delete_all(&paths)).err();
                left.map(|e| markers_left(&requested, &e))
            };
            removed = Some(Later::run(true, remove));
        }
        Completed { instant, timeline, warnings, ending: Ending { _released: released, removed } }
    }

    /// Takes an action that cannot be published off the timeline, with all that it wrote. Nobody has seen anything of it,
    /// so no rollback is left behind. What a crash in the middle leaves, the next writer rolls back.
    ///
    /// # Errors
    /// `Storage`.
    pub fn take_back(&mut self) -> Result<()> {
        if let Some(inflight) = self.inflight.take() {
            // Whether or not it got there, it goes.
            let _ = inflight.wait()?;
        }
        let (storage, requested) = (self.table.storage(), &self.instant.requested);
        let marked = marked_files(storage, requested)?.unwrap_or_default();
        marked.iter().try_for_each(|path| storage.delete(path).map(|_| ()))?;
        delete_markers(storage, requested)?;
        self.timeline.remove_pending(&Instant { state: State::Inflight, ..self.instant.clone() })
    }
}

fn span_of(table: &HudiTable, instant: &Instant) -> tracing::Span {
    tracing::info_span!("transaction", table = table.storage().uri(), instant = %instant)
}
