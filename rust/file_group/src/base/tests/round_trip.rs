use parquet::basic::Compression;

use super::*;
use hoodoo_format::bloom::BloomOptions;
use hoodoo_runtime::ErrorKind;

fn options() -> BaseFileOptions {
    BaseFileOptions {
        avro_schema: Some("{}".into()),
        message_name: "hoodie.t.t_record".into(),
        row_group_rows: 1000,
        ..Default::default()
    }
}

#[test]
fn every_type_comes_back_whatever_the_options() {
    let data = all_types(2500);
    for codec in ["zstd", "gzip", "SNAPPY", "uncompressed", "LZ4", "lz4_raw", "brotli"] {
        for threads in [1, 3] {
            let options = BaseFileOptions { codec: parse_codec(codec).unwrap(), threads, ..options() };
            let slices: Vec<_> = (0..25).map(|i| data.slice(i * 100, 100)).collect();
            let (file, stats) = write(&slices, options);
            assert_eq!((stats.rows, stats.bytes), (2500, file.len() as u64));
            let reader = BaseFileReader::open(file).unwrap();
            assert_eq!(reader.schema(), &data.schema());
            assert_eq!(reader.row_groups().iter().map(|g| g.rows).collect::<Vec<_>>(), [1000, 1000, 500]);
            assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data, "{codec} {threads}");
        }
    }
}

#[test]
fn the_footer_of_a_writer_says_of_columns_what_that_of_the_file_says() {
    let data = all_types(2500);
    let mut writer = BaseFileWriter::try_new(Vec::new(), data.schema(), options()).unwrap();
    writer.write(&data).unwrap();
    let (file, stats, footer) = writer.finish_with_footer().unwrap();
    assert_eq!(stats.bytes, file.len() as u64);
    let (ours, stored) = (BaseFileReader::of_footer(footer).unwrap(), BaseFileReader::open(Bytes::from(file)).unwrap());
    assert_eq!((ours.schema(), ours.rows(), ours.key_range()), (stored.schema(), 2500, stored.key_range()));
    let mut known = 0;
    for field in data.schema().fields() {
        let bounds = |reader: &BaseFileReader<Bytes>| {
            let bounds = reader.column_bounds(field.name(), field.data_type()).unwrap();
            bounds.map(|b| (b.min, b.max, b.nulls))
        };
        known += usize::from(bounds(&stored).is_some());
        assert_eq!(bounds(&ours), bounds(&stored), "{}", field.name());
    }
    assert!(known > 10, "{known}");
}

#[test]
fn threads_do_not_change_the_file() {
    let data = all_types(3000);
    let one = write(std::slice::from_ref(&data), options()).0;
    let three = write(&[data], BaseFileOptions { threads: 3, ..options() }).0;
    assert_eq!(one, three);
}

#[test]
fn footer_says_what_hudi_looks_for() {
    let data = all_types(100);
    let (file, stats) = write(&[data], options());
    let reader = BaseFileReader::open(file).unwrap();
    assert_eq!(reader.avro_schema(), Some("{}"));
    assert_eq!(reader.footer(MODEL_NAME_KEY), Some("avro"));
    assert_eq!(reader.footer(BLOOM_TYPE_KEY), Some("DYNAMIC_V0"));
    assert_eq!(reader.footer("ARROW:schema"), None);
    let range = reader.key_range().unwrap();
    assert_eq!((Some(range.min.clone()), Some(range.max.clone())), (stats.min_key, stats.max_key));
    assert_eq!((range.min.as_str(), range.max.as_str()), ("key-0000000", "key-0000099"));
    assert!(range.contains("key-0000050") && !range.contains("key-0000100") && !range.contains("a"));
    let bloom = reader.bloom_filter().unwrap().unwrap();
    assert!((0..100).all(|i| bloom.might_contain(&format!("key-{i:07}"))));
    assert!(!bloom.might_contain("key-0000100"));
    assert_eq!(reader.metadata().file_metadata().version(), 1);
}

