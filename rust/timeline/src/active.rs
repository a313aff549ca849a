//! A snapshot of the active timeline.

use std::collections::{HashMap, HashSet};

use super::first_active::{behind_history, first_active};
use super::{TimelineConfig, format_instant};
use hoodoo_format::instant::{Action, CommitTimes, Instant, Layout, State};
use hoodoo_runtime::error::Result;
use hoodoo_storage::{FileMeta, ListedFile, SideFiles, Storage};

/// The actions of the active timeline, each in its highest state, by requested time.
#[derive(Debug, Clone)]
pub struct Timeline {
    config: TimelineConfig,
    instants: Vec<Instant>,
    /// Every file of the folder that is an instant, all states, by requested time: archiving and verifying look at them.
    raw: Vec<(Instant, ListedFile)>,
    side_files: SideFiles,
    completion: HashMap<String, String>,
    pending: HashSet<String>,
    /// Planned compactions of a table that was of version 6.
    planned_slices: HashSet<String>,
    /// Instants before this one that are not on the timeline were archived, hence complete.
    first_active: Option<String>,
    /// Later instants are not seen: the timeline is that of a look back.
    until: Option<String>,
}

impl Timeline {
    /// Lists the timeline folder once. Where no write on it says what was archived, looks into the history.
    ///
    /// # Errors
    /// `Corrupt` for a damaged history; `Storage`.
    pub fn load(storage: &Storage, config: &TimelineConfig) -> Result<Self> {
        let mut timeline = Self::list(storage, config)?;
        if let Some(first) = behind_history(timeline.instants(), storage, config)? {
            timeline.first_active = Some(first);
        }
        Ok(timeline)
    }

    fn list(storage: &Storage, config: &TimelineConfig) -> Result<Self> {
        if config.layout == Layout::V2 {
            let named = |file: ListedFile| Instant::parse(file.name()).map(|instant| (instant, file));
            let (files, side_files) = storage.list_names(&config.folder)?;
            let raw: Vec<_> = files.into_iter().filter_map(named).collect();
            // Names have all that is needed, but for legacy ones.
            if raw.iter().all(|(instant, _)| !instant.is_completed() || instant.completed.is_some()) {
                return Ok(Self { side_files, ..Self::from_raw(config.clone(), raw) });
            }
            let files = storage.list(&config.folder)?.files;
            return Ok(Self { side_files, ..Self::from_files(config.clone(), files) });
        }
        let files = storage.list(&config.folder)?.files;
        Ok(Self::from_files(config.clone(), files))
    }

    /// The snapshot that a listing shows.
    pub fn from_files(config: TimelineConfig, files: Vec<FileMeta>) -> Self {
        let raw: Vec<(Instant, ListedFile)> = files
            .into_iter()
            .filter_map(|file| {
                let mut instant = Instant::parse(file.name())?;
                if instant.is_completed() && instant.completed.is_none() {
                    instant.completed = Some(format_instant(file.modified_ms, config.zone));
                }
                Some((instant, file.into()))
            })
            .collect();
        Self::from_raw(config, raw)
    }

    fn from_raw(config: TimelineConfig, mut raw: Vec<(Instant, ListedFile)>) -> Self {
        raw.sort_by(|(a, _), (b, _)| a.requested.cmp(&b.requested));
        // One entry an action: states of a compaction, clustering or log compaction meet under their final name.
        let mut states: Vec<&Instant> = raw.iter().map(|(instant, _)| instant).collect();
        let action = |i: &Instant| i.action.completed_as();
        states.sort_by(|a, b| {
            (&a.requested, action(a), a.state, &a.completed).cmp(&(&b.requested, action(b), b.state, &b.completed))
        });
        let is_last = |at: usize, i: &Instant| {
            states.get(at + 1).is_none_or(|next| next.requested != i.requested || action(next) != action(i))
        };
        let highest = states.iter().enumerate().filter(|(at, i)| is_last(*at, i));
        let instants: Vec<Instant> = highest.map(|(_, i)| (*i).clone()).collect();
        let mut completion = HashMap::new();
        let mut pending = HashSet::new();
        for i in instants.iter().filter(|i| i.action.is_write()) {
            match &i.completed {
                Some(c) => {
                    completion.insert(i.requested.clone(), c.clone());
                }
                None => {
                    pending.insert(i.requested.clone());
                }
            }
        }
        let is_planned = |i: &&Instant| config.was_version_6 && !i.is_completed() && i.action == Action::Compaction;
        let planned_slices = instants.iter().filter(is_planned).map(|i| i.requested.clone()).collect();
        let first_active = first_active(&instants);
        let side_files = SideFiles::default();
        Self { config, instants, raw, side_files, completion, pending, planned_slices, first_active, until: None }
    }

