#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod checksums;
mod dictionaries;
mod dictionary_keys;
mod evolution;
mod fixtures;
mod hostile;
mod numbers;
mod pruning;
mod round_trip;
mod splice;
mod strings;

use std::sync::Arc;

use arrow::array::*;
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::*;
use bytes::Bytes;

use super::writer::BaseFileStats;
use super::*;

/// Deterministic numbers that look random.
pub(super) struct Numbers(pub u64);

impl Numbers {
    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

pub(super) fn column(name: &str, array: impl Array + 'static) -> (Field, ArrayRef) {
    (Field::new(name, array.data_type().clone(), true), Arc::new(array))
}

pub(super) fn batch(columns: Vec<(Field, ArrayRef)>) -> RecordBatch {
    let (fields, arrays): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

/// Every type that a Hudi table holds, with nulls, below the record key.
pub(super) fn all_types(rows: usize) -> RecordBatch {
    let some = |i: usize| i % 5 != 3;
    let ints = || (0..rows).map(move |i| some(i).then_some(i as i32)).collect::<Int32Array>();
    let longs = || (0..rows).map(move |i| some(i).then_some(i as i64 * 1_003)).collect::<Int64Array>();
    let strings = || (0..rows).map(move |i| some(i).then(|| format!("t\u{e9}xt {i}"))).collect::<StringArray>();
    let decimal = |p, s| {
        longs()
            .reinterpret_cast::<Int64Type>()
            .unary::<_, Decimal128Type>(i128::from)
            .with_precision_and_scale(p, s)
            .unwrap()
    };
    let nulls = NullBuffer::from((0..rows).map(|i| i % 7 != 2).collect::<Vec<_>>());
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
    let record = StructArray::new(fields.clone(), vec![Arc::new(ints()), Arc::new(strings())], Some(nulls.clone()));
    let offsets: OffsetBuffer<i32> = OffsetBuffer::from_lengths((0..rows).map(|i| if i % 7 == 2 { 0 } else { i % 3 }));
    let items = offsets.last() as usize;
    let element = Arc::new(Field::new("element", DataType::Struct(fields), true));
    let list = ListArray::new(element, offsets.clone(), Arc::new(record_of(items)), Some(nulls.clone()));
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Int64, true)]);
    let map_keys = (0..items).map(|i| Some(format!("m{i}"))).collect::<StringArray>();
    let map_values = (0..items).map(|i| (i % 2 == 0).then_some(i as i64)).collect::<Int64Array>();
    let entries = StructArray::new(pair.clone(), vec![Arc::new(map_keys), Arc::new(map_values)], None);
    let map = MapArray::new(
        Arc::new(Field::new("key_value", DataType::Struct(pair), false)),
        offsets,
        entries,
        Some(nulls),
        false,
    );
    batch(vec![
        column(RECORD_KEY_COLUMN, (0..rows).map(|i| Some(format!("key-{i:07}"))).collect::<StringArray>()),
        column("bool", (0..rows).map(|i| some(i).then_some(i % 2 == 0)).collect::<BooleanArray>()),
        column("int", ints()),
        column("long", longs()),
        column("float", (0..rows).map(|i| some(i).then_some(i as f32 / 3.0)).collect::<Float32Array>()),
        column("double", (0..rows).map(|i| some(i).then_some(i as f64 / 7.0)).collect::<Float64Array>()),
        column("text", strings()),
        column("bytes", (0..rows).map(|i| some(i).then(|| vec![i as u8; i % 9])).collect::<BinaryArray>()),
        column(
            "fixed",
            FixedSizeBinaryArray::try_from_sparse_iter_with_size((0..rows).map(|i| some(i).then_some([i as u8; 5])), 5)
                .unwrap(),
        ),
        column("date", ints().reinterpret_cast::<Date32Type>()),
        column("micros", longs().reinterpret_cast::<TimestampMicrosecondType>().with_timezone("UTC")),
        column("millis", longs().reinterpret_cast::<TimestampMillisecondType>().with_timezone("UTC")),
        column("local_micros", longs().reinterpret_cast::<TimestampMicrosecondType>()),
        column("local_millis", longs().reinterpret_cast::<TimestampMillisecondType>()),
        column("dec9", decimal(9, 2)),
        column("dec18", decimal(18, 4)),
        column("dec38", decimal(38, 10)),
        column("record", record),
        column("list", list),
        column("map", map),
    ])
}

fn record_of(rows: usize) -> StructArray {
    let a = (0..rows).map(|i| (i % 4 != 0).then_some(i as i32)).collect::<Int32Array>();
    let b = (0..rows).map(|i| Some(format!("b{i}"))).collect::<StringArray>();
    let fields = Fields::from(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8, true)]);
    StructArray::new(fields, vec![Arc::new(a), Arc::new(b)], None)
}

pub(super) fn write(batches: &[RecordBatch], options: BaseFileOptions) -> (Bytes, BaseFileStats) {
    let mut writer = BaseFileWriter::try_new(Vec::new(), batches[0].schema(), options).unwrap();
    for batch in batches {
        writer.write(batch).unwrap();
    }
    let (file, stats) = writer.finish().unwrap();
    (file.into(), stats)
}

pub(super) fn read(reader: &BaseFileReader<Bytes>, options: &ScanOptions) -> RecordBatch {
    let batches = reader.scan(options).unwrap().collect::<hoodoo_runtime::Result<Vec<_>>>().unwrap();
    concat_batches(&options.schema, &batches).unwrap()
}
