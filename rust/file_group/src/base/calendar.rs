//! Base files of Spark whose dates and times are in the calendar of old versions: the Julian one before 1582-10-15.
//!
//! Spark says so in the footer, and where it reads such a file itself it finds the same day of the other calendar. Here
//! their days would be others, and written again they would be so for ever. So columns that have such values are refused;
//! files without the mark cost nothing, and columns whose values are all later are read as they are.

use std::sync::OnceLock;

use arrow::array::{Array, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, FieldRef, Schema, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};
use parquet::basic::Type as Physical;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::ChunkReader;
use parquet::file::statistics::Statistics;

use super::row_group::leaf_count;
use hoodoo_parquet_pages::limited_pages::LimitedPages;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::{Chunks, decode};

/// 1582-10-15, the first day that both calendars call the same, in days since 1970.
pub const FIRST_DAY: i64 = -141_427;
/// 1900-01-01T00:00:00Z in seconds since 1970: for times Spark also takes into account how zones counted before.
pub const FIRST_SECOND: i64 = -2_208_988_800;
/// Footer key of the version of Spark that wrote a file.
const SPARK_VERSION: &str = "org.apache.spark.version";
/// One that has the days of today's calendar.
const NEW_SPARK: &str = "3.5.0";
const OLD_TIMES: &str = "org.apache.spark.legacyDateTime";
const OLD_INT96: &str = "org.apache.spark.legacyINT96";

/// What a footer says of the calendar, and what was found out by it.
#[derive(Debug, Default)]
pub(super) struct OldCalendar {
    /// Dates, and times that are counted from 1970.
    times: bool,
    /// Times in the old form of 96 bits.
    int96: bool,
    /// Leaves with values that the calendars name differently.
    leaves: OnceLock<Vec<usize>>,
}

impl OldCalendar {
    /// Reads the marks in a footer, as Spark does.
    pub(super) fn of(metadata: &ParquetMetaData) -> Self {
        let Some(pairs) = metadata.file_metadata().key_value_metadata() else { return Self::default() };
        let get = |key: &str| pairs.iter().find(|pair| pair.key == key);
        // Files of other writers, Hudi's own among them, have the days of today's calendar.
        let Some(version) = get(SPARK_VERSION) else {
            return Self { times: get(OLD_TIMES).is_some(), int96: get(OLD_INT96).is_some(), ..Self::default() };
        };
        let mut parts = version.value.as_deref().unwrap_or_default().split('.').map(|part| part.parse::<u32>().ok());
        let version = parts.next().flatten().map(|major| (major, parts.next().flatten().unwrap_or(0)));
        let before = |first: (u32, u32)| version.is_some_and(|version| version < first);
        Self {
            times: before((3, 0)) || get(OLD_TIMES).is_some(),
            int96: before((3, 1)) || get(OLD_INT96).is_some(),
            ..Self::default()
        }
    }
}

/// Whether a footer says that dates and times are in the calendar of old versions.
pub fn has_old_calendar(footer: &ParquetMetaData) -> bool {
    OldCalendar::of(footer).times
}

/// What a footer has to say for Spark to know that days and times are those of today's calendar: without it, Spark refuses
/// days before 1582 and times before 1900, as those of a writer that it does not know. `None` without such columns.
pub(super) fn new_calendar_mark(schema: &Schema) -> Option<(&'static str, &'static str)> {
    let mut types = Vec::new();
    schema.fields().iter().for_each(|field| leaf_types(field, &mut types));
    types.iter().any(|data_type| first_common(data_type).is_some()).then_some((SPARK_VERSION, NEW_SPARK))
}

/// The earliest value of a type that all calendars name alike; `None` where that is each.
fn first_common(data_type: &DataType) -> Option<i64> {
    match data_type {
        DataType::Date32 => Some(FIRST_DAY),
        // Without a zone they came after the old calendar.
        DataType::Timestamp(unit, Some(_)) => Some(match unit {
            TimeUnit::Second => FIRST_SECOND,
            TimeUnit::Millisecond => FIRST_SECOND * 1000,
            TimeUnit::Microsecond => FIRST_SECOND * 1_000_000,
            TimeUnit::Nanosecond => FIRST_SECOND * 1_000_000_000,
        }),
        _ => None,
    }
}

