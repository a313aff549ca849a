//! Time zones by the names that the timestamp key generator takes: tz database names, Java's three-letter names and
//! `GMT±h[:mm]`.

use std::sync::LazyLock;

use chrono::{DateTime, FixedOffset, Local, LocalResult, NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::{OffsetName, Tz};

use crate::error::{Error, Result};

/// A time zone with rules, or a fixed offset in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Zone {
    Named(Tz),
    Fixed(i32),
    /// What the operating system says, of which the name is not known.
    Local,
}

/// The zone of this process, where Hudi takes that of its JVM.
static OF_PROCESS: LazyLock<Zone> = LazyLock::new(|| {
    let named = std::env::var("TZ").ok().and_then(|name| name.trim_start_matches(':').parse::<Tz>().ok());
    named.map_or(Zone::Local, Zone::Named)
});

/// Java's old three-letter names, as Joda time maps them (`EST` has summer time there).
const THREE_LETTER: &[(&str, Tz)] = &[
    ("GMT", Tz::UTC),
    ("UT", Tz::UTC),
    ("MET", Tz::CET),
    ("ECT", Tz::CET),
    ("ART", Tz::Africa__Cairo),
    ("CAT", Tz::Africa__Harare),
    ("EAT", Tz::Africa__Addis_Ababa),
    ("NET", Tz::Asia__Yerevan),
    ("PLT", Tz::Asia__Karachi),
    ("IST", Tz::Asia__Kolkata),
    ("BST", Tz::Asia__Dhaka),
    ("VST", Tz::Asia__Ho_Chi_Minh),
    ("CTT", Tz::Asia__Shanghai),
    ("JST", Tz::Asia__Tokyo),
    ("ACT", Tz::Australia__Darwin),
    ("AET", Tz::Australia__Sydney),
    ("SST", Tz::Pacific__Guadalcanal),
    ("NST", Tz::Pacific__Auckland),
    ("MIT", Tz::Pacific__Apia),
    ("HST", Tz::Pacific__Honolulu),
    ("AST", Tz::America__Anchorage),
    ("PST", Tz::America__Los_Angeles),
    ("MST", Tz::America__Denver),
    ("PNT", Tz::America__Phoenix),
    ("CST", Tz::America__Chicago),
    ("EST", Tz::America__New_York),
    ("IET", Tz::America__Indiana__Indianapolis),
    ("PRT", Tz::America__Puerto_Rico),
    ("CNT", Tz::America__St_Johns),
    ("AGT", Tz::America__Argentina__Buenos_Aires),
    ("BET", Tz::America__Sao_Paulo),
];

/// Zone names that a date string may carry (pattern letter `z`).
const PARSED_NAMES: &[(&str, Tz)] = &[
    ("UTC", Tz::UTC),
    ("GMT", Tz::UTC),
    ("UT", Tz::UTC),
    ("EST", Tz::America__New_York),
    ("EDT", Tz::America__New_York),
    ("CST", Tz::America__Chicago),
    ("CDT", Tz::America__Chicago),
    ("MST", Tz::America__Denver),
    ("MDT", Tz::America__Denver),
    ("PST", Tz::America__Los_Angeles),
    ("PDT", Tz::America__Los_Angeles),
];

impl Zone {
    pub(super) const UTC: Self = Self::Named(Tz::UTC);

    /// The zone of times that no option and no text gives one.
    pub(super) fn of_process() -> Self {
        *OF_PROCESS
    }

    /// The zone of an option. Java takes an unknown name for GMT, which would hide a typing error: refused here.
    pub(super) fn from_option(option: &str, id: &str) -> Result<Self> {
        let id = id.trim();
        if let Some(offset) = custom_offset(id) {
            return Ok(if offset == 0 { Self::UTC } else { Self::Fixed(offset) });
        }
        Self::lookup(id).ok_or_else(|| {
            Error::invalid_option(format!("{option} names the unknown time zone {id:?}"))
                .remedy("Use a tz database name such as Europe/Berlin, or GMT+8:00")
        })
    }

    fn lookup(id: &str) -> Option<Self> {
        let old = THREE_LETTER.iter().find(|(name, _)| *name == id).map(|(_, zone)| *zone);
        old.or_else(|| id.parse::<Tz>().ok()).map(Self::Named)
    }

