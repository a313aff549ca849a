//! When a compaction is due, and which slices it takes. Pure: no storage.
//!
//! Source: `ScheduleCompactionActionExecutor`, `HoodieCompactionPlanGenerator` and the strategies of Hudi 1.2.

use std::collections::HashSet;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::strategy::{Choice, sizes};
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, LogFile};
use crate::format::avro::metadata::{CompactionOperation, CompactionPlan};
use crate::format::instant::Action;
use crate::table::Options;
use crate::timeline::{TimeZone, Timeline, parse_instant_ms};

/// When a compaction is due (`hoodie.compact.inline.trigger.strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// So many delta commits since the last compaction.
    Commits,
    /// So many delta commits since the last plan.
    CommitsAfterRequest,
    /// So many seconds since the first delta commit after the last compaction.
    Seconds,
    /// Both.
    CommitsAndSeconds,
    /// Either.
    CommitsOrSeconds,
}

/// Hudi's options for compaction.
#[derive(Debug, Clone)]
pub(crate) struct CompactionOptions {
    /// After a commit, plans are carried out, and one is made when it is due (`hoodie.compact.inline`).
    pub inline: bool,
    /// After a commit, a plan is made when it is due (`hoodie.compact.schedule.inline`).
    pub schedule_inline: bool,
    /// When one is due.
    pub trigger: Trigger,
    /// Delta commits for the trigger.
    pub delta_commits: usize,
    /// Seconds for the trigger.
    pub delta_seconds: i64,
    /// Which slices.
    pub choice: Choice,
    /// After a commit, logs are compacted when that is due (`hoodie.log.compaction.inline`).
    pub log_inline: bool,
    /// Delta commits after which logs are compacted, and log files that a slice has to have.
    pub log_threshold: usize,
}

impl CompactionOptions {
    /// Reads and checks the options.
    ///
    /// # Errors
    /// `InvalidOption`; `Unsupported` for strategies that are not there.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let trigger = options.get("hoodie.compact.inline.trigger.strategy").unwrap_or("NUM_COMMITS");
        let trigger = match trigger.to_ascii_uppercase().as_str() {
            "NUM_COMMITS" => Trigger::Commits,
            "NUM_COMMITS_AFTER_LAST_REQUEST" => Trigger::CommitsAfterRequest,
            "TIME_ELAPSED" => Trigger::Seconds,
            "NUM_AND_TIME" => Trigger::CommitsAndSeconds,
            "NUM_OR_TIME" => Trigger::CommitsOrSeconds,
            other => {
                return Err(Error::invalid_option(format!("'{other}' triggers no compaction")).remedy(
                    "Use NUM_COMMITS, NUM_COMMITS_AFTER_LAST_REQUEST, TIME_ELAPSED, NUM_AND_TIME or NUM_OR_TIME",
                ));
            }
        };
        Ok(Self {
            // Hudi's own default is false, but its Spark writer sets it for batch jobs.
            inline: options.flag("hoodie.compact.inline", true)?,
            schedule_inline: options.flag("hoodie.compact.schedule.inline", false)?,
            trigger,
            delta_commits: options.number("hoodie.compact.inline.max.delta.commits", 5)?,
            delta_seconds: options.number("hoodie.compact.inline.max.delta.seconds", 3600)?,
            choice: Choice::from_options(options)?,
            log_inline: options.flag("hoodie.log.compaction.inline", false)?
                && options.flag("hoodie.log.compaction.enable", true)?,
            log_threshold: options.number("hoodie.log.compaction.blocks.threshold", 5usize)?.max(2),
        })
    }

    /// Whether a compaction is due at `now` (milliseconds).
    pub(crate) fn is_due(&self, timeline: &Timeline, zone: TimeZone, now: i64) -> bool {
        let compacted = timeline.completed(Action::Commit).next_back().map(|i| i.requested.as_str());
        let planned = timeline
            .instants()
            .iter()
            .rfind(|i| i.action.completed_as() == Action::Commit)
            .map(|i| i.requested.as_str());
        let since = |last: Option<&str>| {
            let later = move |t: &str| last.is_none_or(|last| t > last);
            timeline
                .completed(Action::DeltaCommit)
                .map(|i| i.requested.as_str())
                .filter(|t| later(t))
                .collect::<Vec<_>>()
        };
        let (after_compaction, after_plan) = (since(compacted), since(planned));
        let enough = after_compaction.len() >= self.delta_commits;
        let first = after_compaction.first().and_then(|t| parse_instant_ms(t, zone));
        let late = first.is_some_and(|first| now.saturating_sub(first) >= self.delta_seconds.saturating_mul(1_000));
        match self.trigger {
            _ if after_compaction.is_empty() => false,
            Trigger::Commits => enough,
            Trigger::CommitsAfterRequest => after_plan.len() >= self.delta_commits,
            Trigger::Seconds => late,
            Trigger::CommitsAndSeconds => enough && late,
            Trigger::CommitsOrSeconds => enough || late,
        }
    }
}

