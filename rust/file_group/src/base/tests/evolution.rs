use super::*;
use hoodoo_runtime::ErrorKind;

fn read_as(array: impl Array + 'static, target: DataType) -> hoodoo_runtime::Result<ArrayRef> {
    let file = write(&[batch(vec![column("v", array)])], BaseFileOptions::default()).0;
    let reader = BaseFileReader::open(file)?;
    let options = ScanOptions::new(Arc::new(Schema::new(vec![Field::new("v", target, true)])));
    let mut batches = reader.scan(&options)?;
    Ok(batches.next().unwrap()?.column(0).clone())
}

fn strings(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringArray::from(values.to_vec()))
}

/// Each row was read from a table that real Hudi 1.2.0 had evolved.
#[test]
fn promotions_give_what_hudi_gives() {
    use DataType::*;
    let ints = || Int32Array::from(vec![Some(50_331_651), None]);
    let longs = || Int64Array::from(vec![Some(2 * 9_007_199_254_740_993), None]);
    let doubles = || Arc::new(Float64Array::from(vec![Some(50_331_651.0), None])) as ArrayRef;
    assert_eq!(
        &read_as(ints(), Int64).unwrap(),
        &(Arc::new(Int64Array::from(vec![Some(50_331_651), None])) as ArrayRef)
    );
    assert_eq!(&read_as(ints(), Float64).unwrap(), &doubles());
    assert_eq!(read_as(ints(), Float32).unwrap().as_primitive::<Float32Type>().value(0), 50_331_652.0);
    assert_eq!(&read_as(ints(), Utf8).unwrap(), &strings(&[Some("50331651"), None]));
    assert_eq!(read_as(longs(), Float64).unwrap().as_primitive::<Float64Type>().value(0), 1.801_439_850_948_198_4e16);
    assert_eq!(&read_as(longs(), Utf8).unwrap(), &strings(&[Some("18014398509481986"), None]));
    let floats = || Float32Array::from(vec![Some(2.0 / 3.0), None, Some(f32::NEG_INFINITY), Some(1_714_285.8)]);
    let widened = read_as(floats(), Float64).unwrap();
    assert_eq!(widened.as_primitive::<Float64Type>().value(0), 0.666_666_7);
    assert_eq!(widened.as_primitive::<Float64Type>().value(2), f64::NEG_INFINITY);
    assert_eq!(
        &read_as(floats(), Utf8).unwrap(),
        &strings(&[Some("0.6666667"), None, Some("-Infinity"), Some("1714285.8")])
    );
    let doubles = Float64Array::from(vec![Some(2e9 / 7.0), None]);
    assert_eq!(&read_as(doubles, Utf8).unwrap(), &strings(&[Some("2.8571428571428573E8"), None]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from_opt_vec(vec![Some(b"b2"), None]));
    assert_eq!(&read_as(StringArray::from(vec![Some("b2"), None]), Binary).unwrap(), &bytes);
    // Hudi turns fixed bytes into bytes when told to reconcile schemas; files from before stay as they are.
    let fixed = vec![Some(b"b2".as_slice()), None].into_iter();
    let fixed = FixedSizeBinaryArray::try_from_sparse_iter_with_size(fixed, 2).unwrap();
    assert_eq!(&read_as(fixed, Binary).unwrap(), &bytes);
    assert_eq!(
        &read_as(BinaryArray::from_opt_vec(vec![Some(b"b2"), None]), Utf8).unwrap(),
        &strings(&[Some("b2"), None])
    );
    assert_eq!(
        &read_as(Date32Array::from(vec![Some(18_262), None]), Utf8).unwrap(),
        &strings(&[Some("2020-01-01"), None])
    );
    let decimals = || Decimal128Array::from(vec![Some(-120), None]).with_precision_and_scale(9, 2).unwrap();
    let wide: ArrayRef =
        Arc::new(Decimal128Array::from(vec![Some(-12_000), None]).with_precision_and_scale(20, 4).unwrap());
    assert_eq!(&read_as(decimals(), Decimal128(20, 4)).unwrap(), &wide);
    assert_eq!(&read_as(decimals(), Utf8).unwrap(), &strings(&[Some("-1.20"), None]));
    let millis = TimestampMillisecondArray::from(vec![Some(5), None]).with_timezone("UTC");
    let micros: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(5000), None]).with_timezone("UTC"));
    assert_eq!(&read_as(millis, Timestamp(TimeUnit::Microsecond, Some("UTC".into()))).unwrap(), &micros);
    // Milliseconds that an old version of Hudi called microseconds.
    let micros = TimestampMicrosecondArray::from(vec![Some(5), None]).with_timezone("UTC");
    let millis: ArrayRef = Arc::new(TimestampMillisecondArray::from(vec![Some(5), None]).with_timezone("UTC"));
    assert_eq!(&read_as(micros, Timestamp(TimeUnit::Millisecond, Some("UTC".into()))).unwrap(), &millis);
}

