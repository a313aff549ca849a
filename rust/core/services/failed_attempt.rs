//! Taking over a plan from a process whose heartbeat has expired.

use crate::error::{Error, Result};
use crate::format::instant::Instant;
use crate::table::HudiTable;
use crate::timeline::{Heartbeat, TimelineWriter};

/// Makes an inflight plan requested again, whose heartbeat the caller has taken over. `remove_files` removes what the failed
/// attempt wrote. All of it happens under the table lock: its process may only have stood still, and completes the plan
/// under that lock, if it still has the heartbeat there.
///
/// # Errors
/// `Conflict` if another process has completed the plan, rolled it back, or taken it over from the caller; `Lock`; `Storage`.
pub(super) fn take_back(
    table: &HudiTable,
    writer: &TimelineWriter,
    instant: &Instant,
    heartbeat: &Heartbeat,
    remove_files: impl FnOnce(&HudiTable) -> Result<()>,
) -> Result<Instant> {
    let held = writer.lock().acquire()?;
    heartbeat.check()?;
    if !writer.load()?.pending().any(|i| i == instant) {
        return Err(Error::conflict("another process completed or rolled back this plan meanwhile")
            .with("table", table.storage().uri())
            .with("instant", instant)
            .remedy("Look at the timeline: if the plan is still pending, run it again"));
    }
    remove_files(&table.locked(&held))?;
    writer.clone().with_lock(writer.lock().holding(&held)).revert(instant)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;
    use crate::format::instant::{Action, State};
    use crate::services::test_table::TestTable;

    #[test]
    fn nothing_is_removed_without_the_heartbeat_or_the_instant() {
        let made = TestTable::new(&[]);
        let (table, writer) = (&made.table, made.table.timeline_writer().unwrap());
        let planned = writer.request(Action::Compaction, |_| Ok(b"plan".to_vec())).unwrap();
        let inflight = writer.start(&planned, Vec::new()).unwrap();
        let take_back = |instant: &Instant, heartbeat: &Heartbeat, removed: &mut bool| {
            super::take_back(table, &writer, instant, heartbeat, |_| {
                *removed = true;
                Ok(())
            })
        };
        let begin = || Heartbeat::take_over(table.storage(), table.clock(), &planned.requested).unwrap();
        let (mut removed, heartbeat) = (false, begin());
        let file = format!(".hoodie/.heartbeat/{}", planned.requested);
        table.storage().replace(&file, "another process").unwrap();
        assert_eq!(take_back(&inflight, &heartbeat, &mut removed).unwrap_err().kind(), ErrorKind::Conflict);
        drop(heartbeat);
        table.storage().delete(&file).unwrap();
        let heartbeat = begin();
        let gone = Instant { requested: "20200101000000000".into(), ..inflight.clone() };
        assert_eq!(take_back(&gone, &heartbeat, &mut removed).unwrap_err().kind(), ErrorKind::Conflict);
        assert!(!removed);
        assert_eq!(take_back(&inflight, &heartbeat, &mut removed).unwrap().state, State::Requested);
        assert!(removed);
        assert_eq!(writer.load().unwrap().instants(), [planned]);
    }
}
