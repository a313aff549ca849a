//! Decodes Avro records of one schema into Arrow batches.
//!
//! arrow-avro decodes them one after the other, and passes over the columns that nobody wants. Most columns are of simple
//! types, or of records of these: they are decoded here, by [`FlatRecords`], with the same result in less time.

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_avro::codec::Tz;
use arrow_avro::reader::{Decoder, DecoderMode, ReaderBuilder};
use arrow_avro::schema::{AvroSchema, Fingerprint, FingerprintAlgorithm, SchemaStore};
use serde_json::Value;
use std::sync::{Arc, Mutex};

use super::flat_records::FlatRecords;
use crate::avro::datum::{DatumSchema, MAX_DEPTH, Measure};
use hoodoo_runtime::error::{Error, Result};

/// Threads that decode records of one schema at the same time, mostly.
const MOST_IDLE: usize = 8;

/// Decodes records of one schema.
pub(super) struct RecordDecoder {
    schema: DatumSchema,
    json: String,
    projection: Vec<usize>,
    /// All columns have to be read to get those.
    whole: bool,
    batch_rows: usize,
    flat: Option<FlatRecords>,
    /// General decoders without rows in them. One takes longer to make than most blocks take to decode.
    idle: Mutex<Vec<Decoder>>,
}

impl RecordDecoder {
    /// A decoder of those of `columns` that the records have.
    pub(super) fn new(schema: &str, columns: &[&str], batch_rows: usize) -> Result<Self> {
        let (json, projection) = prepare(schema, columns)?;
        let schema = DatumSchema::parse(&json)?;
        let batch_rows = batch_rows.max(1);
        // A reader of some columns goes astray in unions of several types (arrow-avro 60).
        let whole = wanted_fields(&parse(&json)?, &projection).any(|field| has_wide_union(field, 0));
        let mut decoder = Self { schema, json, projection, whole, batch_rows, flat: None, idle: Mutex::default() };
        let mut columns = decoder.columns();
        if columns.is_none() {
            // The type of a column may be named in it and stand in another, which the reader leaves out with its types.
            decoder.whole = true;
            columns = decoder.columns();
        }
        let json: Value = parse(&decoder.json)?;
        decoder.flat =
            columns.and_then(|columns| FlatRecords::new(&decoder.schema, &json, &decoder.projection, columns));
        Ok(decoder)
    }

    /// The columns as they come out of records; none if they cannot be read.
    fn columns(&self) -> Option<SchemaRef> {
        // A decoder of types that each have the next one twice would take all memory.
        Measure::of_records(&self.schema, 0).ok()?;
        let general = self.general().ok()?;
        Some(self.wanted(&RecordBatch::new_empty(general.schema())).ok()?.schema())
    }

    /// What was asked for, of what the reader gave.
    fn wanted(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        if self.whole { plain(&batch.project(&self.projection)?) } else { plain(batch) }
    }

    /// Whether the faster decoder takes the records.
    #[cfg(test)]
    pub(super) fn is_flat(&self) -> bool {
        self.flat.is_some()
    }

    /// Decodes so many records, each of which is the bytes of one datum and nothing else.
    pub(super) fn batches<'a>(
        &self,
        records: impl Iterator<Item = Result<&'a [u8]>> + Clone,
        count: usize,
    ) -> Result<Vec<RecordBatch>> {
        match &self.flat {
            Some(flat) => flat.batches(&self.schema, records, count, self.batch_rows),
            None => self.general_batches(records, count),
        }
    }

    /// The same for records of any schema. Each is measured: what the decoder is given is of the schema, and the bytes of
    /// one record are not taken for those of the next.
    pub(super) fn general_batches<'a>(
        &self,
        records: impl Iterator<Item = Result<&'a [u8]>> + Clone,
        count: usize,
    ) -> Result<Vec<RecordBatch>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let bytes = records.clone().map(|record| record.map(<[u8]>::len)).sum::<Result<usize>>()?;
        let mut measure = Measure::of_records(&self.schema, bytes)?;
        let failed = |e: ArrowError| Error::corrupt("the records of a log block could not be decoded").caused_by(e);
        let idle = self.idle.try_lock().ok().and_then(|mut idle| idle.pop());
        let mut general = idle.map_or_else(|| self.general(), Ok).map_err(failed)?;
        let mut batches = Vec::new();
        for (number, record) in records.enumerate() {
            let record = record?;
            let is_whole = |length: Option<usize>| length == Some(record.len());
            let foreign = || Error::corrupt("a record of a log block is not of the block's schema");
            if !is_whole(measure.length(record)) {
                return Err(foreign().with("record", number));
            }
            let decoded = general.decode(record).map_err(|e| failed(e.into()))?;
            if !is_whole(Some(decoded)) {
                return Err(foreign().with("record", number).with("decoded", decoded));
            }
            if general.batch_is_full() {
                self.flush(&mut general, &mut batches)?;
            }
        }
        self.flush(&mut general, &mut batches)?;
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        if rows != count {
            return Err(Error::corrupt("a log block has fewer records than it says")
                .with("records", count)
                .with("found", rows));
        }
        if let Ok(mut idle) = self.idle.try_lock() {
            idle.truncate(MOST_IDLE - 1);
            idle.push(general);
        }
        Ok(batches)
    }

    fn flush(&self, general: &mut Decoder, batches: &mut Vec<RecordBatch>) -> Result<()> {
        let failed = |e| Error::corrupt("the records of a log block are no columns").caused_by(ArrowError::from(e));
        if let Some(batch) = general.flush().map_err(failed)? {
            batches.push(self.wanted(&batch)?);
        }
        Ok(())
    }

    /// A decoder for records of any schema.
    fn general(&self) -> std::result::Result<Decoder, ArrowError> {
        let id = Fingerprint::Id(0);
        let mut schemas = SchemaStore::new_with_type(FingerprintAlgorithm::Id);
        schemas.set(id, AvroSchema::new(self.json.clone()))?;
        let general = ReaderBuilder::new()
            .with_batch_size(self.batch_rows)
            .with_tz(Tz::Utc)
            .with_decoder_mode(DecoderMode::UnframedDatum)
            .with_writer_schema_store(schemas)
            .with_active_fingerprint(id);
        if self.whole { general } else { general.with_projection(self.projection.clone()) }.build_decoder()
    }
}

