//! Columns whose strings come with dictionaries.

use super::*;
use hoodoo_runtime::ErrorKind;

fn options() -> BaseFileOptions {
    BaseFileOptions { message_name: "hoodie.t.t_record".into(), row_group_rows: 50_000, ..Default::default() }
}

/// Keys, and strings with a dictionary: row `i` has text `of(i)`.
fn strings(rows: usize, of: impl Fn(usize) -> Option<String>) -> (SchemaRef, RecordBatch, ArrayRef) {
    let keys: ArrayRef = Arc::new((0..rows).map(|i| Some(format!("k{i:07}"))).collect::<StringArray>());
    let plain: ArrayRef = Arc::new((0..rows).map(&of).collect::<StringArray>());
    let coded = arrow::compute::cast(&plain, &DataType::Dictionary(DataType::Int32.into(), DataType::Utf8.into()));
    let columns = [(RECORD_KEY_COLUMN, keys, true), ("text", coded.unwrap(), true)];
    let coded = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let field = |name: &str| Field::new(name, DataType::Utf8, true);
    (Arc::new(Schema::new(vec![field(RECORD_KEY_COLUMN), field("text")])), coded, plain)
}

fn written(schema: &SchemaRef, batches: &[RecordBatch], options: BaseFileOptions) -> BaseFileReader<Bytes> {
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema.clone(), options).unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    BaseFileReader::open(Bytes::from(writer.finish().unwrap().0)).unwrap()
}

fn text_column(reader: &BaseFileReader<Bytes>, schema: &SchemaRef) -> ArrayRef {
    read(reader, &ScanOptions::new(schema.clone())).column(1).clone()
}

#[test]
fn texts_come_back_with_nulls_runs_and_pages() {
    type TextOf = fn(usize) -> Option<String>;
    let cases: [(&str, TextOf); 6] = [
        ("few", |i| Some(format!("text {}", i * 7919 % 5))),
        ("one", |_| Some("the same".to_owned())),
        ("nulls", |i| (i % 3 != 1).then(|| format!("t{}", i % 11))),
        ("only nulls", |_| None),
        ("runs", |i| (i / 9_000 != 2).then(|| format!("r{}", i / 1_000))),
        ("many", |i| Some(format!("value {}", i % 4_000))),
    ];
    for (name, of) in cases {
        for (rows, threads) in [(1, 1), (7, 1), (60_001, 1), (60_001, 3)] {
            let (schema, coded, plain) = strings(rows, of);
            let reader = written(&schema, &[coded], BaseFileOptions { threads, ..options() });
            assert_eq!(&text_column(&reader, &schema), &plain, "{name}");
            let chunk = reader.metadata().row_group(0).column(1);
            assert!(name == "only nulls" || chunk.dictionary_page_offset().is_some(), "{name}");
            assert_eq!(
                chunk.statistics().unwrap().null_count_opt(),
                Some(plain.slice(0, rows.min(50_000)).null_count() as u64)
            );
        }
    }
}

#[test]
fn statistics_and_page_indexes_find_rows() {
    // Two row groups of three pages each; every page has strings of its own.
    let (schema, coded, plain) = strings(100_000, |i| Some(format!("page {:02} {}", i / 10_000, i % 3)));
    let reader = written(&schema, &[coded], options());
    for (text, expected) in [("page 07 1", 3_334), ("page 00 0", 3_334), ("page 99", 0), ("a", 0)] {
        let predicate = Predicate::Eq("text".into(), Arc::new(StringArray::from(vec![text])));
        let groups = reader.matching_row_groups(&predicate).unwrap().len();
        assert_eq!(groups, usize::from(expected > 0), "{text}");
        let found = read(&reader, &ScanOptions::new(schema.clone()).with_predicate(Some(predicate)));
        assert_eq!(found.num_rows(), expected, "{text}");
    }
    let with_index = reader.metadata_with_page_index().unwrap();
    let index = with_index.page_index_for_row_group(0);
    assert_eq!(index.offset_index(1).unwrap().page_locations.len(), 3);
    assert!(index.column_index(1).is_some());
    assert_eq!(&text_column(&reader, &schema), &plain);
}

#[test]
fn pieces_of_several_dictionaries_and_of_none_are_one_column() {
    let (schema, first, one) = strings(1_000, |i| Some(format!("a{}", i % 3)));
    let (_, second, two) =
        strings(1_000, |i| (i % 2 == 0).then(|| format!("{}{}", if i % 4 == 0 { "a" } else { "b" }, i % 3)));
    let plain = RecordBatch::try_new(schema.clone(), vec![first.column(0).clone(), two.clone()]).unwrap();
    let batches = [first.slice(3, 900), second.clone(), plain.clone(), first.clone()];
    let reader = written(&schema, &batches, options());
    let expected = arrow::compute::concat(&[&one.slice(3, 900), &two, &two, &one]).unwrap();
    assert_eq!(&text_column(&reader, &schema), &expected);
    // A row group that began without dictionaries goes on without.
    let reader = written(&schema, &[plain, second], options());
    assert_eq!(&text_column(&reader, &schema), &arrow::compute::concat(&[&two, &two]).unwrap());
}

#[test]
fn long_and_many_texts_are_written_one_by_one() {
    let (schema, coded, plain) = strings(2_000, |i| Some("x".repeat(200 + i % 100)));
    let reader = written(&schema, &[coded], options());
    assert_eq!(&text_column(&reader, &schema), &plain);
    let (schema, coded, plain) = strings(30_000, |i| Some(format!("{i:0100}")));
    let reader = written(&schema, &[coded], BaseFileOptions { page_bytes: 64 << 10, ..options() });
    assert_eq!(&text_column(&reader, &schema), &plain);
}

#[test]
fn a_required_column_has_no_nulls() {
    let (_, coded, _) = strings(10, |i| (i != 4).then(|| "a".to_owned()));
    let field = |name: &str, nullable| Field::new(name, DataType::Utf8, nullable);
    let schema = Arc::new(Schema::new(vec![field(RECORD_KEY_COLUMN, true), field("text", false)]));
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema, options()).unwrap();
    let refused = writer.write(&coded).and_then(|()| writer.finish().map(|_| ())).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Schema);
}

#[test]
fn dictionaries_are_read_when_they_are_asked_for() {
    let (schema, coded, plain) = strings(70_000, |i| (i % 5 > 0).then(|| format!("t{}", i % 7)));
    let reader = written(&schema, std::slice::from_ref(&coded), options());
    let got = read(&reader, &ScanOptions::new(coded.schema()).with_batch_size(70_000));
    assert_eq!(got.schema().field(1).data_type(), coded.schema().field(1).data_type());
    assert_eq!(&arrow::compute::cast(got.column(1), &DataType::Utf8).unwrap(), &plain);
    // And what was read so can be copied by whoever copies chunks.
    let splice = Splice::new(&reader, &schema, &options()).unwrap().unwrap();
    assert!(splice.can_copy(0) && splice.can_copy(1));
}
