//! Reading a date by a compiled pattern, as leniently as Joda time does: numbers may have fewer digits than letters, month
//! names may be long or short, literals may differ in case, and offsets may be `Z`, `+hh`, `+hhmm` or `+hh:mm`.

use chrono::{Datelike, Days, NaiveDate};

use super::joda_items::{Field, Item, MONTHS, WEEKDAYS};
use super::zone::Zone;

/// The fields that a text holds.
#[derive(Debug, Default)]
pub(super) struct Bucket {
    year: Option<i64>,
    month: Option<i64>,
    day: Option<i64>,
    day_of_year: Option<i64>,
    /// From Monday, 0.
    weekday: Option<i64>,
    hour: Option<i64>,
    halfday: Option<i64>,
    halfday_hour: Option<i64>,
    minute: Option<i64>,
    second: Option<i64>,
    millis: i64,
    offset: Option<i32>,
    zone: Option<Zone>,
}

/// Reads all of `text`, or nothing.
pub(super) fn read(items: &[Item], text: &str, pivot: i32) -> Option<Bucket> {
    let mut bucket = Bucket::default();
    let mut rest = text;
    for item in items {
        let used = bucket.take(item, rest, pivot)?;
        rest = rest.get(used..)?;
    }
    rest.is_empty().then_some(bucket)
}

impl Bucket {
    /// Reads one item at the start of `text`; gives the bytes used.
    fn take(&mut self, item: &Item, text: &str, pivot: i32) -> Option<usize> {
        match item {
            Item::Literal(literal) => match_literal(text, literal),
            Item::Number { field, max, .. } => {
                let (value, used) = number(text, *max, matches!(field, Field::Year))?;
                self.set(*field, value)?;
                Some(used)
            }
            Item::TwoDigitYear { lenient, .. } => {
                let (year, used) = two_digit_year(text, *lenient, pivot)?;
                self.year = Some(year);
                Some(used)
            }
            Item::Fraction(len) => {
                let digits = digits(text, *len);
                (!digits.is_empty()).then_some(())?;
                let scaled = |sum: i64, (b, unit): (u8, i64)| sum + i64::from(b - b'0') * unit;
                self.millis = digits.bytes().zip([100, 10, 1]).fold(0, scaled);
                Some(digits.len())
            }
            Item::Halfday => {
                let name = ["AM", "PM"].iter().position(|n| starts_with(text, n))?;
                self.halfday = Some(name as i64);
                Some(2)
            }
            Item::MonthText { .. } => {
                let (index, used) = name(text, &MONTHS)?;
                self.month = Some(index + 1);
                Some(used)
            }
            Item::WeekdayText { .. } => {
                let (index, used) = name(text, &WEEKDAYS)?;
                self.weekday = Some(index);
                Some(used)
            }
            Item::Offset { .. } => {
                let (offset, used) = offset(text)?;
                self.offset = Some(offset);
                Some(used)
            }
            Item::ZoneId | Item::ZoneName => {
                let (zone, used) = Zone::parse_prefix(text, matches!(item, Item::ZoneId))?;
                self.zone = Some(zone);
                Some(used)
            }
            Item::Era => None,
        }
    }

    fn set(&mut self, field: Field, value: i64) -> Option<()> {
        let slot = match field {
            Field::Year | Field::YearOfEra => &mut self.year,
            Field::Month => &mut self.month,
            Field::Day => &mut self.day,
            Field::DayOfYear => &mut self.day_of_year,
            Field::Hour => &mut self.hour,
            Field::Minute => &mut self.minute,
            Field::Second => &mut self.second,
            Field::HalfdayHour => &mut self.halfday_hour,
            // 24 and 12 are the first hour; 0 and more are left out of range.
            Field::ClockHour => {
                self.hour = Some(if value == 24 {
                    0
                } else if value == 0 {
                    -1
                } else {
                    value
                });
                return Some(());
            }
            Field::HalfdayClockHour => {
                self.halfday_hour = Some(if value == 12 {
                    0
                } else if value == 0 {
                    -1
                } else {
                    value
                });
                return Some(());
            }
            Field::Century | Field::WeekYear | Field::Week | Field::DayOfWeek => return None,
        };
        *slot = Some(value);
        Some(())
    }

