//! The TIMESTAMP rule: a partition value is a time, and its path is that time formatted.

use arrow::array::{Array, Decimal128Array, Float32Array, Float64Array, Int64Array, StringArray};

use chrono::DateTime;

use super::column_strings::ColumnStrings;
use super::joda::Pattern;
use super::zone::Zone;
use crate::error::{Error, Result};

const PREFIXES: [&str; 2] = ["hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.timebased."];
const PARSERS: [&str; 2] = ["hoodie.keygen.datetime.parser.class", "hoodie.deltastreamer.keygen.datetime.parser.class"];
const OUTPUT_FORMAT: &str = "hoodie.keygen.timebased.output.dateformat";
const INPUT_FORMAT: &str = "hoodie.keygen.timebased.input.dateformat";

/// What the partition column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    /// Seconds.
    UnixTimestamp,
    /// Milliseconds.
    EpochMilliseconds,
    /// Microseconds.
    EpochMicroseconds,
    /// Numbers in the unit of `timestamp.scalar.time.unit`.
    Scalar,
    /// Text in one of the input formats.
    DateString,
    /// As `DateString`.
    Mixed,
}

/// The unit of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeUnit {
    /// 10^-9 s.
    Nanoseconds,
    /// 10^-6 s.
    Microseconds,
    /// 10^-3 s.
    Milliseconds,
    /// s.
    Seconds,
    /// 60 s.
    Minutes,
    /// 3,600 s.
    Hours,
    /// 86,400 s.
    Days,
}

impl TimeUnit {
    /// Milliseconds; parts of one are cut off towards zero, too large values are the largest.
    fn to_millis(self, value: i64) -> i64 {
        match self {
            Self::Nanoseconds => value / 1_000_000,
            Self::Microseconds => value / 1_000,
            Self::Milliseconds => value,
            Self::Seconds => value.saturating_mul(1_000),
            Self::Minutes => value.saturating_mul(60_000),
            Self::Hours => value.saturating_mul(3_600_000),
            Self::Days => value.saturating_mul(86_400_000),
        }
    }
}

/// Settings `hoodie.keygen.timebased.*`.
#[derive(Debug, Clone, PartialEq)]
pub struct TimestampKeyGenConfig {
    /// What the column holds.
    pub timestamp_type: TimestampType,
    /// The unit of `Scalar` numbers.
    pub unit: TimeUnit,
    /// Input formats, as one text.
    pub input_formats: String,
    /// What stands between input formats: a regular expression.
    pub delimiter: String,
    /// The clock of input strings that name no zone.
    pub input_zone: Option<String>,
    /// The format of the path.
    pub output_format: String,
    /// The clock of the path. Without it: the zone of the text, else that of the process.
    pub output_zone: Option<String>,
    /// Two-digit years are read as the year from 50 before to 49 after this one. Hudi takes the current year less 30.
    pub two_digit_year_pivot: i32,
}

impl TimestampKeyGenConfig {
    /// Reads the settings, under their current and their old names.
    ///
    /// # Errors
    /// Type or output format missing, an unknown type or unit, another date parser class.
    pub fn from_properties(get: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let look = |name: &str| PREFIXES.iter().find_map(|prefix| get(&format!("{prefix}{name}")));
        let required = |name: &str| {
            look(name).filter(|v| !v.trim().is_empty()).ok_or_else(|| {
                Error::invalid_option(format!("a timestamp partition needs the option {}{name}", PREFIXES[0]))
            })
        };
        if let Some(class) = PARSERS.iter().find_map(|k| get(k))
            && class.trim() != "org.apache.hudi.keygen.parser.HoodieDateTimeParser"
        {
            return Err(Error::unsupported(format!("the date parser class {class:?} is not supported")));
        }
        // One zone for both wins over the two single ones, even when it is empty.
        let zone = |name: &str| look("timezone").or_else(|| look(name)).filter(|z| !z.trim().is_empty());
        let delimiter = look("input.dateformat.list.delimiter.regex").map(|d| d.trim().to_owned());
        Ok(Self {
            timestamp_type: parse_type(&required("timestamp.type")?)?,
            unit: parse_unit(&look("timestamp.scalar.time.unit").unwrap_or_else(|| "SECONDS".into()))?,
            input_formats: look("input.dateformat").unwrap_or_default(),
            delimiter: delimiter.filter(|d| !d.is_empty()).unwrap_or_else(|| ",".into()),
            input_zone: zone("input.timezone"),
            output_format: required("output.dateformat")?,
            output_zone: zone("output.timezone"),
            two_digit_year_pivot: 1996,
        })
    }

    /// The type in Hudi's spelling.
    fn type_name(&self) -> &'static str {
        match self.timestamp_type {
            TimestampType::UnixTimestamp => "UNIX_TIMESTAMP",
            TimestampType::EpochMilliseconds => "EPOCHMILLISECONDS",
            TimestampType::EpochMicroseconds => "EPOCHMICROSECONDS",
            TimestampType::Scalar => "SCALAR",
            TimestampType::DateString => "DATE_STRING",
            TimestampType::Mixed => "MIXED",
        }
    }
}

