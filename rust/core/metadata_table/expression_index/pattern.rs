//! Patterns of dates and times whose strings are in the order of the times: from the year on, each field with all its digits.

use std::fmt::Write;

use chrono::{Datelike, NaiveDateTime, Timelike};

use crate::error::{Error, Result};

/// Fields in the order in which a pattern may have them, as many as it has.
const FIELDS: [(&str, Field); 6] = [
    ("yyyy", Field::Year),
    ("MM", Field::Month),
    ("dd", Field::Day),
    ("HH", Field::Hour),
    ("mm", Field::Minute),
    ("ss", Field::Second),
];
/// What may be between fields without quotes.
const SEPARATORS: &str = "-/:._, ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Year,
    Month,
    Day,
    Hour,
    Minute,
    Second,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Field(Field),
    Literal(String),
}

/// A pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Item>);

impl Pattern {
    /// Reads a pattern of Spark.
    ///
    /// # Errors
    /// `Unsupported` for one whose strings are in another order than times, or that has other fields.
    pub(super) fn new(pattern: &str) -> Result<Self> {
        let (mut items, mut fields, mut rest) = (Vec::new(), FIELDS.iter(), pattern);
        while let Some(first) = rest.chars().next() {
            if first.is_ascii_alphabetic() {
                let (letters, field) = fields.next().ok_or_else(|| unsupported(pattern))?;
                rest = rest
                    .strip_prefix(letters)
                    .filter(|rest| !rest.starts_with(first))
                    .ok_or_else(|| unsupported(pattern))?;
                items.push(Item::Field(*field));
                continue;
            }
            let literal = match rest.strip_prefix('\'').and_then(|quoted| quoted.split_once('\'')) {
                Some((literal, after)) if !literal.is_empty() && !after.starts_with('\'') => {
                    rest = after;
                    literal
                }
                None if SEPARATORS.contains(first) => {
                    let (literal, after) = rest.split_at_checked(1).ok_or_else(|| unsupported(pattern))?;
                    rest = after;
                    literal
                }
                _ => return Err(unsupported(pattern)),
            };
            items.push(Item::Literal(literal.to_owned()));
        }
        match items.contains(&Item::Field(Field::Year)) {
            true => Ok(Self(items)),
            false => Err(unsupported(pattern)),
        }
    }

    /// The string of a time of the years 1000 to 9999.
    pub(super) fn format(&self, time: &NaiveDateTime) -> String {
        let mut out = String::new();
        for item in &self.0 {
            // Writing to a string does not fail.
            let _ = match item {
                Item::Literal(literal) => out.write_str(literal),
                Item::Field(Field::Year) => write!(out, "{:04}", time.year()),
                Item::Field(Field::Month) => write!(out, "{:02}", time.month()),
                Item::Field(Field::Day) => write!(out, "{:02}", time.day()),
                Item::Field(Field::Hour) => write!(out, "{:02}", time.hour()),
                Item::Field(Field::Minute) => write!(out, "{:02}", time.minute()),
                Item::Field(Field::Second) => write!(out, "{:02}", time.second()),
            };
        }
        out
    }
}

fn unsupported(pattern: &str) -> Error {
    Error::unsupported(format!("an expression index with the pattern '{pattern}'"))
        .remedy("Patterns from the year on are supported, such as yyyy-MM-dd, yyyy-MM or yyyy-MM-dd HH:mm:ss")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use chrono::DateTime;

    use super::*;

    #[test]
    fn strings_are_those_of_spark() {
        let time = DateTime::from_timestamp_micros(1_577_934_245_123_456).unwrap().naive_utc();
        for (pattern, string) in [
            ("yyyy-MM-dd", "2020-01-02"),
            ("yyyy-MM-dd HH:mm:ss", "2020-01-02 03:04:05"),
            ("yyyyMMdd", "20200102"),
            ("yyyy", "2020"),
            ("yyyy/MM", "2020/01"),
            ("yyyy-MM-dd'T'HH", "2020-01-02T03"),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().format(&time), string);
        }
    }

    #[test]
    fn other_orders_are_refused() {
        for pattern in [
            "",
            "MM-yyyy",
            "yyyy-dd",
            "yy-MM",
            "yyyyy",
            "yyyy-M-d",
            "yyyy-MM-dd EEE",
            "HH",
            "yyyy''",
            "yyyy[MM]",
            "'x'",
            "yyyy'",
        ] {
            assert!(Pattern::new(pattern).is_err(), "{pattern}");
        }
    }
}