/// What is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Base files and their logs, into new base files.
    Base,
    /// Logs, into one log file.
    Log,
}

impl Kind {
    /// The action on the timeline.
    pub fn action(self) -> Action {
        match self {
            Self::Base => Action::Compaction,
            Self::Log => Action::LogCompaction,
        }
    }

    /// The operation in the commit.
    pub fn operation(self) -> &'static str {
        match self {
            Self::Base => "COMPACT",
            Self::Log => "LOG_COMPACT",
        }
    }
}

/// Plans the compaction of logs: of slices with at least so many log files, of which those before the last log compaction
/// (its requested time) do not count, for it stands in for them.
pub(crate) fn plan_log_compaction(
    slices: Vec<FileSlice>,
    pending_groups: &HashSet<(String, String)>,
    threshold: usize,
    compacted: Option<&str>,
) -> Option<CompactionPlan> {
    let counts = |log: &LogFile| compacted.is_none_or(|compacted| log.instant.as_str() >= compacted);
    let taken = |s: &FileSlice| {
        let is_pending = pending_groups.contains(&(s.partition.clone(), s.file_id.clone()));
        !is_pending && s.logs.iter().filter(|log| counts(log)).count() >= threshold.max(2)
    };
    let operations: Vec<CompactionOperation> = slices.iter().filter(|s| taken(s)).map(operation).collect();
    (!operations.is_empty()).then(|| CompactionPlan::of_logs(operations))
}

/// Plans the compaction of slices; `None` when there is nothing to compact. `pending_groups` are those of other plans.
///
/// # Errors
/// Those of [`Choice::choose`].
pub(crate) fn plan_compaction(
    slices: Vec<FileSlice>,
    pending_groups: &HashSet<(String, String)>,
    options: &CompactionOptions,
    today: NaiveDate,
) -> Result<Option<CompactionPlan>> {
    let free =
        |s: &FileSlice| !s.logs.is_empty() && !pending_groups.contains(&(s.partition.clone(), s.file_id.clone()));
    let slices = options.choice.choose(slices.into_iter().filter(free).collect(), today)?;
    let operations: Vec<CompactionOperation> = slices.iter().map(operation).collect();
    Ok((!operations.is_empty()).then(|| CompactionPlan::of_base_files(operations)))
}

