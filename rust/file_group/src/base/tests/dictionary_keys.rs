//! Columns that are read and written as numbers of dictionary entries: `dictionary_keys.rs` and `ordered_dictionary_column.rs`.

use arrow::compute::cast;
use arrow::row::{RowConverter, SortField};
use parquet::arrow::ArrowWriter;
use parquet::basic::Encoding;
use parquet::file::properties::{WriterProperties, WriterVersion};

use super::*;
use hoodoo_runtime::ErrorKind;

/// A column as its dictionaries and numbers give it, so many rows at a time.
fn decoded<R: parquet::file::reader::ChunkReader + 'static>(
    reader: &BaseFileReader<R>,
    field: &Field,
    step: usize,
) -> hoodoo_runtime::Result<Vec<ArrayRef>> {
    let mut pieces = Vec::new();
    for (group, info) in reader.row_groups().iter().enumerate() {
        let entries = reader.dictionary(field, group)?;
        let mut keys = reader.dictionary_keys(field, group, entries.len())?;
        let numbers: Vec<u32> = (0..entries.len() as u32).collect();
        let mut left = info.rows as usize;
        while left > 0 {
            let rows = left.min(step);
            let keys = keys.next::<UInt32Type>(rows, &numbers)?;
            assert_eq!(keys.len(), rows);
            pieces.push(arrow::compute::take(&entries, &keys, None)?);
            left -= rows;
        }
        // A damaged page may say that it has more rows than the footer.
        match keys.next::<UInt32Type>(1, &numbers) {
            Err(e) => assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}"),
            Ok(_) => return Err(hoodoo_runtime::error::Error::corrupt("there are more rows than in the footer")),
        }
    }
    Ok(pieces)
}

/// Compares all columns that have dictionaries everywhere with what a scan gives; how many these are.
fn compare<R: parquet::file::reader::ChunkReader + 'static>(reader: &BaseFileReader<R>, step: usize) -> usize {
    let schema = reader.schema().clone();
    let batches =
        reader.scan(&ScanOptions::new(schema.clone())).unwrap().collect::<hoodoo_runtime::Result<Vec<_>>>().unwrap();
    let all = concat_batches(&schema, &batches).unwrap();
    let coded = schema.fields().iter().filter(|field| reader.dictionary_bytes(field).is_some());
    coded
        .map(|field| {
            let pieces = decoded(reader, field, step).unwrap();
            let found = arrow::compute::concat(&pieces.iter().map(AsRef::as_ref).collect::<Vec<_>>()).unwrap();
            assert_eq!(&found, all.column_by_name(field.name()).unwrap(), "{field}");
        })
        .count()
}

/// Columns of all types that may be coded, with so many different values.
fn columns(rows: usize, different: usize, nulls: bool) -> RecordBatch {
    let mut numbers = Numbers(7);
    let values: Vec<Option<i32>> = (0..rows)
        .map(|row| {
            let value = numbers.below(different as u64) as i32 - 3;
            (!nulls || row % 11 != 4 && !(40_000..60_500).contains(&row)).then_some(value)
        })
        .collect();
    let ints = Int32Array::from(values.clone());
    let longs = cast(&ints, &DataType::Int64).unwrap().as_primitive::<Int64Type>().clone();
    let strings: StringArray = values.iter().map(|v| v.map(|v| format!("t\u{e9}xt {v}"))).collect();
    let wide = longs.unary::<_, Decimal128Type>(|v| i128::from(v) * 10_i128.pow(18));
    let narrow = longs.unary::<_, Decimal128Type>(i128::from);
    let columns: Vec<(Field, ArrayRef)> = vec![
        column("int", ints.clone()),
        column("date", ints.reinterpret_cast::<Date32Type>()),
        column("long", longs.clone()),
        column("micros", longs.reinterpret_cast::<TimestampMicrosecondType>().with_timezone("UTC")),
        column("millis", longs.reinterpret_cast::<TimestampMillisecondType>()),
        column("narrow", narrow.with_precision_and_scale(7, 2).unwrap()),
        column("wide", wide.with_precision_and_scale(38, 4).unwrap()),
        column("text", strings),
    ];
    let required = |(field, array): (Field, ArrayRef)| (field.with_nullable(nulls), array);
    batch(columns.into_iter().map(required).collect())
}

