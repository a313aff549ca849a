//! File groups that plans on the timeline take: who changes or plans them anew would undo what was planned.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::format::avro::metadata::{CompactionPlan, RequestedReplaceMetadata, decode};
use crate::format::instant::{Action, Instant, State};
use crate::storage::{Storage, optional};
use crate::timeline::Timeline;

/// File groups (partition, id) in pending plans of the given actions: compaction and log compaction, clustering and the
/// replacecommit that older timelines call it.
///
/// # Errors
/// `Corrupt` for a plan that cannot be read; `Storage`.
pub(crate) fn planned_groups(
    storage: &Storage,
    timeline: &Timeline,
    actions: &[Action],
) -> Result<HashSet<(String, String)>> {
    let mut groups = HashSet::new();
    let plan_of = |instant: &Instant| Instant { state: State::Requested, ..instant.clone() };
    let planned = || timeline.pending().filter(|i| actions.contains(&i.action));
    timeline.fetch(storage, planned().map(plan_of).collect::<Vec<_>>().iter());
    for instant in planned() {
        let requested = plan_of(instant);
        // An empty file was never planned; insert overwrite has no plan inside.
        let body = optional(timeline.read(storage, &requested))?.filter(|body| !body.is_empty());
        let Some(body) = body else { continue };
        let named = |e: Error| e.with("table", storage.uri()).with("instant", instant);
        let mut add = |partition: Option<String>, id: Option<String>| {
            groups.insert((partition.unwrap_or_default(), id.unwrap_or_default()));
        };
        if matches!(instant.action, Action::Compaction | Action::LogCompaction) {
            let plan: CompactionPlan = decode(&body).map_err(named)?;
            plan.operations.into_iter().flatten().for_each(|o| add(o.partition_path, o.file_id));
        } else {
            let plan: RequestedReplaceMetadata = decode(&body).map_err(named)?;
            let slices = plan.clustering_plan.and_then(|p| p.input_groups).into_iter().flatten();
            slices.flat_map(|g| g.slices.unwrap_or_default()).for_each(|s| add(s.partition_path, s.file_id));
        }
    }
    Ok(groups)
}
