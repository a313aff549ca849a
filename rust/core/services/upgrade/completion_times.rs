//! When the actions of a timeline of version 6 completed. Pure.
//!
//! Its file names do not tell. Hudi takes the time of the last modification of the file, which a copy of the table has
//! changed: then everything seems to have completed when it was copied. From version 8 on these times say to which file
//! slice a log file belongs, so that rows would change.

use chrono::{Duration, NaiveDateTime};

use crate::format::instant::{Action, Instant};

const MILLIS: &str = "%Y%m%d%H%M%S%3f";

/// The completion times of completed instants, which have the times of their files and are ordered by requested time.
pub(super) fn completion_times(completed: &[Instant]) -> Vec<String> {
    let of_file = |i: &Instant| i.completed.clone().unwrap_or_default().max(i.requested.clone());
    if !is_copy(completed) {
        return completed.iter().map(of_file).collect();
    }
    let next = |at: usize| completed.get(at + 1).map(|next| next.requested.as_str());
    let of_copy = |(at, i): (usize, &Instant)| match next(at) {
        // Something between its own time and that of the next action.
        Some(next) => before(next).filter(|time| *time > i.requested).unwrap_or_else(|| i.requested.clone()),
        None => of_file(i),
    };
    completed.iter().enumerate().map(of_copy).collect()
}

/// Whether most writes seem to have completed after the next one began. Compactions and clusterings do.
fn is_copy(completed: &[Instant]) -> bool {
    let writes: Vec<&Instant> =
        completed.iter().filter(|i| matches!(i.action, Action::Commit | Action::DeltaCommit)).collect();
    let pairs = writes.iter().zip(writes.iter().skip(1));
    let late = pairs.filter(|(one, next)| one.completed.as_deref().is_some_and(|at| at > next.requested.as_str()));
    late.count() * 2 > writes.len().saturating_sub(1)
}

/// One millisecond earlier.
fn before(time: &str) -> Option<String> {
    let time = NaiveDateTime::parse_from_str(time, MILLIS).ok()?;
    Some((time - Duration::milliseconds(1)).format(MILLIS).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::instant::State;

    fn instants(times: &[(&str, &str)]) -> Vec<Instant> {
        let instant = |(requested, completed): &(&str, &str)| Instant {
            requested: format!("202601010000{requested}"),
            action: Action::Commit,
            state: State::Completed,
            completed: Some(format!("202601010000{completed}")),
        };
        times.iter().map(instant).collect()
    }

    fn times(of: &[(&str, &str)]) -> Vec<String> {
        completion_times(&instants(of)).iter().map(|time| time.replace("202601010000", "")).collect()
    }

    #[test]
    fn files_say_it() {
        assert_eq!(times(&[("01000", "01500"), ("02000", "02700"), ("03000", "03001")]), ["01500", "02700", "03001"]);
        // Two writers at once.
        let overlap = [("01000", "02500"), ("02000", "02700"), ("03000", "03100"), ("04000", "04100")];
        assert_eq!(times(&overlap), ["02500", "02700", "03100", "04100"]);
    }

    #[test]
    fn files_of_a_copy_do_not() {
        let copied = [("01000", "50000"), ("02000", "50001"), ("03000", "50002")];
        assert_eq!(times(&copied), ["01999", "02999", "50002"]);
        assert_eq!(times(&[("01000", "50000"), ("01001", "50000"), ("02000", "50000")]), ["01000", "01999", "50000"]);
    }

    #[test]
    fn nothing_completes_before_it_began() {
        assert_eq!(times(&[("02000", "01000")]), ["02000"]);
    }
}
