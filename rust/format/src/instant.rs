//! Instants and their file names, for timeline layouts 1 (table version 6) and 2 (versions 8 and 9).
//!
//! | state | layout 2 | layout 1 |
//! |---|---|---|
//! | requested | `T.<action>.requested` | the same |
//! | inflight | `T.<action>.inflight`; a commit: `T.inflight` | the same |
//! | completed | `T_C.<final action>` | `T.<final action>` |
//!
//! `T` is the requested time, `C` the completion time. Compaction completes as `commit`, clustering as
//! `replacecommit`, log compaction as `deltacommit`.

use std::fmt;

/// What an instant does to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// A write of base files, or a finished compaction.
    Commit,
    /// A write of log files (and new base files) to a merge-on-read table, or a finished log compaction.
    DeltaCommit,
    /// A write that replaces file groups, or a finished clustering.
    ReplaceCommit,
    /// A planned clustering.
    Clustering,
    /// A planned compaction.
    Compaction,
    /// A planned log compaction.
    LogCompaction,
    /// Removal of old file slices.
    Clean,
    /// Removal of what a failed write left.
    Rollback,
    /// Going back to a savepoint.
    Restore,
    /// Protection of a commit's files.
    Savepoint,
    /// Building of a metadata-table partition.
    Indexing,
}

impl Action {
    /// All actions.
    pub const ALL: [Action; 11] = [
        Action::Commit,
        Action::DeltaCommit,
        Action::ReplaceCommit,
        Action::Clustering,
        Action::Compaction,
        Action::LogCompaction,
        Action::Clean,
        Action::Rollback,
        Action::Restore,
        Action::Savepoint,
        Action::Indexing,
    ];

    /// The name in file names.
    pub fn name(self) -> &'static str {
        match self {
            Action::Commit => "commit",
            Action::DeltaCommit => "deltacommit",
            Action::ReplaceCommit => "replacecommit",
            Action::Clustering => "clustering",
            Action::Compaction => "compaction",
            Action::LogCompaction => "logcompaction",
            Action::Clean => "clean",
            Action::Rollback => "rollback",
            Action::Restore => "restore",
            Action::Savepoint => "savepoint",
            Action::Indexing => "indexing",
        }
    }

    /// The action of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|a| a.name() == name)
    }

    /// The action under which this one completes.
    pub fn completed_as(self) -> Self {
        match self {
            Action::Clustering => Action::ReplaceCommit,
            Action::Compaction => Action::Commit,
            Action::LogCompaction => Action::DeltaCommit,
            other => other,
        }
    }

    /// Whether a completed instant of this action changes what the table holds (its name, pending or completed).
    pub fn is_write(self) -> bool {
        matches!(self.completed_as(), Action::Commit | Action::DeltaCommit | Action::ReplaceCommit)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far an action has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Planned.
    Requested,
    /// Under way.
    Inflight,
    /// Done and visible.
    Completed,
}

impl State {
    /// Hudi's upper-case name.
    pub fn name(self) -> &'static str {
        match self {
            State::Requested => "REQUESTED",
            State::Inflight => "INFLIGHT",
            State::Completed => "COMPLETED",
        }
    }
}

/// How the timeline folder of a table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Table version 6: instants in `.hoodie`, completion time is the file's modification time.
    V1,
    /// Table versions 8 and 9: instants in `.hoodie/timeline`, completion time in the name.
    V2,
}

/// One state of one action on the timeline.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Instant {
    /// Requested time, digits as in the file name.
    pub requested: String,
    /// The action.
    pub action: Action,
    /// The state.
    pub state: State,
    /// Completion time; only of a completed instant.
    pub completed: Option<String>,
}

