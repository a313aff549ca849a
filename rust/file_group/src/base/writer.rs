//! Writes one base file.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::row::{RowConverter, SortField};
use parquet::arrow::arrow_writer::ArrowRowGroupWriterFactory;
use parquet::file::metadata::{KeyValue, ParquetMetaData, SortingColumn};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, SchemaDescriptor};

use super::calendar::new_calendar_mark;
use super::file_keys::{FileKeys, FooterFilter, TakenKeys};
use super::footer_checksum::{FOOTER_CHECKSUM_KEY, NOT_KNOWN};
use super::keys::{KeyCollector, KeyRange};
use super::options::{BaseFileOptions, DictionaryUse};
use super::parquet_schema::hudi_parquet_schema;
#[cfg(doc)]
use super::reader::BaseFileReader;
use super::row_group::{ColumnUse, DictionarySettings, RowGroupEncoder, leaf_count};
use super::sink::{LongValue, Sink};
use super::{
    AVRO_SCHEMA_KEY, BLOOM_FILTER_KEY, BLOOM_TYPE_KEY, MAX_KEY, MIN_KEY, MODEL_NAME_KEY, RECORD_KEY_COLUMN,
    SORTED_BY_KEY,
};
use hoodoo_format::bloom::BloomFilter;
use hoodoo_parquet_pages::checksums::ColumnWriters;
use hoodoo_parquet_pages::encoders::constant_column::constant_chunk;
use hoodoo_parquet_pages::encoders::encoded_chunk::encode_error;
use hoodoo_parquet_pages::encoders::number_column::{NumberSettings, is_number};
use hoodoo_parquet_pages::encoders::ordered_dictionary_column::{OrderedDictionarySettings, is_dictionary};
use hoodoo_parquet_pages::encoders::page_codec::PageContent;
use hoodoo_parquet_pages::encoders::string_column::{PlainStringSettings, is_plain_string};
use hoodoo_runtime::error::{Error, Result};

/// Rows that are encoded at a time on several threads.
const PARALLEL_ROWS: usize = 65_536;
/// Maximum rows that are encoded before the size of the row group is checked again.
const SLICE_ROWS: usize = 32_768;
/// First rows of a file that are sampled for repetition.
const SAMPLE_ROWS: usize = 4096;
/// Maximum bytes of a value in statistics: strings like keys stay exact, long strings are truncated.
const STATISTICS_BYTES: usize = 256;
/// Columns of distinct similar strings.
const META_STRINGS: [&str; 2] = [RECORD_KEY_COLUMN, SEQUENCE_COLUMN];
const SEQUENCE_COLUMN: &str = "_hoodie_commit_seqno";

/// Statistics of a finished base file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseFileStats {
    /// Records.
    pub rows: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Minimum record key; `None` without meta fields, or without rows.
    pub min_key: Option<String>,
    /// Maximum record key.
    pub max_key: Option<String>,
}

/// Writes one base file into a sink.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow::array::{RecordBatch, StringArray};
/// # use hoodoo_file_group::base::{BaseFileOptions, BaseFileWriter};
/// let keys = Arc::new(StringArray::from(vec!["a", "b"])) as _;
/// let batch = RecordBatch::try_from_iter_with_nullable([("_hoodie_record_key", keys, true)])?;
/// let mut writer = BaseFileWriter::try_new(Vec::new(), batch.schema(), BaseFileOptions::default())?;
/// writer.write(&batch)?;
/// let (file, stats) = writer.finish()?;
/// assert_eq!((stats.rows, stats.bytes), (2, file.len() as u64));
/// assert_eq!(stats.min_key.as_deref(), Some("a"));
/// # Ok::<(), hoodoo_runtime::Error>(())
/// ```
pub struct BaseFileWriter<W: Write + Send> {
    pub(super) file: SerializedFileWriter<Sink<W>>,
    pub(super) schema: SchemaRef,
    pub(super) descriptor: SchemaDescriptor,
    pub(super) options: BaseFileOptions,
    /// Creates column writers, once the first rows are known.
    factory: Option<(ColumnWriters, WriterProperties)>,
    group: Option<RowGroupEncoder>,
    pub(super) groups: usize,
    pending: Vec<RecordBatch>,
    pending_rows: usize,
    /// Columns with one string in all rows, by index.
    constants: BTreeMap<usize, String>,
    keys: KeyCollector,
    given_keys: Option<FileKeys>,
    taken_keys: TakenKeys,
    /// Whether there are rows whose keys were not collected.
    pub(super) spliced: bool,
    pub(super) rows: u64,
}

