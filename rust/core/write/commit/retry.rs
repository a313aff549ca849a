//! Writes that are planned anew when another writer got in their way.
//!
//! The rows are read and prepared once; what is repeated is looking their keys up, merging and writing. A writer that lost
//! once holds the table lock through its next try, if the first one was short: so with any number of others it is not kept
//! out for ever.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::error::Result;
use crate::format::instant::{Action, Instant};
use crate::interrupt;
use crate::table::{HudiTable, Options, TableView};
use crate::timeline::heartbeat::is_alive;
use crate::timeline::{LockGuard, Timeline, parse_instant_ms};

/// How often a write is planned anew, unless `hoodie.write.num.retries.on.conflict.failures` says otherwise; Hudi does not.
const RETRIES: u32 = 5;
/// The longest try that the lock is held for the next time: others wait that long.
const SHORT: Duration = Duration::from_secs(5);
/// How often a write that waits for a clustering looks at the timeline.
const POLL: Duration = Duration::from_millis(100);
/// After how many such looks it asks again whether anybody is at work on it.
const LOOKS: u32 = 5;
/// Milliseconds for which a planned clustering counts as one that is about to be carried out.
const NEW_MS: i64 = 2_000;

/// How often a write is planned anew.
///
/// # Errors
/// `InvalidOption`.
pub(crate) fn retries(options: &Options) -> Result<u32> {
    options.number("hoodie.write.num.retries.on.conflict.failures", RETRIES)
}

/// Tries a write, first as it was planned, then with a view of the table as it is now; with the lock, where it is held for
/// the try. For a clustering in the way that somebody carries out just now, it is waited.
///
/// # Errors
/// That of the last try.
pub(in crate::write) fn planned_anew<T>(
    table: &HudiTable,
    mut attempt: impl FnMut(Option<TableView>, Option<&LockGuard>) -> Result<T>,
) -> Result<T> {
    let mut left = retries(table.options())?;
    let mut patience = table.lock_config()?.wait.time;
    let (mut view, mut held) = (None, None);
    loop {
        let begun = table.clock().monotonic();
        let outcome = attempt(view.take(), held.as_ref());
        let took = since(table, begun);
        let error = match outcome {
            Err(e) if e.is_outdated_plan() && left > 0 => {
                left -= 1;
                e
            }
            Err(e) if e.is_waiting_for_clustering() => {
                // It needs the lock to be completed.
                held = None;
                let waited = table.clock().monotonic();
                if !clustering_ended(table, patience)? {
                    return Err(e);
                }
                patience = patience.saturating_sub(since(table, waited));
                e
            }
            Err(e) => return Err(if let Some(held) = &held { held.explain(e) } else { e }),
            done => return done,
        };
        tracing::info!(table = table.storage().uri(), "the write is planned anew: {error}");
        if held.is_none() && took < SHORT {
            held = Some(table.timeline_writer()?.lock().acquire()?);
        }
        view = Some(table.view(None)?);
    }
}

/// Time since a moment of the monotonic clock.
fn since(table: &HudiTable, begun: Duration) -> Duration {
    table.clock().monotonic().saturating_sub(begun)
}

/// Waits as long as the clusterings that are planned are carried out by somebody who is alive; whether one of them has
/// ended since.
fn clustering_ended(table: &HudiTable, patience: Duration) -> Result<bool> {
    let begun = table.clock().monotonic();
    // The actions that `PendingFileGroups` looks at: a plan that is not seen here would be tried again without end.
    let may_be_one = |i: &&Instant| matches!(i.action, Action::Clustering | Action::ReplaceCommit);
    let planned = |timeline: &Timeline| -> BTreeSet<String> {
        timeline.pending().filter(may_be_one).map(|i| i.requested.clone()).collect()
    };
    let at_first = planned(&table.timeline()?);
    for look in 0u32.. {
        let now = if look == 0 { at_first.clone() } else { planned(&table.timeline()?) };
        if at_first.is_empty() || !at_first.is_subset(&now) {
            return Ok(true);
        }
        if since(table, begun) >= patience || (look % LOOKS == 0 && !any_under_way(table, &now)?) {
            return Ok(false);
        }
        interrupt::check()?;
        table.clock().sleep(POLL);
    }
    Ok(false)
}

fn any_under_way(table: &HudiTable, planned: &BTreeSet<String>) -> Result<bool> {
    for instant in planned {
        if is_new(table, instant) || is_alive(table.storage(), table.clock(), instant)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a plan was made so recently that whoever made it may be about to carry it out.
fn is_new(table: &HudiTable, instant: &str) -> bool {
    let planned = parse_instant_ms(instant, table.config().timeline().zone);
    planned.is_some_and(|ms| (0..NEW_MS).contains(&table.clock().now_ms().saturating_sub(ms)))
}