    /// How the timeline is stored.
    pub fn config(&self) -> &TimelineConfig {
        &self.config
    }

    /// All actions in their highest state, by requested time.
    pub fn instants(&self) -> &[Instant] {
        &self.instants
    }

    /// Every instant file, all states, with its listing entry.
    pub fn raw(&self) -> &[(Instant, ListedFile)] {
        &self.raw
    }

    /// The instant files of one requested time, all actions and states.
    pub fn files_of(&self, requested: &str) -> &[(Instant, ListedFile)] {
        let first = self.raw.partition_point(|(i, _)| i.requested.as_str() < requested);
        let rest = self.raw.get(first..).unwrap_or_default();
        rest.get(..rest.partition_point(|(i, _)| i.requested == requested)).unwrap_or_default()
    }

    /// The files of a savepoint of this write that was begun and not completed: its process was killed, or is at it.
    pub fn files_of_begun_savepoint(&self, requested: &str) -> impl Iterator<Item = &ListedFile> {
        let of_savepoint = || self.files_of(requested).iter().filter(|(i, _)| i.action == Action::Savepoint);
        let is_completed = of_savepoint().any(|(i, _)| i.is_completed());
        of_savepoint().filter(move |_| !is_completed).map(|(_, file)| file)
    }

    /// Whether the action of this requested time is a log compaction, which completes as a delta commit.
    pub fn is_log_compaction(&self, requested: &str) -> bool {
        self.files_of(requested).iter().any(|(instant, _)| instant.action == Action::LogCompaction)
    }

    /// Which of these files have others beside them.
    pub fn side_files(&self) -> &SideFiles {
        &self.side_files
    }

    /// Completed actions that changed what the table holds, by requested time.
    pub fn completed_writes(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.instants.iter().filter(|i| i.is_completed() && i.action.is_write())
    }

    /// Completed instants of one action.
    pub fn completed(&self, action: Action) -> impl DoubleEndedIterator<Item = &Instant> {
        self.instants.iter().filter(move |i| i.is_completed() && i.action == action)
    }

    /// Instants that are requested or inflight.
    pub fn pending(&self) -> impl DoubleEndedIterator<Item = &Instant> {
        self.instants.iter().filter(|i| !i.is_completed())
    }

    /// Whether an action with this requested time is pending that may have written files. A savepoint that is being made has
    /// the requested time of a commit, and writes none.
    pub fn is_pending(&self, requested: &str) -> bool {
        self.pending().any(|i| i.requested == requested && i.action != Action::Savepoint)
    }

    /// Whether files of the write with this requested time may be shown.
    pub fn is_committed(&self, requested: &str) -> bool {
        if self.until.as_deref().is_some_and(|until| requested > until) {
            return false;
        }
        if self.completion.contains_key(requested) {
            return true;
        }
        !self.pending.contains(requested) && self.first_active.as_deref().is_some_and(|first| requested < first)
    }

    /// The instant that is looked back to, of a timeline as it was then.
    pub fn until(&self) -> Option<&str> {
        self.until.as_deref()
    }

    /// Completion time of a write that is still on the active timeline.
    pub fn completion_time(&self, requested: &str) -> Option<&str> {
        self.completion.get(requested).map(String::as_str)
    }

    /// The newest time, requested or completed, that the timeline holds.
    pub fn newest_time(&self) -> Option<&str> {
        self.instants.iter().flat_map(|i| [Some(i.requested.as_str()), i.completed.as_deref()]).flatten().max()
    }

    /// The write instant with the smallest requested time that was not left over by archiving around savepoints.
    pub fn first_active(&self) -> Option<&str> {
        self.first_active.as_deref()
    }

    /// Whether something was written to the table, archived writes among it.
    pub fn is_written(&self) -> bool {
        self.first_active.is_some()
    }

    /// Whether the newest writes may be in the history: those that were left on the timeline were taken back.
    pub fn ends_in_history(&self) -> bool {
        self.first_active().is_some_and(|first| !self.completion.contains_key(first))
    }

    /// Whether nothing has changed since the other snapshot was taken.
    pub fn is_same(&self, other: &Self) -> bool {
        self.config == other.config && self.instants == other.instants
    }