#[test]
fn parquet_types_are_hudis() {
    let (file, _) = write(&[all_types(10)], options());
    let reader = BaseFileReader::open(file).unwrap();
    let mut text = Vec::new();
    parquet::schema::printer::print_schema(&mut text, reader.metadata().file_metadata().schema());
    let text = String::from_utf8(text).unwrap();
    for line in [
        "message hoodie.t.t_record {",
        "OPTIONAL BYTE_ARRAY _hoodie_record_key (STRING);",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (4) dec9 (DECIMAL(9,2));",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (8) dec18 (DECIMAL(18,4));",
        "OPTIONAL FIXED_LEN_BYTE_ARRAY (16) dec38 (DECIMAL(38,10));",
        "OPTIONAL INT64 local_millis (TIMESTAMP(MILLIS,false));",
        "OPTIONAL INT64 micros (TIMESTAMP(MICROS,true));",
        "OPTIONAL INT32 date (DATE);",
        "REPEATED group list {",
        "OPTIONAL group element {",
        "REPEATED group key_value {",
        "REQUIRED BYTE_ARRAY key (STRING);",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
    for (precision, bytes) in [(1, 1), (2, 1), (3, 2), (9, 4), (10, 5), (18, 8), (19, 9), (30, 13), (38, 16)] {
        let field = Field::new("d", DataType::Decimal128(precision, 0), true);
        let schema = parquet_schema::hudi_parquet_schema(&Schema::new(vec![field]), "m").unwrap();
        assert_eq!(schema.column(0).type_length(), bytes, "{precision}");
    }
}

#[test]
fn every_column_has_statistics_of_chunks_and_pages() {
    let (file, _) = write(&[all_types(100)], options());
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new()
        .with_page_index_policy(parquet::file::metadata::PageIndexPolicy::Required)
        .parse_and_finish(&file)
        .unwrap();
    let index = metadata.page_index().unwrap();
    for (i, chunk) in metadata.row_group(0).columns().iter().enumerate() {
        let statistics = chunk.statistics().unwrap();
        assert!(
            statistics.min_bytes_opt().is_some() && statistics.null_count_opt().is_some(),
            "{}",
            chunk.column_path()
        );
        assert!(index.column_index(0, i).is_some(), "{}", chunk.column_path());
    }
}

#[test]
fn small_integers_are_written_as_ints() {
    let data =
        batch(vec![column("s", Int16Array::from(vec![Some(-3), None])), column("b", Int8Array::from(vec![1, 2]))]);
    let reader = BaseFileReader::open(write(&[data], options()).0).unwrap();
    assert!(reader.schema().fields().iter().all(|f| f.data_type() == &DataType::Int32));
    let back = read(&reader, &ScanOptions::new(reader.schema().clone()));
    assert_eq!(back.column(0).as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(-3), None]));
}

#[test]
fn meta_columns_may_come_as_dictionaries() {
    let name: DictionaryArray<Int32Type> = std::iter::repeat_n("file.parquet", 10).collect();
    let schema = Arc::new(Schema::new(vec![Field::new("_hoodie_file_name", DataType::Utf8, true)]));
    let data = batch(vec![column("_hoodie_file_name", name)]);
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema.clone(), options()).unwrap();
    writer.write(&data).unwrap();
    let reader = BaseFileReader::open(Bytes::from(writer.finish().unwrap().0)).unwrap();
    let back = read(&reader, &ScanOptions::new(schema));
    assert!(back.column(0).as_string::<i32>().iter().all(|v| v == Some("file.parquet")));
}