fn parse_type(value: &str) -> Result<TimestampType> {
    Ok(match value.trim() {
        "UNIX_TIMESTAMP" => TimestampType::UnixTimestamp,
        "EPOCHMILLISECONDS" => TimestampType::EpochMilliseconds,
        "EPOCHMICROSECONDS" => TimestampType::EpochMicroseconds,
        "SCALAR" => TimestampType::Scalar,
        "DATE_STRING" => TimestampType::DateString,
        "MIXED" => TimestampType::Mixed,
        other => {
            return Err(Error::invalid_option(format!("{}timestamp.type can't be {other:?}", PREFIXES[0]))
                .remedy("Use UNIX_TIMESTAMP, EPOCHMILLISECONDS, EPOCHMICROSECONDS, SCALAR, DATE_STRING or MIXED"));
        }
    })
}

fn parse_unit(value: &str) -> Result<TimeUnit> {
    Ok(match value.trim().to_ascii_uppercase().as_str() {
        "NANOSECONDS" => TimeUnit::Nanoseconds,
        "MICROSECONDS" => TimeUnit::Microseconds,
        "MILLISECONDS" => TimeUnit::Milliseconds,
        "SECONDS" => TimeUnit::Seconds,
        "MINUTES" => TimeUnit::Minutes,
        "HOURS" => TimeUnit::Hours,
        "DAYS" => TimeUnit::Days,
        other => {
            let message = format!("{}timestamp.scalar.time.unit can't be {other:?}", PREFIXES[0]);
            return Err(Error::invalid_option(message).remedy("Use a unit from NANOSECONDS to DAYS"));
        }
    })
}

/// The compiled rule.
#[derive(Debug, Clone)]
pub(super) struct TimestampFormat {
    /// Nothing for strings.
    unit: Option<TimeUnit>,
    type_name: &'static str,
    inputs: Vec<Pattern>,
    input_zone: Option<Zone>,
    output: Pattern,
    output_zone: Option<Zone>,
    consistent: bool,
    pivot: i32,
}

impl TimestampFormat {
    pub(super) fn new(config: &TimestampKeyGenConfig, consistent: bool) -> Result<Self> {
        let zone = |name: &str, id: &Option<String>| {
            id.as_deref().map(|id| Zone::from_option(&format!("{}{name}", PREFIXES[0]), id)).transpose()
        };
        let unit = match config.timestamp_type {
            TimestampType::UnixTimestamp => Some(TimeUnit::Seconds),
            TimestampType::EpochMilliseconds => Some(TimeUnit::Milliseconds),
            TimestampType::EpochMicroseconds => Some(TimeUnit::Microseconds),
            TimestampType::Scalar => Some(config.unit),
            TimestampType::DateString | TimestampType::Mixed => None,
        };
        let inputs = if unit.is_none() { input_patterns(config)? } else { Vec::new() };
        Ok(Self {
            unit,
            type_name: config.type_name(),
            inputs,
            input_zone: zone("input.timezone", &config.input_zone)?,
            output: Pattern::for_output(OUTPUT_FORMAT, &config.output_format)?,
            output_zone: zone("output.timezone", &config.output_zone)?,
            consistent,
            pivot: config.two_digit_year_pivot,
        })
    }

    /// How many folder levels a path of this rule has more than one.
    pub(super) fn slashes(&self) -> usize {
        self.output.slashes()
    }

    /// Takes a column as times, or says why it can't be one.
    pub(super) fn times(&self, column: &ColumnStrings, name: &str) -> Result<Times> {
        let times = match column {
            ColumnStrings::Utf8(a) if self.unit.is_none() => return Ok(Times::Text(a.clone())),
            ColumnStrings::Long(a) => Times::Long(a.clone()),
            ColumnStrings::Float(a) => Times::Float(a.clone()),
            ColumnStrings::Double(a) => Times::Double(a.clone()),
            ColumnStrings::Decimal(a, scale) => Times::Decimal(a.clone(), *scale),
            ColumnStrings::Date(a) => Times::Long(a.iter().map(|d| d.map(i64::from)).collect()),
            ColumnStrings::Instant(a) if self.consistent => Times::Millis(a.unary(|micros| micros / 1000)),
            ColumnStrings::Instant(a) => Times::Long(a.clone()),
            ColumnStrings::Utf8(_) | ColumnStrings::Boolean(_) | ColumnStrings::Binary(_) => {
                return Err(self.unfit(column, name));
            }
        };
        // The value of a consistent timestamp knows its own unit.
        if self.unit.is_none() && !matches!(times, Times::Millis(_)) {
            Err(self.unfit(column, name))
        } else {
            Ok(times)
        }
    }

