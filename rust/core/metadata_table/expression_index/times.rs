//! Functions of dates and timestamps.
//!
//! Spark computes most functions of timestamps in the time zone of the session, and an index does not say which one that is.
//! So the range is that of all local times that there may be: the offset of a zone is 18 hours at most.

use std::cmp::Ordering;

use chrono::{DateTime, Datelike, NaiveDateTime, Timelike};

use super::options::Options;
use super::pattern::Pattern;
use crate::error::{Error, Result};
use crate::format::column_range::{RangeValue, ValueType};

/// The functions, as Hudi names them.
pub(super) const NAMES: &[&str] = &[
    "year",
    "month",
    "day",
    "hour",
    "to_date",
    "date_add",
    "date_sub",
    "date_format",
    "from_unixtime",
    "unix_timestamp",
    "to_timestamp",
];
/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;
const SECOND: i64 = 1_000_000;
/// The largest offset of a time zone, in microseconds.
const OFFSET: i64 = 18 * 3600 * SECOND;
/// Years whose dates are the same in all calendars that Spark knows, with four digits.
const YEARS: std::ops::RangeInclusive<i32> = 1583..=9999;
/// The pattern of `from_unixtime` without one.
const DEFAULT_PATTERN: &str = "yyyy-MM-dd HH:mm:ss";
const FORMAT: &str = "format";
const DAYS: &str = "days";

/// A function of dates, timestamps or seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TimeFunction {
    Year,
    Month,
    Day,
    Hour,
    /// The date so many days later.
    Date {
        later: i32,
    },
    DateFormat(Pattern),
    FromUnixtime(Pattern),
    UnixTimestamp,
    ToTimestamp,
}

impl TimeFunction {
    /// The function of this name; `None` if it is another one.
    ///
    /// # Errors
    /// `InvalidOption` for options that it does not take; `Unsupported` for patterns that are not.
    pub(super) fn new(name: &str, options: &Options<'_>) -> Result<Option<Self>> {
        let function = match name {
            "year" => Self::Year,
            "month" => Self::Month,
            "day" => Self::Day,
            "hour" => Self::Hour,
            "to_date" => Self::Date { later: 0 },
            "date_add" => Self::Date { later: options.number(DAYS)? },
            "date_sub" => Self::Date { later: options.number(DAYS)?.wrapping_neg() },
            "date_format" => {
                let missing = || Error::invalid_option(format!("the function {name} needs the option '{FORMAT}'"));
                Self::DateFormat(Pattern::new(options.get(FORMAT).ok_or_else(missing)?)?)
            }
            "from_unixtime" => Self::FromUnixtime(Pattern::new(options.get(FORMAT).unwrap_or(DEFAULT_PATTERN))?),
            "unix_timestamp" => Self::UnixTimestamp,
            "to_timestamp" => Self::ToTimestamp,
            _ => return Ok(None),
        };
        options.only(match (&function, name) {
            (Self::DateFormat(_) | Self::FromUnixtime(_), _) => &[FORMAT],
            (_, "date_add" | "date_sub") => &[DAYS],
            _ => &[],
        })?;
        Ok(Some(function))
    }

    /// The type of its values, of a column of this type; `None` if it is not computed of such a column.
    pub(super) fn value_type(&self, column: ValueType) -> Option<ValueType> {
        use ValueType as T;
        let is_timestamp = matches!(column, T::TimestampMillis | T::TimestampMicros);
        let is_date = column == T::Date;
        match self {
            Self::Year | Self::Month | Self::Day => (is_date || is_timestamp).then_some(T::Int),
            Self::Hour => is_timestamp.then_some(T::Int),
            Self::Date { .. } => (is_date || is_timestamp).then_some(T::Date),
            Self::DateFormat(_) => (is_date || is_timestamp).then_some(T::String),
            Self::FromUnixtime(_) => matches!(column, T::Int | T::Long).then_some(T::String),
            Self::UnixTimestamp => is_timestamp.then_some(T::Long),
            Self::ToTimestamp => is_timestamp.then_some(T::TimestampMicros),
        }
    }