impl OldCalendar {
    /// Refuses leaves of a file that have values which the old calendar names differently.
    ///
    /// # Errors
    /// `Unsupported`, with the column; those of reading values, where there are no statistics.
    pub(super) fn check<R: ChunkReader + 'static>(
        &self,
        chunks: &Chunks<R>,
        metadata: &ArrowReaderMetadata,
        leaves: impl IntoIterator<Item = usize>,
    ) -> Result<()> {
        if !self.times && !self.int96 {
            return Ok(());
        }
        let old = match self.leaves.get() {
            Some(old) => old,
            None => {
                let found = self.old_leaves(chunks, metadata)?;
                self.leaves.get_or_init(|| found)
            }
        };
        let Some(leaf) = leaves.into_iter().find(|leaf| old.contains(leaf)) else { return Ok(()) };
        let columns = metadata.metadata().file_metadata().schema_descr().columns();
        let column = columns.get(leaf).map(|column| column.path().string()).unwrap_or_default();
        Err(Error::unsupported(format!(
            "column '{column}' of a base file has dates before 1582-10-15 or times before 1900 in the calendar of old Spark versions"
        ))
        .with("column", column)
        .remedy(
            "Read the table with Spark and write its rows again, by insert_overwrite or to a new table, with spark.sql.parquet.datetimeRebaseModeInWrite=CORRECTED",
        ))
    }

    fn old_leaves<R: ChunkReader + 'static>(
        &self,
        chunks: &Chunks<R>,
        metadata: &ArrowReaderMetadata,
    ) -> Result<Vec<usize>> {
        let mut types = Vec::new();
        metadata.schema().fields().iter().for_each(|field| leaf_types(field, &mut types));
        let (footer, columns) = (metadata.metadata(), metadata.metadata().file_metadata().schema_descr().columns());
        let mut old = Vec::new();
        for (leaf, (column, data_type)) in columns.iter().zip(&types).enumerate() {
            let marked = if column.physical_type() == Physical::INT96 { self.int96 } else { self.times };
            let Some(first) = first_common(data_type).filter(|_| marked) else { continue };
            let stored = footer.row_groups().iter().filter_map(|group| group.columns().get(leaf));
            let is_old = match stored.map(min_of).collect::<Option<Vec<_>>>() {
                Some(minima) => minima.into_iter().flatten().any(|value| value < first),
                None => has_old_value(chunks, metadata, leaf)?,
            };
            if is_old {
                old.push(leaf);
            }
        }
        Ok(old)
    }
}

/// Looks at the values of the column in which a leaf is: maps cannot be read without their keys.
fn has_old_value<R: ChunkReader + 'static>(
    chunks: &Chunks<R>,
    metadata: &ArrowReaderMetadata,
    leaf: usize,
) -> Result<bool> {
    let descriptor = metadata.metadata().file_metadata().schema_descr();
    let mask = ProjectionMask::roots(descriptor, [descriptor.get_column_root_idx(leaf)]);
    let pages = LimitedPages::new(chunks.clone(), metadata.metadata().clone());
    decode("a base file", || {
        let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(pages, metadata.clone());
        for batch in builder.with_projection(mask).build().map_err(|e| chunks.explain_parquet(e))? {
            if batch.map_err(|e| chunks.explain(e))?.columns().iter().any(|column| has_old(column)) {
                return Ok(true);
            }
        }
        Ok(false)
    })
}

/// The types of the leaves of a field, in the order of the file.
fn leaf_types(field: &FieldRef, out: &mut Vec<DataType>) {
    match field.data_type() {
        DataType::Struct(fields) => fields.iter().for_each(|field| leaf_types(field, out)),
        DataType::List(item) => leaf_types(item, out),
        DataType::Map(entries, _) => leaf_types(entries, out),
        other => out.extend(std::iter::repeat_n(other.clone(), leaf_count(other))),
    }
}

/// The min value of a chunk, if it has values; `None` if its statistics do not tell.
fn min_of(chunk: &ColumnChunkMetaData) -> Option<Option<i64>> {
    let statistics = chunk.statistics()?;
    let min = match statistics {
        Statistics::Int32(values) => values.min_opt().map(|min| i64::from(*min)),
        Statistics::Int64(values) => values.min_opt().copied(),
        _ => return None,
    };
    match min {
        Some(min) => Some(Some(min)),
        None if statistics.null_count_opt() == u64::try_from(chunk.num_values()).ok() => Some(None),
        None => None,
    }
}

/// Whether an array has a value that the calendars name differently, in whatever it is nested.
fn has_old(array: &dyn Array) -> bool {
    let before = |value: i64| first_common(array.data_type()).is_some_and(|first| value < first);
    match array.data_type() {
        DataType::Struct(_) => array.as_struct().columns().iter().any(|column| has_old(column)),
        DataType::List(_) => has_old(array.as_list::<i32>().values()),
        DataType::Map(..) => array.as_map().entries().columns().iter().any(|column| has_old(column)),
        DataType::Date32 => array.as_primitive::<Date32Type>().iter().flatten().any(|day| before(i64::from(day))),
        DataType::Timestamp(unit, Some(_)) => match unit {
            TimeUnit::Second => array.as_primitive::<TimestampSecondType>().iter().flatten().any(before),
            TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().iter().flatten().any(before),
            TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().iter().flatten().any(before),
            TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().iter().flatten().any(before),
        },
        _ => false,
    }
}
