//! Instant times: unique in the process, growing, and with a known bound on clock skew.
//!
//! A time is `yyyyMMddHHmmssSSS` in the zone that `hoodie.table.timeline.timezone` names. Whoever takes the table lock
//! next, on whichever machine, must get a later one, though its clock may be behind by the largest expected skew.
//!
//! Hudi's `WAIT_TO_ADJUST_SKEW` generator reads the clock under the lock, sleeps for that skew and returns what was read.
//! Here the time that is returned is one skew old instead, when it is still later than everything on the timeline: the
//! same promise, without the sleep. Only where the timeline is empty, or the user set the skew, is it slept.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, NaiveDateTime, TimeZone as _, Utc};

use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::interrupt;

use super::timer::{RealTimer, Timer};

/// Zone in which instant times are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeZone {
    /// Coordinated universal time.
    Utc,
    /// The zone of the process. All writers of a table have to share it.
    Local,
}

/// A source of time, passed in so that tests own it.
pub trait Clock: Send + Sync {
    /// Milliseconds since 1970 (UTC).
    fn now_ms(&self) -> i64;
    /// Waits.
    fn sleep(&self, duration: Duration);

    /// Time since a moment that stays the same: for durations, because nobody sets it back. By default in real time.
    fn monotonic(&self) -> Duration {
        STARTED.elapsed()
    }

    /// What repeats something at this interval, beside the work of the thread that asks for it. By default in real time,
    /// because leases expire in real time.
    fn timer(&self, every: Duration) -> Arc<dyn Timer> {
        Arc::new(RealTimer::new(every))
    }

    /// The last time in milliseconds that a generator with this clock gave out. By default one for all clocks of the
    /// process: times are unique in it, whatever the table.
    fn last_given(&self) -> &Mutex<i64> {
        &LAST
    }
}

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ms(&self) -> i64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| i64::try_from(d.as_millis()).unwrap_or(i64::MAX))
    }

    fn sleep(&self, duration: Duration) {
        interrupt::sleep(duration);
    }
}

/// Writes an instant time.
pub fn format_instant(epoch_ms: i64, zone: TimeZone) -> String {
    const FORMAT: &str = "%Y%m%d%H%M%S%3f";
    let utc = DateTime::<Utc>::from_timestamp_millis(epoch_ms).unwrap_or_default();
    match zone {
        TimeZone::Utc => utc.format(FORMAT).to_string(),
        TimeZone::Local => utc.with_timezone(&Local).format(FORMAT).to_string(),
    }
}

/// Milliseconds since 1970 (UTC) of an instant time; `None` when the digits are no date (`00000000000001` and such).
pub fn parse_instant_ms(instant: &str, zone: TimeZone) -> Option<i64> {
    // Times of old tables have whole seconds; such a time stands for the end of its second.
    let whole = if instant.len() == 14 { format!("{instant}999") } else { instant.get(..17)?.to_owned() };
    let naive = NaiveDateTime::parse_from_str(&whole, "%Y%m%d%H%M%S%3f").ok()?;
    match zone {
        TimeZone::Utc => Some(naive.and_utc().timestamp_millis()),
        TimeZone::Local => Local.from_local_datetime(&naive).earliest().map(|t| t.timestamp_millis()),
    }
}

/// Where the monotonic time of this process begins.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The last time that any generator of this process gave out, in milliseconds.
static LAST: Mutex<i64> = Mutex::new(0);

