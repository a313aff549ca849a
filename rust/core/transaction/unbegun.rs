//! Writes of Hudi that have a requested time and have not looked at the table yet.
//!
//! Hudi first requests its instant, and then loads the timeline. What is completed in between belongs to the table that it
//! changes, and is no conflict. But its base files have the earlier time in their names, and in a file group the base file
//! of the latest time counts: whoever commits a base file of a later time in between hides what Hudi then writes, from Hudi
//! itself too. So a commit waits until the writes that were requested before it have begun.

use std::time::Duration;

use crate::error::Result;
use crate::format::instant::{Instant, State};
use crate::interrupt;
use crate::table::HudiTable;
use crate::timeline::{Timeline, TimelineWriter, heartbeat, parse_instant_ms};

/// How long Hudi may take from its request until it has loaded the timeline. It makes its instant inflight later, when it has
/// looked up all keys: nobody waits for that.
const LOOKS_WITHIN_MS: i64 = 10_000;
/// Time between two looks.
const PAUSE: Duration = Duration::from_millis(20);

/// Writes of this timeline that are requested and no more, before that time.
pub(super) fn before(timeline: &Timeline, requested: Option<&str>) -> Vec<Instant> {
    let is_write = |i: &&Instant| i.action.is_write() && i.action.completed_as() == i.action;
    let is_earlier = |i: &&Instant| requested.is_none_or(|requested| i.requested.as_str() < requested);
    let requested = timeline.pending().filter(|i| i.state == State::Requested);
    requested.filter(is_write).filter(is_earlier).cloned().collect()
}

/// Waits until none of them is a write of Hudi that may not have looked yet.
///
/// # Errors
/// `Storage`; `Interrupted`.
pub(super) fn wait(table: &HudiTable, writer: &TimelineWriter, mut earlier: Vec<Instant>) -> Result<()> {
    let mut hudis = Vec::new();
    for instant in earlier.drain(..) {
        // Those of hoodoo look at the table first.
        if heartbeat::is_hudis(table.storage(), &instant.requested)? {
            hudis.push(instant);
        }
    }
    let zone = table.config().timeline().zone;
    let is_new = |i: &Instant| {
        let requested = parse_instant_ms(&i.requested, zone);
        requested.is_some_and(|at| table.clock().now_ms().saturating_sub(at) < LOOKS_WITHIN_MS)
    };
    loop {
        hudis.retain(is_new);
        if hudis.is_empty() {
            return Ok(());
        }
        let timeline = writer.load()?;
        hudis.retain(|i| timeline.pending().any(|p| p == i));
        if hudis.is_empty() {
            return Ok(());
        }
        interrupt::check()?;
        table.clock().sleep(PAUSE);
    }
}
