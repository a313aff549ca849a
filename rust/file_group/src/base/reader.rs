//! Reads one base file: its footer, its rows in the schema of the table, and single columns with row positions.

use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
    ParquetRecordBatchReaderBuilder, RowFilter,
};
use parquet::basic::Type as Physical;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::schema::types::SchemaDescriptor;

use super::calendar::OldCalendar;
use super::evolution::{evolve, missing, normal_field, wanted_leaves};
use super::footer_checksum::read_footer;
use super::keys::KeyRange;
use super::predicate::Predicate;
use super::pruning::FileStatistics;
use super::renamed::renamed;
use super::{
    AVRO_SCHEMA_KEY, BLOOM_FILTER_KEY, BLOOM_TYPE_KEY, MAX_KEY, MIN_KEY, OLD_BLOOM_FILTER_KEY, RECORD_KEY_COLUMN,
    SORTED_BY_KEY,
};
use hoodoo_format::bloom::{BloomFilter, BloomFilterType};
use hoodoo_format::field_lookup::FieldLookup;
use hoodoo_format::internal_schema::ColumnNames;
use hoodoo_parquet_pages::limited_pages::LimitedPages;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::{Chunks, decode};

/// Default number of rows of a batch.
const BATCH_ROWS: usize = 8192;

/// What to read of a base file.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// The columns to return, in this order and with the types of the table.
    pub schema: SchemaRef,
    /// Returns only rows that match. It may use columns that are not returned.
    pub predicate: Option<Predicate>,
    /// Maximum rows of a batch.
    pub batch_size: usize,
    /// Reads only these row groups.
    pub row_groups: Option<Vec<usize>>,
}

impl ScanOptions {
    /// All rows, in the given schema.
    pub fn new(schema: SchemaRef) -> Self {
        Self { schema, predicate: None, batch_size: BATCH_ROWS, row_groups: None }
    }

    /// Returns only rows that match the predicate.
    #[must_use]
    pub fn with_predicate(mut self, predicate: Option<Predicate>) -> Self {
        self.predicate = predicate;
        self
    }

    /// Sets the maximum rows of a batch.
    #[must_use]
    pub fn with_batch_size(mut self, rows: usize) -> Self {
        self.batch_size = rows.max(1);
        self
    }

    /// Reads only these row groups.
    #[must_use]
    pub fn with_row_groups(mut self, row_groups: Vec<usize>) -> Self {
        self.row_groups = Some(row_groups);
        self
    }
}

/// One row group of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowGroupInfo {
    /// Position of its first row in the file.
    pub first_row: u64,
    /// Its rows.
    pub rows: u64,
    /// Bytes that its columns take in the file.
    pub compressed_bytes: u64,
}

/// An open base file. Its footer is read.
pub struct BaseFileReader<R> {
    chunks: Chunks<R>,
    metadata: ArrowReaderMetadata,
    schema: SchemaRef,
    bloom: OnceLock<Option<BloomFilter>>,
    calendar: OldCalendar,
    /// Whether fields have other names than in the file.
    is_renamed: bool,
}

impl BaseFileReader<Bytes> {
    /// A reader of the footer of a file that has just been written, without rows and bloom filter.
    ///
    /// # Errors
    /// `Corrupt` for an invalid footer.
    pub fn of_footer(footer: ParquetMetaData) -> Result<Self> {
        let chunks = Chunks::new(Bytes::new());
        let metadata = decode("the footer of a base file", || {
            let plain = ArrowReaderMetadata::try_new(Arc::new(footer), reader_options());
            with_own_types(plain.map_err(|e| chunks.explain_parquet(e))?, &chunks)
        })?;
        Ok(Self::with_own_metadata(chunks, metadata))
    }
}