    fn unfit(&self, column: &ColumnStrings, name: &str) -> Error {
        let wants = if self.unit.is_none() { "text" } else { "numbers, dates or timestamps" };
        Error::schema(format!(
            "the partition column {name:?} holds {}, but the timestamp type {} takes {wants}",
            column.kind(),
            self.type_name
        ))
        .remedy("Set hoodie.keygen.timebased.timestamp.type to what the column holds")
    }

    /// Appends the formatted time of a row to `out`.
    pub(super) fn write(&self, times: &Times, row: usize, out: &mut String) -> Result<()> {
        match times {
            Times::Text(a) if a.is_null(row) => self.write_string(&self.null_string()?, out),
            Times::Text(a) => self.write_string(a.value(row), out),
            numbers => {
                self.output.format(self.millis(numbers, row), self.output_zone.unwrap_or_else(Zone::of_process), out)
            }
        }
    }

    /// Numbers that are equal for rows whose times print alike, if they are had for less than printing: many times share
    /// a day.
    pub(super) fn spans(&self, times: &Times, rows: usize) -> Option<Int64Array> {
        let granularity = self.output.granularity()?;
        let zone = self.output_zone.unwrap_or_else(Zone::of_process);
        if matches!(times, Times::Text(_)) {
            return None;
        }
        let span = |row| {
            let instant = DateTime::from_timestamp_millis(self.millis(times, row))?;
            let (_, offset) = zone.local(instant);
            Some((instant.timestamp_millis() + i64::from(offset) * 1000).div_euclid(granularity))
        };
        // A time beyond the calendar: the printing finds and names it.
        (0..rows).map(|row| span(row).map(Some)).collect()
    }

    /// The time of a row of numbers.
    fn millis(&self, times: &Times, row: usize) -> i64 {
        let unit = self.unit.unwrap_or(TimeUnit::Milliseconds);
        match times {
            // A null is 1 in the unit.
            other if other.is_null(row) => unit.to_millis(1),
            Times::Long(a) => unit.to_millis(a.value(row)),
            Times::Millis(a) => a.value(row),
            // Saturating, NaN is 0: as Java casts.
            Times::Float(a) => unit.to_millis(a.value(row) as i64),
            Times::Double(a) => unit.to_millis(a.value(row) as i64),
            Times::Decimal(a, scale) => unit.to_millis(whole(a.value(row), *scale)),
            Times::Text(_) => 0,
        }
    }

    fn write_string(&self, text: &str, out: &mut String) -> Result<()> {
        let clock = self.input_zone.unwrap_or_else(Zone::of_process);
        let (millis, named) = Pattern::parse(&self.inputs, text, clock, self.pivot)?;
        // An input zone is also the zone of the parsed time, whatever zone the text names.
        let own = self.input_zone.or(named).unwrap_or_else(Zone::of_process);
        self.output.format(millis, self.output_zone.unwrap_or(own), out)
    }

    /// Hudi stands a null in with the epoch's first millisecond, written in the first input format.
    fn null_string(&self) -> Result<String> {
        let zone = self.input_zone.or(self.output_zone).unwrap_or_else(Zone::of_process);
        let mut text = String::new();
        if let Some(first) = self.inputs.first() {
            first.format(1, zone, &mut text)?;
        }
        Ok(text)
    }
}

fn input_patterns(config: &TimestampKeyGenConfig) -> Result<Vec<Pattern>> {
    if config.input_formats.trim().is_empty() {
        return Err(Error::invalid_option(format!(
            "the timestamp type {} needs the option {INPUT_FORMAT}",
            config.type_name()
        )));
    }
    let delimiter = regex::Regex::new(&config.delimiter).map_err(|e| {
        Error::invalid_option(format!("invalid regular expression in {INPUT_FORMAT}.list.delimiter.regex")).caused_by(e)
    })?;
    delimiter.split(&config.input_formats).map(|p| Pattern::for_input(INPUT_FORMAT, p.trim())).collect()
}

/// The whole part of a decimal, its low 64 bits.
fn whole(unscaled: i128, scale: i8) -> i64 {
    let power = 10i128.checked_pow(u32::from(scale.unsigned_abs()));
    let whole = match power {
        Some(power) if scale >= 0 => unscaled / power,
        Some(power) => unscaled.wrapping_mul(power),
        None => 0,
    };
    whole as i64
}

/// A column read as times.
pub(super) enum Times {
    Text(StringArray),
    Long(Int64Array),
    Millis(Int64Array),
    Float(Float32Array),
    Double(Float64Array),
    Decimal(Decimal128Array, i8),
}

impl Times {
    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Text(a) => a.is_null(row),
            Self::Long(a) | Self::Millis(a) => a.is_null(row),
            Self::Float(a) => a.is_null(row),
            Self::Double(a) => a.is_null(row),
            Self::Decimal(a, _) => a.is_null(row),
        }
    }
}
