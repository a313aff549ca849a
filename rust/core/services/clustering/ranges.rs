//! Reads column ranges from the footers of base files.

use arrow::array::{Array, ArrayRef, make_array};
use arrow::datatypes::{DataType, Schema};
use arrow_cast::display::array_value_to_string;
use arrow_row::{RowConverter, SortField};
use parquet::file::reader::ChunkReader;

use super::overlap::{ColumnRange, FileRanges, Ranges};
use crate::error::{Error, Result};
use crate::file_group::BaseFile;
use crate::file_group::base::{BaseFileReader, RECORD_KEY_COLUMN};
use crate::parallel::run_parallel;
use crate::storage::Storage;
use crate::table::{META_COLUMNS, TableSchema, open_base};

/// Reads the footers of these files on several threads; columns that are not in the schema have no known range.
///
/// # Errors
/// `Corrupt` for a file that is not a base file; `Storage`.
pub(crate) fn read_ranges(
    storage: &Storage,
    files: Vec<BaseFile>,
    columns: &[String],
    schema: &TableSchema,
    threads: usize,
) -> Result<Ranges> {
    let read = |file: BaseFile| {
        let ranges = of_file(storage, &file, columns, schema).map_err(|e| e.with("file", &file.path))?;
        Ok((file.path, ranges))
    };
    Ok(run_parallel(files, threads, read)?.into_iter().collect())
}

fn of_file(storage: &Storage, file: &BaseFile, columns: &[String], schema: &TableSchema) -> Result<FileRanges> {
    of_footer(&open_base(storage, file, schema.history.as_ref())?, columns, &schema.data)
}

/// Column ranges of a footer, with the types of this schema.
///
/// # Errors
/// `Corrupt` for statistics that cannot be decoded.
pub(super) fn of_footer<R: ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    columns: &[String],
    schema: &Schema,
) -> Result<FileRanges> {
    let mut ranges = FileRanges { rows: reader.rows(), ..Default::default() };
    for column in columns {
        // The footer's key-value entries have whole record keys; statistics may be truncated.
        let keys = if column == RECORD_KEY_COLUMN { reader.key_range() } else { None };
        let (range, nulls) = match keys {
            Some(keys) => (Some(of_strings(keys.min, keys.max)), Some(0)),
            None => {
                let text = DataType::Utf8;
                let data_type = match schema.field_with_name(column) {
                    Ok(field) => field.data_type(),
                    Err(_) if META_COLUMNS.contains(&column.as_str()) => &text,
                    Err(_) => {
                        ranges.columns.push(None);
                        ranges.nulls.push(None);
                        continue;
                    }
                };
                let bounds = reader.column_bounds(column, data_type)?;
                let range = bounds.as_ref().map(|b| of_values(&b.min, &b.max)).transpose()?;
                (range, bounds.map(|b| b.nulls))
            }
        };
        ranges.columns.push(range);
        ranges.nulls.push(nulls);
    }
    Ok(ranges)
}

fn of_strings(min: String, max: String) -> ColumnRange {
    ColumnRange {
        min: min.clone().into_bytes(),
        max: max.clone().into_bytes(),
        min_string: Some(min),
        max_string: Some(max),
    }
}

fn of_values(min: &ArrayRef, max: &ArrayRef) -> Result<ColumnRange> {
    let key = |value: &ArrayRef| -> Result<Vec<u8>> {
        let converter = RowConverter::new(vec![SortField::new(value.data_type().clone())])?;
        let rows = converter.convert_columns(std::slice::from_ref(value))?;
        let first = rows.iter().next().ok_or_else(|| Error::corrupt("a column has no minimum"))?;
        Ok(first.as_ref().to_vec())
    };
    let text = |value: &ArrayRef| -> Result<Option<String>> {
        Ok(if value.is_null(0) { None } else { Some(text_of(value)?) })
    };
    Ok(ColumnRange { min: key(min)?, max: key(max)?, min_string: text(min)?, max_string: text(max)? })
}

/// Formats the first value; times with a zone as UTC, in which they are stored.
fn text_of(value: &ArrayRef) -> Result<String> {
    let DataType::Timestamp(unit, Some(_)) = value.data_type() else { return Ok(array_value_to_string(value, 0)?) };
    let plain = value.to_data().into_builder().data_type(DataType::Timestamp(*unit, None)).build()?;
    Ok(format!("{}Z", array_value_to_string(&make_array(plain), 0)?))
}
