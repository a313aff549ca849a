//! Row groups read a few columns at a time, to find out what of them changes.

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::{DataType, SchemaRef};
use parquet::basic::{Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::reader::ChunkReader;

use super::options::BaseFileOptions;
use super::reader::{BaseFileReader, ScanOptions};
use crate::error::Result;

/// Rows that are decoded into one array.
pub const PIECE_ROWS: usize = 32_768;

/// Columns of a row group, [`PIECE_ROWS`] rows at a time.
///
/// # Errors
/// Those of [`BaseFileReader::scan`] and of the scan.
pub fn row_group_pieces<R: ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    schema: &SchemaRef,
    index: usize,
) -> Result<Vec<RecordBatch>> {
    let options = ScanOptions::new(schema.clone()).with_batch_size(PIECE_ROWS).with_row_groups(vec![index]);
    reader.scan(&options)?.collect()
}

/// Whether so many new rows are to go into a last row group of this size: a small one is filled up, so that they never
/// make many fragments; a large one would have to be written anew for them.
pub fn fills_up(rows: u64, more: usize, options: &BaseFileOptions) -> bool {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    rows < options.row_group_rows / 4 && rows.saturating_add(more) <= options.row_group_rows
}

/// Whether all data pages of a chunk hold numbers of its dictionary: none holds values, for the dictionary had become too
/// large.
pub fn has_only_numbers(chunk: &ColumnChunkMetaData) -> bool {
    let numbers = |encoding: Encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    let is_data = |page: &&PageEncodingStats| matches!(page.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    match (chunk.page_encoding_stats(), chunk.page_encoding_stats_mask()) {
        (Some(pages), _) => pages.iter().filter(is_data).all(|page| numbers(page.encoding)),
        (None, Some(mask)) => mask.encodings().all(numbers),
        (None, None) => false,
    }
}

/// Whether two arrays hold the same values, to the bit. `false` where that cannot be told cheaply.
///
/// # Errors
/// `Schema` for arrays of two types.
pub fn same_values(a: &ArrayRef, b: &ArrayRef) -> Result<bool> {
    if a.data_type().is_nested() {
        // Floats inside compare by value, and so would lose the sign of a zero.
        return Ok(!has_floats(a.data_type()) && a.as_ref() == b.as_ref());
    }
    let same = not_distinct(a, b)?;
    Ok(same.true_count() == same.len())
}

fn has_floats(data_type: &DataType) -> bool {
    match data_type {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::Struct(fields) => fields.iter().any(|f| has_floats(f.data_type())),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::Map(f, _) => {
            has_floats(f.data_type())
        }
        _ => false,
    }
}