impl<R: ChunkReader + 'static> BaseFileReader<R> {
    /// Reads the footer.
    ///
    /// # Errors
    /// `Corrupt` if it is not a complete Parquet file; `Storage`.
    pub fn open(file: R) -> Result<Self> {
        let chunks = Chunks::new(file);
        if chunks.len() == 0 {
            return Err(Error::corrupt("a base file is empty"));
        }
        let metadata = decode("the footer of a base file", || {
            let plain = ArrowReaderMetadata::try_new(read_footer(&chunks)?, reader_options());
            with_own_types(plain.map_err(|e| chunks.explain_parquet(e))?, &chunks)
        })?;
        Ok(Self::with_own_metadata(chunks, metadata))
    }

    /// Reads the footer of a file whose fields have other names in the table now.
    ///
    /// # Errors
    /// Those of [`BaseFileReader::open`].
    pub fn open_renamed(file: R, names: Option<&ColumnNames>) -> Result<Self> {
        let reader = Self::open(file)?;
        let Some(names) = names else { return Ok(reader) };
        let Self { chunks, metadata, .. } = reader;
        let metadata = decode("the footer of a base file", || {
            let footer = Arc::new(renamed(metadata.metadata(), names)?);
            let plain = ArrowReaderMetadata::try_new(footer, reader_options());
            with_own_types(plain.map_err(|e| chunks.explain_parquet(e))?, &chunks)
        })?;
        Ok(Self { is_renamed: true, ..Self::with_own_metadata(chunks, metadata) })
    }

    fn with_own_metadata(chunks: Chunks<R>, metadata: ArrowReaderMetadata) -> Self {
        let fields: Fields = metadata.schema().fields().iter().map(|f| normal_field(f, f.name())).collect();
        let calendar = OldCalendar::of(metadata.metadata());
        let (schema, bloom) = (Arc::new(Schema::new(fields)), OnceLock::new());
        Self { chunks, metadata, schema, bloom, calendar, is_renamed: false }
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.row_groups().iter().map(|g| g.rows).sum()
    }

    /// The row groups, in the order of the file.
    pub fn row_groups(&self) -> Vec<RowGroupInfo> {
        let mut first_row = 0;
        let of = |group: &parquet::file::metadata::RowGroupMetaData| {
            let rows = group.num_rows().max(0).cast_unsigned();
            let info =
                RowGroupInfo { first_row, rows, compressed_bytes: group.compressed_size().max(0).cast_unsigned() };
            first_row += rows;
            info
        };
        self.metadata().row_groups().iter().map(of).collect()
    }

    /// The Parquet footer.
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        self.metadata.metadata()
    }

    /// The file's columns with hoodoo's types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The file itself.
    pub fn file(&self) -> &R {
        self.chunks.inner()
    }

    /// Refuses leaves of the file with days or times that its calendar names differently.
    pub(super) fn check_calendar(&self, leaves: impl IntoIterator<Item = usize>) -> Result<()> {
        self.calendar.check(&self.chunks, &self.metadata, leaves)
    }

    /// The file itself, for copying row groups.
    pub(super) fn source(&self) -> &Chunks<R> {
        &self.chunks
    }

    /// A key-value pair of the footer.
    pub fn footer(&self, key: &str) -> Option<&str> {
        let pairs = self.metadata().file_metadata().key_value_metadata()?;
        pairs.iter().find(|pair| pair.key == key)?.value.as_deref()
    }

    /// Whether the footer says that rows are sorted by these columns. Footers of other writers are ignored.
    pub fn is_sorted_by(&self, columns: &[String]) -> bool {
        let ours = self.metadata().file_metadata().created_by().is_some_and(|by| by.starts_with("hoodoo version "));
        let mut sorted_by = self.footer(SORTED_BY_KEY).unwrap_or_default().lines();
        // They are named as they were then.
        ours && !self.is_renamed
            && !columns.is_empty()
            && columns.iter().all(|column| sorted_by.next() == Some(column.as_str()))
    }

    /// The Avro schema, if the footer has one.
    pub fn avro_schema(&self) -> Option<&str> {
        self.footer(AVRO_SCHEMA_KEY)
    }

    /// Minimum and maximum record key, if the footer has them.
    pub fn key_range(&self) -> Option<KeyRange> {
        Some(KeyRange { min: self.footer(MIN_KEY)?.to_owned(), max: self.footer(MAX_KEY)?.to_owned() })
    }

    /// The bloom filter of record keys, decoded at the first call; `None` if the footer has none.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be decoded.
    pub fn bloom_filter(&self) -> Result<Option<&BloomFilter>> {
        if let Some(known) = self.bloom.get() {
            return Ok(known.as_ref());
        }
        let filter = self.decode_bloom_filter()?;
        Ok(self.bloom.get_or_init(|| filter).as_ref())
    }

    /// The bloom filter as the footer has it: its type, and its base64 string.
    pub fn stored_bloom_filter(&self) -> Option<(&str, &str)> {
        let filter = self.footer(BLOOM_FILTER_KEY).or_else(|| self.footer(OLD_BLOOM_FILTER_KEY))?;
        Some((self.footer(BLOOM_TYPE_KEY).unwrap_or(BloomFilterType::Simple.code()), filter))
    }

    /// Decodes the bloom filter.
    pub(super) fn decode_bloom_filter(&self) -> Result<Option<BloomFilter>> {
        let text = self.footer(BLOOM_FILTER_KEY).or_else(|| self.footer(OLD_BLOOM_FILTER_KEY));
        let Some(text) = text else { return Ok(None) };
        let filter_type = self.footer(BLOOM_TYPE_KEY).map_or(Ok(BloomFilterType::Simple), |code| {
            BloomFilterType::parse(code).map_err(|_| Error::corrupt(format!("unknown bloom filter type '{code}'")))
        })?;
        BloomFilter::from_base64(filter_type, text).map(Some)
    }

    /// The row groups that may have matching rows, by their statistics.
    ///
    /// # Errors
    /// `Schema` if a column cannot be compared with its literal.
    pub(crate) fn matching_row_groups(&self, predicate: &Predicate) -> Result<Vec<usize>> {
        self.check_literals(predicate)?;
        self.check_calendar(self.predicate_leaves(predicate))?;
        decode("statistics", || self.statistics(self.metadata()).row_groups(predicate))
    }

    pub(super) fn statistics<'a>(&'a self, metadata: &'a ParquetMetaData) -> FileStatistics<'a> {
        FileStatistics { metadata, fields: self.metadata.schema().fields() }
    }

    /// Checks before the first read that all columns can be compared with their literals.
    fn check_literals(&self, predicate: &Predicate) -> Result<()> {
        let mut result = Ok(());
        predicate.collect(&mut |column, literal| {
            let (Ok(field), Some(literal)) = (self.metadata.schema().field_with_name(column), literal) else { return };
            if result.is_ok() {
                result = evolve(&new_empty_array(field.data_type()), literal.data_type(), column).map(|_| ());
            }
        });
        result
    }

    /// Reads rows.
    ///
    /// # Errors
    /// `Schema`, with the column and both types, if a column of the file cannot be read as the requested type.
    pub fn scan(&self, options: &ScanOptions) -> Result<BaseFileScan<R>> {
        let file_fields = FieldLookup::new(self.metadata.schema().fields());
        for target in options.schema.fields() {
            match file_fields.get(target.name()) {
                Some(field) if field.data_type() == target.data_type() => {}
                Some(field) => {
                    let wanted = match target.data_type() {
                        // The file's own dictionary.
                        DataType::Dictionary(_, value) if value.as_ref() == field.data_type() => value.as_ref(),
                        other => other,
                    };
                    evolve(&new_empty_array(field.data_type()), wanted, target.name())?;
                }
                None if target.is_nullable() => {}
                None => return Err(missing(target.name())),
            }
        }
        self.check_calendar(wanted_leaves(self.metadata.schema().fields(), options.schema.fields()))?;
        let inner = decode("a base file", || self.build(options))?;
        // If the predicate uses all columns, rows are filtered after decoding.
        let predicate = options.predicate.clone().filter(|p| !self.filters_early(p, &options.schema));
        Ok(BaseFileScan { inner: Some(inner), chunks: self.chunks.clone(), schema: options.schema.clone(), predicate })
    }

    fn build(&self, options: &ScanOptions) -> Result<ParquetRecordBatchReader> {
        let every = || (0..self.metadata().num_row_groups()).collect::<Vec<_>>();
        let mut groups = options.row_groups.clone().unwrap_or_else(every);
        let count = self.metadata().num_row_groups();
        if let Some(group) = groups.iter().find(|group| **group >= count) {
            return Err(Error::internal(format!("row group {group} of {count} in a base file does not exist")));
        }
        let mut metadata = self.metadata.clone();
        if let Some(schema) = self.with_dictionaries(&options.schema) {
            let options = reader_options().with_schema(Arc::new(schema));
            metadata = ArrowReaderMetadata::try_new(self.metadata().clone(), options)
                .map_err(|e| self.chunks.explain_parquet(e))?;
        }
        let mut selection = None;
        if let Some(predicate) = &options.predicate {
            let matching = self.matching_row_groups(predicate)?;
            groups.retain(|g| matching.contains(g));
            if !groups.is_empty() {
                metadata = self.with_page_index()?;
                if let Some(index) = metadata.metadata().page_index() {
                    selection = self.statistics(metadata.metadata()).rows(predicate, index.as_ref(), &groups)?;
                }
            }
        }
        let parquet_schema = self.metadata().file_metadata().schema_descr();
        let file_fields = self.metadata.schema().fields();
        let mut wanted = wanted_leaves(file_fields, options.schema.fields());
        let late = options.predicate.as_ref().filter(|p| !self.filters_early(p, &options.schema));
        if let Some(predicate) = late {
            wanted.extend(self.predicate_leaves(predicate));
        }
        let mut builder = ParquetRecordBatchReaderBuilder::new_with_metadata(self.limited_pages(), metadata)
            .with_batch_size(options.batch_size.max(1))
            .with_row_groups(groups)
            .with_projection(ProjectionMask::leaves(parquet_schema, wanted));
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        if let (Some(predicate), None) = (&options.predicate, late) {
            builder = builder.with_row_filter(self.row_filter(predicate.clone(), parquet_schema));
        }
        builder.build().map_err(|e| self.chunks.explain_parquet(e))
    }

    /// The file itself, for reading pages.
    pub(super) fn limited_pages(&self) -> LimitedPages<Chunks<R>> {
        LimitedPages::new(self.chunks.clone(), self.metadata().clone())
    }

    /// The file's schema with dictionaries where the request has them; `None` if it has none.
    fn with_dictionaries(&self, asked: &Schema) -> Option<Schema> {
        if !asked.fields().iter().any(|f| matches!(f.data_type(), DataType::Dictionary(..))) {
            return None;
        }
        let file = self.metadata.schema();
        let asked = FieldLookup::new(asked.fields());
        let dictionary = |field: &FieldRef| match asked.get(field.name()).map(|f| f.data_type()) {
            Some(wanted @ DataType::Dictionary(_, value)) if value.as_ref() == field.data_type() => {
                Some(wanted.clone())
            }
            _ => None,
        };
        file.fields().iter().any(|f| dictionary(f).is_some()).then(|| {
            let changed = |field: &FieldRef| match dictionary(field) {
                Some(wanted) => Arc::new(field.as_ref().clone().with_data_type(wanted)),
                None => field.clone(),
            };
            Schema::new(file.fields().iter().map(changed).collect::<Fields>())
        })
    }

    /// Filtering while reading saves decoding if the predicate does not use all columns.
    fn filters_early(&self, predicate: &Predicate, schema: &Schema) -> bool {
        let looked_at = predicate.columns();
        let file = FieldLookup::new(self.metadata.schema().fields());
        looked_at.iter().any(|c| file.has(c))
            && schema.fields().iter().any(|f| !looked_at.contains(&f.name().as_str()) && file.has(f.name()))
    }

    fn predicate_leaves(&self, predicate: &Predicate) -> Vec<usize> {
        let columns = predicate.columns();
        let file_fields = self.metadata.schema().fields();
        let all: Fields = file_fields.iter().filter(|f| columns.contains(&f.name().as_str())).cloned().collect();
        wanted_leaves(file_fields, &all)
    }

    fn row_filter(&self, predicate: Predicate, parquet_schema: &SchemaDescriptor) -> RowFilter {
        let mask = ProjectionMask::leaves(parquet_schema, self.predicate_leaves(&predicate));
        let test = ArrowPredicateFn::new(mask, move |batch| Ok(predicate.evaluate(&batch)?));
        RowFilter::new(vec![Box::new(test)])
    }

    /// The footer with the page indexes, if the file has valid ones.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn metadata_with_page_index(&self) -> Result<Arc<ParquetMetaData>> {
        decode("page indexes", || Ok(self.with_page_index()?.metadata().clone()))
    }

    pub(super) fn with_page_index(&self) -> Result<ArrowReaderMetadata> {
        let mut reader = ParquetMetaDataReader::new_with_metadata(self.metadata().as_ref().clone())
            .with_page_index_policy(PageIndexPolicy::Optional);
        // Page indexes are optional: a file with damaged ones is read without them.
        match reader.read_page_indexes(&self.chunks).and_then(|()| reader.finish()) {
            Ok(with_index) => {
                let options = reader_options().with_schema(self.metadata.schema().clone());
                ArrowReaderMetadata::try_new(Arc::new(with_index), options).map_err(|e| self.chunks.explain_parquet(e))
            }
            Err(_) => Ok(self.metadata.clone()),
        }
    }

    /// Reads some columns, all rows in the order of the file, each batch with the position of its first row.
    ///
    /// # Errors
    /// `Corrupt` if the file does not have such a column.
    pub fn columns(&self, names: &[&str], batch_size: usize) -> Result<ColumnScan<R>> {
        let fields = names
            .iter()
            .map(|name| match self.schema.field_with_name(name) {
                Ok(field) => Ok(Arc::new(field.clone()) as FieldRef),
                Err(_) => Err(Error::corrupt(format!("a base file has no column '{name}'")).with("column", name)),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = ScanOptions::new(Arc::new(Schema::new(fields))).with_batch_size(batch_size);
        Ok(ColumnScan { scan: self.scan(&options)?, next_row: 0 })
    }

    /// Reads only the record keys, with row positions.
    ///
    /// # Errors
    /// `Corrupt` if the file does not have the meta column.
    pub fn key_column(&self) -> Result<ColumnScan<R>> {
        self.columns(&[RECORD_KEY_COLUMN], 4 * BATCH_ROWS)
    }
}

/// Columns have the types of the Parquet schema; an embedded Arrow schema is ignored.
fn reader_options() -> ArrowReaderOptions {
    ArrowReaderOptions::new().with_skip_arrow_metadata(true)
}

/// The same metadata with INT96 columns as microseconds.
fn with_own_types<R>(plain: ArrowReaderMetadata, chunks: &Chunks<R>) -> Result<ArrowReaderMetadata> {
    let parquet = plain.metadata();
    let leaves = parquet.file_metadata().schema_descr().num_columns();
    if parquet.row_groups().iter().any(|g| g.num_rows() < 0 || g.columns().len() != leaves) {
        return Err(Error::corrupt("a base file has an invalid row group"));
    }
    match int96_as_micros(plain.schema(), parquet.file_metadata().schema_descr()) {
        None => Ok(plain),
        Some(schema) => ArrowReaderMetadata::try_new(parquet.clone(), reader_options().with_schema(Arc::new(schema)))
            .map_err(|e| chunks.explain_parquet(e)),
    }
}

/// The same schema with INT96 columns as microseconds; `None` if there are none.
fn int96_as_micros(schema: &Schema, parquet: &SchemaDescriptor) -> Option<Schema> {
    let mut leaves = parquet.columns().iter().map(|c| c.physical_type() == Physical::INT96);
    if !leaves.clone().any(|int96| int96) {
        return None;
    }
    let fields: Fields = schema.fields().iter().map(|f| micros_field(f, &mut leaves)).collect();
    Some(Schema::new(fields))
}

fn micros_field(field: &FieldRef, leaves: &mut impl Iterator<Item = bool>) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::Struct(children) => DataType::Struct(children.iter().map(|c| micros_field(c, leaves)).collect()),
        DataType::List(child) => DataType::List(micros_field(child, leaves)),
        DataType::Map(entries, sorted) => DataType::Map(micros_field(entries, leaves), *sorted),
        other => match leaves.next() {
            Some(true) => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            _ => other.clone(),
        },
    };
    Arc::new(Field::new(field.name(), data_type, field.is_nullable()).with_metadata(field.metadata().clone()))
}