    /// The zone name at the start of `text` and its length; `ids` for tz names, otherwise the US and UTC short names.
    pub(super) fn parse_prefix(text: &str, ids: bool) -> Option<(Self, usize)> {
        if !ids {
            let found = PARSED_NAMES.iter().find(|(name, _)| text.starts_with(name));
            return found.map(|(name, zone)| (Self::Named(*zone), name.len()));
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || "/_+-".contains(c);
        let longest = text.find(|c| !is_part(c)).unwrap_or(text.len()).min(40);
        (1..=longest).rev().find_map(|len| Some((Self::Named(text.get(..len)?.parse::<Tz>().ok()?), len)))
    }

    /// The local time of an instant and the offset from UTC in seconds.
    pub(super) fn local(self, instant: DateTime<Utc>) -> (NaiveDateTime, i32) {
        let offset = match self {
            Self::Named(Tz::UTC) => 0,
            Self::Named(zone) => zone.offset_from_utc_datetime(&instant.naive_utc()).fix().local_minus_utc(),
            Self::Local => Local.offset_from_utc_datetime(&instant.naive_utc()).local_minus_utc(),
            Self::Fixed(seconds) => seconds,
        };
        (instant.naive_utc() + chrono::TimeDelta::seconds(i64::from(offset)), offset)
    }

    /// The offset of a local time; the earlier instant when the clock was set back, nothing in a gap.
    pub(super) fn offset_of_local(self, local: NaiveDateTime) -> Option<i32> {
        let seconds = |found: LocalResult<FixedOffset>| match found {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => Some(offset.local_minus_utc()),
            LocalResult::None => None,
        };
        match self {
            Self::Fixed(seconds) => Some(seconds),
            Self::Named(zone) => seconds(zone.offset_from_local_datetime(&local).map(|offset| offset.fix())),
            Self::Local => seconds(Local.offset_from_local_datetime(&local)),
        }
    }

    /// The tz name, or the offset as text.
    pub(super) fn id(self) -> String {
        match self {
            Self::Named(zone) => zone.name().to_owned(),
            Self::Fixed(seconds) => offset_string(seconds, true),
            Self::Local => match self.local(DateTime::<Utc>::UNIX_EPOCH).1 {
                0 => Self::UTC.id(),
                seconds => offset_string(seconds, true),
            },
        }
    }

    /// The short name at an instant (`CET`, `CEST`), the offset of a fixed zone; nothing for zones that the tz database
    /// has no name for (Java knows some of its own).
    pub(super) fn short_name(self, instant: DateTime<Utc>) -> Option<String> {
        let at = |zone: Tz, when: NaiveDateTime| zone.offset_from_utc_datetime(&when).abbreviation().map(str::to_owned);
        let name = match self {
            Self::Fixed(seconds) => return Some(offset_string(seconds, true)),
            Self::Local => {
                return match self.local(instant).1 {
                    0 => Self::UTC.short_name(instant),
                    seconds => Some(offset_string(seconds, true)),
                };
            }
            Self::Named(zone) if zone.name().starts_with("Etc/GMT") => {
                return Some(offset_string(self.local(instant).1, true));
            }
            Self::Named(zone) => match at(zone, instant.naive_utc())? {
                // Before standard time: Java names the zone's standard time.
                name if name == "LMT" => at(zone, DateTime::<Utc>::UNIX_EPOCH.naive_utc())?,
                name => name,
            },
        };
        name.starts_with(|c: char| c.is_ascii_alphabetic()).then_some(name)
    }
}

/// `GMT+8`, `GMT+08:30`, `GMT-0830`: Java's custom zones, in seconds.
fn custom_offset(id: &str) -> Option<i32> {
    let rest = id.strip_prefix("GMT")?;
    let sign = match rest.chars().next()? {
        '+' => 1,
        '-' => -1,
        _ => return None,
    };
    let digits = rest.get(1..)?;
    let (hours, minutes) = match digits.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 => (hours, minutes),
        Some(_) => return None,
        None if digits.len() > 2 => digits.split_at_checked(digits.len() - 2)?,
        None => (digits, "0"),
    };
    let all_digits = |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    if !all_digits(hours) || !all_digits(minutes) {
        return None;
    }
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// `+0530` or `+05:30`; seconds are left out.
pub(super) fn offset_string(seconds: i32, colon: bool) -> String {
    let (sign, all) = (if seconds < 0 { '-' } else { '+' }, seconds.abs());
    let separator = if colon { ":" } else { "" };
    format!("{sign}{:02}{separator}{:02}", all / 3600, all / 60 % 60)
}
