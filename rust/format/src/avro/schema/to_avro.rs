//! Arrow schema into Avro JSON.

use std::collections::HashSet;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, TimeUnit};
use serde_json::{Value, json};

use super::names::{is_valid, record_name, record_namespace};
use super::{MAX_DEPTH, META_FIELDS};
use hoodoo_runtime::error::{Error, Result};

/// The Avro JSON that Hudi on Spark writes for a table with these columns.
///
/// Meta columns in `schema` are left out; with `with_meta_fields` the five are put first, as in the footer of a base
/// file. A nullable column is a union with null and defaults to it.
///
/// # Errors
/// `Unsupported` for a type that a Hudi table cannot hold, `Schema` for a column name that Avro does not take or that
/// occurs twice; both name the field.
pub fn table_schema_to_avro(schema: &Schema, table_name: &str, with_meta_fields: bool) -> Result<String> {
    let place =
        RecordName { name: record_name(table_name), namespace: record_namespace(table_name), path: String::new() };
    let columns: Vec<&FieldRef> =
        schema.fields().iter().filter(|f| !META_FIELDS.contains(&f.name().as_str())).collect();
    let mut fields = Vec::new();
    if with_meta_fields {
        fields.extend(
            META_FIELDS.map(|name| json!({"name": name, "type": ["null", "string"], "doc": "", "default": null})),
        );
    }
    fields.extend(record_fields(&columns, &place, 0)?);
    Ok(record(&place, fields).to_string())
}

/// Name and namespace of a record in the schema, and its path for messages.
struct RecordName {
    name: String,
    namespace: String,
    path: String,
}

impl RecordName {
    fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { name: name.to_owned(), namespace: self.inner(), path }
    }

    /// The namespace of what is defined inside the record of this place.
    fn inner(&self) -> String {
        format!("{}.{}", self.namespace, self.name)
    }

    fn refuse(&self, ty: &DataType, remedy: &str) -> Error {
        let message = format!("column {} has type {ty}, which a Hudi table cannot hold", self.path);
        Error::unsupported(message).with("column", &self.path).remedy(remedy)
    }
}

fn record(place: &RecordName, fields: Vec<Value>) -> Value {
    json!({"type": "record", "name": place.name, "namespace": place.namespace, "fields": fields})
}

fn record_fields(fields: &[&FieldRef], place: &RecordName, depth: usize) -> Result<Vec<Value>> {
    let mut seen = HashSet::new();
    let mut out = Vec::with_capacity(fields.len());
    for field in fields {
        let inner = place.field(field.name());
        if !is_valid(field.name()) {
            let error = Error::schema(format!("column {} has a name that Avro does not take", inner.path));
            return Err(error.with("column", &inner.path).remedy("Use letters, digits and underscores"));
        }
        // Spark, and with it Hudi, does not tell names apart by case.
        if !seen.insert(field.name().to_lowercase()) {
            return Err(Error::schema(format!("column {} occurs twice", inner.path)).with("column", &inner.path));
        }
        let ty = nullable(field, &inner, depth)?;
        out.push(match field.is_nullable() {
            true => json!({"name": field.name(), "type": ty, "default": null}),
            false => json!({"name": field.name(), "type": ty}),
        });
    }
    Ok(out)
}

/// The type of a field, list element or map value, as a union with null if it may be null.
fn nullable(field: &Field, place: &RecordName, depth: usize) -> Result<Value> {
    let ty = avro_type(field.data_type(), place, depth + 1)?;
    Ok(if field.is_nullable() { json!(["null", ty]) } else { ty })
}

fn avro_type(ty: &DataType, place: &RecordName, depth: usize) -> Result<Value> {
    if depth > MAX_DEPTH {
        return Err(Error::unsupported(format!("column {} nests too deeply", place.path)).with("column", &place.path));
    }
    Ok(match ty {
        DataType::Boolean => json!("boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => json!("int"),
        DataType::Int64 | DataType::UInt32 => json!("long"),
        DataType::Float32 => json!("float"),
        DataType::Float64 => json!("double"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => json!("string"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => json!("bytes"),
        DataType::Date32 => json!({"type": "int", "logicalType": "date"}),
        DataType::Time32(TimeUnit::Millisecond) => json!({"type": "int", "logicalType": "time-millis"}),
        DataType::Time64(TimeUnit::Microsecond) => json!({"type": "long", "logicalType": "time-micros"}),
        DataType::Timestamp(unit, zone) => timestamp(ty, *unit, zone.is_some(), place)?,
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => decimal(ty, *p, *s, place)?,
        DataType::FixedSizeBinary(size) if *size > 0 => {
            json!({"type": "fixed", "name": "fixed", "namespace": place.inner(), "size": size})
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => json!({"type": "array", "items": nullable(item, place, depth)?}),
        DataType::Map(entries, _) => map(ty, entries, place, depth)?,
        DataType::Struct(fields) if !fields.is_empty() => {
            record(place, record_fields(&fields.iter().collect::<Vec<_>>(), place, depth)?)
        }
        DataType::Dictionary(_, values) => avro_type(values, place, depth + 1)?,
        _ => return Err(place.refuse(ty, "Cast it to a type that the table's other readers know, or leave it out")),
    })
}

fn timestamp(ty: &DataType, unit: TimeUnit, adjusted: bool, place: &RecordName) -> Result<Value> {
    let logical = match (unit, adjusted) {
        (TimeUnit::Second | TimeUnit::Millisecond, true) => "timestamp-millis",
        (TimeUnit::Second | TimeUnit::Millisecond, false) => "local-timestamp-millis",
        (TimeUnit::Microsecond, true) => "timestamp-micros",
        (TimeUnit::Microsecond, false) => "local-timestamp-micros",
        (TimeUnit::Nanosecond, _) => return Err(place.refuse(ty, "Cast it to microseconds")),
    };
    Ok(json!({"type": "long", "logicalType": logical}))
}

fn decimal(ty: &DataType, precision: u8, scale: i8, place: &RecordName) -> Result<Value> {
    let fits = (1..=38).contains(&precision) && u8::try_from(scale).is_ok_and(|s| s <= precision);
    if !fits {
        return Err(place.refuse(ty, "Use a precision of 1 to 38 and a scale of 0 to the precision"));
    }
    Ok(json!({
        "type": "fixed",
        "name": "fixed",
        "namespace": place.inner(),
        "size": decimal_size(precision),
        "logicalType": "decimal",
        "precision": precision,
        "scale": scale,
    }))
}

/// The least number of bytes whose two's complement holds every number of that many digits.
pub(crate) fn decimal_size(precision: u8) -> u32 {
    // 10^38 < 2^127, so the sum with the sign bit never passes 128.
    let largest = 10u128.saturating_pow(u32::from(precision)) - 1;
    (u128::BITS - largest.leading_zeros() + 1).div_ceil(8)
}

fn map(ty: &DataType, entries: &Field, place: &RecordName, depth: usize) -> Result<Value> {
    let DataType::Struct(fields) = entries.data_type() else { return Err(place.refuse(ty, "Give it keys and values")) };
    let mut fields = fields.iter();
    let (Some(key), Some(value)) = (fields.next(), fields.next()) else {
        return Err(place.refuse(ty, "Give it keys and values"));
    };
    if !matches!(key.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
        return Err(place.refuse(ty, "Only strings can be the keys of a map"));
    }
    Ok(json!({"type": "map", "values": nullable(value, place, depth)?}))
}
