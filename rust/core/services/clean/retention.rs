//! Which file slices a cleaning policy keeps (pure).

use crate::error::{Error, Result};
use crate::format::instant::{Action, Instant};
use crate::table::Options;
use crate::timeline::{Timeline, format_instant, parse_instant_ms};

const HOUR_MS: i64 = 60 * 60 * 1_000;

const COMMITS: (&str, &str) = ("KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained");
const VERSIONS: (&str, &str) = ("KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained");
const HOURS: (&str, &str) = ("KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained");

/// What the cleaner retains, by its policy (`hoodie.clean.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Retention {
    /// `KEEP_LATEST_COMMITS`: what queries of this number of commits read.
    Commits(usize),
    /// `KEEP_LATEST_BY_HOURS`: what queries of the commits of this number of hours read.
    Hours(i64),
    /// `KEEP_LATEST_FILE_VERSIONS`: this number of slices of each file group.
    FileVersions(usize),
}

impl Retention {
    /// Reads the settings. The option of one policy implies this policy, as in Hudi, unless options of others are there too.
    ///
    /// # Errors
    /// `InvalidOption` for other policies, and for numbers that would keep nothing.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let mut named = [COMMITS, VERSIONS, HOURS].into_iter().filter(|(_, key)| options.get(key).is_some());
        let implied = match (named.next(), named.next()) {
            (Some(only), None) => only.0,
            _ => COMMITS.0,
        };
        let policy = options.get("hoodie.clean.policy").unwrap_or(implied);
        let is = |(name, _): (&str, &str)| policy.eq_ignore_ascii_case(name);
        let at_least_one = |(_, key): (&str, &'static str), standard: usize| match options.number(key, standard)? {
            0 => Err(Error::invalid_value(key, 0, "a number from 1")),
            number => Ok(number),
        };
        if is(COMMITS) {
            return at_least_one(COMMITS, 10).map(Self::Commits);
        }
        if is(VERSIONS) {
            return at_least_one(VERSIONS, 3).map(Self::FileVersions);
        }
        if !is(HOURS) {
            let policies = format!("{}, {} or {}", COMMITS.0, VERSIONS.0, HOURS.0);
            return Err(Error::invalid_value("hoodie.clean.policy", policy, &policies));
        }
        match options.number(HOURS.1, 24)? {
            hours if hours < 0 => Err(Error::invalid_value(HOURS.1, hours, "a number of hours")),
            hours => Ok(Self::Hours(hours)),
        }
    }

    /// The name of the policy.
    pub(super) fn policy(self) -> &'static str {
        match self {
            Self::Commits(_) => COMMITS.0,
            Self::Hours(_) => HOURS.0,
            Self::FileVersions(_) => VERSIONS.0,
        }
    }

    /// The earliest commit whose queries find their files after a clean at this time (milliseconds since the epoch). `None`:
    /// there are too few commits, or the policy does not depend on commits.
    pub(crate) fn earliest(self, timeline: &Timeline, now_ms: i64) -> Option<&Instant> {
        match self {
            Self::Commits(retained) => earliest_to_retain(timeline, retained),
            Self::Hours(hours) => {
                let from = format_instant(now_ms.saturating_sub(hours.saturating_mul(HOUR_MS)), timeline.config().zone);
                // Without a commit in these hours, Hudi never cleans. Queries of that time read the newest one.
                let first = timeline.completed_writes().find(|i| i.requested >= from);
                let first = first.or_else(|| timeline.completed_writes().next_back())?;
                before_pending(timeline, before_late(timeline, first)?)
            }
            Self::FileVersions(_) => None,
        }
    }

    /// The earliest commit that archiving must leave on the timeline, as Hudi's archiver counts hours: back from the newest
    /// commit. Source: `CleanerUtils.getEarliestCommitToRetain` of Hudi. What the cleaner keeps for a commit that completed
    /// late, it keeps as long as the timeline tells when that completed.
    pub(crate) fn earliest_to_archive(self, timeline: &Timeline) -> Option<&Instant> {
        let hours = match self {
            Self::Commits(retained) => {
                let late = || late_before(timeline, retained_commit(timeline, retained)?);
                return earliest_to_retain(timeline, retained).or_else(late);
            }
            Self::FileVersions(_) => return None,
            Self::Hours(hours) => hours,
        };
        let zone = timeline.config().zone;
        let newest = parse_instant_ms(&timeline.completed_writes().next_back()?.requested, zone)?;
        let from = format_instant(newest.saturating_sub(hours.saturating_mul(HOUR_MS)), zone);
        let first = timeline.completed_writes().find(|i| i.requested >= from)?;
        Some(late_before(timeline, first).unwrap_or(first))
    }
}

