//! Which writes failed, and which of their files are deleted.

use std::collections::BTreeMap;

use crate::file_group::{BaseFile, LogFile, parse_change_log, written_at};
use crate::format::avro::metadata::{InstantInfo, RollbackPlan, RollbackRequest};
use crate::format::instant::{Action, Instant, Layout};
use crate::storage::FileMeta;
use crate::timeline::Timeline;

/// Pending writes, newest first. Pending compactions and clusterings are left out: their plans are executed later. The
/// caller leaves out writes that have a heartbeat.
pub(crate) fn failed_writes(timeline: &Timeline) -> Vec<Instant> {
    // Timeline layout 1 has clustering plans as `replacecommit`; their names do not differ from those of writes.
    let plans_hide = timeline.config().layout == Layout::V1;
    let failed = timeline.pending().rev().filter(|i| match i.action {
        Action::Commit | Action::DeltaCommit | Action::LogCompaction => true,
        Action::ReplaceCommit => !plans_hide,
        _ => false,
    });
    failed.cloned().collect()
}

/// Data files of a failed write, by path relative to the table's base.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundFiles {
    /// Named by its markers. They may or may not exist.
    Marked(Vec<String>),
    /// Found by a listing, by the instant in their names, because there were no markers.
    Listed(Vec<String>),
}

/// Makes the plan that deletes these files. `full_path` formats a path for the plan.
pub(crate) fn plan_rollback(failed: &Instant, found: &FoundFiles, full_path: &dyn Fn(&str) -> String) -> RollbackPlan {
    let request = |path: &String| {
        let meta = FileMeta { path: path.clone(), size: 0, modified_ms: 0 };
        let (file_id, base_instant) = match found {
            FoundFiles::Marked(_) => (file_id(&meta), failed.requested.clone()),
            FoundFiles::Listed(_) => (String::new(), String::new()),
        };
        RollbackRequest {
            partition_path: super::super::planned_files::partition_of(path).to_owned(),
            file_id: Some(file_id),
            latest_base_instant: Some(base_instant),
            files_to_be_deleted: vec![full_path(path)],
            log_blocks_to_be_deleted: Some(BTreeMap::new()),
        }
    };
    let (FoundFiles::Marked(files) | FoundFiles::Listed(files)) = found;
    RollbackPlan {
        instant_to_rollback: Some(instant_info(failed)),
        rollback_requests: Some(files.iter().map(request).collect()),
        ..Default::default()
    }
}

/// The instant in rollback metadata.
fn instant_info(instant: &Instant) -> InstantInfo {
    InstantInfo { commit_time: instant.requested.clone(), action: instant.action.name().to_owned() }
}

fn file_id(file: &FileMeta) -> String {
    let log = || LogFile::parse(file).or_else(|| parse_change_log(file)).map(|log| log.file_id);
    BaseFile::parse(file).map(|base| base.file_id).or_else(log).unwrap_or_default()
}

/// Whether a file was written by the instant: base files, log files, change data logs.
pub(super) fn is_written_by(file: &FileMeta, instant: &str) -> bool {
    written_at(file).is_some_and(|written| written == instant)
}
