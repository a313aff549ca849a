//! Avro schema JSON <-> Arrow schema.
//!
//! Hudi keeps a table's schema as Avro JSON: in `extraMetadata.schema` of every commit (without meta columns) and in the
//! footer of base files under `parquet.avro.schema` (with them). [`table_schema_to_avro`] writes exactly what Hudi on
//! Spark writes for the same columns; [`avro_to_arrow_schema`] reads what any writer left there.
//!
//! | Avro | Arrow |
//! |---|---|
//! | boolean, int, long, float, double, string, bytes | Boolean, Int32, Int64, Float32, Float64, Utf8, Binary |
//! | int date; int time-millis; long time-micros | Date32; Time32(ms); Time64(µs) |
//! | long timestamp-millis, -micros; local-timestamp-millis, -micros | Timestamp(unit, UTC); Timestamp(unit, none) |
//! | fixed or bytes decimal(p, s) | Decimal128(p, s) |
//! | fixed(n) | FixedSizeBinary(n) |
//! | enum | Utf8 |
//! | array; map; record | List(`element`); Map(`key_value`: `key`, `value`); Struct |
//! | union of null and one type | the type, nullable |
//!
//! Narrower Arrow types are held as the next wider Avro type ([`held_schema`] tells which Arrow types a table's columns
//! come back as); types that would lose something are refused, by the name of their field.

mod from_avro;
mod java_letters;
mod names;
mod to_avro;

#[cfg(test)]
mod tests;

pub use from_avro::avro_to_arrow_schema;
pub use names::{record_name, record_namespace};
pub(crate) use to_avro::decimal_size;
pub use to_avro::table_schema_to_avro;

use arrow::datatypes::Schema;

use hoodoo_runtime::error::Result;

/// The meta columns, in their order, that come first in every base file.
pub const META_FIELDS: [&str; 5] = [
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
];

/// How deep types may nest.
const MAX_DEPTH: usize = 64;

/// The Arrow schema, without meta columns, in which a table holds columns of the given schema.
///
/// # Errors
/// Those of [`table_schema_to_avro`].
///
/// # Example
/// ```
/// use arrow::datatypes::{DataType, Field, Schema};
/// use hoodoo_format::avro::schema::held_schema;
///
/// let given = Schema::new(vec![Field::new("id", DataType::LargeUtf8, false), Field::new("n", DataType::Int16, true)]);
/// let held = held_schema(&given)?;
/// assert_eq!(held.field(0).data_type(), &DataType::Utf8);
/// assert_eq!(held.field(1).data_type(), &DataType::Int32);
/// # Ok::<(), hoodoo_runtime::Error>(())
/// ```
pub fn held_schema(schema: &Schema) -> Result<Schema> {
    avro_to_arrow_schema(&table_schema_to_avro(schema, "t", false)?)
}