impl<W: Write + Send> BaseFileWriter<W> {
    /// Starts a file of the given schema, meta columns included, in the order in which the batches have the columns.
    ///
    /// # Errors
    /// `Schema` for a type that Hudi does not support; `Storage` if the sink fails.
    pub fn try_new(sink: W, schema: SchemaRef, options: BaseFileOptions) -> Result<Self> {
        let descriptor = hudi_parquet_schema(&schema, &options.message_name)?;
        let sorting = sorting_columns(&descriptor, &options.sorted_by);
        let properties = Arc::new(properties(&options).set_sorting_columns(sorting).build());
        let sink = Sink::new(sink, descriptor.num_columns());
        let file = SerializedFileWriter::new(sink, descriptor.root_schema_ptr(), properties).map_err(encode_error)?;
        let keys = KeyCollector::new(options.bloom.is_some());
        Ok(Self {
            file,
            schema,
            descriptor,
            options,
            factory: None,
            group: None,
            groups: 0,
            pending: Vec::new(),
            pending_rows: 0,
            constants: BTreeMap::new(),
            keys,
            given_keys: None,
            taken_keys: TakenKeys::default(),
            spliced: false,
            rows: 0,
        })
    }

    /// Sets a string column to this value in all rows, whatever the batches have, at no cost for each row. Call it
    /// before the first row.
    pub fn set_constant(&mut self, column: usize, value: String) {
        self.constants.insert(column, value);
    }