#[test]
fn narrowing_is_refused_before_a_row_is_read() {
    use DataType::*;
    let decimals = || Decimal128Array::from(vec![1]).with_precision_and_scale(9, 2).unwrap();
    for (array, target) in [
        (Arc::new(Int64Array::from(vec![1])) as ArrayRef, Int32),
        (Arc::new(Float64Array::from(vec![1.0])), Float32),
        (Arc::new(StringArray::from(vec!["1"])), Int32),
        (Arc::new(decimals()), Decimal128(9, 3)),
        (Arc::new(decimals()), Decimal128(20, 1)),
        (Arc::new(BooleanArray::from(vec![true])), Utf8),
        (Arc::new(TimestampMicrosecondArray::from(vec![1])), Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        (Arc::new(record_of(1)), Utf8),
    ] {
        let from = array.data_type().clone();
        let data = RecordBatch::try_from_iter_with_nullable([("v", array, true)]).unwrap();
        let reader = BaseFileReader::open(write(&[data], BaseFileOptions::default()).0).unwrap();
        let schema = Schema::new(vec![Field::new("v", target.clone(), true)]);
        let error = reader.scan(&ScanOptions::new(Arc::new(schema))).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Schema);
        let text = error.to_string();
        assert!(
            text.contains("'v'") && text.contains(&from.to_string()) && text.contains(&target.to_string()),
            "{text}"
        );
    }
}

#[test]
fn added_columns_are_null_at_any_depth() {
    let data = all_types(50);
    let reader = BaseFileReader::open(write(std::slice::from_ref(&data), BaseFileOptions::default()).0).unwrap();
    let added = |fields: &[(&str, DataType)]| -> Fields {
        fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect()
    };
    // Another order, a promoted field, a missing one; only `b` of the struct in the list.
    let record = DataType::Struct(added(&[("new", DataType::Utf8), ("a", DataType::Int64)]));
    let element = DataType::Struct(added(&[("b", DataType::Utf8), ("c", DataType::Float64)]));
    let nothing = DataType::Struct(added(&[("only_new", DataType::Int32)]));
    let pair = Fields::from(vec![Field::new("key", DataType::Utf8, false), Field::new("value", DataType::Utf8, true)]);
    let entries = Arc::new(Field::new("key_value", DataType::Struct(pair), false));
    let schema = Arc::new(Schema::new(vec![
        Field::new("added", DataType::Date32, true),
        Field::new("map", DataType::Map(entries, false), true),
        Field::new("list", DataType::List(Arc::new(Field::new("element", element, true))), true),
        Field::new("record", record, true),
    ]));
    let back = read(&reader, &ScanOptions::new(schema));
    assert_eq!(back.column(0).null_count(), 50);
    let (maps, old_maps) = (back.column(1).as_map(), data.column_by_name("map").unwrap().as_map().clone());
    assert_eq!((maps.offsets(), maps.nulls()), (old_maps.offsets(), old_maps.nulls()));
    assert_eq!(maps.values().as_string::<i32>().value(2), "2");
    let (list, old) = (back.column(2).as_list::<i32>(), data.column_by_name("list").unwrap().as_list::<i32>());
    assert_eq!((list.offsets(), list.nulls()), (old.offsets(), old.nulls()));
    assert_eq!(list.values().as_struct().column(0), old.values().as_struct().column(1));
    assert_eq!(list.values().as_struct().column(1).null_count(), list.values().len());
    let (record, old) = (back.column(3).as_struct(), data.column_by_name("record").unwrap().as_struct());
    assert_eq!(record.nulls(), old.nulls());
    assert_eq!(record.column(0).null_count(), 50);
    assert_eq!(record.column(1).as_primitive::<Int64Type>().value(4), 4);
    // A struct of which the file has no field still knows where it is null.
    let back = read(&reader, &ScanOptions::new(Arc::new(Schema::new(vec![Field::new("record", nothing, true)]))));
    assert_eq!(back.column(0).nulls(), old.nulls());
    let required = Arc::new(Schema::new(vec![Field::new("added", DataType::Int32, false)]));
    assert_eq!(reader.scan(&ScanOptions::new(required)).err().unwrap().kind(), ErrorKind::Schema);
}
