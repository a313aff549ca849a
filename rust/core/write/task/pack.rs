//! Rows on their way through a shuffle. The engine moves them as values of one binary column, a few dozen rows in each, and
//! does not take their columns apart and put them together again.
//!
//! | column | what |
//! |---|---|
//! | `_hoodie_partition_path`, `_hoodie_route` | by these the rows are shuffled |
//! | `_hoodie_row` | the number of the first row: by it values of one route are sorted |
//! | `_hoodie_rows` | the rows, as one record batch message of an Arrow IPC stream |
//!
//! The numbers of a task's rows ascend, and tasks have ranges of their own, so that sorted values are sorted rows.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryBuilder, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::buffer::Buffer;
use arrow::compute::{CastOptions, cast, cast_with_options, concat, concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema, SchemaRef};
use arrow::ipc::MetadataVersion;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::{IpcWriteOptions, StreamWriter};

use super::ADDED_COLUMNS;
use crate::error::{Error, Result};

/// Number of a row.
pub(super) const ROW: &str = "_hoodie_row";
/// Columns of packed rows.
pub(super) const PACKED_COLUMNS: [&str; 4] = ["_hoodie_partition_path", "_hoodie_route", ROW, "_hoodie_rows"];
/// Bytes of rows that wait for others of their route.
const WAITING_BYTES: usize = 32 << 20;
/// Bytes of a batch of values, where it has as many as the engine passes at a time.
const BATCH_BYTES: usize = 160 << 20;
/// Bytes of one value: in larger ones nothing is gained, and of smaller ones the message's own header is most.
const VALUE_BYTES: std::ops::RangeInclusive<usize> = 1 << 10..=16 << 10;

/// Bytes of a value, where the engine passes so many of them at a time; 0 for no limit.
pub(super) fn value_bytes(batch_rows: usize) -> usize {
    let bytes = BATCH_BYTES.checked_div(batch_rows).unwrap_or_default();
    bytes.clamp(*VALUE_BYTES.start(), *VALUE_BYTES.end())
}

/// Rows with their routes.
pub(super) struct Routed {
    /// The columns that a packer takes.
    pub(super) rows: RecordBatch,
    pub(super) partitions: StringArray,
    pub(super) routes: StringArray,
}

/// The columns of packed rows.
pub fn packed_schema() -> SchemaRef {
    let [partition, route, row, rows] = PACKED_COLUMNS;
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    let number = Field::new(row, DataType::Int64, true);
    Arc::new(Schema::new(vec![text(partition), text(route), number, Field::new(rows, DataType::Binary, true)]))
}

/// Packs rows.
pub(super) struct Packer {
    schema: SchemaRef,
    waiting: Vec<Routed>,
    bytes: usize,
    writer: StreamWriter<Vec<u8>>,
    value_bytes: usize,
}

impl Packer {
    /// For rows of these columns, of which one is the number of the row, and values of so many bytes.
    pub(super) fn new(schema: SchemaRef, value_bytes: usize) -> Result<Self> {
        Ok(Self { writer: writer(&schema)?, schema, waiting: Vec::new(), bytes: 0, value_bytes })
    }

    /// Adds rows. Packed rows come back when many wait.
    pub(super) fn add(&mut self, routed: Routed) -> Result<Option<RecordBatch>> {
        let columns = routed.rows.columns().iter().map(|column| column.to_data().get_slice_memory_size());
        self.bytes += columns.sum::<std::result::Result<usize, _>>()?;
        self.waiting.push(routed);
        if self.bytes < WAITING_BYTES { Ok(None) } else { self.flush() }
    }

    /// Packs what waits; `None` when nothing does.
    pub(super) fn flush(&mut self) -> Result<Option<RecordBatch>> {
        let waiting = std::mem::take(&mut self.waiting);
        let bytes = std::mem::take(&mut self.bytes);
        let rows = concat_batches(&self.schema, waiting.iter().map(|routed| &routed.rows))?;
        if rows.num_rows() == 0 {
            return Ok(None);
        }
        let together = |column: fn(&Routed) -> &dyn Array| concat(&waiting.iter().map(column).collect::<Vec<_>>());
        let (partitions, routes) = (together(|routed| &routed.partitions)?, together(|routed| &routed.routes)?);
        let groups = groups(partitions.as_string(), routes.as_string(), rows.num_rows())?;
        let at_once = (self.value_bytes / (bytes / rows.num_rows()).max(1)).max(1);
        let numbers = numbers(&rows)?;
        let (mut firsts, mut first_numbers, mut values) = (Vec::new(), Vec::new(), BinaryBuilder::new());
        for chunk in groups.iter().flat_map(|group| group.chunks(at_once)) {
            let Some(first) = chunk.first() else { continue };
            firsts.push(*first);
            first_numbers.push(numbers.value(*first as usize));
            let chunk = take_record_batch(&rows, &UInt32Array::from_iter_values(chunk.iter().copied()))?;
            self.writer.write(&chunk)?;
            let value = self.writer.get_mut();
            values.append_value(&*value);
            value.clear();
        }
        let firsts = UInt32Array::from(firsts);
        let of_groups = |column: &ArrayRef| arrow::compute::take(column, &firsts, None);
        let numbers: ArrayRef = Arc::new(Int64Array::from(first_numbers));
        let columns = vec![of_groups(&partitions)?, of_groups(&routes)?, numbers, Arc::new(values.finish())];
        Ok(Some(RecordBatch::try_new(packed_schema(), columns)?))
    }
}

