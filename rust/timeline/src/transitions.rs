//! State transitions of instants: which are valid (pure), and how each is made on storage (atomic).

use std::time::{Duration, Instant as Moment};

use bytes::Bytes;

use super::active::instant_path;
use super::{LockGuard, TableLock, TimeGenerator, Timeline, TimelineConfig, WriterLease, table_lock};
use hoodoo_format::instant::{Action, Instant, Layout, State};
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::{BackgroundTask, both};
use hoodoo_storage::Storage;

/// How long a writer waits for the lock and finds the file that it has written before. Whoever has the lock removes files that
/// are twice as old, which killed processes may have left.
const STAGED_FOR: Duration = Duration::from_secs(5);

/// A transition of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transition {
    /// Creates the requested instant.
    Request,
    /// Makes it inflight.
    Start,
    /// Completes it.
    Complete,
    /// Makes an inflight table service requested again, so that it can be retried.
    Revert,
    /// Makes a completed action inflight again, so that it can be rolled back.
    Reopen,
}

/// Returns the state after a transition, or an error if the transition is not valid.
pub(crate) fn next_state(from: Option<State>, action: Action, transition: Transition) -> Result<State> {
    match (from, transition) {
        // A savepoint has no plan.
        (None, Transition::Request) if action != Action::Savepoint => Ok(State::Requested),
        (None, Transition::Start) if action == Action::Savepoint => Ok(State::Inflight),
        // Starting again is a retry.
        (Some(State::Requested | State::Inflight), Transition::Start) => Ok(State::Inflight),
        (Some(State::Inflight), Transition::Complete) => Ok(State::Completed),
        (Some(State::Inflight), Transition::Revert) => Ok(State::Requested),
        (Some(State::Completed), Transition::Reopen) => Ok(State::Inflight),
        _ => Err(Error::conflict(format!(
            "a {action} that is {} cannot {}",
            from.map_or("not on the timeline", State::name),
            match transition {
                Transition::Request => "be requested",
                Transition::Start => "start",
                Transition::Complete => "complete",
                Transition::Revert => "become requested again",
                Transition::Reopen => "become inflight again",
            }
        ))),
    }
}

/// An action that has just begun.
pub struct Begun<H> {
    /// The action, inflight.
    pub instant: Instant,
    /// Its heartbeat.
    pub heartbeat: H,
    /// Waits for its inflight file, which may still be in flight to the store; the lock is held until then.
    pub inflight: BackgroundTask<Result<()>>,
}

/// An action that has just completed.
pub struct Published {
    /// The action.
    pub instant: Instant,
    /// The timeline with it.
    pub timeline: Timeline,
    /// Waits until the lock is released.
    pub released: BackgroundTask<()>,
}

/// Makes transitions on the timeline of one table.
#[derive(Clone)]
pub struct TimelineWriter {
    storage: Storage,
    config: TimelineConfig,
    time: TimeGenerator,
    lock: TableLock,
}

impl TimelineWriter {
    /// A writer for layout 2 timelines.
    pub fn new(storage: Storage, config: TimelineConfig, time: TimeGenerator) -> Result<Self> {
        if config.layout == Layout::V1 {
            return Err(Error::unsupported("writing to tables of version 6 is not supported")
                .with("table", storage.uri())
                .remedy("Upgrade the table: t.upgrade(), hoodoo upgrade, or hoodie.write.auto.upgrade=true for the write. Readers older than Hudi 1.0 cannot read it then"));
        }
        let lock = table_lock(storage.uri());
        Ok(Self { storage, config, time, lock })
    }

    /// The same writer with this lock.
    #[must_use]
    pub fn with_lock(self, lock: TableLock) -> Self {
        Self { lock, ..self }
    }

    /// The table lock. Not re-entrant.
    pub fn lock(&self) -> &TableLock {
        &self.lock
    }

    /// Waits for the writer lease.
    ///
    /// # Errors
    /// Those of [`TableLock::acquire_writer_lease`].
    pub fn acquire_writer_lease(&self) -> Result<WriterLease> {
        self.lock.acquire_writer_lease(&self.storage, &self.config)
    }

