//! Where the time of a write goes: seconds of each of its stages.
//!
//! | stage | what |
//! |---|---|
//! | `lease` | waiting for other writers of this machine, a look at the table, rolling back what others left |
//! | `rows` | reading the rows, making their keys, combining rows of one key |
//! | `locate` | looking the keys up, deciding which file group takes which rows |
//! | `begin` | the table lock, the instant |
//! | `files` | merging, encoding and writing data files |
//! | `publish` | the table lock, the comparison with other writers, the completed instant |
//! | `services` | inline services behind the commit |
//!
//! Stages that are repeated, because another writer got in between, add up.

use std::fmt::{Display, Formatter};
use std::time::{Duration, Instant};

/// Time by stage, in the order in which the stages first began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Timings(Vec<(&'static str, Duration)>);

impl Timings {
    /// Adds time to a stage.
    pub fn add(&mut self, stage: &'static str, time: Duration) {
        match self.0.iter_mut().find(|(known, _)| *known == stage) {
            Some((_, sum)) => *sum += time,
            None => self.0.push((stage, time)),
        }
    }

    /// Runs a stage.
    pub fn timed<T>(&mut self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let (done, time) = stopped(stage, work);
        self.add(stage, time);
        done
    }

    /// Stages and their times.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Duration)> + '_ {
        self.0.iter().copied()
    }
}

impl Display for Timings {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        for (number, (stage, time)) in self.iter().enumerate() {
            let comma = if number == 0 { "" } else { ", " };
            write!(f, "{comma}{stage} {:.3} s", time.as_secs_f64())?;
        }
        Ok(())
    }
}

/// Runs a stage, in a span of its name; with the time that it took.
pub(crate) fn stopped<T>(stage: &'static str, work: impl FnOnce() -> T) -> (T, Duration) {
    let _span = tracing::debug_span!("stage", name = stage).entered();
    let begun = Instant::now();
    let done = work();
    (done, begun.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_stages_add_up_and_stay_where_they_were() {
        let mut timings = Timings::default();
        assert_eq!(timings.timed("rows", || 7), 7);
        for (stage, ms) in [("locate", 1), ("files", 2), ("locate", 3)] {
            timings.add(stage, Duration::from_millis(ms));
        }
        let stages: Vec<_> = timings.iter().skip(1).collect();
        assert_eq!(stages, [("locate", Duration::from_millis(4)), ("files", Duration::from_millis(2))]);
    }
}