    /// Whether bounds of dates give those of its values.
    pub(super) fn is_exact_of_dates(&self) -> bool {
        matches!(self, Self::Year | Self::Date { .. })
    }

    /// Bounds of its values, by those of the column; `None` if they may be anything.
    pub(super) fn bounds(
        &self,
        min: &RangeValue,
        max: &RangeValue,
        column: ValueType,
    ) -> Option<(RangeValue, RangeValue)> {
        if min.compare(max)? == Ordering::Greater {
            return None;
        }
        match self {
            // Seconds are cut off in one direction or the other.
            Self::UnixTimestamp => {
                let (min, max) = (micros(min, column)?, micros(max, column)?);
                return Some((
                    RangeValue::Long(min.div_euclid(SECOND)),
                    RangeValue::Long(max.checked_add(SECOND - 1)?.div_euclid(SECOND)),
                ));
            }
            Self::ToTimestamp => {
                return Some((RangeValue::Long(micros(min, column)?), RangeValue::Long(micros(max, column)?)));
            }
            _ => {}
        }
        // Formatting makes a timestamp of a date, which may be a day later where a zone has left that day out.
        let (before, after) = match (column, self) {
            (ValueType::Date, Self::DateFormat(_)) => (0, DAY),
            (ValueType::Date, _) => (0, 0),
            _ => (OFFSET, OFFSET),
        };
        let low = local(micros(min, column)?.checked_sub(before)?)?;
        let high = local(micros(max, column)?.checked_add(after)?)?;
        let int = |value: u32| i32::try_from(value).ok().map(RangeValue::Int);
        let within = |is_one: bool, value: fn(&NaiveDateTime) -> u32, all: (u32, u32)| {
            let (min, max) = if is_one { (value(&low), value(&high)) } else { all };
            Some((int(min)?, int(max)?))
        };
        let is_one_year = low.year() == high.year();
        let is_one_month = is_one_year && low.month() == high.month();
        match self {
            Self::Year => Some((RangeValue::Int(low.year()), RangeValue::Int(high.year()))),
            Self::Month => within(is_one_year, |time| time.month(), (1, 12)),
            Self::Day => within(is_one_month, |time| time.day(), (1, 31)),
            Self::Hour => within(low.date() == high.date(), |time| time.hour(), (0, 23)),
            Self::Date { later } => Some((RangeValue::Int(day(&low, *later)?), RangeValue::Int(day(&high, *later)?))),
            Self::DateFormat(pattern) | Self::FromUnixtime(pattern) => {
                Some((RangeValue::String(pattern.format(&low)), RangeValue::String(pattern.format(&high))))
            }
            Self::UnixTimestamp | Self::ToTimestamp => None,
        }
    }
}

/// The microseconds since 1970 of a value; of a column of integers it has seconds.
fn micros(value: &RangeValue, column: ValueType) -> Option<i64> {
    let number = match value {
        RangeValue::Int(value) => i64::from(*value),
        RangeValue::Long(value) => *value,
        _ => return None,
    };
    match column {
        ValueType::Date => number.checked_mul(DAY),
        ValueType::TimestampMillis => number.checked_mul(1000),
        ValueType::TimestampMicros => Some(number),
        ValueType::Int | ValueType::Long => number.checked_mul(SECOND),
        _ => None,
    }
}

/// The local time of microseconds.
fn local(micros: i64) -> Option<NaiveDateTime> {
    let time = DateTime::from_timestamp_micros(micros)?.naive_utc();
    YEARS.contains(&time.year()).then_some(time)
}