/// The earliest of this number of commits, or `None` if there are too few commits.
pub(crate) fn earliest_to_retain(timeline: &Timeline, retained: usize) -> Option<&Instant> {
    before_pending(timeline, before_late(timeline, retained_commit(timeline, retained)?)?)
}

/// The first of this number of commits, by requested time.
fn retained_commit(timeline: &Timeline, retained: usize) -> Option<&Instant> {
    let completed: Vec<&Instant> = timeline.completed_writes().collect();
    if completed.len() <= retained {
        return None;
    }
    completed.get(completed.len() - retained).copied()
}

/// The commit, or an earlier one: what an action compacted or replaced that completed late must stay, as it had to while
/// the action was pending.
fn before_late<'a>(timeline: &'a Timeline, commit: &'a Instant) -> Option<&'a Instant> {
    match late_before(timeline, commit) {
        Some(late) => timeline.completed_writes().rfind(|i| i.requested < late.requested),
        None => Some(commit),
    }
}

/// The first action that was requested before this commit, but completed after it or after a later one: a query that began
/// in between does not see it, and reads the file slices that it compacted or replaced.
fn late_before<'a>(timeline: &'a Timeline, commit: &Instant) -> Option<&'a Instant> {
    let retained = timeline.completed_writes().filter(|i| i.requested >= commit.requested);
    let first_completed = retained.filter_map(|i| i.completed.as_deref()).min();
    // A log compaction leaves the file slices as they are.
    timeline.completed_writes().find(|i| {
        i.requested < commit.requested
            && i.completed.as_deref() > first_completed
            && !timeline.is_log_compaction(&i.requested)
    })
}

/// The commit, or an earlier one: a pending write began from the commit before it, which must stay.
fn before_pending<'a>(timeline: &'a Timeline, commit: &'a Instant) -> Option<&'a Instant> {
    let pending = timeline.pending().find(|i| i.action.is_write() && i.action != Action::LogCompaction);
    match pending {
        Some(pending) if commit.requested > pending.requested => {
            timeline.completed_writes().rfind(|i| i.requested < pending.requested)
        }
        _ => Some(commit),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeMap;

    use super::*;
    use crate::error::ErrorKind;

    fn of(options: &[(&str, &str)]) -> Result<Retention> {
        let options: BTreeMap<String, String> =
            options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Retention::from_options(&Options::new(options)?)
    }

    #[test]
    fn an_option_of_one_policy_implies_it() {
        assert_eq!(of(&[]).unwrap(), Retention::Commits(10));
        assert_eq!(of(&[("hoodie.clean.hours.retained", "5")]).unwrap(), Retention::Hours(5));
        assert_eq!(of(&[("hoodie.cleaner.fileversions.retained", "2")]).unwrap(), Retention::FileVersions(2));
        let named = [("hoodie.clean.policy", "keep_latest_by_hours"), ("hoodie.clean.fileversions.retained", "2")];
        assert_eq!(of(&named).unwrap(), Retention::Hours(24));
    }

    #[test]
    fn what_keeps_nothing_is_refused() {
        for (key, value) in [
            ("hoodie.clean.commits.retained", "0"),
            ("hoodie.clean.fileversions.retained", "0"),
            ("hoodie.clean.hours.retained", "-1"),
            ("hoodie.clean.policy", "KEEP_ALL"),
        ] {
            assert_eq!(of(&[(key, value)]).unwrap_err().kind(), ErrorKind::InvalidOption, "{key}={value}");
        }
    }
}