    /// The right to run table services behind a commit, if no other thread or process of this machine has it.
    ///
    /// # Errors
    /// Those of [`TableLock::try_services_lease`].
    pub fn try_services_lease(&self) -> Result<Option<WriterLease>> {
        self.lock.try_services_lease(&self.storage)
    }

    /// Loads the timeline.
    pub fn load(&self) -> Result<Timeline> {
        Timeline::load(&self.storage, &self.config)
    }

    /// A new time after this one, the newest that there is. The caller holds the lock.
    ///
    /// # Errors
    /// Those of [`TimeGenerator::generate`].
    pub fn new_time(&self, newest: Option<&str>) -> Result<String> {
        self.time.generate(newest)
    }

    /// Generates a new instant time and creates `T.<action>.requested` with the plan for it.
    pub fn request(&self, action: Action, plan: impl FnOnce(&str) -> Result<Vec<u8>>) -> Result<Instant> {
        self.request_on(action, |_, time| plan(time))
    }

    /// The same for a plan that depends on the newest timeline, loaded under the lock.
    pub fn request_on(&self, action: Action, plan: impl FnOnce(&Timeline, &str) -> Result<Vec<u8>>) -> Result<Instant> {
        let held = self.lock.acquire()?;
        let timeline = self.load()?;
        self.refuse_restore(&timeline)?;
        let requested = self.time.generate(timeline.newest_time())?;
        let body = plan(&timeline, &requested).map_err(|e| held.explain(e))?;
        held.check()?;
        self.request_at(action, requested, body)
    }

    /// Creates `T.<action>.requested` for a time that was generated before. The caller holds the lock.
    fn request_at(&self, action: Action, requested: String, body: Vec<u8>) -> Result<Instant> {
        let state = next_state(None, action, Transition::Request)?;
        let instant = Instant { requested, action, state, completed: None };
        let path = self.path(&instant);
        // A plan must be durable now; an instant without one is synced when it starts.
        let created =
            if body.is_empty() { self.storage.create(&path, body) } else { self.storage.create_durable(&path, body) };
        created.map_err(|e| e.with("instant", &instant))?;
        Ok(instant)
    }

    /// Creates an action on the timeline, requested and inflight at once. `heartbeat` starts its heartbeat, before the
    /// instant exists; `plan` makes the content of the requested file, under the lock. `known`: the timeline, if the caller
    /// has held the lock since it was loaded.
    ///
    /// # Errors
    /// `Conflict` while a restore is pending; `Lock`; `Storage`; those of `heartbeat` and `plan`.
    pub fn begin<H: Send>(
        &self,
        action: Action,
        heartbeat: impl Fn(&str) -> Result<H> + Sync,
        plan: impl FnOnce(&Timeline, &str) -> Result<Vec<u8>>,
        profile: Vec<u8>,
        known: Option<&Timeline>,
    ) -> Result<Begun<H>> {
        let held = self.lock.acquire()?;
        let early = if self.storage.is_remote() { self.time.early()? } else { None };
        let show = || early.map(|time| Ok((heartbeat(&time)?, time))).transpose();
        let load = || known.map_or_else(|| self.load(), |timeline| Ok(timeline.clone()));
        let (timeline, early) = both(self.storage.is_remote() && known.is_none(), load, show)?;
        self.refuse_restore(&timeline)?;
        let is_newest = |time: &str| timeline.newest_time().is_some_and(|newest| time > newest);
        let (heartbeat, requested) = match early.filter(|(_, time)| is_newest(time)) {
            Some(early) => early,
            None => {
                let time = self.time.generate(timeline.newest_time())?;
                (heartbeat(&time)?, time)
            }
        };
        let body = plan(&timeline, &requested).map_err(|e| held.explain(e))?;
        held.check()?;
        let requested = self.request_at(action, requested, body)?;
        let started = Instant { state: State::Inflight, ..requested.clone() };
        let (writer, instant) = (self.clone(), started.clone());
        held.leave_thread();
        // The caller waits for it where it needs it; until then the first data file can be prepared.
        let inflight = BackgroundTask::run(self.storage.is_remote(), move || {
            let created = writer.create_inflight(&instant, profile);
            drop(held);
            created
        });
        Ok(Begun { instant: started, heartbeat, inflight })
    }