    /// Adds rows. String columns may come dictionary-encoded.
    ///
    /// # Errors
    /// `Schema` if the batch does not have the file's columns, or has a null in a required column or record key;
    /// `Storage` if the sink fails.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check(batch)?;
        if batch.num_rows() == 0 {
            return Ok(());
        }
        self.keys.add(batch)?;
        self.rows += batch.num_rows() as u64;
        let step = if self.options.threads > 1 { PARALLEL_ROWS } else { SLICE_ROWS };
        let mut offset = 0;
        while offset < batch.num_rows() {
            let in_group = self.group.as_ref().map_or(0, RowGroupEncoder::rows) + self.pending_rows;
            let room = self.options.row_group_rows.max(1).saturating_sub(in_group);
            let take = (batch.num_rows() - offset).min(room).min(step);
            self.pending.push(batch.slice(offset, take));
            self.pending_rows += take;
            offset += take;
            if self.options.threads <= 1 || self.pending_rows >= PARALLEL_ROWS || take == room {
                self.encode_pending()?;
            }
        }
        Ok(())
    }

    /// Rows so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows of finished row groups.
    pub fn flushed_rows(&self) -> u64 {
        let open = self.group.as_ref().map_or(0, RowGroupEncoder::rows) + self.pending_rows;
        self.rows.saturating_sub(open as u64)
    }

    /// Bytes of finished row groups.
    pub fn flushed_bytes(&self) -> u64 {
        self.file.bytes_written() as u64
    }

    /// Bytes that the file would have if it were finished now, within a few percent.
    pub fn bytes_written_estimate(&self) -> u64 {
        let flushed = self.file.bytes_written() as u64;
        let (group_rows, group_bytes) =
            self.group.as_ref().map_or((0, 0), |g| (g.rows() as u64, g.encoded_bytes() as u64));
        let flushed_rows = self.flushed_rows();
        // Current pages are not compressed yet; finished row groups give a better estimate.
        let open = match (flushed_rows, group_rows) {
            (0, 0) => self.pending.iter().map(|b| b.get_array_memory_size() as u64).sum::<u64>() / 2,
            (0, rows) => group_bytes * (rows + self.pending_rows as u64) / rows,
            (done, rows) => flushed * (rows + self.pending_rows as u64) / done,
        };
        let bloom =
            self.options.bloom.as_ref().map_or(0, |b| b.string_len(self.keys.count()) + self.taken_keys.string_len());
        let schema = self.options.avro_schema.as_ref().map_or(0, String::len);
        let chunks = (self.groups + usize::from(group_rows > 0)) * self.descriptor.num_columns();
        flushed + open + (bloom + schema + chunks * 250) as u64
    }

    /// Finishes the file. Returns the sink and its statistics.
    ///
    /// # Errors
    /// `Storage` if the sink fails; `InvalidOption` for invalid bloom filter options.
    pub fn finish(self) -> Result<(W, BaseFileStats)> {
        let (sink, stats, _) = self.finish_with_footer()?;
        Ok((sink, stats))
    }

    /// The same with the footer, without its bloom filter, for [`BaseFileReader::of_footer`].
    ///
    /// # Errors
    /// Those of [`BaseFileWriter::finish`].
    pub fn finish_with_footer(mut self) -> Result<(W, BaseFileStats, ParquetMetaData)> {
        self.end_row_group()?;
        let keys = self.file_keys()?;
        if let Some(schema) = self.options.avro_schema.take() {
            self.footer(AVRO_SCHEMA_KEY, schema);
            self.footer(MODEL_NAME_KEY, "avro".to_owned());
        }
        if let Some((key, version)) = new_calendar_mark(&self.schema) {
            self.footer(key, version.to_owned());
        }
        let mut long = None;
        if let Some(KeyRange { min, max }) = &keys.range {
            if let Some(filter) = keys.bloom {
                let place = hoodoo_runtime::simulated::uuid().to_string();
                self.footer(BLOOM_FILTER_KEY, place.clone());
                self.footer(BLOOM_TYPE_KEY, filter.filter_type().code().to_owned());
                long = Some(LongValue {
                    place,
                    length: filter.string_len(),
                    write: Box::new(move |to| filter.write_string(to)),
                });
            }
            self.footer(MIN_KEY, min.clone());
            self.footer(MAX_KEY, max.clone());
        }
        if !self.options.sorted_by.is_empty() {
            self.footer(SORTED_BY_KEY, self.options.sorted_by.join("\n"));
        }
        if self.options.page_checksums {
            self.footer(FOOTER_CHECKSUM_KEY, NOT_KNOWN.to_owned());
        }
        self.file.flush().map_err(|e| encode_error(e.into()))?;
        self.file.inner_mut().hold_footer();
        let footer = self.file.finish().map_err(encode_error)?;
        let written = self.file.bytes_written() as u64;
        let (sink, more) = self.file.inner_mut().finish(long)?;
        let bytes = written.saturating_add_signed(more);
        let (min_key, max_key) = keys.range.map_or((None, None), |r| (Some(r.min), Some(r.max)));
        Ok((sink, BaseFileStats { rows: self.rows, bytes, min_key, max_key }, footer))
    }

    /// Columns whose ranges the metadata table keeps, by the options.
    pub fn indexed_columns(&self) -> Option<Arc<[String]>> {
        self.options.indexed_columns.clone()
    }

    /// Sets key range and bloom filter of all rows, for a file with spliced row groups.
    pub fn set_keys(&mut self, keys: FileKeys) {
        self.given_keys = Some(keys);
    }

    /// Adds record keys of spliced rows.
    ///
    /// # Errors
    /// `Schema` if a record key is null.
    pub fn add_spliced_keys(&mut self, keys: &RecordBatch) -> Result<()> {
        self.keys.add(keys)
    }

    /// Adds the record keys of a whole spliced file. `false`, and adds nothing, if one bloom filter cannot hold the
    /// keys of all files: then they have to be read.
    #[must_use]
    pub fn take_keys(&mut self, keys: TakenKeys) -> bool {
        self.taken_keys.add(keys).is_some()
    }

    fn file_keys(&mut self) -> Result<FileKeys> {
        if let Some(given) = self.given_keys.take() {
            return Ok(given);
        }
        let taken = std::mem::take(&mut self.taken_keys);
        if self.spliced && self.keys.rows() as u64 + taken.rows() != self.rows {
            return Err(Error::schema("the record keys of spliced rows were not set"));
        }
        let (keys, range) = std::mem::take(&mut self.keys).finish();
        let filter = match (&range, &self.options.bloom) {
            (Some(_), Some(bloom)) => Some(BloomFilter::build(bloom, &keys, self.options.threads)?),
            _ => None,
        };
        let (range, filter) = if taken.rows() > 0 { taken.with(range, filter) } else { (range, filter) };
        Ok(FileKeys { range, bloom: filter.map(FooterFilter::Filter) })
    }

    fn footer(&mut self, key: &str, value: String) {
        self.file.append_key_value_metadata(KeyValue::new(key.to_owned(), value));
    }

    fn check(&self, batch: &RecordBatch) -> Result<()> {
        let (ours, theirs) = (self.schema.fields(), batch.schema_ref().fields());
        if ours.len() != theirs.len() {
            return Err(Error::schema(format!(
                "a batch has {} columns, but the file has {}",
                theirs.len(),
                ours.len()
            )));
        }
        for (our, their) in ours.iter().zip(theirs) {
            let their_type = match their.data_type() {
                DataType::Dictionary(_, value) => value.as_ref(),
                other => other,
            };
            if our.name() != their.name() || !our.data_type().equals_datatype(their_type) {
                return Err(Error::schema(format!(
                    "column '{}' of a batch is {their_type}, the file has '{}' of type {} there",
                    their.name(),
                    our.name(),
                    our.data_type()
                ))
                .with("column", our.name()));
            }
        }
        Ok(())
    }

    fn encode_pending(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        self.pending_rows = 0;
        if self.factory.is_none() {
            let properties = self.column_properties(&pending)?;
            let factory =
                column_factory(&self.descriptor, &self.schema, properties.clone(), self.options.page_checksums)?;
            self.factory = Some((factory, properties));
        }
        let group = match (&mut self.group, &self.factory) {
            (Some(group), _) => group,
            (empty @ None, Some((factory, properties))) => {
                let (constants, descriptor) = (&self.constants, &self.descriptor);
                let first_leaves = first_leaves(&self.schema);
                let first = |column: usize| pending.iter().filter_map(|b| b.columns().get(column).cloned()).collect();
                let how = |column| match constants.contains_key(&column) {
                    true => Ok(ColumnUse::LeftOut),
                    false => {
                        let first: Vec<ArrayRef> = first(column);
                        let leaf = first_leaves.get(column).copied();
                        let leaf = leaf.ok_or_else(|| Error::internal(format!("a file has no column {column}")))?;
                        Ok(column_use(&self.schema, descriptor, &self.options, properties, &first, (column, leaf)))
                    }
                };
                empty.insert(RowGroupEncoder::new(&self.schema, factory, self.groups, &how)?)
            }
            (None, None) => return Err(Error::schema("a base file has no column writers")),
        };
        group.encode(&pending, self.options.threads)?;
        if group.rows() >= self.options.row_group_rows || group.encoded_bytes() >= self.options.row_group_bytes {
            self.close_row_group()?;
        }
        Ok(())
    }

    /// Finishes the current row group, if there is one, so that its size is known.
    ///
    /// # Errors
    /// Those of [`BaseFileWriter::write`].
    pub fn end_row_group(&mut self) -> Result<()> {
        self.encode_pending()?;
        self.close_row_group()
    }

    fn close_row_group(&mut self) -> Result<()> {
        let Some(group) = self.group.take() else { return Ok(()) };
        let rows = group.rows();
        let mut encoded = group.close(self.options.threads)?.into_iter().peekable();
        let mut out = self.file.next_row_group().map_err(encode_error)?;
        let mut leaf = 0;
        for (i, field) in self.schema.fields().iter().enumerate() {
            if let Some((_, chunks)) = encoded.next_if(|(column, _)| *column == i) {
                chunks.into_iter().try_for_each(|chunk| chunk.append_to(&mut out))?;
            } else if let Some(value) = self.constants.get(&i) {
                let chunk = constant_chunk(&self.descriptor.column(leaf), value, rows, self.options.page_checksums)?;
                out.append_column(&chunk.bytes, chunk.close).map_err(encode_error)?;
            } else {
                return Err(Error::internal("a column of a row group was not encoded").with("column", field.name()));
            }
            leaf += leaf_count(field.data_type());
        }
        if let Some((column, _)) = encoded.next() {
            return Err(Error::internal(format!("column {column} of a row group was encoded, but not written")));
        }
        out.close().map_err(encode_error)?;
        self.groups += 1;
        Ok(())
    }

    /// Chooses dictionary encoding by the first rows.
    fn column_properties(&self, first: &[RecordBatch]) -> Result<WriterProperties> {
        let mut builder = properties(&self.options);
        if self.options.dictionary != DictionaryUse::Auto {
            return Ok(builder.build());
        }
        let usual = properties(&self.options).build();
        let first_leaves = first_leaves(&self.schema);
        for ((i, field), leaf) in self.schema.fields().iter().enumerate().zip(first_leaves) {
            // The other encoders decide themselves.
            let asks = |first: &[ArrayRef]| {
                let how = column_use(&self.schema, &self.descriptor, &self.options, &usual, first, (i, leaf));
                matches!(how, ColumnUse::Values)
            };
            if self.constants.contains_key(&i) {
                continue;
            }
            let nested = leaf_count(field.data_type()) != 1 || field.data_type().is_nested();
            let values: Vec<ArrayRef> = first.iter().filter_map(|b| b.columns().get(i).cloned()).collect();
            if !nested && asks(&values) && !repeats(&values)? {
                builder = builder.set_column_dictionary_enabled(ColumnPath::new(vec![field.name().clone()]), false);
            }
        }
        Ok(builder.build())
    }
}