/// A writer of values, its header dropped.
fn writer(schema: &SchemaRef) -> Result<StreamWriter<Vec<u8>>> {
    let mut writer = stream_writer(schema)?;
    writer.get_mut().clear();
    Ok(writer)
}

/// The message of an IPC stream that tells its columns.
pub(super) fn stream_header(schema: &SchemaRef) -> Result<Vec<u8>> {
    Ok(std::mem::take(stream_writer(schema)?.get_mut()))
}

fn stream_writer(schema: &SchemaRef) -> Result<StreamWriter<Vec<u8>>> {
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    Ok(StreamWriter::try_new_with_options(Vec::new(), schema, options)?)
}

fn numbers(rows: &RecordBatch) -> Result<&Int64Array> {
    let numbers = rows.column_by_name(ROW).and_then(|column| column.as_primitive_opt::<Int64Type>());
    numbers.ok_or_else(|| Error::internal(format!("rows on their way lack the column {ROW}")))
}

/// The rows of each partition and route, in their order.
fn groups(partitions: &StringArray, routes: &StringArray, rows: usize) -> Result<Vec<Vec<u32>>> {
    if partitions.len() != rows || routes.len() != rows || partitions.null_count() + routes.null_count() > 0 {
        return Err(Error::internal(format!("not each of {rows} rows has a partition and a route")));
    }
    let mut known: HashMap<(&str, &str), usize, ahash::RandomState> = HashMap::default();
    let mut groups: Vec<Vec<u32>> = Vec::new();
    for row in 0..rows {
        let group = *known.entry((partitions.value(row), routes.value(row))).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(group) {
            group.push(row as u32);
        }
    }
    Ok(groups)
}

/// Unpacks rows.
pub(super) struct Unpacker {
    decoder: StreamDecoder,
}

/// Rows of one route that follow each other.
pub(super) struct Unpacked {
    pub(super) partition: String,
    pub(super) route: String,
    pub(super) rows: RecordBatch,
}

impl Unpacker {
    /// Of rows with the columns that the packer had.
    pub(super) fn new(schema: &SchemaRef) -> Result<Self> {
        let mut decoder = StreamDecoder::new();
        decoder.decode(&mut Buffer::from_vec(stream_header(schema)?))?;
        Ok(Self { decoder })
    }

    /// The rows of a batch of values.
    pub(super) fn unpack(&mut self, packed: &RecordBatch) -> Result<Vec<Unpacked>> {
        let lacking = || Error::schema("packed rows have other columns");
        let [partition, route, _, rows] = PACKED_COLUMNS.map(|name| packed.column_by_name(name));
        // Spark may send strings and bytes with offsets of 64 bits (`spark.sql.execution.arrow.useLargeVarTypes`).
        let of_type = |column: Option<&ArrayRef>, wanted: DataType| match column.map(|c| (c, c.data_type())) {
            Some((column, DataType::LargeUtf8 | DataType::LargeBinary)) => Ok(cast(column, &wanted)?),
            Some((column, given)) if given == &wanted => Ok(column.clone()),
            _ => Err(lacking()),
        };
        let (partitions, routes) = (of_type(partition, DataType::Utf8)?, of_type(route, DataType::Utf8)?);
        let (partitions, routes) = (partitions.as_string::<i32>(), routes.as_string::<i32>());
        let values = of_type(rows, DataType::Binary)?;
        let values = values.as_binary::<i32>();
        let mut unpacked = Vec::new();
        let mut open: Option<(usize, Vec<RecordBatch>)> = None;
        for row in 0..values.len() {
            // The message may lie anywhere in the column: a copy of some kilobytes is aligned.
            let mut message = Buffer::from(values.value(row));
            let broken = || Error::corrupt("a value of packed rows is no record batch message");
            let rows = self.decoder.decode(&mut message).map_err(|e| broken().caused_by(e))?.ok_or_else(broken)?;
            match &mut open {
                Some((first, list))
                    if partitions.value(*first) == partitions.value(row)
                        && routes.value(*first) == routes.value(row) =>
                {
                    list.push(rows);
                }
                _ => {
                    if let Some((first, list)) = open.replace((row, vec![rows])) {
                        unpacked.push(together(partitions.value(first), routes.value(first), &list)?);
                    }
                }
            }
        }
        if let Some((first, list)) = open {
            unpacked.push(together(partitions.value(first), routes.value(first), &list)?);
        }
        Ok(unpacked)
    }
}