/// The days since 1970, so many days later.
fn day(time: &NaiveDateTime, later: i32) -> Option<i32> {
    i32::try_from(time.and_utc().timestamp_micros().div_euclid(DAY)).ok()?.checked_add(later)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// 2020-03-01 00:00:00 UTC.
    const AT: i64 = 1_583_020_800;

    fn function(name: &str, options: &[(&str, &str)]) -> Result<TimeFunction> {
        let options: Vec<(String, String)> =
            options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        TimeFunction::new(name, &Options { function: name, options: &options }).map(Option::unwrap)
    }

    fn of(name: &str, options: &[(&str, &str)], min: RangeValue, max: RangeValue, column: ValueType) -> String {
        let bounds = function(name, options).unwrap().bounds(&min, &max, column);
        bounds.map_or("anything".to_owned(), |(min, max)| match (min, max) {
            (RangeValue::Int(min), RangeValue::Int(max)) => format!("{min} to {max}"),
            (RangeValue::Long(min), RangeValue::Long(max)) => format!("{min} to {max}"),
            (RangeValue::String(min), RangeValue::String(max)) => format!("{min} to {max}"),
            other => format!("{other:?}"),
        })
    }

    #[test]
    fn dates_have_no_time_zone() {
        // 2020-02-28 to 2020-03-01.
        let date = |name, options| of(name, options, RangeValue::Int(18_320), RangeValue::Int(18_322), ValueType::Date);
        assert_eq!(date("year", &[]), "2020 to 2020");
        assert_eq!(date("month", &[]), "2 to 3");
        assert_eq!(date("day", &[]), "1 to 31");
        assert_eq!(date("to_date", &[]), "18320 to 18322");
        assert_eq!(date("date_sub", &[(DAYS, "3")]), "18317 to 18319");
        // Zones have left out a day: its timestamp is that of the next one.
        assert_eq!(date("date_format", &[(FORMAT, "yyyy-MM-dd")]), "2020-02-28 to 2020-03-02");
        let one = |name| of(name, &[], RangeValue::Int(18_322), RangeValue::Int(18_322), ValueType::Date);
        assert_eq!((one("month").as_str(), one("day").as_str()), ("3 to 3", "1 to 1"));
    }

    #[test]
    fn timestamps_are_those_of_any_time_zone() {
        let at = |name, options| {
            let micros = RangeValue::Long(AT * SECOND);
            of(name, options, micros.clone(), micros, ValueType::TimestampMicros)
        };
        assert_eq!(at("to_date", &[]), "18321 to 18322");
        assert_eq!(at("month", &[]), "2 to 3");
        assert_eq!(at("day", &[]), "1 to 31");
        assert_eq!(at("hour", &[]), "0 to 23");
        assert_eq!(at("date_format", &[(FORMAT, "yyyy-MM-dd HH")]), "2020-02-29 06 to 2020-03-01 18");
        let seconds =
            |min, max| of("from_unixtime", &[], RangeValue::Long(min), RangeValue::Long(max), ValueType::Long);
        assert_eq!(seconds(AT, AT + 1), "2020-02-29 06:00:00 to 2020-03-01 18:00:01");
        assert_eq!(seconds(i64::MIN, AT), "anything");
        // Before the calendar was reformed, and years of five digits.
        assert_eq!(
            (seconds(-13_000_000_000, AT), seconds(AT, 300_000_000_000)),
            ("anything".into(), "anything".into())
        );
    }

    #[test]
    fn seconds_are_cut_off_in_either_direction() {
        let micros = |min, max| {
            let (min, max) = (RangeValue::Long(min), RangeValue::Long(max));
            of("unix_timestamp", &[], min, max, ValueType::TimestampMicros)
        };
        assert_eq!(micros(-1_500_000, -1_500_000), "-2 to -1");
        assert_eq!(micros(AT * SECOND, AT * SECOND), format!("{AT} to {AT}"));
        let millis = (RangeValue::Long(AT * 1000), RangeValue::Long(AT * 1000));
        assert_eq!(
            of("to_timestamp", &[], millis.0, millis.1, ValueType::TimestampMillis),
            format!("{0} to {0}", AT * SECOND)
        );
    }

    #[test]
    fn columns_and_options_have_to_fit() {
        assert_eq!(function("hour", &[]).unwrap().value_type(ValueType::Date), None);
        assert_eq!(function("year", &[]).unwrap().value_type(ValueType::LocalTimestampMicros), None);
        assert_eq!(function("from_unixtime", &[]).unwrap().value_type(ValueType::Double), None);
        for (name, options) in [
            ("year", (FORMAT, "yyyy")),
            ("date_add", (DAYS, "x")),
            ("date_format", (DAYS, "1")),
            ("date_format", (FORMAT, "d")),
        ] {
            assert!(function(name, &[options]).is_err(), "{name}");
        }
    }
}