/// The names of the columns that records of a schema have.
///
/// # Errors
/// `Corrupt` for what is no schema of records.
pub fn record_columns(schema: &str) -> Result<Vec<String>> {
    field_names(&parse(schema)?)
}

fn parse(schema: &str) -> Result<Value> {
    crate::json::parse(schema.as_bytes(), "the schema of a log block is not JSON")
}

fn field_names(schema: &Value) -> Result<Vec<String>> {
    let fields = schema.get("fields").and_then(Value::as_array);
    let fields = fields.ok_or_else(|| Error::corrupt("the schema of a log block is not that of a record"))?;
    let name = |field: &Value| field.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    Ok(fields.iter().map(name).collect())
}

/// The schema without what the reader takes differently, and the positions of the wanted columns.
fn prepare(schema: &str, columns: &[&str]) -> Result<(String, Vec<usize>)> {
    let mut json = parse(schema)?;
    let names = field_names(&json)?;
    let wanted = |(position, name): (usize, &String)| columns.contains(&name.as_str()).then_some(position);
    let projection = names.iter().enumerate().filter_map(wanted).collect();
    if let Some(name) = misnamed(&json, 0) {
        return Err(
            Error::corrupt("the schema of a log block has a field with a name that none can have").with("field", name)
        );
    }
    without_uuids(&mut json, 0);
    Ok((json.to_string(), projection))
}

/// The fields that are wanted.
fn wanted_fields<'a>(json: &'a Value, projection: &'a [usize]) -> impl Iterator<Item = &'a Value> {
    let fields = json.get("fields").and_then(Value::as_array);
    projection.iter().filter_map(move |place| fields?.get(*place))
}

/// Whether a type has a union of more than null and one type.
fn has_wide_union(json: &Value, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    match json {
        Value::Object(object) => ["type", "items", "values", "fields"]
            .into_iter()
            .filter_map(|name| Some((name, object.get(name)?)))
            .any(|(name, value)| match (name, value) {
                ("fields", Value::Array(fields)) => fields.iter().any(|field| has_wide_union(field, depth + 1)),
                (_, value) => has_wide_union(value, depth + 1),
            }),
        Value::Array(branches) => branches.len() > 2 || branches.iter().any(|one| has_wide_union(one, depth + 1)),
        _ => false,
    }
}

/// A field whose name is not one in Avro. A reader that took it would miss the column that was meant.
fn misnamed(json: &Value, depth: usize) -> Option<&str> {
    if depth > MAX_DEPTH {
        return None;
    }
    let is_name = |name: &str| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    };
    match json {
        Value::Object(object) => {
            let fields = object.get("fields").and_then(Value::as_array).into_iter().flatten();
            let mut names = fields.filter_map(|field| field.get("name").and_then(Value::as_str));
            names.find(|name| !is_name(name)).or_else(|| object.values().find_map(|value| misnamed(value, depth + 1)))
        }
        Value::Array(values) => values.iter().find_map(|value| misnamed(value, depth + 1)),
        _ => None,
    }
}

/// A table holds these as strings.
fn without_uuids(json: &mut Value, depth: usize) {
    // Deeper ones are refused when the schema is read.
    if depth > MAX_DEPTH {
        return;
    }
    match json {
        Value::Object(object) => {
            if object.get("logicalType").and_then(Value::as_str) == Some("uuid") {
                object.remove("logicalType");
            }
            object.values_mut().for_each(|value| without_uuids(value, depth + 1));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| without_uuids(value, depth + 1)),
        _ => {}
    }
}

/// Dictionaries of the top level as their values.
fn plain(batch: &RecordBatch) -> Result<RecordBatch> {
    let is_dictionary = |f: &Arc<Field>| matches!(f.data_type(), DataType::Dictionary(..));
    let schema = batch.schema();
    if !schema.fields().iter().any(is_dictionary) {
        return Ok(batch.clone());
    }
    let mut fields = Vec::with_capacity(schema.fields().len());
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(schema.fields().len());
    for (field, column) in schema.fields().iter().zip(batch.columns()) {
        let DataType::Dictionary(_, values) = field.data_type() else {
            fields.push(field.clone());
            columns.push(column.clone());
            continue;
        };
        fields.push(Arc::new(field.as_ref().clone().with_data_type(values.as_ref().clone())));
        columns.push(arrow_cast::cast(column, values)?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), columns, &options)?)
}