impl Instant {
    /// Parses a file name. `None` for anything that is not an instant: side files, temporary files, folders.
    ///
    /// A completed instant without a completion time in its name (layout 1, or a legacy instant in layout 2) comes
    /// back with `completed == None`; the caller fills it from the file's modification time.
    pub fn parse(name: &str) -> Option<Self> {
        let (times, rest) = name.split_once('.')?;
        let (requested, completed) = match times.split_once('_') {
            Some((t, c)) => (t, Some(c)),
            None => (times, None),
        };
        if !is_time(requested) || completed.is_some_and(|c| !is_time(c)) {
            return None;
        }
        let (action, state) = match rest.split_once('.') {
            None if rest == "inflight" => (Action::Commit, State::Inflight),
            None => (Action::parse(rest)?, State::Completed),
            Some((action, "requested")) => (Action::parse(action)?, State::Requested),
            Some((action, "inflight")) => (Action::parse(action)?, State::Inflight),
            Some(_) => return None,
        };
        if state != State::Completed && completed.is_some() {
            return None;
        }
        Some(Self { requested: requested.to_owned(), action, state, completed: completed.map(str::to_owned) })
    }

    /// The file name of this instant.
    pub fn file_name(&self, layout: Layout) -> String {
        let t = &self.requested;
        let action = match layout {
            // Layout 1 has no name of its own for a planned clustering.
            Layout::V1 if self.action == Action::Clustering => Action::ReplaceCommit,
            _ => self.action,
        };
        match (self.state, &self.completed, layout) {
            (State::Requested, ..) => format!("{t}.{action}.requested"),
            (State::Inflight, ..) if action == Action::Commit => format!("{t}.inflight"),
            (State::Inflight, ..) => format!("{t}.{action}.inflight"),
            (State::Completed, Some(c), Layout::V2) => format!("{t}_{c}.{}", action.completed_as()),
            (State::Completed, ..) => format!("{t}.{}", action.completed_as()),
        }
    }

    /// Whether it is completed.
    pub fn is_completed(&self) -> bool {
        self.state == State::Completed
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.requested, self.action, self.state.name())
    }
}

/// Instant times are compared as strings; anything with 1 to 23 digits is one (old metadata tables append three).
fn is_time(text: &str) -> bool {
    (1..=23).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Which writes are committed, and when: what file groups need to know of the timeline.
pub trait CommitTimes {
    /// Whether the write with this requested time is committed.
    fn is_committed(&self, requested: &str) -> bool;
    /// Completion time of a write, if it is on the timeline.
    fn completion_time(&self, requested: &str) -> Option<&str>;
    /// Whether log file names have the base instant of their slice (version 6), not the instant of their write.
    fn logs_name_their_slice(&self) -> bool;
    /// Whether a log file with this instant in its name is one of version 6 on top of a compaction that is still planned, in a
    /// table that was upgraded since. Its blocks were committed by others.
    fn is_planned_slice(&self, _instant: &str) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "20260101000000000.commit.requested",
            "20260101000000000.inflight",
            "20260101000000000_20260101000000123.commit",
            "20260101000000000.clustering.requested",
            "20260101000000000.clustering.inflight",
            "20260101000000000_20260101000000123.replacecommit",
            "20260101000000000.savepoint.inflight",
        ] {
            assert_eq!(Instant::parse(name).unwrap().file_name(Layout::V2), name);
        }
        assert_eq!(Instant::parse("20260101000000.commit").unwrap().file_name(Layout::V1), "20260101000000.commit");
    }

    #[test]
    fn foreign_names_are_skipped() {
        for name in [
            "hoodie.properties",
            ".20260101000000000.commit.crc",
            "20260101000000000_20260101000000123.commit.6b7a-11",
            "20260101000000000.commit.requested#1",
            "20260101000000000_1.commit.requested",
            "20260101000000000.frobnicate",
            "history",
            "",
            ".",
        ] {
            assert_eq!(Instant::parse(name), None, "{name}");
        }
    }

    #[test]
    fn pending_names_of_services_complete_under_others() {
        let i = Instant {
            requested: "1".into(),
            action: Action::Compaction,
            state: State::Completed,
            completed: Some("2".into()),
        };
        assert_eq!(i.file_name(Layout::V2), "1_2.commit");
        let c = Instant { action: Action::Clustering, state: State::Requested, completed: None, ..i };
        assert_eq!(c.file_name(Layout::V1), "1.replacecommit.requested");
    }
}