fn together(partition: &str, route: &str, list: &[RecordBatch]) -> Result<Unpacked> {
    let schema = list.first().map(RecordBatch::schema).unwrap_or_else(|| Arc::new(Schema::empty()));
    let rows = concat_batches(&schema, list)?;
    Ok(Unpacked { partition: partition.to_owned(), route: route.to_owned(), rows })
}

/// The given columns that rows take along: not those that tasks add, which rows read from a table have too.
pub(super) fn own_fields(given: &Schema) -> impl Iterator<Item = FieldRef> + '_ {
    given.fields().iter().filter(|f| !ADDED_COLUMNS.contains(&f.name().as_str())).cloned()
}

/// The type of a column on its way: a dictionary would have to be sent along with each value.
fn plain(data_type: &DataType) -> DataType {
    let of_field =
        |field: &FieldRef| -> FieldRef { Arc::new(field.as_ref().clone().with_data_type(plain(field.data_type()))) };
    match data_type {
        DataType::Dictionary(_, values) => plain(values),
        DataType::List(field) => DataType::List(of_field(field)),
        DataType::LargeList(field) => DataType::LargeList(of_field(field)),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(of_field).collect()),
        DataType::Map(field, sorted) => DataType::Map(of_field(field), *sorted),
        other => other.clone(),
    }
}

/// The columns of rows on their way, of which the `given` ones and `added` ones are packed.
pub(super) fn columns_on_the_way(given: impl Iterator<Item = FieldRef>, added: &[Field]) -> SchemaRef {
    let given = given.map(|field| Arc::new(Field::new(field.name(), plain(field.data_type()), true)));
    Arc::new(Schema::new(given.chain(added.iter().cloned().map(Arc::new)).collect::<Vec<FieldRef>>()))
}

/// Columns of these names in the types in which they are on their way.
///
/// # Errors
/// `Schema` for other columns than the engine declared, or values that would not arrive as they are.
pub(super) fn as_on_the_way(schema: &SchemaRef, columns: Vec<(String, ArrayRef)>) -> Result<RecordBatch> {
    if columns.iter().map(|(name, _)| name).ne(schema.fields().iter().map(|field| field.name())) {
        let passed: Vec<&String> = columns.iter().map(|(name, _)| name).collect();
        return Err(Error::schema(format!("the engine passes the columns {passed:?} and declared others")));
    }
    let options = CastOptions { safe: false, ..CastOptions::default() };
    let typed = columns.into_iter().zip(schema.fields()).map(|((name, column), field)| {
        let (passed, declared) = (column.data_type(), field.data_type());
        if passed == declared {
            return Ok(column);
        }
        // Strings with large offsets, dictionaries and times of another zone hold the same values; numbers may lose some.
        if passed.is_primitive() && declared.is_primitive() && !is_of_another_zone(passed, declared) {
            let what = format!("the engine passes column '{name}' as {passed} and declared {declared}");
            return Err(Error::schema(what).with("column", name));
        }
        cast_with_options(&column, declared, &options).map_err(|e| Error::from(e).with("column", name))
    });
    Ok(RecordBatch::try_new(schema.clone(), typed.collect::<Result<Vec<_>>>()?)?)
}