    /// The epoch milliseconds, and the zone if the text names one.
    pub(super) fn resolve(&self, zone: Zone) -> Result<(i64, Option<Zone>), &'static str> {
        let millis_of_day = self.millis_of_day()?;
        let midnight = self.date()?.and_hms_opt(0, 0, 0).ok_or("no midnight")?;
        let local = midnight + chrono::TimeDelta::milliseconds(millis_of_day);
        let (offset, named) = match (self.offset, self.zone) {
            (Some(0), _) => (0, Some(Zone::UTC)),
            (Some(offset), _) => (offset, Some(Zone::Fixed(offset))),
            (None, Some(own)) => (own.offset_of_local(local).ok_or("the clock skipped it")?, Some(own)),
            (None, None) => (zone.offset_of_local(local).ok_or("the clock skipped it")?, None),
        };
        Ok((local.and_utc().timestamp_millis() - i64::from(offset) * 1000, named))
    }

    /// Missing parts are those of 1970-01-01, but a day or month without a year is of 2000.
    fn date(&self) -> Result<NaiveDate, &'static str> {
        let dated = self.month.or(self.day).or(self.day_of_year).or(self.weekday).is_some();
        let year = self.year.unwrap_or(if dated { 2000 } else { 1970 });
        let year = i32::try_from(year).ok().filter(|y| (-200_000..200_000).contains(y)).ok_or("year")?;
        let mut date = NaiveDate::from_ymd_opt(year, 1, 1).ok_or("year")?;
        let small = |value: i64| u32::try_from(value).unwrap_or(0);
        if let Some(month) = self.month {
            date = date.with_month(small(month)).ok_or("month")?;
        }
        if let Some(day) = self.day_of_year {
            date = date.with_ordinal(small(day)).ok_or("day of year")?;
        }
        if let Some(day) = self.day {
            date = date.with_day(small(day)).ok_or("day of month")?;
        }
        if let Some(weekday) = self.weekday {
            let monday = date - Days::new(u64::from(date.weekday().num_days_from_monday()));
            date = monday + Days::new(weekday.unsigned_abs());
        }
        Ok(date)
    }

    fn millis_of_day(&self) -> Result<i64, &'static str> {
        let within = |value: Option<i64>, limit: i64, name| match value {
            Some(v) if !(0..limit).contains(&v) => Err(name),
            other => Ok(other),
        };
        let halfday = self.halfday.unwrap_or(0) * 12;
        let mut hour = within(self.hour, 24, "hour of day")?.unwrap_or(halfday);
        if let Some(halfday_hour) = within(self.halfday_hour, 12, "hour of half day")? {
            hour = hour / 12 * 12 + halfday_hour;
        }
        let minute = within(self.minute, 60, "minute")?.unwrap_or(0);
        let second = within(self.second, 60, "second")?.unwrap_or(0);
        Ok(((hour * 60 + minute) * 60 + second) * 1000 + self.millis)
    }
}

fn digits(text: &str, max: usize) -> &str {
    let len = text.bytes().take(max).take_while(u8::is_ascii_digit).count();
    text.get(..len).unwrap_or_default()
}

/// A number of at most `max` digits and the bytes used; `signed` ones may have a sign before them.
fn number(text: &str, max: usize, signed: bool) -> Option<(i64, usize)> {
    let sign = if signed { text.chars().next().filter(|c| "+-".contains(*c)) } else { None };
    let start = usize::from(sign.is_some());
    let digits = digits(text.get(start..)?, max.min(9));
    let value: i64 = digits.parse().ok()?;
    Some((if sign == Some('-') { -value } else { value }, start + digits.len()))
}

/// Two digits are a year within 50 years of the pivot; a lenient pattern takes other numbers as they are.
fn two_digit_year(text: &str, lenient: bool, pivot: i32) -> Option<(i64, usize)> {
    if lenient {
        let (value, used) = number(text, 9, true)?;
        if used != 2 || !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Some((value, used));
        }
    }
    let two = digits(text, 2);
    let value: i64 = two.parse().ok().filter(|_| two.len() == 2)?;
    let low = i64::from(pivot) - 50;
    let start = low.rem_euclid(100);
    Some((value + low - start + if value < start { 100 } else { 0 }, 2))
}

fn starts_with(text: &str, prefix: &str) -> bool {
    text.get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// A name or its first three letters: as written in a calendar, all small or all capital.
fn name(text: &str, names: &[&str]) -> Option<(i64, usize)> {
    let fits = |word: &str| {
        text.starts_with(word) || text.starts_with(&word.to_lowercase()) || text.starts_with(&word.to_uppercase())
    };
    let find = |cut: usize| names.iter().position(|n| fits(n.get(..cut.min(n.len())).unwrap_or(n)));
    if let Some(index) = find(usize::MAX) {
        return Some((index as i64, names.get(index)?.len()));
    }
    find(3).map(|index| (index as i64, 3))
}

fn match_literal(text: &str, literal: &str) -> Option<usize> {
    let mut chars = text.chars();
    for expected in literal.chars() {
        let found = chars.next()?;
        if found != expected && !found.to_lowercase().eq(expected.to_lowercase()) {
            return None;
        }
    }
    Some(text.len() - chars.as_str().len())
}

/// `Z` or `±hh[[:]mm[[:]ss[[:.]SSS]]]`, in seconds, and the bytes used.
fn offset(text: &str) -> Option<(i32, usize)> {
    if text.starts_with(['Z', 'z']) {
        return Some((0, 1));
    }
    let sign = match text.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let two = |at: usize| text.get(at..).map(|rest| digits(rest, 2)).unwrap_or_default();
    let mut seconds: i32 = two(1).parse().ok().filter(|h| two(1).len() == 2 && *h <= 23)?;
    seconds *= 3600;
    let mut used = 3;
    let colon = text.get(3..).is_some_and(|rest| rest.starts_with(':'));
    for unit in [60, 1] {
        let separated = text.get(used..).is_some_and(|rest| rest.starts_with(':'));
        let at = used + usize::from(colon);
        if colon != separated || (!colon && two(at).is_empty()) {
            break;
        }
        let value: i32 = two(at).parse().ok().filter(|v| two(at).len() == 2 && *v <= 59)?;
        seconds += value * unit;
        used = at + 2;
    }
    Some((sign * seconds, used))
}
