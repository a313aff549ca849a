//! Encodes one row group by column, on several threads if asked.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int32Type, Schema};
use parquet::arrow::arrow_writer::compute_leaves;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use hoodoo_parquet_pages::PageFormat;
use hoodoo_parquet_pages::checksums::{ColumnWriter, ColumnWriters};
use hoodoo_parquet_pages::encoders::chunk_pages::bits_for;
use hoodoo_parquet_pages::encoders::dictionary_column::{DictionaryStrings, dictionary_chunk};
use hoodoo_parquet_pages::encoders::encoded_chunk::{EncodedChunk, encode_error};
use hoodoo_parquet_pages::encoders::number_column::{NumberSettings, number_chunk};
use hoodoo_parquet_pages::encoders::ordered_dictionary_column::{OrderedDictionarySettings, ordered_dictionary_chunk};
use hoodoo_parquet_pages::encoders::string_column::{PlainStringSettings, PlainStrings};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::parallel::run_parallel;

/// How a column of a row group is encoded.
pub(super) enum ColumnUse {
    /// Not here: its chunk is copied or constant.
    LeftOut,
    /// By the general encoder.
    Values,
    /// By the dictionaries of its string arrays.
    Dictionary(DictionarySettings),
    /// Plain strings.
    PlainStrings(PlainStringSettings),
    /// Numbers.
    Numbers(NumberSettings),
    /// By the one dictionary that all its arrays share; if that does not pay off, in the other way.
    OrderedDictionary(OrderedDictionarySettings, Box<ColumnUse>),
}

/// Settings of a column that is encoded by its dictionaries.
#[derive(Clone)]
pub(super) struct DictionarySettings {
    pub(super) descriptor: ColumnDescPtr,
    pub(super) format: PageFormat,
    pub(super) dictionary_bytes: usize,
}

/// One column of the table: a Parquet column for each of its leaves.
struct TopColumn {
    field: FieldRef,
    leaves: Vec<ColumnWriter>,
    state: ColumnState,
}

/// Collected arrays of a column that is encoded at the end of the row group.
enum ColumnState {
    Nothing,
    Dictionary(DictionarySettings, Vec<DictionaryStrings>),
    PlainStrings(Box<PlainStrings>),
    Numbers(NumberSettings, Vec<ArrayRef>),
    OrderedDictionary(OrderedDictionarySettings, Vec<ArrayRef>, Box<ColumnState>),
}

impl ColumnState {
    /// `None` for a column that is not encoded here.
    fn new(how: ColumnUse) -> Result<Option<Self>> {
        Ok(Some(match how {
            ColumnUse::LeftOut => return Ok(None),
            ColumnUse::Values => Self::Nothing,
            ColumnUse::Dictionary(settings) => Self::Dictionary(settings, Vec::new()),
            ColumnUse::PlainStrings(settings) => Self::PlainStrings(Box::new(PlainStrings::new(settings)?)),
            ColumnUse::Numbers(settings) => Self::Numbers(settings, Vec::new()),
            ColumnUse::OrderedDictionary(settings, or) => match Self::new(*or)? {
                Some(or) => Self::OrderedDictionary(settings, Vec::new(), Box::new(or)),
                None => return Ok(None),
            },
        }))
    }
}

impl TopColumn {
    fn write(&mut self, array: &ArrayRef) -> Result<()> {
        match &mut self.state {
            ColumnState::Nothing => return self.write_values(array),
            ColumnState::Dictionary(_, arrays) => {
                let strings = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
                let array = if array.data_type() == &strings { array.clone() } else { cast(array, &strings)? };
                arrays.extend(array.as_dictionary_opt::<Int32Type>().cloned());
            }
            ColumnState::PlainStrings(strings) => {
                strings.add(&plain(array)?).map_err(|e| e.with("column", self.field.name()))?
            }
            ColumnState::Numbers(settings, arrays) => {
                settings.check(array)?;
                arrays.push(plain(array)?);
            }
            ColumnState::OrderedDictionary(_, arrays, _) => arrays.push(array.clone()),
        }
        Ok(())
    }

    fn write_values(&mut self, array: &ArrayRef) -> Result<()> {
        let fail = |e: ParquetError| encode_error(e).with("column", self.field.name());
        for (values, writer) in compute_leaves(&self.field, array).map_err(fail)?.iter().zip(&mut self.leaves) {
            writer.write(values).map_err(fail)?;
        }
        Ok(())
    }