/// Spark passes times in the zone of the session, and declares them as UTC.
fn is_of_another_zone(passed: &DataType, declared: &DataType) -> bool {
    match (passed, declared) {
        (DataType::Timestamp(passed, Some(_)), DataType::Timestamp(declared, Some(_))) => passed == declared,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn routed(first: i64, routes: &[&str]) -> Routed {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(first..first + routes.len() as i64));
        let names: ArrayRef = Arc::new(StringArray::from_iter_values(routes.iter().map(|r| format!("row of {r}"))));
        let rows = RecordBatch::try_new(schema(), vec![names, numbers]).unwrap();
        Routed { rows, partitions: vec!["p"; routes.len()].into(), routes: routes.to_vec().into() }
    }

    fn schema() -> SchemaRef {
        let name = Arc::new(Field::new("name", DataType::Utf8, false));
        columns_on_the_way(std::iter::once(name), &[Field::new(ROW, DataType::Int64, true)])
    }

    #[test]
    fn rows_come_back_by_their_routes_in_their_order() {
        let mut packer = Packer::new(schema(), 1 << 14).unwrap();
        assert!(packer.add(routed(0, &["b", "a", "b"])).unwrap().is_none());
        assert!(packer.add(routed(3, &["a"])).unwrap().is_none());
        let packed = packer.flush().unwrap().unwrap();
        assert_eq!(packed.num_rows(), 2);
        assert!(packer.flush().unwrap().is_none());
        let unpacked = Unpacker::new(&schema()).unwrap().unpack(&packed).unwrap();
        let found: Vec<_> =
            unpacked.iter().map(|u| (u.route.as_str(), numbers(&u.rows).unwrap().values().to_vec())).collect();
        assert_eq!(found, [("b", vec![0, 2]), ("a", vec![1, 3])]);
    }

    #[test]
    fn many_rows_of_a_route_are_several_values_and_come_when_many_wait() {
        let mut packer = Packer::new(schema(), 1 << 14).unwrap();
        let routes = vec!["a"; 200_000];
        let mut packed = Vec::new();
        let mut next = 0;
        while packed.is_empty() {
            packed.extend(packer.add(routed(next, &routes)).unwrap());
            next += routes.len() as i64;
        }
        packed.extend(packer.flush().unwrap());
        let mut unpacker = Unpacker::new(&schema()).unwrap();
        let all: Vec<i64> = packed
            .iter()
            .flat_map(|batch| unpacker.unpack(batch).unwrap())
            .flat_map(|u| numbers(&u.rows).unwrap().values().to_vec())
            .collect();
        assert_eq!(all, (0..next).collect::<Vec<_>>());
        let largest =
            packed.iter().flat_map(|b| b.column(3).as_binary::<i32>().iter()).flatten().map(<[u8]>::len).max();
        assert!(largest.unwrap() < 2 << 14);
    }

    #[test]
    fn a_batch_of_values_is_bounded() {
        assert_eq!([10_000, 65_536, 1, 0, usize::MAX].map(value_bytes), [16_384, 2_560, 16_384, 1024, 1024]);
    }

    #[test]
    fn what_is_no_message_is_corrupt() {
        let mut packer = Packer::new(schema(), 1 << 14).unwrap();
        packer.add(routed(0, &["a"])).unwrap();
        let packed = packer.flush().unwrap().unwrap();
        let mut columns = packed.columns().to_vec();
        columns.pop();
        columns.push(Arc::new(arrow::array::BinaryArray::from(vec![b"nothing".as_slice()])));
        let broken = RecordBatch::try_new(packed.schema(), columns).unwrap();
        let error = Unpacker::new(&schema()).unwrap().unpack(&broken).err().unwrap();
        assert_eq!(error.kind(), crate::error::ErrorKind::Corrupt);
    }

    #[test]
    fn columns_that_were_not_declared_so_are_refused() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let names: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let named =
            |columns: [(&str, &ArrayRef); 2]| columns.map(|(name, column)| (name.to_owned(), column.clone())).to_vec();
        assert!(as_on_the_way(&schema(), named([("name", &names), (ROW, &numbers)])).is_ok());
        let large = arrow_cast::cast(&names, &DataType::LargeUtf8).unwrap();
        let sent = as_on_the_way(&schema(), named([("name", &large), (ROW, &numbers)])).unwrap();
        assert_eq!(sent.column(0), &names);
        let narrow = arrow_cast::cast(&numbers, &DataType::Int32).unwrap();
        for columns in [
            [(ROW, &numbers), ("name", &names)],
            [("other", &names), (ROW, &numbers)],
            [("name", &names), (ROW, &narrow)],
        ] {
            let error = as_on_the_way(&schema(), named(columns)).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Schema, "{error}");
        }
    }

    #[test]
    fn times_of_another_zone_are_the_same_instants() {
        let zone = |name: &str| DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, Some(name.into()));
        assert!(is_of_another_zone(&zone("Asia/Tokyo"), &zone("UTC")));
        let seconds = DataType::Timestamp(arrow::datatypes::TimeUnit::Second, Some("UTC".into()));
        assert!(!is_of_another_zone(&seconds, &zone("UTC")));
    }

    #[test]
    fn dictionaries_are_sent_as_their_values() {
        let dictionary = DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into());
        let list = DataType::List(Arc::new(Field::new("item", dictionary.clone(), true)));
        assert_eq!(plain(&dictionary), DataType::Utf8);
        assert_eq!(plain(&list), DataType::List(Arc::new(Field::new("item", DataType::Utf8, true))));
    }
}