fn operation(slice: &FileSlice) -> CompactionOperation {
    let name = |path: &str| path.rsplit('/').next().unwrap_or(path).to_owned();
    let (log_bytes, read, written) = sizes(slice);
    let metrics = [
        ("TOTAL_LOG_FILES", slice.logs.len() as f64),
        ("TOTAL_LOG_FILES_SIZE", log_bytes),
        ("TOTAL_IO_READ_MB", read.floor()),
        ("TOTAL_IO_WRITE_MB", written.floor()),
        ("TOTAL_IO_MB", read.floor() + written.floor()),
    ];
    CompactionOperation {
        base_instant_time: Some(slice.base_instant.clone()),
        delta_file_paths: Some(slice.logs.iter().map(|l| name(&l.path)).collect()),
        data_file_path: slice.base.as_ref().map(|b| name(&b.path)),
        file_id: Some(slice.file_id.clone()),
        partition_path: Some(slice.partition.clone()),
        metrics: Some(metrics.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        bootstrap_file_path: None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::file_group::BaseFile;
    use crate::format::instant::Layout;
    use crate::storage::FileMeta;
    use crate::timeline::TimelineConfig;

    fn options(more: &[(&str, &str)]) -> CompactionOptions {
        let given = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        CompactionOptions::from_options(&Options::new(given).unwrap()).unwrap()
    }

    fn slice(id: &str, base: u64, logs: &[u64]) -> FileSlice {
        let file = |path: String, size| FileMeta { path, size, modified_ms: 0 };
        let log = |(n, size): (usize, &u64)| LogFile::parse(&file(format!("p/.{id}_2{n}.log.1_0-0-0"), *size)).unwrap();
        FileSlice {
            partition: "p".into(),
            file_id: id.into(),
            base_instant: "1".into(),
            base: (base > 0).then(|| BaseFile::parse(&file(format!("p/{id}_0-0-0_1.parquet"), base)).unwrap()),
            logs: logs.iter().enumerate().map(log).collect(),
        }
    }

    fn taken(slices: &[FileSlice], more: &[(&str, &str)]) -> Vec<String> {
        let pending_groups = [("p".to_owned(), "busy".to_owned())].into();
        let plan = plan_compaction(slices.to_vec(), &pending_groups, &options(more), NaiveDate::MIN).unwrap();
        plan.into_iter().flat_map(|p| p.operations.unwrap()).filter_map(|o| o.file_id).collect()
    }

    #[test]
    fn slices_with_logs_are_taken_by_strategy() {
        let mib = 1 << 20;
        let slices = [
            slice("none", mib, &[]),
            slice("two", mib, &[10, 10]),
            slice("large", mib, &[100]),
            slice("busy", mib, &[1000]),
            slice("logs", 0, &[5, 5, 5]),
        ];
        assert_eq!(taken(&slices, &[]), ["large", "two", "logs"]);
        let strategy = |name: &'static str| ("hoodie.compaction.strategy", name);
        let by_number = strategy("org.apache.hudi.table.action.compact.strategy.LogFileNumBasedCompactionStrategy");
        assert_eq!(taken(&slices, &[by_number]), ["logs", "two", "large"]);
        assert_eq!(taken(&slices, &[by_number, ("hoodie.compaction.logfile.num.threshold", "2")]), ["logs", "two"]);
        assert_eq!(taken(&slices, &[("hoodie.compaction.logfile.size.threshold", "16")]), ["large", "two"]);
        let bounded = [strategy("BoundedIOCompactionStrategy"), ("hoodie.compaction.target.io", "3")];
        // The one that crosses the budget is still taken.
        assert_eq!(taken(&slices, &bounded), ["two", "large"]);
        assert_eq!(taken(&slices, &[strategy("UnBoundedCompactionStrategy")]), ["two", "large", "logs"]);
        assert!(taken(&slices[..1], &[]).is_empty());
    }

    #[test]
    fn names_and_figures_are_those_of_hudi() {
        let slices = vec![slice("f", 3 << 20, &[1 << 20, 5])];
        let plan = plan_compaction(slices, &HashSet::new(), &options(&[]), NaiveDate::MIN).unwrap().unwrap();
        let operation = plan.operations.unwrap().pop().unwrap();
        assert_eq!(operation.data_file_path.as_deref(), Some("f_0-0-0_1.parquet"));
        assert_eq!(operation.delta_file_paths.unwrap(), [".f_20.log.1_0-0-0", ".f_21.log.1_0-0-0"]);
        let metrics = operation.metrics.unwrap();
        let metric = |name: &str| *metrics.get(name).unwrap();
        assert!((metric("TOTAL_LOG_FILES") - 2.0).abs() < 1e-9);
        assert!((metric("TOTAL_LOG_FILES_SIZE") - 1_048_581.0).abs() < 1e-9);
        assert!((metric("TOTAL_IO_MB") - 7.0).abs() < 1e-9);
    }

    #[test]
    fn triggers() {
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let time = |n: u32| format!("202601010000{n:02}000");
        let names = |compacted: u32, planned: u32, deltas: std::ops::Range<u32>| {
            let mut names: Vec<String> = deltas.map(|n| format!("t/{}_{}.deltacommit", time(n), time(n))).collect();
            names.push(format!("t/{}_{}.commit", time(compacted), time(compacted)));
            names.push(format!("t/{}.compaction.requested", time(planned)));
            let files = names.into_iter().map(|path| FileMeta { path, size: 1, modified_ms: 0 }).collect();
            Timeline::from_files(config.clone(), files)
        };
        let due = |timeline: &Timeline, trigger: &str, seconds: u32| {
            let more = [
                ("hoodie.compact.inline.trigger.strategy", trigger),
                ("hoodie.compact.inline.max.delta.commits", "3"),
                ("hoodie.compact.inline.max.delta.seconds", "30"),
            ];
            let now = parse_instant_ms(&time(seconds), TimeZone::Utc).unwrap();
            options(&more).is_due(timeline, TimeZone::Utc, now)
        };
        // Three delta commits since the compaction, one since the plan; the first is 30 s old at second 32.
        let timeline = names(1, 3, 2..5);
        assert!(due(&timeline, "NUM_COMMITS", 10) && !due(&timeline, "NUM_COMMITS_AFTER_LAST_REQUEST", 10));
        assert!(!due(&timeline, "TIME_ELAPSED", 31) && due(&timeline, "TIME_ELAPSED", 32));
        assert!(!due(&timeline, "NUM_AND_TIME", 31) && due(&timeline, "NUM_OR_TIME", 31));
        let none = names(5, 5, 2..5);
        assert!(!due(&none, "NUM_OR_TIME", 59));
    }
}