/// The same columns as numbers of ordered dictionaries.
fn coded(data: &RecordBatch, key: &DataType) -> RecordBatch {
    let of = |array: &ArrayRef| {
        let distinct = {
            let sorted = arrow::compute::sort(array, None).unwrap();
            let parts = arrow::compute::partition(std::slice::from_ref(&sorted)).unwrap().ranges();
            let first: UInt32Array = parts.iter().map(|range| range.start as u32).collect();
            let values = arrow::compute::take(&sorted, &first, None).unwrap();
            arrow::compute::filter(&values, &arrow::compute::is_not_null(&values).unwrap()).unwrap()
        };
        let converter = RowConverter::new(vec![SortField::new(array.data_type().clone())]).unwrap();
        let rows = |array: &ArrayRef| converter.convert_columns(std::slice::from_ref(array)).unwrap();
        let (names, wanted) = (rows(&distinct), rows(array));
        let place: std::collections::HashMap<&[u8], u32> = names.iter().map(|row| row.data()).zip(0..).collect();
        let keys: UInt32Array =
            (0..array.len()).map(|i| array.is_valid(i).then(|| place[wanted.row(i).data()])).collect();
        let keys = cast(&keys, key).unwrap();
        let array: ArrayRef = match key {
            DataType::UInt8 => Arc::new(UInt8DictionaryArray::new(keys.as_primitive().clone(), distinct)),
            DataType::UInt16 => Arc::new(UInt16DictionaryArray::new(keys.as_primitive().clone(), distinct)),
            _ => Arc::new(UInt32DictionaryArray::new(keys.as_primitive().clone(), distinct)),
        };
        array
    };
    let arrays: Vec<ArrayRef> = data.columns().iter().map(of).collect();
    let fields = data
        .schema()
        .fields()
        .iter()
        .zip(&arrays)
        .map(|(field, array)| Field::new(field.name(), array.data_type().clone(), field.is_nullable()))
        .collect::<Vec<_>>();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

fn write_as(schema: &SchemaRef, batches: &[RecordBatch], options: BaseFileOptions) -> Bytes {
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema.clone(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap().0.into()
}

fn options() -> BaseFileOptions {
    BaseFileOptions { row_group_rows: 70_000, bloom: None, ..Default::default() }
}

#[test]
fn coded_columns_are_written_as_their_values_would_be() {
    for (key, different) in [(DataType::UInt8, 200), (DataType::UInt16, 3000), (DataType::UInt32, 3000)] {
        for nulls in [false, true] {
            let rows = 100_000;
            let data = columns(rows, different, nulls);
            let numbers = coded(&data, &key);
            let pieces: Vec<RecordBatch> =
                (0..rows).step_by(9999).map(|at| numbers.slice(at, 9999.min(rows - at))).collect();
            let reader = BaseFileReader::open(write_as(&data.schema(), &pieces, options())).unwrap();
            assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data, "{key} {nulls}");
            let plain = BaseFileReader::open(write(std::slice::from_ref(&data), options()).0).unwrap();
            assert_eq!(reader.row_groups().len(), 2);
            let (ours, theirs) =
                (reader.metadata_with_page_index().unwrap(), plain.metadata_with_page_index().unwrap());
            for group in 0..2 {
                for (i, field) in data.schema().fields().iter().enumerate() {
                    let (chunk, other) = (ours.row_group(group).column(i), theirs.row_group(group).column(i));
                    assert!(chunk.encodings().any(|e| e == Encoding::RLE_DICTIONARY), "{field}");
                    let ends = |chunk: &parquet::file::metadata::ColumnChunkMetaData| {
                        let statistics = chunk.statistics().unwrap();
                        let bytes = |bytes: Option<&[u8]>| bytes.unwrap().to_vec();
                        let ends = (bytes(statistics.min_bytes_opt()), bytes(statistics.max_bytes_opt()));
                        (ends, statistics.null_count_opt())
                    };
                    assert_eq!(ends(chunk), ends(other), "{field}");
                    let pages = |metadata: &parquet::file::metadata::ParquetMetaData| {
                        let index = metadata.page_index_for_row_group(group);
                        let rows = index.offset_index(i).unwrap().page_locations();
                        let rows: Vec<i64> = rows.iter().map(|page| page.first_row_index).collect();
                        (rows, format!("{:?}", index.column_index(i).unwrap()))
                    };
                    // Texts that are not coded have other pages.
                    if field.data_type() != &DataType::Utf8 {
                        assert_eq!(pages(&ours), pages(&theirs), "{field}");
                    }
                }
            }
            assert_eq!(compare(&reader, 7777), 8, "{key} {nulls}");
        }
    }
}

#[test]
fn codes_that_are_not_worth_it_come_back_too() {
    let rows = 9000;
    let data = columns(rows, 1 << 30, false);
    let numbers = coded(&data, &DataType::UInt32);
    let reader = BaseFileReader::open(write_as(&data.schema(), &[numbers], options())).unwrap();
    assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data);
    assert!(reader.dictionary_bytes(data.schema().field_with_name("long").unwrap()).is_none(), "they hardly repeat");
    // Each piece with a dictionary of its own, in no order, or with an entry twice.
    let schema =
        Arc::new(Schema::new(vec![Field::new("s", DataType::Utf8, true), Field::new("n", DataType::Int64, true)]));
    let keys = || UInt8Array::from(vec![Some(0), Some(2), None, Some(1)]);
    let piece = |strings: [&str; 3], values: [i64; 3]| {
        batch(vec![
            column("s", UInt8DictionaryArray::new(keys(), Arc::new(StringArray::from(strings.to_vec())))),
            column("n", UInt8DictionaryArray::new(keys(), Arc::new(Int64Array::from(values.to_vec())))),
        ])
    };
    for pieces in [
        vec![piece(["a", "b", "c"], [1, 2, 3]), piece(["b", "c", "d"], [2, 3, 4])],
        vec![piece(["c", "b", "a"], [3, 2, 1])],
        vec![piece(["a", "b", "b"], [1, 2, 2])],
    ] {
        let plain = |batch: &RecordBatch| {
            let arrays =
                schema.fields().iter().zip(batch.columns()).map(|(f, array)| cast(array, f.data_type()).unwrap());
            RecordBatch::try_new(schema.clone(), arrays.collect()).unwrap()
        };
        let expected = concat_batches(&schema, &pieces.iter().map(plain).collect::<Vec<_>>()).unwrap();
        let reader = BaseFileReader::open(write_as(&schema, &pieces, options())).unwrap();
        assert_eq!(read(&reader, &ScanOptions::new(schema.clone())), expected);
    }
}

