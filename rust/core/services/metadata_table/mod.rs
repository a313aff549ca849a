//! The metadata table's own services, after an action of the table: compaction, clean, archiving.
//!
//! Hudi runs them at the begin of a write, hoodoo at the end, both under the table lock. What is due is known from the
//! timeline as the action left it, so that an action after which nothing is due makes no request. A process that dies here
//! leaves a pending instant, with which the services of the next action begin: a compaction is taken back and made anew, a
//! clean is finished.
//!
//! | file | decides or does |
//! |---|---|
//! | `options.rs` | what Hudi makes of the table's options for its metadata table |
//! | `clean.rs` | which file slices go |
//! | `archive.rs` | which instants go to the history |
//!
//! The compaction is part of the metadata table's own module, for it is about records.

mod archive;
mod clean;
mod options;

#[cfg(test)]
mod tests;

pub(crate) use options::MetadataServiceOptions;

use crate::error::Result;
use crate::format::instant::Action;
use crate::metadata_table::FILES;
use crate::metadata_table::services::compaction::{
    compact, compact_logs, half_completed, is_due as compaction_is_due, log_compaction_is_due,
};
use crate::metadata_table::services::{MetadataServices, take_back_failed};
use crate::table::HudiTable;
use crate::timeline::Timeline;

/// Runs the services of the metadata table that are due after the last action of this handle. `timeline` loads the timeline
/// of the table.
///
/// # Errors
/// `Corrupt`; `Lock`; `Storage`.
pub(crate) fn serve_metadata_table(table: &HudiTable, timeline: impl FnOnce() -> Result<Timeline>) -> Result<()> {
    let Some(metadata) = table.take_metadata_timeline() else { return Ok(()) };
    let options = MetadataServiceOptions::from_options(table.options())?;
    let is_due = is_pending(&metadata)
        || options.log_blocks.is_some_and(|blocks| log_compaction_is_due(&metadata, blocks))
        || compaction_is_due(&metadata, options.max_delta_commits)
        || clean::is_due(&metadata, options.commits_retained)
        || archive::may_be_due(&metadata, &options) && archive::is_due(&metadata, &timeline()?, &options);
    if is_due { serve(table, &options) } else { Ok(()) }
}

/// Whether a service of a process that died is pending.
fn is_pending(metadata: &Timeline) -> bool {
    metadata.pending().any(|i| matches!(i.action, Action::Compaction | Action::LogCompaction | Action::Clean))
}

/// Runs the services, in Hudi's order.
fn serve(table: &HudiTable, options: &MetadataServiceOptions) -> Result<()> {
    let _span = tracing::info_span!("metadata_table_services", table = table.storage().uri()).entered();
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    // Another writer may have dropped the metadata table, or some of it. Once the lock is lost, others serve it, and take
    // back what is begun here: no file may come after that.
    let table = table.reload()?.locked(&held);
    let partitions = table.config().complete_metadata_partitions();
    if !partitions.iter().any(|name| name == FILES) {
        return Ok(());
    }
    let timeline = writer.load()?;
    held.check()?;
    let new_time = |newest: Option<&str>| writer.new_time(newest.max(timeline.newest_time()));
    let services = MetadataServices {
        storage: table.storage(),
        held: &held,
        table: &timeline,
        partitions: &partitions,
        new_time: &new_time,
        threads: table.threads()?,
    };
    let mut metadata = services.open()?;
    if take_back_failed(&services, metadata.timeline())? | clean::finish_pending(&services, metadata.timeline())? {
        metadata = services.open()?;
    }
    if clean::is_due(metadata.timeline(), options.commits_retained) && clean::clean(&services, &metadata, options)? {
        metadata = services.open()?;
    }
    if half_completed(&timeline, metadata.timeline()).is_none() {
        let compacted = match options.log_blocks {
            _ if compaction_is_due(metadata.timeline(), options.max_delta_commits) => compact(&services, &metadata)?,
            Some(blocks) if log_compaction_is_due(metadata.timeline(), blocks) => {
                compact_logs(&services, &metadata, blocks)?
            }
            _ => None,
        };
        if compacted.is_some() {
            metadata = services.open()?;
        }
    }
    archive::archive(&services, metadata.timeline(), options)
}