    fn close(mut self) -> Result<Vec<EncodedChunk>> {
        match std::mem::replace(&mut self.state, ColumnState::Nothing) {
            ColumnState::Nothing => {}
            ColumnState::Dictionary(DictionarySettings { descriptor, format, dictionary_bytes }, arrays) => {
                if let Some(chunk) = dictionary_chunk(&descriptor, &arrays, format, dictionary_bytes)? {
                    return Ok(vec![chunk]);
                }
                arrays.into_iter().try_for_each(|array| self.write_values(&(Arc::new(array) as ArrayRef)))?;
            }
            ColumnState::PlainStrings(strings) => return Ok(vec![strings.finish()?]),
            ColumnState::Numbers(settings, arrays) => {
                return Ok(vec![number_chunk(&settings, &arrays)?]);
            }
            ColumnState::OrderedDictionary(settings, arrays, or) => {
                if let Some(chunk) = ordered_dictionary_chunk(&settings, &arrays)? {
                    return Ok(vec![chunk]);
                }
                self.state = *or;
                arrays.iter().try_for_each(|array| self.write(&plain(array)?))?;
                return self.close();
            }
        }
        self.leaves
            .into_iter()
            .map(|leaf| leaf.close().map(|(bytes, close)| EncodedChunk { bytes, close }).map_err(encode_error))
            .collect()
    }

    fn encoded_bytes(&self) -> usize {
        match &self.state {
            ColumnState::Nothing => self.leaves.iter().map(ColumnWriter::estimated_bytes).sum(),
            ColumnState::Dictionary(_, arrays) => {
                let bits = |array: &DictionaryStrings| array.values().len().max(2).ilog2() as usize + 1;
                arrays.iter().map(|array| array.len() * bits(array) / 8).sum()
            }
            ColumnState::OrderedDictionary(_, arrays, _) => {
                let bits = |array: &ArrayRef| {
                    let entries = array.as_any_dictionary_opt().map_or(u16::MAX.into(), |coded| coded.values().len());
                    usize::from(bits_for(entries))
                };
                arrays.iter().map(|array| array.len() * bits(array) / 8).sum()
            }
            ColumnState::PlainStrings(strings) => strings.encoded_bytes(),
            // An upper bound: repetition and compression are not known yet.
            ColumnState::Numbers(settings, arrays) => {
                arrays.iter().map(|array| array.len() * settings.width()).sum::<usize>() / 2
            }
        }
    }
}

/// Decodes a dictionary array.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, value) => Ok(cast(array, value)?),
        _ => Ok(array.clone()),
    }
}

/// Number of Parquet columns that a column of this type takes.
pub(super) fn leaf_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|f| leaf_count(f.data_type())).sum(),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::Map(f, _) => {
            leaf_count(f.data_type())
        }
        _ => 1,
    }
}

/// The row group that is being encoded.
pub(super) struct RowGroupEncoder {
    /// The columns that are encoded, with their index.
    columns: Vec<(usize, TopColumn)>,
    rows: usize,
}

impl RowGroupEncoder {
    /// `how` returns how a column is encoded, by its index.
    pub(super) fn new(
        schema: &Schema,
        writers: &ColumnWriters,
        index: usize,
        how: &dyn Fn(usize) -> Result<ColumnUse>,
    ) -> Result<Self> {
        let mut writers = writers.create(index).map_err(encode_error)?.into_iter();
        let mut columns = Vec::with_capacity(schema.fields().len());
        for (i, field) in schema.fields().iter().enumerate() {
            let leaves = writers.by_ref().take(leaf_count(field.data_type())).collect();
            let Some(state) = ColumnState::new(how(i)?)? else { continue };
            columns.push((i, TopColumn { field: field.clone(), leaves, state }));
        }
        Ok(Self { columns, rows: 0 })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Approximate bytes of the rows so far in the file.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.columns.iter().map(|(_, column)| column.encoded_bytes()).sum()
    }

    pub(super) fn encode(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        let work = self.columns.iter_mut().collect();
        run_parallel(work, threads, |(i, column): &mut (usize, TopColumn)| {
            batches.iter().try_for_each(|batch| {
                let array = batch.columns().get(*i);
                column.write(array.ok_or_else(|| Error::internal(format!("a batch has no column {i} to encode")))?)
            })
        })?;
        Ok(())
    }

    /// Encodes arrays of the only column.
    pub(super) fn encode_arrays(&mut self, arrays: &[ArrayRef]) -> Result<()> {
        let [(_, column)] = self.columns.as_mut_slice() else {
            return Err(Error::internal("arrays of one column were passed to a row group of several"));
        };
        self.rows += arrays.iter().map(|array| array.len()).sum::<usize>();
        arrays.iter().try_for_each(|array| column.write(array))
    }

    /// Ends all columns. Returns their chunks in the order of the file, with the index of the column.
    pub(super) fn close(mut self, threads: usize) -> Result<Vec<(usize, Vec<EncodedChunk>)>> {
        if threads > 1 {
            // The largest first, so that no thread waits for one that began last.
            self.columns.sort_by_key(|(_, column)| std::cmp::Reverse(column.encoded_bytes()));
        }
        let mut chunks = run_parallel(self.columns, threads, |(i, column)| Ok((i, column.close()?)))?;
        chunks.sort_unstable_by_key(|(i, _)| *i);
        Ok(chunks)
    }
}