/// The first leaf of each column.
fn first_leaves(schema: &Schema) -> Vec<usize> {
    let mut next = 0;
    let mut leaves = Vec::with_capacity(schema.fields().len());
    for field in schema.fields() {
        leaves.push(next);
        next += leaf_count(field.data_type());
    }
    leaves
}

/// How a column is encoded, by its index and that of its first leaf. Dictionary arrays keep their dictionaries; numbers
/// and plain strings do not need the general encoder.
pub(super) fn column_use(
    schema: &Schema,
    descriptor: &SchemaDescriptor,
    options: &BaseFileOptions,
    properties: &WriterProperties,
    first: &[ArrayRef],
    (column, first_leaf): (usize, usize),
) -> ColumnUse {
    let Some(field) = schema.fields().get(column) else { return ColumnUse::Values };
    let leaf = descriptor.column(first_leaf);
    let page_bytes = options.page_bytes.max(1024);
    let dictionary_bytes = if options.dictionary == DictionaryUse::Never { 0 } else { page_bytes };
    let (descriptor, format) = (leaf, options.page_format());
    let strings = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
    let comes = |test: &dyn Fn(&DataType) -> bool| first.iter().any(|array| test(array.data_type()));
    let own = if leaf_count(field.data_type()) == 1 && is_number(field.data_type(), &descriptor) {
        let descriptor = descriptor.clone();
        ColumnUse::Numbers(NumberSettings { descriptor, format, page_bytes, dictionary_bytes })
    } else if dictionary_bytes > 0 && field.data_type() == &DataType::Utf8 && comes(&|comes| comes == &strings) {
        ColumnUse::Dictionary(DictionarySettings { descriptor: descriptor.clone(), format, dictionary_bytes })
    } else if is_plain_string(field.data_type(), &descriptor) && !properties.dictionary_enabled(descriptor.path()) {
        let with_statistics = properties.statistics_enabled(descriptor.path()) != EnabledStatistics::None;
        ColumnUse::PlainStrings(PlainStringSettings {
            descriptor: descriptor.clone(),
            format,
            content: if META_STRINGS.contains(&field.name().as_str()) {
                PageContent::Keys
            } else {
                PageContent::Strings
            },
            page_bytes,
            statistics_bytes: if with_statistics { STATISTICS_BYTES } else { 0 },
        })
    } else {
        ColumnUse::Values
    };
    if dictionary_bytes > 0 && comes(&is_dictionary) {
        return ColumnUse::OrderedDictionary(
            OrderedDictionarySettings { descriptor, format, dictionary_bytes },
            Box::new(own),
        );
    }
    own
}

