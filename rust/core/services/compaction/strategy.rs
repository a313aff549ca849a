//! Which slices a compaction takes, and in which order. Pure: no storage, and today's date is passed in.
//!
//! Source: the classes of `org.apache.hudi.table.action.compact.strategy` in Hudi 1.2. Several, as a comma list, apply
//! one after the other, as its `CompositeCompactionStrategy` does.

use chrono::{Days, NaiveDate};
use regex::Regex;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::table::Options;

/// One step of the choice (`hoodie.compaction.strategy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strategy {
    /// Those with the most bytes of logs first.
    LogFileSize,
    /// Those with the most log files first.
    LogFileNumber,
    /// In their order, as far as the budget reaches.
    Bounded,
    /// All.
    Unbounded,
    /// The newest partitions, which are days; newest first, as far as the budget reaches.
    DayBased,
    /// Partitions of the last days and of later ones, newest first.
    RecentDays,
    /// Partitions that are older than that.
    OlderDays,
    /// Partitions whose path matches.
    PartitionRegex,
}

/// Which slices are taken.
#[derive(Debug, Clone)]
pub(crate) struct Choice {
    /// The steps, in their order.
    pub strategies: Vec<Strategy>,
    /// Bytes of logs that a slice has to have.
    pub log_bytes: u64,
    /// Log files that a slice has to have.
    pub log_files: usize,
    /// MiB to be read and written, at which no more slices are taken.
    pub target_io: f64,
    /// Partitions, or days, of the strategies that go by days.
    pub days: u32,
    /// What the path of a partition has to match somewhere.
    pub partition_regex: Option<Regex>,
}

impl Choice {
    /// Reads and checks the options.
    ///
    /// # Errors
    /// `InvalidOption`; `Unsupported` for strategies that are not there.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let classes = options.get("hoodie.compaction.strategy").unwrap_or("LogFileSizeBasedCompactionStrategy");
        let strategies: Vec<Strategy> =
            classes.split(',').map(str::trim).filter(|c| !c.is_empty()).map(parse).collect::<Result<_>>()?;
        let regex = options.get("hoodie.compaction.partition.path.regex").filter(|text| !text.is_empty());
        let partition_regex = regex.map(Regex::new).transpose().map_err(|e| {
            Error::invalid_option(format!("hoodie.compaction.partition.path.regex is no regular expression: {e}"))
        })?;
        if strategies.contains(&Strategy::PartitionRegex) && partition_regex.is_none() {
            return Err(Error::invalid_option("a compaction by partition paths needs something to match them with")
                .remedy("Set hoodie.compaction.partition.path.regex"));
        }
        Ok(Self {
            strategies,
            log_bytes: options.number("hoodie.compaction.logfile.size.threshold", 0)?,
            log_files: options.number("hoodie.compaction.logfile.num.threshold", 0)?,
            target_io: options.number("hoodie.compaction.target.io", 512_000.0)?,
            days: options.number("hoodie.compaction.daybased.target.partitions", 10)?,
            partition_regex,
        })
    }

    /// The slices that are taken of those with log files, in the order in which they are to be compacted.
    ///
    /// # Errors
    /// `InvalidOption` when a partition is no day and the strategy goes by days.
    pub(crate) fn choose(&self, mut slices: Vec<FileSlice>, today: NaiveDate) -> Result<Vec<FileSlice>> {
        for strategy in &self.strategies {
            slices = self.step(*strategy, slices, today)?;
        }
        Ok(slices)
    }

    fn step(&self, strategy: Strategy, mut slices: Vec<FileSlice>, today: NaiveDate) -> Result<Vec<FileSlice>> {
        let log_bytes = |s: &FileSlice| s.logs.iter().map(|l| l.size).sum::<u64>();
        match strategy {
            Strategy::LogFileSize => {
                slices.retain(|s| log_bytes(s) >= self.log_bytes);
                slices.sort_by_key(|s| std::cmp::Reverse(log_bytes(s)));
            }
            Strategy::LogFileNumber => {
                slices.retain(|s| s.logs.len() >= self.log_files);
                slices.sort_by_key(|s| std::cmp::Reverse(s.logs.len()));
            }
            Strategy::Bounded => {}
            Strategy::Unbounded => return Ok(slices),
            Strategy::PartitionRegex => {
                slices.retain(|s| self.partition_regex.as_ref().is_some_and(|regex| regex.is_match(&s.partition)));
                return Ok(slices);
            }
            Strategy::DayBased => {
                let mut days = by_day(slices)?;
                let mut newest: Vec<NaiveDate> = days.iter().map(|(day, _)| *day).collect();
                newest.dedup();
                newest.truncate(self.days as usize);
                days.retain(|(day, _)| newest.contains(day));
                slices = days.into_iter().map(|(_, slice)| slice).collect();
            }
            Strategy::RecentDays | Strategy::OlderDays => {
                let earliest = today.checked_sub_days(Days::new(u64::from(self.days))).unwrap_or(NaiveDate::MIN);
                let wanted = |day: &NaiveDate| (*day >= earliest) == (strategy == Strategy::RecentDays);
                return Ok(by_day(slices)?.into_iter().filter(|(d, _)| wanted(d)).map(|(_, slice)| slice).collect());
            }
        }
        let mut left = self.target_io;
        slices.retain(|slice| {
            let taken = left > 0.0;
            left -= io_mib(slice);
            taken
        });
        Ok(slices)
    }
}