#[test]
fn types_without_a_place_in_hudi_are_refused_by_name() {
    for data_type in [
        DataType::Time64(TimeUnit::Microsecond),
        DataType::Timestamp(TimeUnit::Nanosecond, None),
        DataType::UInt64,
        DataType::Duration(TimeUnit::Second),
        DataType::Decimal256(50, 0),
        DataType::Interval(IntervalUnit::DayTime),
        DataType::Struct(Fields::empty()),
    ] {
        let inner = Field::new("odd", data_type.clone(), true);
        let outer = Field::new("outer", DataType::Struct(vec![inner].into()), true);
        let error = BaseFileWriter::try_new(Vec::new(), Arc::new(Schema::new(vec![outer])), options()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Schema);
        assert!(
            error.to_string().contains("outer.odd") && error.to_string().contains(&data_type.to_string()),
            "{error}"
        );
    }
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    let data = all_types(4);
    let refuse = |schema: SchemaRef, data: &RecordBatch| {
        let mut writer = BaseFileWriter::try_new(Vec::new(), schema, options()).unwrap();
        writer.write(data).unwrap_err()
    };
    let narrower = data.project(&[0, 1]).unwrap();
    assert_eq!(refuse(data.schema(), &narrower).kind(), ErrorKind::Schema);
    let other = Arc::new(Schema::new(vec![data.schema().field(0).clone(), Field::new("bool", DataType::Int32, true)]));
    assert!(refuse(other, &narrower).to_string().contains("bool"));
    let required = Arc::new(Schema::new(vec![Field::new("int", DataType::Int32, false)]));
    let error = refuse(required, &data.project(&[2]).unwrap());
    assert!(error.to_string().contains("int") && error.kind() == ErrorKind::Schema, "{error}");
    let keys = batch(vec![column(RECORD_KEY_COLUMN, StringArray::from(vec![Some("a"), None]))]);
    assert_eq!(refuse(keys.schema(), &keys).kind(), ErrorKind::Schema);
}

#[test]
fn without_record_keys_there_is_no_range() {
    let keys = batch(vec![column(RECORD_KEY_COLUMN, StringArray::from(vec![None::<&str>; 3]))]);
    let (file, stats) = write(&[keys.clone(), keys], options());
    assert_eq!((stats.rows, stats.min_key), (6, None));
    let reader = BaseFileReader::open(file).unwrap();
    assert!(reader.key_range().is_none() && reader.bloom_filter().unwrap().is_none());
}

#[test]
fn an_empty_file_is_a_file() {
    let data = all_types(0);
    let (file, stats) = write(std::slice::from_ref(&data), options());
    assert_eq!(stats.rows, 0);
    let reader = BaseFileReader::open(file).unwrap();
    assert_eq!(reader.rows(), 0);
    assert_eq!(reader.scan(&ScanOptions::new(data.schema())).unwrap().count(), 0);
}

#[test]
fn size_is_known_within_five_percent_while_writing() {
    let mut numbers = Numbers(7);
    for threads in [1, 2] {
        let mut batches = Vec::new();
        for b in 0..40 {
            let keys = (0..8192).map(|i| Some(format!("key-{b}-{i}"))).collect::<StringArray>();
            let longs = (0..8192).map(|_| Some(numbers.next() as i64)).collect::<Int64Array>();
            let strings = (0..8192).map(|_| Some(format!("{:030}", numbers.below(500)))).collect::<StringArray>();
            batches.push(batch(vec![column(RECORD_KEY_COLUMN, keys), column("long", longs), column("text", strings)]));
        }
        for cut in [17, 29, 40] {
            let options = BaseFileOptions { threads, ..Default::default() };
            let mut writer = BaseFileWriter::try_new(Vec::new(), batches[0].schema(), options).unwrap();
            for batch in &batches[..cut] {
                writer.write(batch).unwrap();
            }
            let estimate = writer.bytes_written_estimate() as f64;
            let bytes = writer.finish().unwrap().1.bytes as f64;
            assert!((estimate / bytes - 1.0).abs() < 0.05, "{estimate} {bytes} after {cut} batches, {threads} threads");
        }
    }
}

