//! Reads row groups a few columns at a time, to find out which of them change.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::compute::kernels::cmp::not_distinct;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use parquet::basic::{Encoding, PageType};
use parquet::file::metadata::{ColumnChunkMetaData, PageEncodingStats};
use parquet::file::reader::ChunkReader;

use super::options::BaseFileOptions;
use super::reader::{BaseFileReader, ScanOptions};
use super::splice::Splice;
use hoodoo_runtime::error::Result;

/// Rows of an array.
pub const COLUMN_BATCH_ROWS: usize = 32_768;
/// Approximate bytes of columns that are read together.
const TOGETHER_BYTES: u64 = 1 << 20;
/// Assumed bytes of a string that is stored in a dictionary.
const UNKNOWN_BYTES: u64 = 32;

/// Columns of a row group, [`COLUMN_BATCH_ROWS`] rows at a time.
///
/// # Errors
/// Those of [`BaseFileReader::scan`] and of the scan.
pub fn read_column_batches<R: ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    schema: &SchemaRef,
    index: usize,
) -> Result<Vec<RecordBatch>> {
    let options = ScanOptions::new(schema.clone()).with_batch_size(COLUMN_BATCH_ROWS).with_row_groups(vec![index]);
    reader.scan(&options)?.collect()
}

/// Reads columns of a row group on demand: large ones alone, small ones together. A reader takes time for each column
/// of the file, so a reader for each of thousands of columns would take quadratic time.
pub struct GroupColumns<'a, R> {
    reader: &'a BaseFileReader<R>,
    group: usize,
    fields: Vec<(usize, FieldRef)>,
    /// Which of the fields are read together.
    together: Vec<(Range<usize>, Mutex<Together>)>,
}

/// Arrays of columns that were read together and are not taken yet.
type Together = Option<Vec<Option<Vec<ArrayRef>>>>;

impl<'a, R: ChunkReader + 'static> GroupColumns<'a, R> {
    /// Prepares to read columns of row group `group`, by their index in the new file of `splice`, as the given fields.
    /// Nothing is read yet.
    pub fn new(reader: &'a BaseFileReader<R>, splice: &Splice, group: usize, fields: Vec<(usize, FieldRef)>) -> Self {
        let mut together = Vec::new();
        let (mut first, mut bytes) = (0, 0);
        for (i, (column, _)) in fields.iter().enumerate() {
            let own = splice.stored_chunks(*column, group).iter().map(read_bytes).fold(0, u64::saturating_add);
            if i > first && own.saturating_add(bytes) > TOGETHER_BYTES {
                together.push((first..i, Mutex::default()));
                (first, bytes) = (i, 0);
            }
            bytes = own.saturating_add(bytes);
        }
        if first < fields.len() {
            together.push((first..fields.len(), Mutex::default()));
        }
        Self { reader, group, fields, together }
    }

    /// Returns a column in arrays of [`COLUMN_BATCH_ROWS`] rows; `None` if it is not among the fields, or was taken
    /// already.
    ///
    /// # Errors
    /// Those of [`read_column_batches`].
    pub fn take(&self, column: usize) -> Result<Option<Vec<ArrayRef>>> {
        let Ok(at) = self.fields.binary_search_by_key(&column, |(column, _)| *column) else { return Ok(None) };
        let holds = self.together.partition_point(|(fields, _)| fields.end <= at);
        let Some((fields, read)) = self.together.get(holds) else { return Ok(None) };
        let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
        let columns = match &mut *read {
            Some(columns) => columns,
            none => none.insert(self.read(fields.clone())?),
        };
        Ok(columns.get_mut(at - fields.start).and_then(Option::take))
    }

    fn read(&self, fields: Range<usize>) -> Result<Vec<Option<Vec<ArrayRef>>>> {
        let fields: Vec<FieldRef> =
            self.fields.get(fields).unwrap_or_default().iter().map(|(_, field)| field.clone()).collect();
        let columns = fields.len();
        let arrays = read_column_batches(self.reader, &Arc::new(Schema::new(fields)), self.group)?;
        Ok((0..columns).map(|i| Some(arrays.iter().map(|batch| batch.column(i).clone()).collect())).collect())
    }
}

/// Approximate bytes of a chunk in memory.
pub fn read_bytes(chunk: &ColumnChunkMetaData) -> u64 {
    let encoded = chunk.uncompressed_size().max(0).cast_unsigned();
    let values = chunk.num_values().max(0).cast_unsigned();
    match chunk.unencoded_byte_array_data_bytes() {
        Some(bytes) => bytes.max(0).cast_unsigned().saturating_add(values.saturating_mul(4)),
        None => encoded.saturating_add(values.saturating_mul(UNKNOWN_BYTES)),
    }
}

/// Whether `more` new rows are added to a last row group of `rows` rows: a small one is filled up, which avoids
/// fragments; a large one is not rewritten.
pub fn fills_up(rows: u64, more: usize, options: &BaseFileOptions) -> bool {
    let rows = usize::try_from(rows).unwrap_or(usize::MAX);
    rows < options.row_group_rows / 4 && rows.saturating_add(more) <= options.row_group_rows
}

/// Whether all data pages of a chunk are dictionary-encoded: none has plain values because the dictionary became too
/// large.
pub fn is_all_dictionary(chunk: &ColumnChunkMetaData) -> bool {
    let numbers = |encoding: Encoding| matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    let is_data = |page: &&PageEncodingStats| matches!(page.page_type, PageType::DATA_PAGE | PageType::DATA_PAGE_V2);
    match (chunk.page_encoding_stats(), chunk.page_encoding_stats_mask()) {
        (Some(pages), _) => pages.iter().filter(is_data).all(|page| numbers(page.encoding)),
        (None, Some(mask)) => mask.encodings().all(numbers),
        (None, None) => false,
    }
}

/// Whether two arrays are bitwise equal. `false` if a cheap comparison is not possible.
///
/// # Errors
/// `Schema` for arrays of two types.
pub fn same_values(a: &ArrayRef, b: &ArrayRef) -> Result<bool> {
    if a.data_type().is_nested() {
        // Nested floats compare by value, so the sign of a zero would be lost.
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
