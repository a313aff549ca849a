//! Putting a plan on the timeline.

use chrono::NaiveDate;

use super::plan::{CompactionOptions, Kind, plan_compaction, plan_log_compaction};
use crate::error::{Error, Result};
use crate::format::avro::metadata::{CompactionPlan, encode};
use crate::format::instant::Action;
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableType, planned_groups};
use crate::timeline::{Timeline, format_instant};

/// Actions whose plans keep a file group from being compacted.
const PLANS: [Action; 4] = [Action::Compaction, Action::LogCompaction, Action::Clustering, Action::ReplaceCommit];
/// Requested times of compactions that are planned, oldest first.
pub fn pending(timeline: &Timeline, kind: Kind) -> Vec<String> {
    timeline.pending().filter(|i| i.action == kind.action()).map(|i| i.requested.clone()).collect()
}

/// Whether a compaction is due by the options.
pub fn due(table: &HudiTable, timeline: &Timeline, kind: Kind) -> Result<bool> {
    let options = CompactionOptions::from_options(table.options())?;
    match kind {
        Kind::Base => Ok(options.is_due(timeline, table.config().timeline().zone, table.clock().now_ms())),
        Kind::Log => Ok(since_compaction(table, timeline)?.0 >= options.log_threshold),
    }
}

/// Delta commits since the last compaction, of logs or of all: how many, and the requested time of the log compaction.
fn since_compaction(table: &HudiTable, timeline: &Timeline) -> Result<(usize, Option<String>)> {
    let compacted = timeline.completed(Action::Commit).next_back().map(|i| i.requested.as_str());
    let mut since = 0;
    for instant in timeline.completed(Action::DeltaCommit).rev() {
        if compacted.is_some_and(|compacted| instant.requested.as_str() <= compacted) {
            break;
        }
        let metadata = read_write_metadata(table.storage(), timeline, instant)?;
        if metadata.operation_type.as_deref() == Some(Kind::Log.operation()) {
            return Ok((since, Some(instant.requested.clone())));
        }
        since += 1;
    }
    Ok((since, None))
}

/// Plans a compaction of all slices that have log files, from a timeline that was loaded just now; `None` when there is none, or other plans take them all.
///
/// # Errors
/// `Unsupported` for a copy-on-write table; `InvalidOption`; `Storage`.
pub(crate) fn schedule(table: &HudiTable, timeline: Timeline, kind: Kind) -> Result<Option<String>> {
    if table.config().table_type() != TableType::MergeOnRead {
        return Err(Error::unsupported("only merge-on-read tables have something to compact")
            .with("table", table.storage().uri()));
    }
    let options = CompactionOptions::from_options(table.options())?;
    let writer = table.timeline_writer()?;
    // Without the lock, which others wait for: most often nothing happens meanwhile, or there is nothing to do.
    let Some(plan) = plan_now(table, &timeline, &options, kind)? else { return Ok(None) };
    let mut nothing_left = false;
    let requested = writer.request_on(kind.action(), |now, time| {
        // Completed before the plan: what completes later belongs to the next slice.
        if now.is_same(&timeline) {
            return encode(&plan);
        }
        let plan = plan_now(table, now, &options, kind)?;
        nothing_left = plan.is_none();
        let plan = plan.ok_or_else(|| Error::conflict("the slices were compacted meanwhile").with("instant", time))?;
        encode(&plan)
    });
    match requested {
        Err(_) if nothing_left => Ok(None),
        other => other.map(|instant| Some(instant.requested)),
    }
}

fn plan_now(
    table: &HudiTable,
    timeline: &Timeline,
    options: &CompactionOptions,
    kind: Kind,
) -> Result<Option<CompactionPlan>> {
    let view = table.new_view(timeline.clone())?;
    let pending_groups = planned_groups(table.storage(), timeline, &PLANS)?;
    let slices = view.all_latest_slices()?;
    Ok(match kind {
        Kind::Base => {
            let now = format_instant(table.clock().now_ms(), table.config().timeline().zone);
            let today = NaiveDate::parse_from_str(now.get(..8).unwrap_or_default(), "%Y%m%d");
            plan_compaction(slices, &pending_groups, options, today.unwrap_or_default())?
        }
        Kind::Log => {
            let (_, compacted) = since_compaction(table, timeline)?;
            plan_log_compaction(slices, &pending_groups, options.log_threshold, compacted.as_deref())
        }
    })
}