    /// Whether something may have changed the files of the table since an earlier snapshot: a write, a rollback or a
    /// restore that completed since, or one of which this cannot be told because it left the timeline. `requested` is an
    /// action that is pending in both; it does not count.
    pub fn changed_since(&self, earlier: &Self, requested: &str) -> bool {
        let undoes = |i: &Instant| matches!(i.action, Action::Rollback | Action::Restore);
        let counts = |i: &&Instant| i.requested != requested && (i.action.is_write() || undoes(i));
        let completed = |timeline: &'_ Self| -> Vec<Instant> {
            timeline.instants.iter().filter(counts).filter(|i| i.is_completed()).cloned().collect()
        };
        // Archived at once when it completed, or rolled back.
        let is_gone = |i: &Instant| !self.files_of(&i.requested).iter().any(|(now, _)| same_action(now, i));
        // Whatever came after the earlier snapshot and is archived by now was requested later, and so was the first one
        // that is left.
        self.first_active().is_none_or(|first| first > requested)
            || completed(self) != completed(earlier)
            || earlier.pending().filter(counts).any(is_gone)
    }

    /// The timeline as it was for someone who looks back to `requested`: later actions are not there.
    #[must_use]
    pub fn as_of(&self, requested: &str) -> Self {
        let raw = self.raw.iter().filter(|(i, _)| i.requested.as_str() <= requested).cloned().collect();
        let mut cut = Self::from_raw(self.config.clone(), raw);
        cut.first_active.clone_from(&self.first_active);
        cut.until = Some(requested.to_owned());
        cut
    }

    /// The same timeline after an action of it was completed, with the path of the file that says so.
    #[must_use]
    pub(super) fn with_completed(self, instant: &Instant, path: String) -> Self {
        let Self { config, mut raw, side_files, first_active, .. } = self;
        raw.push((instant.clone(), ListedFile { path, size: None }));
        Self { side_files, ..Self::from_raw(config, raw) }.beginning_at(first_active)
    }

    /// The same timeline with an action that was begun and completed since.
    #[must_use]
    pub fn with_action(self, completed: &Instant) -> Self {
        let Self { config, mut raw, side_files, first_active, .. } = self;
        raw.retain(|(i, _)| i.requested != completed.requested);
        let pending =
            [State::Requested, State::Inflight].map(|state| Instant { state, completed: None, ..completed.clone() });
        raw.extend(pending.into_iter().chain([completed.clone()]).map(|instant| {
            let path = instant_path(&config, &instant);
            (instant, ListedFile { path, size: None })
        }));
        Self { side_files, ..Self::from_raw(config, raw) }.beginning_at(first_active)
    }

    /// The same timeline, which does not begin before it did.
    fn beginning_at(mut self, before: Option<String>) -> Self {
        self.first_active = self.first_active.max(before);
        self
    }

    /// The same timeline that knows when archived writes completed: requested and completion times.
    #[must_use]
    pub fn with_archived(mut self, writes: impl IntoIterator<Item = (String, String)>) -> Self {
        for (requested, completed) in writes {
            self.completion.entry(requested).or_insert(completed);
        }
        self
    }

    /// Path of the file of an instant.
    pub fn path(&self, instant: &Instant) -> String {
        instant_path(&self.config, instant)
    }

    /// The content of an instant's file; for a legacy completed name without completion time, the file that is there.
    pub fn read(&self, storage: &Storage, instant: &Instant) -> Result<bytes::Bytes> {
        let (path, is_for_good) = self.file_of(instant);
        let content = if is_for_good { storage.read_unchanging(&path) } else { storage.read(&path) };
        content.map_err(|e| e.with("instant", instant))
    }

    /// Fetches the files of instants beside each other, where each takes a request, so that they are there when they are
    /// read one by one.
    pub fn fetch<'a>(&self, storage: &Storage, instants: impl Iterator<Item = &'a Instant>) {
        if storage.is_remote() {
            let paths: Vec<String> =
                instants.map(|i| self.file_of(i)).filter(|(_, for_good)| *for_good).map(|(path, _)| path).collect();
            storage.fetch_unchanging(&paths);
        }
    }

    /// The path of an instant's file, and whether its content never changes.
    fn file_of(&self, instant: &Instant) -> (String, bool) {
        let stored = self.files_of(&instant.requested).iter().find(|(i, _)| {
            i.action.completed_as() == instant.action.completed_as()
                && i.state == instant.state
                && i.completed == instant.completed
        });
        let path = stored.map_or_else(|| self.path(instant), |(_, file)| file.path.clone());
        // Names of completed instants have the time in them at which they were completed, and plans are made for a time
        // that nobody else has: none is made twice.
        let is_plan = instant.state == State::Requested && !matches!(instant.action, Action::Savepoint);
        let is_for_good = instant.completed.is_some() || is_plan;
        (path, stored.is_some() && is_for_good && self.config.layout == Layout::V2)
    }

    /// Whether bodies of commits are JSON text.
    pub fn commits_are_json(&self) -> bool {
        self.config.layout == Layout::V1
    }
}