pub(super) fn properties(options: &BaseFileOptions) -> WriterPropertiesBuilder {
    let column = |name: &str| ColumnPath::new(vec![name.to_owned()]);
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_1_0)
        .set_created_by(format!("hoodoo version {}", env!("CARGO_PKG_VERSION")))
        .set_compression(options.codec)
        .set_data_page_size_limit(options.page_bytes.max(1024))
        .set_dictionary_page_size_limit(options.page_bytes.max(1024))
        .set_dictionary_enabled(options.dictionary != DictionaryUse::Never)
        .set_statistics_truncate_length(Some(STATISTICS_BYTES))
        .set_max_row_group_row_count(None)
        // Values are distinct, so a dictionary would only cost time.
        .set_column_dictionary_enabled(column(RECORD_KEY_COLUMN), false)
        .set_column_dictionary_enabled(column(SEQUENCE_COLUMN), false)
        // No query filters by these, and comparing long equal strings takes time.
        .set_column_statistics_enabled(column(SEQUENCE_COLUMN), EnabledStatistics::None)
        .set_column_statistics_enabled(column("_hoodie_file_name"), EnabledStatistics::None)
}

/// The sorting columns of Parquet metadata, by leaf index. Columns after a nested or missing one are left out: rows are
/// sorted by them only within its values.
fn sorting_columns(descriptor: &SchemaDescriptor, names: &[String]) -> Option<Vec<SortingColumn>> {
    let leaf = |name: &String| {
        let at = (0..descriptor.num_columns()).find(|i| descriptor.column(*i).path().parts() == [name.clone()])?;
        Some(SortingColumn { column_idx: i32::try_from(at).ok()?, descending: false, nulls_first: true })
    };
    let columns: Vec<SortingColumn> = names.iter().map_while(leaf).collect();
    (!columns.is_empty()).then_some(columns)
}

