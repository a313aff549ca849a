//! What Hudi's payload classes do, in tables that still merge by them: versions 6 and 8, and `CUSTOM` in version 9.
//!
//! Version 9 maps most of them to a merge mode and needs none of this. Where the classes contradict themselves between
//! copy-on-write and merge-on-read, `docs/compatibility.md` says what is done here.
//! Source: the classes in `org.apache.hudi.common.model` of Hudi 1.2, run on tables of version 8.

use arrow::array::{Array, AsArray, BooleanArray, RecordBatch};
use arrow::compute::interleave;
use arrow::datatypes::{DataType, Int64Type};

use super::columns::{Fill, Sides, put_together};
use super::event_time_ordering::{MergeMode, RecordComparator, Step};
use super::records::{Merged, Records};
use hoodoo_runtime::error::{Error, Result};

/// What PostgreSQL's connector writes for a value that it did not get.
pub const DEBEZIUM_UNAVAILABLE: &str = "__debezium_unavailable_value";
/// Position in MySQL's log: file and offset, `000001.1234`.
const EVENT_SEQ: &str = "_event_seq";
/// Position in PostgreSQL's log.
const EVENT_LSN: &str = "_event_lsn";

/// What records say of their commit.
const COMMIT_COLUMNS: [&str; 2] = ["_hoodie_commit_time", "_hoodie_commit_seqno"];

/// Where in a database's log records come from, if they say it.
type Positions = Vec<Option<(u64, u64)>>;

/// A payload class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PayloadClass {
    /// The later record, but for its nulls.
    OverwriteNonDefaultsWithLatest,
    /// The record with the larger ordering value, but for its nulls.
    PartialUpdate,
    /// The later record.
    AwsDms,
    /// The record with the larger position in MySQL's log.
    MySqlDebezium,
    /// The record with the larger position in PostgreSQL's log, but for values that the connector did not get.
    PostgresDebezium,
    /// The later record.
    Avro,
}

impl PayloadClass {
    /// The class of a full name.
    pub fn parse(class: &str) -> Option<Self> {
        match class.strip_prefix("org.apache.hudi.common.model.")? {
            "OverwriteNonDefaultsWithLatestAvroPayload" => Some(Self::OverwriteNonDefaultsWithLatest),
            "PartialUpdateAvroPayload" => Some(Self::PartialUpdate),
            "AWSDmsAvroPayload" => Some(Self::AwsDms),
            "debezium.MySqlDebeziumAvroPayload" => Some(Self::MySqlDebezium),
            "debezium.PostgresDebeziumAvroPayload" => Some(Self::PostgresDebezium),
            "HoodieAvroPayload" => Some(Self::Avro),
            _ => None,
        }
    }

