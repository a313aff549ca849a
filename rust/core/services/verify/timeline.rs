//! Checks instants: readable, in consistent states, and none left behind.

use std::collections::BTreeMap;

use super::{Repair, Report, is_about_content};
use crate::error::Result;
use crate::file_group::markers::marker_folder;
use crate::format::instant::{Action, Instant, State};
use crate::storage::ListedFile;
use crate::table::HudiTable;
use crate::table::commit_metadata::read_as_json;
use crate::timeline::Timeline;
use crate::timeline::heartbeat::Heartbeats;

pub(super) fn check(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<()> {
    bodies(table, timeline, report)?;
    states(timeline, report);
    pending(table, timeline, report)?;
    if timeline.ends_in_history() {
        report.warning(
            "timeline",
            "each write on the active timeline has a savepoint or was taken back: real Hudi takes the archived ones for failed, and does not read their rows",
            "Write to the table, or delete the newest savepoint: t.delete_savepoint(instant)",
        );
    }
    markers(table, timeline, report)
}

fn bodies(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<()> {
    const RESTORE: &str = "Restore the file from a backup; no other file has its content";
    for (instant, file) in timeline.raw() {
        report.count("instant files", 1);
        if instant.is_completed() && table.storage().is_empty(file)? {
            report.error(&file.path, "a completed instant is an empty file", RESTORE);
            continue;
        }
        match read_as_json(table.storage(), timeline, instant) {
            Ok(_) => {}
            // Archived or completed during the check.
            Err(e) if e.kind() == crate::ErrorKind::NotFound => {}
            Err(e) if is_about_content(&e) => {
                let remedy = if instant.is_completed() { RESTORE } else { "Roll the instant back" };
                report.error(&file.path, format!("the instant cannot be read: {e}"), remedy);
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

fn states(timeline: &Timeline, report: &mut Report) {
    let mut files: BTreeMap<(&str, Action), Vec<&(Instant, ListedFile)>> = BTreeMap::new();
    for entry in timeline.raw() {
        files.entry((&entry.0.requested, entry.0.action.completed_as())).or_default().push(entry);
    }
    for ((requested, action), entries) in files {
        let completed: Vec<&ListedFile> =
            entries.iter().filter(|(i, _)| i.is_completed()).map(|(_, file)| file).collect();
        if let [first, second, ..] = completed.as_slice() {
            let message = format!("the {action} of {requested} completed twice: also {}", first.path);
            let remedy = "Compare both files, and delete the wrong one";
            match action {
                // Two processes may have finished the same clean.
                Action::Clean => report.warning(&second.path, message, remedy),
                _ => report.error(&second.path, message, remedy),
            }
        }
        let has = |state: State| entries.iter().any(|(i, _)| i.state == state);
        let has_plan = action != Action::Savepoint;
        let missing = match () {
            () if !completed.is_empty() && !has(State::Inflight) => Some("inflight"),
            () if has_plan && (!completed.is_empty() || has(State::Inflight)) && !has(State::Requested) => {
                Some("requested")
            }
            () => None,
        };
        if let Some(state) = missing {
            report.warning(
                format!("{requested} {action}"),
                format!("the instant has no {state} file"),
                "An interrupted archiving leaves this, and the next one repairs it; otherwise find out who deleted the file",
            );
            report.repairable(Repair::Archive);
        }
    }
    for instant in timeline.instants() {
        if instant.completed.as_ref().is_some_and(|c| c.as_str() < instant.requested.as_str()) {
            report.warning(
                instant.to_string(),
                "the instant completed before it was requested",
                "Check the clocks of the writers, and that they use the same time zone",
            );
        }
    }
}

fn pending(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<()> {
    let builds_index = timeline.pending().any(|i| i.action == Action::Indexing);
    let heartbeats = if builds_index { Heartbeats::list(table.storage())? } else { Heartbeats::default() };
    for instant in timeline.pending() {
        let subject = instant.to_string();
        match instant.action {
            Action::Commit | Action::DeltaCommit | Action::LogCompaction | Action::ReplaceCommit => {
                report.warning(
                    subject,
                    "a write is pending: it failed, or is running",
                    "If it failed, the next write rolls it back; readers do not see it",
                );
                report.repairable(Repair::RollBack);
            }
            Action::Rollback | Action::Clean => {
                report.warning(
                    subject,
                    format!("a {} is pending: it failed, or is running", instant.action),
                    "If it failed, the next write finishes it",
                );
                report.repairable(Repair::RollBack);
            }
            Action::Restore => report.error(
                subject,
                "a restore is pending; until it is finished you cannot write to the table",
                "Finish the restore with the engine that began it",
            ),
            Action::Indexing if heartbeats.has(&instant.requested) => {
                report.warning(
                    subject,
                    "an index is pending: its process was killed, or builds it",
                    "If it was killed, the next write removes it; nobody sees anything of it",
                );
                report.repairable(Repair::RollBack);
            }
            // Plans that are executed later.
            Action::Compaction | Action::Clustering | Action::Indexing | Action::Savepoint => {
                report.count("pending plans", 1);
            }
        }
    }
    Ok(())
}

fn markers(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<()> {
    for folder in table.storage().list(".hoodie/.temp")?.folders {
        let instant = folder.rsplit('/').next().unwrap_or_default();
        if folder == marker_folder(instant) && !timeline.is_pending(instant) {
            report.warning(&folder, "there are markers of a write that is not pending", "The next write removes them");
            report.repairable(Repair::RollBack);
        }
    }
    Ok(())
}
