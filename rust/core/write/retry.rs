//! Writes that are planned anew when another writer got in their way.
//!
//! The rows are read and prepared once; what is repeated is looking their keys up, merging and writing. A writer that lost
//! once holds the table lock through its next try, if the first one was short: so with any number of others it is not kept
//! out for ever.

use std::time::{Duration, Instant as Stopwatch};

use crate::error::Result;
use crate::table::{HudiTable, Options, TableView};
use crate::timeline::LockGuard;

/// How often a write is planned anew, unless `hoodie.write.num.retries.on.conflict.failures` says otherwise; Hudi does not.
const RETRIES: u32 = 5;
/// The longest try that the lock is held for the next time: others wait that long.
const SHORT: Duration = Duration::from_secs(5);

/// How often a write is planned anew.
///
/// # Errors
/// `InvalidOption`.
pub fn retries(options: &Options) -> Result<u32> {
    options.number("hoodie.write.num.retries.on.conflict.failures", RETRIES)
}

/// Tries a write, first as it was planned, then with a view of the table as it is now; with the lock, where it is held for
/// the try.
///
/// # Errors
/// That of the last try.
pub(super) fn planned_anew<T>(
    table: &HudiTable,
    mut attempt: impl FnMut(Option<TableView>, Option<&LockGuard>) -> Result<T>,
) -> Result<T> {
    let mut left = retries(table.options())?;
    let (mut view, mut held) = (None, None);
    loop {
        let begun = Stopwatch::now();
        match attempt(view, held.as_ref()) {
            Err(e) if e.is_outdated_plan() && left > 0 => {
                left -= 1;
                tracing::info!(table = table.storage().uri(), "the write is planned anew: {e}");
                if held.is_none() && begun.elapsed() < SHORT {
                    held = Some(table.timeline_writer()?.lock().acquire()?);
                }
                view = Some(table.view(None)?);
            }
            other => return other,
        }
    }
}