fn parse(class: &str) -> Result<Strategy> {
    Ok(match class.rsplit('.').next().unwrap_or(class) {
        "LogFileSizeBasedCompactionStrategy" => Strategy::LogFileSize,
        "LogFileNumBasedCompactionStrategy" => Strategy::LogFileNumber,
        "BoundedIOCompactionStrategy" => Strategy::Bounded,
        "UnBoundedCompactionStrategy" => Strategy::Unbounded,
        "DayBasedCompactionStrategy" => Strategy::DayBased,
        "BoundedPartitionAwareCompactionStrategy" => Strategy::RecentDays,
        "UnBoundedPartitionAwareCompactionStrategy" => Strategy::OlderDays,
        "PartitionRegexBasedCompactionStrategy" => Strategy::PartitionRegex,
        _ => {
            return Err(Error::unsupported(format!("the compaction strategy {class}"))
                .remedy("Use one of Hudi's strategies of compaction, or leave hoodie.compaction.strategy out"));
        }
    })
}

/// Slices with the day that their partition is, newest first.
fn by_day(slices: Vec<FileSlice>) -> Result<Vec<(NaiveDate, FileSlice)>> {
    let mut days = slices.into_iter().map(|s| Ok((day(&s.partition)?, s))).collect::<Result<Vec<_>>>()?;
    days.sort_by_key(|(day, _)| std::cmp::Reverse(*day));
    Ok(days)
}

/// `2026/01/31`, `year=2026/month=01/day=31`, `day=2026/01/31`.
fn day(partition: &str) -> Result<NaiveDate> {
    let parts = partition.split('/').map(|part| part.split_once('=').map_or(part, |(_, value)| value));
    let plain = parts.collect::<Vec<_>>().join("/");
    NaiveDate::parse_from_str(&plain, "%Y/%m/%d").map_err(|_| {
        Error::invalid_option("a compaction strategy that goes by days met a partition that is none")
            .with("partition", partition)
            .remedy("Use another hoodie.compaction.strategy; days are yyyy/MM/dd")
    })
}

/// Bytes of a MiB.
const MIB: f64 = (1u64 << 20) as f64;

/// MiB that are read and written when a slice is compacted.
fn io_mib(slice: &FileSlice) -> f64 {
    let (_, read, written) = sizes(slice);
    read + written
}

/// MiB of log files; of what is read; of what is written, as Hudi guesses it.
pub(super) fn sizes(slice: &FileSlice) -> (f64, f64, f64) {
    let log_bytes = slice.logs.iter().map(|l| l.size).sum::<u64>() as f64;
    let base_bytes = slice.base.as_ref().map_or(0, |b| b.size) as f64;
    (log_bytes, (base_bytes + log_bytes) / MIB, base_bytes.max(log_bytes) / MIB)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn chosen(partitions: &[&str], more: &[(&str, &str)]) -> Result<Vec<String>> {
        let given = more.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let slice = |partition: &&str| FileSlice {
            partition: (*partition).to_owned(),
            file_id: "f".into(),
            base_instant: "1".into(),
            base: None,
            logs: Vec::new(),
        };
        let today = NaiveDate::from_ymd_opt(2026, 3, 10).unwrap();
        let choice = Choice::from_options(&Options::new(given).unwrap())?;
        let slices = choice.choose(partitions.iter().map(slice).collect(), today)?;
        Ok(slices.into_iter().map(|s| s.partition).collect())
    }

    #[test]
    fn strategies_by_day() {
        let days = ["2026/03/01", "2026/03/08", "2027/01/01", "2026/03/09", "2026/03/08"];
        let target = ("hoodie.compaction.daybased.target.partitions", "2");
        let strategy = |name: &'static str| [("hoodie.compaction.strategy", name), target];
        assert_eq!(chosen(&days, &strategy("DayBasedCompactionStrategy")).unwrap(), ["2027/01/01", "2026/03/09"]);
        let recent = strategy("org.apache.hudi.table.action.compact.strategy.BoundedPartitionAwareCompactionStrategy");
        let expected = ["2027/01/01", "2026/03/09", "2026/03/08", "2026/03/08"];
        assert_eq!(chosen(&days, &recent).unwrap(), expected);
        assert_eq!(chosen(&days, &strategy("UnBoundedPartitionAwareCompactionStrategy")).unwrap(), ["2026/03/01"]);
        let hive = ["year=2026/month=03/day=09", "year=2026/month=01/day=01"];
        assert_eq!(chosen(&hive, &recent).unwrap(), hive[..1]);
        assert!(chosen(&["a"], &recent).is_err());
    }

    #[test]
    fn by_path_and_one_after_the_other() {
        let regex = ("hoodie.compaction.partition.path.regex", "/03/");
        let both = "PartitionRegexBasedCompactionStrategy,DayBasedCompactionStrategy";
        let days = ["2026/03/01", "2026/04/08", "2026/03/08", "2026/03/09"];
        let more = [("hoodie.compaction.strategy", both), regex, ("hoodie.compaction.daybased.target.partitions", "2")];
        assert_eq!(chosen(&days, &more).unwrap(), ["2026/03/09", "2026/03/08"]);
        assert!(chosen(&days, &more[..1]).is_err());
        let broken = ("hoodie.compaction.partition.path.regex", "(");
        assert!(chosen(&days, &[more[0], broken]).is_err());
        assert!(chosen(&days, &[("hoodie.compaction.strategy", "MyOwn")]).is_err());
    }
}