/// Creates column writers with other properties, whose chunks fit any file of the same columns.
pub(super) fn column_factory(
    descriptor: &SchemaDescriptor,
    schema: &SchemaRef,
    properties: WriterProperties,
    checksums: bool,
) -> Result<ColumnWriters> {
    let unused = SerializedFileWriter::new(io::sink(), descriptor.root_schema_ptr(), Arc::new(properties))
        .map_err(encode_error)?;
    Ok(ColumnWriters::new(ArrowRowGroupWriterFactory::new(&unused, schema.clone()), checksums))
}

/// Whether at least half of the first values of a column are repetitions.
pub(super) fn repeats(values: &[ArrayRef]) -> Result<bool> {
    let Some(first) = values.first() else { return Ok(true) };
    if matches!(first.data_type(), DataType::Dictionary(_, _) | DataType::Boolean) {
        return Ok(true);
    }
    let converter = RowConverter::new(vec![SortField::new(first.data_type().clone())])?;
    let hasher = ahash::RandomState::with_seeds(1, 2, 3, 4);
    let mut seen = hashbrown::HashSet::<u64, ahash::RandomState>::default();
    let mut rows = 0;
    for array in values {
        let array = array.slice(0, array.len().min(SAMPLE_ROWS - rows));
        rows += array.len();
        seen.extend(converter.convert_columns(&[array])?.iter().map(|row| hasher.hash_one(row.as_ref())));
        if rows >= SAMPLE_ROWS {
            break;
        }
    }
    // Below that a dictionary does not pay off.
    Ok(rows < 1024 || seen.len() * 2 <= rows)
}
