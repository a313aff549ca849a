//! Date patterns of the timestamp key generator: a subset of Joda time's `DateTimeFormat`.
//!
//! Printing: `G C x y Y w e E M d D H h k K a m s S z(1-3) Z ZZ ZZZ` and literals, quoted or not. Reading: all of these but
//! `G C x w e`. Texts are English. Any other letter, and the long zone names (`zzzz`), are refused when the pattern is read.

use chrono::{DateTime, Datelike, Timelike, Utc};

use super::joda_items::{Field, Item, MONTHS, WEEKDAYS};
use super::joda_parse;
use super::string_builder::write_digits;
use super::zone::{Zone, offset_string};
use crate::error::{Error, Result};

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    pub(super) items: Vec<Item>,
}

/// A run of one letter, or a literal.
enum Token {
    Letters(char, usize),
    Literal(String),
}

impl Pattern {
    /// Compiles a pattern for printing.
    pub(super) fn for_output(option: &str, pattern: &str) -> Result<Self> {
        let tokens = tokens(pattern);
        let mut items = Vec::with_capacity(tokens.len());
        for (i, token) in tokens.iter().enumerate() {
            items.push(match token {
                Token::Literal(text) => Item::Literal(text.clone()),
                Token::Letters(letter, len) => item(*letter, *len, tokens.get(i + 1)).ok_or_else(|| {
                    Error::invalid_option(format!(
                        "{option}: the pattern letters {:?} are not supported",
                        letter.to_string().repeat(*len)
                    ))
                    .with("pattern", pattern)
                })?,
            });
        }
        if items.is_empty() {
            return Err(
                Error::invalid_option(format!("{option} is empty")).remedy("Give a date pattern such as yyyy/MM/dd")
            );
        }
        Ok(Self { items })
    }

    /// Compiles a pattern for reading.
    pub(super) fn for_input(option: &str, pattern: &str) -> Result<Self> {
        let made = Self::for_output(option, pattern)?;
        let unreadable = made.items.iter().find(|item| {
            use Field::{Century, DayOfWeek, Week, WeekYear};
            matches!(item, Item::Era | Item::Number { field: Century | WeekYear | Week | DayOfWeek, .. })
                || matches!(item, Item::TwoDigitYear { field: WeekYear, .. })
        });
        match unreadable {
            None => Ok(made),
            Some(_) => {
                Err(Error::invalid_option(format!("{option}: the pattern letters G, C, x, w and e can't be read"))
                    .with("pattern", pattern))
            }
        }
    }

    /// Appends `millis` since the epoch, as the clock of `zone` shows it.
    pub(super) fn format(&self, millis: i64, zone: Zone, out: &mut String) -> Result<()> {
        let beyond = || Error::schema("the time is beyond the calendar").with("epoch milliseconds", millis);
        let instant: DateTime<Utc> = DateTime::from_timestamp_millis(millis).ok_or_else(beyond)?;
        if !(-200_000..200_000).contains(&instant.year()) {
            return Err(beyond());
        }
        let (local, offset) = zone.local(instant);
        for item in &self.items {
            match item {
                Item::Literal(text) => out.push_str(text),
                Item::Number { field, min, .. } => pad(out, number(*field, &local), *min),
                Item::TwoDigitYear { field, .. } => pad(out, number(*field, &local).abs() % 100, 2),
                Item::Fraction(len) => {
                    let digits = format!("{:03}", local.nanosecond() / 1_000_000);
                    out.extend(digits.chars().chain(std::iter::repeat('0')).take(*len));
                }
                Item::Era => out.push_str(if local.year() > 0 { "AD" } else { "BC" }),
                Item::Halfday => out.push_str(if local.hour() < 12 { "AM" } else { "PM" }),
                Item::MonthText { long } => push_name(out, &MONTHS, local.month0(), *long),
                Item::WeekdayText { long } => push_name(out, &WEEKDAYS, local.weekday().num_days_from_monday(), *long),
                Item::Offset { colon } => out.push_str(&offset_string(offset, *colon)),
                Item::ZoneId => out.push_str(&zone.id()),
                Item::ZoneName => {
                    let name = zone.short_name(instant).ok_or_else(|| {
                        Error::unsupported(format!("the time zone {} has no short name here", zone.id()))
                            .remedy("Use ZZ instead of z in the date pattern")
                    })?;
                    out.push_str(&name);
                }
            }
        }
        Ok(())
    }

    /// Reads all of `text`; `zone` is the clock it was written by when the text itself names none. Gives the epoch
    /// milliseconds and the zone that the text names.
    pub(super) fn parse(patterns: &[Self], text: &str, zone: Zone, pivot: i32) -> Result<(i64, Option<Zone>)> {
        let bucket = patterns
            .iter()
            .find_map(|pattern| joda_parse::read(&pattern.items, text, pivot))
            .ok_or_else(|| Error::schema(format!("the text {text:?} does not fit the input date format")))?;
        bucket.resolve(zone).map_err(|reason| Error::schema(format!("the date {text:?} does not exist: {reason}")))
    }