impl CommitTimes for Timeline {
    fn is_committed(&self, requested: &str) -> bool {
        Timeline::is_committed(self, requested)
    }

    fn completion_time(&self, requested: &str) -> Option<&str> {
        Timeline::completion_time(self, requested)
    }

    fn logs_name_their_slice(&self) -> bool {
        self.commits_are_json()
    }

    fn is_planned_slice(&self, instant: &str) -> bool {
        self.planned_slices.contains(instant)
    }
}

fn same_action(a: &Instant, b: &Instant) -> bool {
    a.requested == b.requested && a.action.completed_as() == b.action.completed_as()
}

pub(super) fn instant_path(config: &TimelineConfig, instant: &Instant) -> String {
    format!("{}/{}", config.folder, instant.file_name(config.layout))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::TimeZone;

    fn timeline(names: &[&str]) -> Timeline {
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let files = names.iter().map(|n| FileMeta { path: format!("t/{n}"), size: 0, modified_ms: 0 }).collect();
        Timeline::from_files(config, files)
    }

    #[test]
    fn an_action_counts_in_its_highest_state() {
        let t = timeline(&["10.commit.requested", "10.inflight", "10_11.commit", "12.clustering.requested", "x.crc"]);
        assert_eq!(t.instants().len(), 2);
        assert!(t.is_committed("10") && !t.is_committed("12") && t.is_committed("09") && !t.is_committed("13"));
        assert_eq!(t.newest_time(), Some("12"));
        assert_eq!(t.as_of("11").instants().len(), 1);
        let archived = t.as_of("08").with_archived([("07".to_owned(), "09".to_owned())]);
        assert!(archived.is_committed("08") && !archived.is_committed("09") && !archived.is_committed("10"));
        assert_eq!(archived.completion_time("07"), Some("09"));
    }

    #[test]
    fn an_old_failed_write_stays_hidden() {
        let t = timeline(&["05.commit.requested", "10_11.commit"]);
        assert!(!t.is_committed("05") && t.is_committed("04"));
    }

    #[test]
    fn what_may_have_changed_files_since_an_earlier_snapshot() {
        let before = ["02.commit.requested", "02.inflight", "10_11.commit", "12.clustering.requested"];
        let earlier = timeline(&before);
        let changed = |gone: &str, came: &[&str]| {
            let names: Vec<&str> = before.iter().filter(|n| !n.starts_with(gone)).chain(came).copied().collect();
            timeline(&names).changed_since(&earlier, "12")
        };
        assert!(!changed("-", &[]));
        assert!(!changed("-", &["12.clustering.inflight", "14.commit.requested", "15_16.clean"]));
        for came in ["14_15.commit", "14_15.rollback", "02_15.commit"] {
            assert!(changed("-", &[came]), "{came}");
        }
        assert!(changed("02", &[]), "a write that completed after the snapshot and was archived at once");
        assert!(changed("10", &["14_15.commit"]) && changed("10", &[]), "nothing tells what was archived meanwhile");
    }

    #[test]
    fn a_partition_that_a_metadata_table_got_later_is_not_its_first_instant() {
        let (late, first) = ("00000000000000003_40.deltacommit", "00000000000000000_09.deltacommit");
        let t = timeline(&[late, "20_21.deltacommit", "30_31.commit"]);
        assert_eq!(t.first_active(), Some("20"));
        assert!(t.is_committed("10") && t.is_committed("00000000000000003") && !t.is_committed("25"));
        // Nothing is archived: what is not there was never committed.
        let t = timeline(&[first, late, "20_21.deltacommit", "30_31.commit"]);
        assert!(!t.is_committed("10") && t.is_committed("20"));
        assert_eq!(timeline(&[first]).first_active(), Some("00000000000000000"));
    }

    #[test]
    fn what_a_savepoint_held_back_does_not_hide_archived_writes() {
        let t = timeline(&["10_11.commit", "10_11.savepoint", "30_31.commit"]);
        assert!(t.is_committed("20"));
    }
}