/// The rows of a base file, in batches of the requested schema. Ends after the first error.
pub struct BaseFileScan<R> {
    inner: Option<ParquetRecordBatchReader>,
    chunks: Chunks<R>,
    schema: SchemaRef,
    predicate: Option<Predicate>,
}

impl<R> BaseFileScan<R> {
    /// The schema of all batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let kept = match &self.predicate {
            Some(predicate) => &filter_record_batch(batch, &predicate.evaluate(batch)?)?,
            None => batch,
        };
        let read = FieldLookup::new(kept.schema_ref().fields());
        let column = |field: &FieldRef| -> Result<ArrayRef> {
            match read.position(field.name()).and_then(|at| kept.columns().get(at)) {
                Some(array) => evolve(array, field.data_type(), field.name()),
                None => Ok(new_null_array(field.data_type(), kept.num_rows())),
            }
        };
        let columns = self.schema.fields().iter().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(kept.num_rows()));
        RecordBatch::try_new_with_options(self.schema.clone(), columns, &options)
            .map_err(|e| Error::schema("a base file does not fit the schema to read").caused_by(e))
    }
}

impl<R> Iterator for BaseFileScan<R> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let inner = self.inner.as_mut()?;
            let batch =
                match decode("rows of a base file", || inner.next().transpose().map_err(|e| self.chunks.explain(e))) {
                    Ok(Some(batch)) => decode("rows of a base file", || self.convert(&batch)),
                    Ok(None) => {
                        self.inner = None;
                        return None;
                    }
                    Err(error) => Err(error),
                };
            match batch {
                Ok(batch) if batch.num_rows() == 0 => {}
                Ok(batch) => return Some(Ok(batch)),
                Err(error) => {
                    self.inner = None;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Some columns of a base file: each batch comes with the position of its first row in the file.
pub struct ColumnScan<R> {
    scan: BaseFileScan<R>,
    next_row: u64,
}

impl<R> Iterator for ColumnScan<R> {
    type Item = Result<(u64, RecordBatch)>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.scan.next()?;
        Some(batch.map(|batch| {
            let first = self.next_row;
            self.next_row += batch.num_rows() as u64;
            (first, batch)
        }))
    }
}
