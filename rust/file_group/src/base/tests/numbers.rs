//! Columns of numbers, which are encoded by `number_column.rs`: whatever they hold comes back, and statistics are true.

use arrow::compute::{max, min, take};
use parquet::basic::{BoundaryOrder, Encoding};
use parquet::file::statistics::Statistics;

use super::*;

/// Values of all kinds of repetition, with or without nulls: how many different ones, how many rows.
fn columns(rows: usize, different: i64, nulls: bool) -> RecordBatch {
    let place = |row: usize| (row as i64).wrapping_mul(0x5851_f42d_4c95_7f2d) >> 3;
    let value = |row: usize| place(row).rem_euclid(different.max(1)) - different / 2;
    let is_null = |row: usize| nulls && (row % 7 == 3 || (25_000..50_000).contains(&row));
    let of = |value: &dyn Fn(usize) -> i64| -> Vec<Option<i64>> {
        (0..rows).map(|row| (!is_null(row)).then(|| value(row))).collect()
    };
    let wide = |value: Option<i64>| value.map(|v| i128::from(v) * 10_i128.pow(17));
    let many = of(&value);
    let arrays: Vec<(&str, ArrayRef)> = vec![
        ("i32", Arc::new(many.iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>())),
        ("date", Arc::new(many.iter().map(|v| v.map(|v| v as i32)).collect::<Date32Array>())),
        ("i64", Arc::new(Int64Array::from(many.clone()))),
        ("time", Arc::new(TimestampMicrosecondArray::from(many.clone()).with_timezone("UTC"))),
        ("rising", Arc::new(Int64Array::from(of(&|row| row as i64 / 3)))),
        ("falling", Arc::new(Int64Array::from(of(&|row| -(row as i64))))),
        (
            "small",
            Arc::new(
                many.iter()
                    .map(|v| v.map(i128::from))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(15, 2)
                    .unwrap(),
            ),
        ),
        (
            "large",
            Arc::new(
                many.iter().map(|v| wide(*v)).collect::<Decimal128Array>().with_precision_and_scale(38, 9).unwrap(),
            ),
        ),
    ];
    let fields = arrays.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), nulls));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, arrays.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn options() -> BaseFileOptions {
    BaseFileOptions { row_group_rows: 70_000, bloom: None, ..Default::default() }
}

#[test]
fn all_numbers_come_back() {
    for rows in [1, 2, 1000, 19_999, 20_000, 20_001, 100_000] {
        for different in [1, 2, 5, 3000, 60_000, i64::from(i32::MAX)] {
            for nulls in [false, true] {
                let data = columns(rows, different, nulls);
                let cut = |at: usize| data.slice(at, 9999.min(rows - at));
                let (file, _) = write(&(0..rows).step_by(9999).map(cut).collect::<Vec<_>>(), options());
                let reader = BaseFileReader::open(file).unwrap();
                let found = read(&reader, &ScanOptions::new(data.schema()));
                assert_eq!(found, data, "{rows} {different} {nulls}");
            }
        }
    }
}

#[test]
fn only_nulls_come_back() {
    let data = columns(3000, 5, true);
    let nulls = arrow::compute::filter_record_batch(&data, &arrow::compute::is_null(data.column(0)).unwrap()).unwrap();
    let (file, _) = write(std::slice::from_ref(&nulls), options());
    let reader = BaseFileReader::open(file).unwrap();
    assert_eq!(read(&reader, &ScanOptions::new(nulls.schema())), nulls);
    let chunk = reader.metadata().row_group(0).column(0);
    assert_eq!(chunk.statistics().unwrap().null_count_opt(), Some(nulls.num_rows() as u64));
    assert!(chunk.statistics().unwrap().min_bytes_opt().is_none());
}

#[test]
fn dictionaries_are_for_what_repeats() {
    let encodings = |different: i64| {
        let data = columns(50_000, different, false);
        let reader = BaseFileReader::open(write(&[data], options()).0).unwrap();
        let group = reader.metadata().row_group(0).clone();
        let has = |i: usize| {
            let chunk = group.column(i);
            let coded = chunk.encodings().any(|e| e == Encoding::RLE_DICTIONARY);
            assert_eq!(coded, chunk.dictionary_page_offset().is_some());
            coded
        };
        (has(0), has(2), has(7), has(5))
    };
    assert_eq!(encodings(3000), (true, true, true, false));
    assert_eq!(encodings(1 << 30), (false, false, false, false));
    let data = columns(50_000, 10, false);
    let never = BaseFileOptions { dictionary: DictionaryUse::Never, ..options() };
    let reader = BaseFileReader::open(write(&[data], never).0).unwrap();
    assert!(reader.metadata().row_group(0).columns().iter().all(|c| c.dictionary_page_offset().is_none()));
}

#[test]
fn statistics_of_chunks_and_pages_are_true() {
    for nulls in [false, true] {
        let data = columns(65_000, 1 << 30, nulls);
        let reader = BaseFileReader::open(write(std::slice::from_ref(&data), options()).0).unwrap();
        let metadata = reader.metadata_with_page_index().unwrap();
        let index = metadata.page_index_for_row_group(0);
        for (i, field) in data.schema().fields().iter().enumerate() {
            let bounds = reader.column_bounds(field.name(), field.data_type()).unwrap().unwrap();
            assert_eq!(bounds.nulls, data.column(i).null_count() as u64, "{field}");
            let at = |part: &ArrayRef, row: u32| take(part, &UInt32Array::from(vec![row]), None).unwrap();
            // Nulls come first, here and there.
            let order = arrow::compute::sort_to_indices(data.column(i), None, None).unwrap();
            let min = at(data.column(i), order.value(0));
            let max = at(data.column(i), order.value(data.num_rows() - 1));
            assert_eq!((&bounds.min, &bounds.max), (&min, &max), "{field}");
            let pages = index.offset_index(i).unwrap().page_locations();
            assert_eq!(pages.len(), 4);
            assert_eq!(pages.iter().map(|p| p.first_row_index).collect::<Vec<_>>(), [0, 20_000, 40_000, 60_000]);
        }
        let order = |i: usize| index.column_index(i).unwrap().get_boundary_order();
        assert_eq!(order(4), Some(BoundaryOrder::ASCENDING));
        assert_eq!(order(5), Some(BoundaryOrder::DESCENDING));
        assert_eq!(order(2), Some(BoundaryOrder::UNORDERED));
        let numbers = data.column(2).as_any().downcast_ref::<Int64Array>().unwrap();
        let Some(Statistics::Int64(stored)) = reader.metadata().row_group(0).column(2).statistics() else {
            panic!("no statistics")
        };
        assert_eq!((stored.min_opt().copied(), stored.max_opt().copied()), (min(numbers), max(numbers)));
    }
}

#[test]
fn a_required_column_needs_values() {
    let with = columns(100, 5, true);
    let fields = with.schema().fields().iter().map(|f| f.as_ref().clone().with_nullable(false)).collect::<Vec<_>>();
    let mut writer = BaseFileWriter::try_new(Vec::new(), Arc::new(Schema::new(fields)), options()).unwrap();
    let error = writer.write(&with).and_then(|()| writer.finish().map(|_| ())).unwrap_err();
    assert_eq!(error.kind(), hoodoo_runtime::ErrorKind::Schema, "{error}");
}