    fn refuse_restore(&self, timeline: &Timeline) -> Result<()> {
        match timeline.pending().find(|i| i.action == Action::Restore) {
            None => Ok(()),
            Some(restore) => Err(Error::conflict("a restore of the table is pending")
                .with("table", self.storage.uri())
                .with("instant", restore)
                .remedy("Finish the restore first: t.restore(the savepoint)")),
        }
    }

    /// Creates `T.<action>.inflight`. The caller loaded a timeline with the requested instant after its heartbeat was
    /// visible: no other process removes the instant any more.
    pub fn start(&self, instant: &Instant, body: Vec<u8>) -> Result<Instant> {
        let state = next_state(Some(instant.state), instant.action, Transition::Start)?;
        let started = Instant { state, ..instant.clone() };
        match self.create_inflight(&started, body) {
            // A retry finds the file of the first attempt.
            Err(e) if e.kind() == ErrorKind::AlreadyExists && instant.state == State::Inflight => Ok(started),
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                Err(Error::conflict("another process has started this instant")
                    .with("table", self.storage.uri())
                    .with("instant", instant))
            }
            other => other.map(|()| started),
        }
    }

    fn create_inflight(&self, started: &Instant, body: Vec<u8>) -> Result<()> {
        self.storage.create(&self.path(started), body).map_err(|e| e.with("instant", started))?;
        // Synced before the first data file: a data file that outlives its instant would look like one of an archived
        // commit.
        self.storage.sync()
    }

    /// Publishes: creates `T_C.<final action>`. Under the lock, which it gets, `look` runs while the timeline is loaded, and
    /// `before` gets the results of both, just before the instant becomes visible.
    ///
    /// # Errors
    /// `Conflict` if the instant is no longer inflight; `Lock`; `Storage`; those of `look` and `before`.
    pub fn complete<B: Send>(
        &self,
        instant: &Instant,
        body: Vec<u8>,
        look: impl FnOnce(&LockGuard) -> Result<B> + Send,
        before: impl FnOnce(&Timeline, B) -> Result<()>,
    ) -> Result<Published> {
        let state = next_state(Some(instant.state), instant.action, Transition::Complete)?;
        let body = Bytes::from(body);
        // Before the lock, for which others wait: the files of the write become durable, and this one too.
        let staged = self.storage.stage(&self.path(instant), body.clone())?;
        self.storage.sync()?;
        let asked = Moment::now();
        let held = self.lock.acquire()?;
        let staged = if asked.elapsed() > STAGED_FOR {
            // Dropped first: the next one may get its name.
            drop(staged);
            self.storage.stage(&self.path(instant), body.clone())?
        } else {
            staged
        };
        let looked = both(self.storage.is_remote(), || self.load(), || look(&held));
        let (timeline, found) = looked.map_err(|e| held.explain(e))?;
        let known = timeline
            .instants()
            .iter()
            .find(|i| i.requested == instant.requested && i.action.completed_as() == instant.action.completed_as());
        match known.map(|i| i.state) {
            Some(State::Inflight) => {}
            Some(State::Completed) => {
                return Err(Error::conflict("another process completed the instant")
                    .with("table", self.storage.uri())
                    .with("instant", instant));
            }
            _ => return Err(self.vanished(instant)),
        }
        held.check()?;
        before(&timeline, found).map_err(|e| held.explain(e))?;
        let completed = self.time.generate(timeline.newest_time())?;
        let done = Instant { state, completed: Some(completed), ..instant.clone() };
        let path = self.path(&done);
        // If another writer holds the lock now, it may have rolled this write back.
        held.verify().map_err(|e| e.with("instant", instant))?;
        // The last point at which the call can be interrupted: from here on the instant may be visible.
        interrupt::check()?;
        interrupt::hold(|| self.storage.publish(staged, &path)).map_err(|e| e.with("instant", instant))?;
        self.storage.cache_unchanging(&path, &body);
        let instant = Instant { action: instant.action.completed_as(), ..done };
        let timeline = timeline.with_completed(&instant, path);
        Ok(Published { instant, timeline, released: held.release_later() })
    }

    /// Makes an inflight table service requested again, so that it can be retried. The caller has removed the files of
    /// the failed attempt.
    pub fn revert(&self, instant: &Instant) -> Result<Instant> {
        let state = next_state(Some(instant.state), instant.action, Transition::Revert)?;
        let planned = Instant { state, completed: None, ..instant.clone() };
        let held = self.lock.acquire()?;
        if !self.storage.exists(&self.path(&planned))? {
            return Err(self.vanished(&planned));
        }
        held.verify()?;
        self.storage.sync()?;
        self.storage.delete(&self.path(instant))?;
        Ok(planned)
    }

    /// Makes completed actions inflight again, one after the other: from then on nobody sees what they did, and they are
    /// rolled back like actions that never completed. The caller holds the lock, under which the timeline was loaded.
    ///
    /// # Errors
    /// `Conflict` for an action that is not completed; `Storage`. Then the actions before it are inflight.
    pub fn reopen<'a>(&self, timeline: &Timeline, actions: impl Iterator<Item = &'a Instant>) -> Result<()> {
        for instant in actions {
            next_state(Some(instant.state), instant.action, Transition::Reopen)?;
            let files = timeline.files_of(&instant.requested);
            let is_of = |i: &Instant| i.action.completed_as() == instant.action.completed_as();
            // It says what the files are of as long as they are there.
            if !files.iter().any(|(i, _)| is_of(i) && i.state == State::Inflight) {
                self.create_inflight(
                    &Instant { state: State::Inflight, completed: None, ..instant.clone() },
                    Vec::new(),
                )?;
            }
            for (_, file) in files.iter().filter(|(i, _)| is_of(i) && i.is_completed()) {
                self.storage.delete(&file.path)?;
            }
        }
        self.storage.sync()
    }

    /// Removes all files of an action: the completed one first, by which it is visible. With a write goes a savepoint of it
    /// that was begun. The caller holds the lock, under which the timeline was loaded. Returns whether there were any.
    ///
    /// # Errors
    /// `Storage`.
    pub fn remove(&self, timeline: &Timeline, requested: &str, action: Action) -> Result<bool> {
        // The files of the action must be deleted, and that be durable, while the instant still says whose they are.
        self.storage.sync()?;
        if action != Action::Savepoint {
            for file in timeline.files_of_begun_savepoint(requested) {
                self.storage.delete(&file.path)?;
            }
        }
        self.delete_by_state(timeline, requested, action, [State::Completed, State::Inflight, State::Requested])
    }

    /// Removes a savepoint: the completed file last. Until then the savepoint stands, and afterwards nothing is left of it.
    /// The caller holds the lock, under which the timeline was loaded. Returns whether there was one.
    ///
    /// # Errors
    /// `Storage`.
    pub fn remove_savepoint(&self, timeline: &Timeline, requested: &str) -> Result<bool> {
        let states = [State::Inflight, State::Requested, State::Completed];
        self.delete_by_state(timeline, requested, Action::Savepoint, states)
    }

    fn delete_by_state(
        &self,
        timeline: &Timeline,
        requested: &str,
        action: Action,
        states: [State; 3],
    ) -> Result<bool> {
        let files = timeline.files_of(requested);
        let of_action: Vec<_> =
            files.iter().filter(|(i, _)| i.action.completed_as() == action.completed_as()).collect();
        for state in states {
            for (_, file) in of_action.iter().filter(|(i, _)| i.state == state) {
                self.storage.delete(&file.path)?;
            }
        }
        Ok(!of_action.is_empty())
    }

    /// Removes the files of a pending instant; of a table service the inflight one first.
    pub fn remove_pending(&self, instant: &Instant) -> Result<()> {
        // The files of the instant must be deleted, and that be durable, while the instant still says whose they are.
        self.storage.sync()?;
        let path = |state| self.path(&Instant { state, completed: None, ..instant.clone() });
        let paths = [State::Inflight, State::Requested].map(path);
        // Without its plan, an inflight table service would be damaged; a write has none.
        if matches!(instant.action, Action::Commit | Action::DeltaCommit) {
            return self.storage.delete_all(&paths);
        }
        paths.iter().try_for_each(|path| self.storage.delete(path).map(|_| ()))
    }

    fn path(&self, instant: &Instant) -> String {
        instant_path(&self.config, instant)
    }

    fn vanished(&self, instant: &Instant) -> Error {
        Error::conflict("the instant is no longer on the timeline: another writer rolled it back")
            .with("table", self.storage.uri())
            .with("instant", instant)
            .remedy("Write again. If writers run on several machines, set hoodie.write.lock.provider for all of them")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{SystemClock, TimeZone};
    use hoodoo_storage::StorageOptions;
    use std::sync::Arc;

    fn writer(name: &str) -> TimelineWriter {
        let storage = Storage::open(&format!("memory://{name}/t"), &StorageOptions::new()).unwrap();
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: ".hoodie/timeline".into(),
            history_folder: ".hoodie/timeline/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let time = TimeGenerator::new(Arc::new(SystemClock), TimeZone::Utc, 1);
        TimelineWriter::new(storage, config, time).unwrap()
    }

    fn complete(w: &TimelineWriter, instant: &Instant) -> Result<Instant> {
        Ok(w.complete(instant, b"x".to_vec(), |_| Ok(()), |_, ()| Ok(()))?.instant)
    }

    #[test]
    fn every_other_transition_is_refused() {
        use State::*;
        let all = [Transition::Request, Transition::Start, Transition::Complete, Transition::Revert];
        for from in [None, Some(Requested), Some(Inflight), Some(Completed)] {
            for t in all {
                let ok = next_state(from, Action::Commit, t).is_ok();
                let wanted = matches!(
                    (from, t),
                    (None, Transition::Request)
                        | (Some(Requested | Inflight), Transition::Start)
                        | (Some(Inflight), Transition::Complete | Transition::Revert)
                );
                assert_eq!(ok, wanted, "{from:?} {t:?}");
            }
        }
        assert!(next_state(None, Action::Savepoint, Transition::Start).is_ok());
        assert!(next_state(None, Action::Savepoint, Transition::Request).is_err());
    }

    #[test]
    fn a_write_goes_through_its_states_once() {
        let w = writer("transitions-1");
        let requested = w.request(Action::Commit, |_| Ok(vec![])).unwrap();
        assert!(complete(&w, &requested).is_err());
        let started = w.start(&requested, vec![]).unwrap();
        let done = complete(&w, &started).unwrap();
        assert!(done.completed.as_deref().unwrap() > done.requested.as_str());
        assert_eq!(complete(&w, &started).unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(w.load().unwrap().instants(), [done]);
    }

    #[test]
    fn a_begun_service_goes_back_to_its_plan() {
        let w = writer("transitions-3");
        let started = w.start(&w.request(Action::Compaction, |_| Ok(b"plan".to_vec())).unwrap(), vec![]).unwrap();
        let planned = w.revert(&started).unwrap();
        assert_eq!(w.load().unwrap().instants(), std::slice::from_ref(&planned));
        assert_eq!(w.revert(&planned).unwrap_err().kind(), ErrorKind::Conflict);
        let done = complete(&w, &w.start(&planned, vec![]).unwrap()).unwrap();
        assert_eq!((done.action, w.revert(&done).unwrap_err().kind()), (Action::Commit, ErrorKind::Conflict));
    }

    #[test]
    fn a_write_that_was_rolled_back_cannot_complete() {
        let w = writer("transitions-2");
        let started = w.start(&w.request(Action::Commit, |_| Ok(vec![])).unwrap(), vec![]).unwrap();
        w.remove_pending(&started).unwrap();
        assert_eq!(complete(&w, &started).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(w.load().unwrap().instants().is_empty());
    }
}