#[test]
fn a_required_column_refuses_nulls() {
    let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]));
    let coded = UInt8DictionaryArray::new(UInt8Array::from(vec![Some(0), None]), Arc::new(Int64Array::from(vec![5])));
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema, options()).unwrap();
    writer.write(&batch(vec![column("n", coded)])).unwrap();
    assert_eq!(writer.finish().err().unwrap().kind(), ErrorKind::Schema);
}

#[test]
fn dictionaries_of_other_writers_are_read() {
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        for nulls in [false, true] {
            let data = columns(65_000, 300, nulls);
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_data_page_row_count_limit(4000)
                .set_max_row_group_row_count(Some(40_000))
                .build();
            let mut writer = ArrowWriter::try_new(Vec::new(), data.schema(), Some(properties)).unwrap();
            writer.write(&data).unwrap();
            let reader = BaseFileReader::open(Bytes::from(writer.into_inner().unwrap())).unwrap();
            for step in [1000, 4096, 100_000] {
                // This writer stores small decimals as integers, which are not read as numbers.
                assert_eq!(compare(&reader, step), 7, "{version:?} {nulls}");
            }
        }
    }
    for (name, min) in [("avro_writer", 3), ("row_writer", 3), ("int96", 1), ("two_level_lists", 1)] {
        let path = format!("{}/../../tests/fixtures/base_files/{name}.parquet", env!("CARGO_MANIFEST_DIR"));
        let reader = BaseFileReader::open(Bytes::from(std::fs::read(path).unwrap())).unwrap();
        let count = compare(&reader, 33);
        assert!(count >= min, "{name}: {count}");
    }
}

#[test]
fn damaged_pages_are_corrupt() {
    let data = columns(3000, 40, true);
    let file = write(
        std::slice::from_ref(&data),
        BaseFileOptions { codec: parquet::basic::Compression::UNCOMPRESSED, ..options() },
    )
    .0;
    let mut numbers = Numbers(99);
    let mut failed = 0;
    for _ in 0..3000 {
        let mut bytes = file.to_vec();
        let body = bytes.len() * 3 / 4;
        for _ in 0..1 + numbers.below(3) {
            let at = numbers.below(body as u64) as usize;
            bytes[at] = numbers.next() as u8;
        }
        let Ok(reader) = BaseFileReader::open(Bytes::from(bytes)) else { continue };
        for field in reader.schema().clone().fields() {
            if reader.dictionary_bytes(field).is_some()
                && let Err(e) = decoded(&reader, field, 512)
            {
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
                failed += 1;
            }
        }
    }
    assert!(failed > 100, "{failed}");
}