pub(super) fn hold_lock() -> impl std::any::Any {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Longest wait for a clock that is behind, where the writers' clocks are one.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Gives out instant times.
#[derive(Clone)]
pub struct TimeGenerator {
    clock: Arc<dyn Clock>,
    zone: TimeZone,
    max_skew: Duration,
    patience: Duration,
    /// Whether the skew is slept, as Hudi does.
    sleeps: bool,
}

impl TimeGenerator {
    /// A generator; `max_skew_ms` is how far the clocks of the writers may be apart.
    pub fn new(clock: Arc<dyn Clock>, zone: TimeZone, max_skew_ms: u64) -> Self {
        Self { clock, zone, max_skew: Duration::from_millis(max_skew_ms), patience: LONGEST_WAIT, sleeps: true }
    }

    /// The same for writers on several machines: a clock that is behind the newest instant by more than the skew that is
    /// expected is an error.
    #[must_use]
    pub fn for_several_machines(self) -> Self {
        // Another writer's newest time may be ahead by the skew, and ours have to be one skew old.
        let patience = if self.sleeps { self.max_skew } else { self.max_skew.saturating_mul(2) };
        Self { patience, ..self }
    }

    /// The same without sleeping for the skew: times are one skew old.
    #[must_use]
    pub fn without_sleep(self) -> Self {
        Self { sleeps: false, ..self }
    }

    /// The zone of the times.
    pub fn zone(&self) -> TimeZone {
        self.zone
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// A new time, later than any this process gave out and later than `after`. The caller holds the table lock.
    ///
    /// # Errors
    /// `Lock` when the clock is behind `after`, the newest time of the table, and does not come up to it.
    pub fn generate(&self, after: Option<&str>) -> Result<String> {
        if after.is_some() && !self.sleeps {
            let back = i64::try_from(self.max_skew.as_millis()).unwrap_or(i64::MAX);
            return Ok(format_instant(self.reserve(after, back)?, self.zone));
        }
        let now = self.reserve(after, 0)?;
        // Whoever is next reads a later time, though its clock may be behind by the largest skew. One more, for times
        // are whole milliseconds: less than that would let two of them be the same.
        self.clock.sleep(self.max_skew.saturating_add(Duration::from_millis(1)));
        Ok(format_instant(now, self.zone))
    }

    /// A new time, later than any this process gave out. It is good for a table whose newest time is earlier; `None` where
    /// only the table's newest time tells which is. The caller holds the table lock.
    ///
    /// # Errors
    /// `Lock` when the clock was put back.
    pub fn early(&self) -> Result<Option<String>> {
        if self.sleeps {
            return Ok(None);
        }
        let back = i64::try_from(self.max_skew.as_millis()).unwrap_or(i64::MAX);
        Ok(Some(format_instant(self.reserve(None, back)?, self.zone)))
    }

    /// The first millisecond after those that were given out, `back` milliseconds ago.
    fn reserve(&self, after: Option<&str>, back: i64) -> Result<i64> {
        let pause = Duration::from_millis(1);
        let (mut behind_table, mut behind_process) = (Duration::ZERO, Duration::ZERO);
        loop {
            let now = self.clock.now_ms().saturating_sub(back);
            let text = format_instant(now, self.zone);
            if after.is_some_and(|a| text.as_str() <= a) {
                if behind_table > self.patience {
                    return Err(self.too_far_behind(&text, after.unwrap_or_default()));
                }
                behind_table += pause;
            } else {
                let mut last = self.clock.last_given().lock().unwrap_or_else(PoisonError::into_inner);
                if now > *last {
                    *last = now;
                    return Ok(now);
                }
                if behind_process > LONGEST_WAIT {
                    return Err(Error::lock("this machine's clock was put back")
                        .with("clock", text)
                        .with("newest", format_instant(*last, self.zone))
                        .remedy("Write again when the clock is past the newest time, or in a new process"));
                }
                behind_process += pause;
            }
            self.clock.sleep(pause);
        }
    }

    fn too_far_behind(&self, clock: &str, newest: &str) -> Error {
        Error::lock("this machine's clock is behind the newest instant of the table")
            .with("clock", clock)
            .with("newest", newest)
            .with("skew", format!("{} ms", self.max_skew.as_millis()))
            .remedy(
                "Set the clocks of all writers, or hoodie.time.generator.max_expected_clock_skew_ms for all of them to \
                 how far they may be apart; and give them one time zone (or create tables with \
                 hoodie.table.timeline.timezone=UTC)",
            )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    struct Stuck;
    impl Clock for Stuck {
        fn now_ms(&self) -> i64 {
            1_000_000
        }
        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn text_and_milliseconds_agree() {
        assert_eq!(format_instant(1_767_225_600_123, TimeZone::Utc), "20260101000000123");
        assert_eq!(parse_instant_ms("20260101000000123", TimeZone::Utc), Some(1_767_225_600_123));
        assert_eq!(parse_instant_ms("20260101000000", TimeZone::Utc), Some(1_767_225_600_999));
        assert_eq!(parse_instant_ms("00000000000000002", TimeZone::Utc), None);
        assert_eq!(parse_instant_ms("7", TimeZone::Utc), None);
    }

    #[test]
    fn times_grow() {
        let g = TimeGenerator::new(Arc::new(SystemClock), TimeZone::Utc, 1);
        let mut seen = Vec::new();
        std::thread::scope(|s| {
            let hands: Vec<_> =
                (0..4).map(|_| s.spawn(|| (0..20).map(|_| g.generate(None).unwrap()).collect::<Vec<_>>())).collect();
            for h in hands {
                let mine = h.join().unwrap();
                assert!(mine.windows(2).all(|w| matches!(w, [a, b] if a < b)));
                seen.extend(mine);
            }
        });
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 80);
    }

    #[test]
    fn times_that_are_one_skew_old_need_no_sleep() {
        let g = TimeGenerator::new(Arc::new(SystemClock), TimeZone::Utc, 300).without_sleep().for_several_machines();
        let old = format_instant(SystemClock.now_ms() - 60_000, TimeZone::Utc);
        let first = g.generate(Some(&old)).unwrap();
        assert!(first > old && first < format_instant(SystemClock.now_ms() - 299, TimeZone::Utc), "{first}");
        assert!(g.generate(Some(&first)).unwrap() > first);
        // What another writer has just put on the timeline is waited for.
        let newest = format_instant(SystemClock.now_ms() + 50, TimeZone::Utc);
        assert!(g.generate(Some(&newest)).unwrap() > newest);
        assert!(format_instant(SystemClock.now_ms() - 299, TimeZone::Utc) > newest);
    }

    #[test]
    fn a_clock_that_is_behind_is_found_out() {
        let g = TimeGenerator::new(Arc::new(Stuck), TimeZone::Utc, 1);
        assert!(g.generate(Some("20990101000000000")).is_err());
    }

    #[test]
    fn a_clock_that_is_behind_by_no_more_than_the_skew_is_waited_for() {
        let machines = |skew| TimeGenerator::new(Arc::new(SystemClock), TimeZone::Utc, skew).for_several_machines();
        let ahead = |ms| format_instant(SystemClock.now_ms() + ms, TimeZone::Utc);
        let after = ahead(30);
        assert!(machines(100).generate(Some(&after)).unwrap() > after);
        let begun = std::time::Instant::now();
        let e = machines(10).generate(Some(&ahead(60_000))).unwrap_err();
        assert_eq!(e.kind(), hoodoo_runtime::error::ErrorKind::Lock);
        assert!(e.to_string().contains("skew=10 ms"), "{e}");
        assert!(begun.elapsed() < LONGEST_WAIT);
    }
}