    /// Its short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::OverwriteNonDefaultsWithLatest => "OverwriteNonDefaultsWithLatestAvroPayload",
            Self::PartialUpdate => "PartialUpdateAvroPayload",
            Self::AwsDms => "AWSDmsAvroPayload",
            Self::MySqlDebezium => "MySqlDebeziumAvroPayload",
            Self::PostgresDebezium => "PostgresDebeziumAvroPayload",
            Self::Avro => "HoodieAvroPayload",
        }
    }

    /// Column and text, whatever its case, that make a record a delete.
    pub fn delete_marker(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AwsDms => Some(("Op", "D")),
            Self::MySqlDebezium | Self::PostgresDebezium => Some(("_change_operation_type", "d")),
            _ => None,
        }
    }

    /// The columns that it looks at.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            Self::MySqlDebezium => &[EVENT_SEQ],
            Self::PostgresDebezium => &[EVENT_LSN],
            _ => &[],
        }
    }

    /// Merges pairs of records.
    pub(super) fn merge(self, step: Step, older: &Records, newer: &Records) -> Result<Merged> {
        if step == Step::Batch {
            return self.merge_batch(older, newer);
        }
        let by_ordering = RecordComparator::new(MergeMode::EventTime, Step::Final, older.side(), newer.side())?;
        let (old_at, new_at) = (self.log_position(older)?, self.log_position(newer)?);
        let mut sides = Sides::with_capacity(older.len());
        for row in 0..older.len() {
            let (old_deleted, new_deleted) = (older.deleted.value(row), newer.deleted.value(row));
            let wins = match self {
                // A delete deletes, whatever its ordering value.
                Self::PartialUpdate => new_deleted || old_deleted || by_ordering.new_wins(row, row),
                _ => match (position(&old_at, row), position(&new_at, row)) {
                    (Some(old), Some(new)) => new >= old,
                    // A position that is missing is the lowest; a delete by key has none.
                    (Some(_), None) => new_deleted,
                    (None, _) => true,
                },
            };
            let deleted = if wins { new_deleted } else { old_deleted };
            let fills = !old_deleted && !new_deleted && (wins || self == Self::PartialUpdate);
            sides.push(wins, fills, deleted);
        }
        let fill = match self {
            Self::OverwriteNonDefaultsWithLatest | Self::PartialUpdate => Fill::Nulls,
            Self::PostgresDebezium => Fill::Marker(DEBEZIUM_UNAVAILABLE.to_owned()),
            _ => Fill::Nothing,
        };
        let merged = put_together(older, newer, &sides, &fill)?;
        // What both made has the commit of the newer one.
        if self == Self::PartialUpdate { with_commit_of(newer, merged) } else { Ok(merged) }
    }

    /// Rows of one write: the one with the larger ordering value; of equal ones the later.
    fn merge_batch(self, older: &Records, newer: &Records) -> Result<Merged> {
        let mode = if self == Self::Avro { MergeMode::CommitTime } else { MergeMode::EventTime };
        let comparator = RecordComparator::new(mode, Step::Batch, older.side(), newer.side())?;
        // MySQL's positions are numbers, whatever column orders the table.
        let compared = |records| if self == Self::MySqlDebezium { self.log_position(records) } else { Ok(None) };
        let (old_at, new_at) = (compared(older)?, compared(newer)?);
        let mut sides = Sides::with_capacity(older.len());
        for row in 0..older.len() {
            let (old, new) = (older.deleted.value(row), newer.deleted.value(row));
            let wins = match (position(&old_at, row), position(&new_at, row)) {
                (Some(old), Some(new)) => new >= old,
                _ => comparator.new_wins(row, row),
            };
            match self {
                // The mark of a delete fills the one that the other row does not have; a row that is older than a
                // delete before it begins anew.
                Self::PartialUpdate if old && !new => sides.push(true, false, wins),
                Self::PartialUpdate if new => sides.push(wins, false, true),
                _ => sides.push(wins, !old && !new, if wins { new } else { old }),
            }
        }
        let fill = if self == Self::PartialUpdate { Fill::Nulls } else { Fill::Nothing };
        put_together(older, newer, &sides, &fill)
    }

    /// Where in a database's log each record comes from, for the classes that compare it.
    fn log_position(self, records: &Records) -> Result<Option<Positions>> {
        match self {
            Self::MySqlDebezium => {
                let Some(column) = records.data.column_by_name(EVENT_SEQ) else { return Ok(None) };
                let text = column.as_string_opt::<i32>().ok_or_else(|| wrong_type(EVENT_SEQ, column.data_type()))?;
                text.iter().map(|t| t.map(mysql_position).transpose()).collect::<Result<_>>().map(Some)
            }
            Self::PostgresDebezium => {
                let Some(column) = records.data.column_by_name(EVENT_LSN) else { return Ok(None) };
                let numbers = arrow_cast::cast(column, &DataType::Int64)?;
                // Negative numbers keep their order below the others.
                let position = |n: Option<i64>| n.map(|n| (n.cast_unsigned() ^ (1 << 63), 0));
                Ok(Some(numbers.as_primitive::<Int64Type>().iter().map(position).collect()))
            }
            _ => Ok(None),
        }
    }
}

fn position(of: &Option<Positions>, row: usize) -> Option<(u64, u64)> {
    of.as_ref().and_then(|positions| positions.get(row).copied().flatten())
}

/// Puts the commit of the newer records into results that are no deletes, where records say their commit.
fn with_commit_of(newer: &Records, mut merged: Merged) -> Result<Merged> {
    let schema = merged.records.data.schema();
    let mut columns = merged.records.data.columns().to_vec();
    let mut changed = false;
    for name in COMMIT_COLUMNS {
        let Some(column) = schema.index_of(name).ok().and_then(|i| columns.get_mut(i)) else { continue };
        let Some(new) = newer.data.column_by_name(name) else { continue };
        let picks: Vec<_> = (0..new.len()).map(|row| (usize::from(new.is_valid(row)), row)).collect();
        *column = interleave(&[column.as_ref(), new.as_ref()], &picks)?;
        changed = true;
    }
    if changed {
        merged.records.data = RecordBatch::try_new(schema, columns)?;
        merged.unchanged = BooleanArray::from(vec![false; merged.records.len()]);
    }
    Ok(merged)
}

fn wrong_type(column: &str, found: &DataType) -> Error {
    Error::schema(format!("column '{column}' is {found}, which the table's payload class cannot compare"))
        .with("column", column)
}

/// `file.offset`, both numbers; `mysql-bin.000001.1234` as well.
fn mysql_position(text: &str) -> Result<(u64, u64)> {
    let mut parts = text.rsplit('.').map(str::parse::<u64>);
    match (parts.next(), parts.next()) {
        (Some(Ok(offset)), Some(Ok(file))) => Ok((file, offset)),
        _ => Err(Error::schema(format!("'{text}' in column '{EVENT_SEQ}' is no position in MySQL's log"))
            .with("column", EVENT_SEQ)
            .remedy("It has to be the number of the log file, a dot, and the offset in it")),
    }
}