#[test]
fn row_groups_end_by_bytes_too() {
    let mut numbers = Numbers(9);
    let wide = (0..20_000).map(|_| Some((0..20).map(|_| format!("{:x}", numbers.next())).collect::<String>()));
    let data = batch(vec![column("wide", wide.collect::<StringArray>())]);
    let slices: Vec<_> = (0..20).map(|i| data.slice(i * 1000, 1000)).collect();
    let options =
        BaseFileOptions { row_group_bytes: 1 << 20, codec: Compression::UNCOMPRESSED, bloom: None, ..options() };
    let reader =
        BaseFileReader::open(write(&slices, BaseFileOptions { row_group_rows: 1 << 30, ..options }).0).unwrap();
    let groups = reader.row_groups();
    assert!(groups.len() >= 4 && groups.iter().all(|g| g.compressed_bytes < 2 << 20), "{groups:?}");
}

#[test]
fn key_range_is_in_javas_order() {
    assert!(keys::compare_keys("\u{1f600}", "\u{ff5e}").is_lt());
    assert!(keys::compare_keys("\u{e000}", "\u{1f600}").is_gt());
    assert!(keys::compare_keys("\u{d7ff}", "\u{1f600}").is_lt());
    assert!(keys::compare_keys("a", "ab").is_lt() && keys::compare_keys("ab", "ab").is_eq());
}

/// A sink that takes some bytes and then fails as a full disk does.
struct FullDisk(usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(buf.len()).ok_or(std::io::ErrorKind::StorageFull)?;
        Ok(buf.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_is_an_error_of_the_storage() {
    let data = all_types(5000);
    for room in [0, 10_000] {
        let run = || {
            let mut writer = BaseFileWriter::try_new(FullDisk(room), data.schema(), options())?;
            writer.write(&data)?;
            writer.finish().map(|_| ())
        };
        assert_eq!(run().unwrap_err().kind(), ErrorKind::Storage);
    }
}

#[test]
fn no_bloom_filter_when_not_asked_for() {
    let (file, stats) = write(&[all_types(10)], BaseFileOptions { bloom: None, ..options() });
    let reader = BaseFileReader::open(file).unwrap();
    assert!(reader.bloom_filter().unwrap().is_none() && reader.key_range().is_some() && stats.min_key.is_some());
    let bad = BaseFileOptions { bloom: Some(BloomOptions { fpp: 0.0, ..Default::default() }), ..options() };
    let mut writer = BaseFileWriter::try_new(Vec::new(), all_types(1).schema(), bad).unwrap();
    writer.write(&all_types(1)).unwrap();
    assert_eq!(writer.finish().err().unwrap().kind(), ErrorKind::InvalidOption);
}

#[test]
fn key_column_gives_row_positions() {
    let data = all_types(2500);
    let reader = BaseFileReader::open(write(&[data], options()).0).unwrap();
    let mut seen = 0;
    for part in reader.columns(&[RECORD_KEY_COLUMN, "long"], 300).unwrap() {
        let (first, part) = part.unwrap();
        assert_eq!(first, seen);
        for (i, key) in part.column(0).as_string::<i32>().iter().enumerate() {
            assert_eq!(key.unwrap(), format!("key-{:07}", first + i as u64));
        }
        seen += part.num_rows() as u64;
    }
    assert_eq!(seen, 2500);
    assert_eq!(reader.key_column().unwrap().map(|p| p.unwrap().1.num_rows()).sum::<usize>(), 2500);
    assert_eq!(reader.columns(&["nothing"], 10).err().unwrap().kind(), ErrorKind::Corrupt);
}

#[test]
fn rows_can_be_counted_without_columns() {
    let reader = BaseFileReader::open(write(&[all_types(2500)], options()).0).unwrap();
    let scan = reader.scan(&ScanOptions::new(Arc::new(Schema::empty()))).unwrap();
    assert_eq!(scan.map(|b| b.unwrap().num_rows()).sum::<usize>(), 2500);
}