    /// The span of local time, in milliseconds, within which the printed text does not change; nothing if it hangs on
    /// the zone's offset, too.
    pub(super) fn granularity(&self) -> Option<i64> {
        const HOUR: i64 = 3_600_000;
        let of = |item: &Item| match item {
            Item::Offset { .. } | Item::ZoneName => None,
            Item::Fraction(_) => Some(1),
            Item::Number { field: Field::Second, .. } => Some(1_000),
            Item::Number { field: Field::Minute, .. } => Some(60_000),
            Item::Number {
                field: Field::Hour | Field::ClockHour | Field::HalfdayHour | Field::HalfdayClockHour,
                ..
            }
            | Item::Halfday => Some(HOUR),
            _ => Some(24 * HOUR),
        };
        self.items.iter().try_fold(24 * HOUR, |least, item| of(item).map(|span| span.min(least)))
    }

    /// How many `/` the printed text has.
    pub(super) fn slashes(&self) -> usize {
        let count = |item: &Item| if let Item::Literal(text) = item { text.matches('/').count() } else { 0 };
        self.items.iter().map(count).sum()
    }
}

fn push_name(out: &mut String, names: &[&str], index: u32, long: bool) {
    let name = names.get(index as usize).copied().unwrap_or_default();
    out.push_str(if long { name } else { name.get(..3).unwrap_or(name) });
}

fn pad(out: &mut String, value: i64, min: usize) {
    if value < 0 {
        out.push('-');
    }
    // More zeros than the widest number has digits.
    (20..min).for_each(|_| out.push('0'));
    // Writing to memory does not fail.
    let _ = write_digits(out, value.unsigned_abs(), min.clamp(1, 20));
}

fn number(field: Field, local: &chrono::NaiveDateTime) -> i64 {
    let year = i64::from(local.year());
    let year_of_era = if year > 0 { year } else { 1 - year };
    let (hour, halfday_hour) = (i64::from(local.hour()), i64::from(local.hour() % 12));
    match field {
        Field::Century => year_of_era / 100,
        Field::WeekYear => i64::from(local.iso_week().year()),
        Field::Year => year,
        Field::YearOfEra => year_of_era,
        Field::Week => i64::from(local.iso_week().week()),
        Field::DayOfWeek => i64::from(local.weekday().number_from_monday()),
        Field::Month => i64::from(local.month()),
        Field::Day => i64::from(local.day()),
        Field::DayOfYear => i64::from(local.ordinal()),
        Field::Hour => hour,
        Field::ClockHour => {
            if hour == 0 {
                24
            } else {
                hour
            }
        }
        Field::HalfdayHour => halfday_hour,
        Field::HalfdayClockHour => {
            if halfday_hour == 0 {
                12
            } else {
                halfday_hour
            }
        }
        Field::Minute => i64::from(local.minute()),
        Field::Second => i64::from(local.second()),
    }
}

fn item(letter: char, len: usize, next: Option<&Token>) -> Option<Item> {
    let next_is_number = matches!(next, Some(Token::Letters(letter, len)) if is_numeric(*letter, *len));
    let year = |field| match len {
        2 => Item::TwoDigitYear { field, lenient: !next_is_number },
        _ => Item::Number { field, min: len, max: if next_is_number { len } else { 9 } },
    };
    let number = |field, max| Item::Number { field, min: len, max };
    Some(match letter {
        'G' => Item::Era,
        'C' => number(Field::Century, 9),
        'x' => year(Field::WeekYear),
        'y' => year(Field::Year),
        'Y' => year(Field::YearOfEra),
        'w' => number(Field::Week, 2),
        'e' => number(Field::DayOfWeek, 1),
        'E' => Item::WeekdayText { long: len >= 4 },
        'M' if len >= 3 => Item::MonthText { long: len >= 4 },
        'M' => number(Field::Month, 2),
        'd' => number(Field::Day, 2),
        'D' => number(Field::DayOfYear, 3),
        'H' => number(Field::Hour, 2),
        'k' => number(Field::ClockHour, 2),
        'K' => number(Field::HalfdayHour, 2),
        'h' => number(Field::HalfdayClockHour, 2),
        'a' => Item::Halfday,
        'm' => number(Field::Minute, 2),
        's' => number(Field::Second, 2),
        'S' => Item::Fraction(len),
        'Z' if len >= 3 => Item::ZoneId,
        'Z' => Item::Offset { colon: len == 2 },
        'z' if len < 4 => Item::ZoneName,
        _ => return None,
    })
}

/// Whether the letters stand for digits, which ends the number before them.
fn is_numeric(letter: char, len: usize) -> bool {
    "CxyYdhHmsSeDwkK".contains(letter) || (letter == 'M' && len <= 2)
}

/// Splits a pattern: two quotes are a quote, letters between single quotes are literal, and so is all that is no letter.
fn tokens(pattern: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut literal = String::new();
    let mut quoted = false;
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            if chars.next_if_eq(&'\'').is_some() {
                literal.push('\'');
            } else {
                quoted = !quoted;
            }
        } else if quoted || !c.is_ascii_alphabetic() {
            literal.push(c);
        } else {
            if !literal.is_empty() {
                found.push(Token::Literal(std::mem::take(&mut literal)));
            }
            let mut len = 1;
            while chars.next_if_eq(&c).is_some() {
                len += 1;
            }
            found.push(Token::Letters(c, len));
        }
    }
    if !literal.is_empty() {
        found.push(Token::Literal(literal));
    }
    found
}
