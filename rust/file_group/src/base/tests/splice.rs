use std::sync::Mutex;

use parquet::basic::Compression;

use super::*;
use hoodoo_format::bloom::{BloomOptions, BloomSizing};
use hoodoo_runtime::ErrorKind;

fn options() -> BaseFileOptions {
    BaseFileOptions { message_name: "hoodie.t.t_record".into(), row_group_rows: 1000, ..Default::default() }
}

fn old_file(data: &RecordBatch, options: BaseFileOptions) -> BaseFileReader<Bytes> {
    BaseFileReader::open(write(std::slice::from_ref(data), options).0).unwrap()
}

fn keys_of(data: &RecordBatch) -> Vec<StringArray> {
    vec![data.column_by_name(RECORD_KEY_COLUMN).unwrap().as_string::<i32>().clone()]
}

/// Splices row group 1 of the old file with column 2 given anew, all else the same, between rows that are written.
fn spliced(old: &RecordBatch, source: &BaseFileReader<Bytes>, ones: &ArrayRef, threads: usize) -> Bytes {
    let options = BaseFileOptions { threads, ..options() };
    let splice = Splice::new(source, &old.schema(), &options).unwrap().unwrap();
    let mut writer = BaseFileWriter::try_new(Vec::new(), old.schema(), options.clone()).unwrap();
    let fresh = old.slice(0, 10);
    writer.write(&fresh).unwrap();
    let asked = Mutex::new(Vec::new());
    let column = |i: usize| {
        asked.lock().unwrap().push(i);
        Ok(match i {
            2 => SplicedColumn::Values(vec![ones.slice(0, 300), ones.slice(300, 700)]),
            _ => SplicedColumn::Same,
        })
    };
    writer.splice_row_group(source, &splice, 1, 1000, 2, &column).unwrap();
    writer.write(&fresh).unwrap();
    let mut asked = asked.into_inner().unwrap();
    asked.sort_unstable();
    assert_eq!(asked, (0..old.num_columns()).collect::<Vec<_>>());
    writer.set_keys(FileKeys::of(&keys_of(old), &options).unwrap());
    let (file, stats) = writer.finish().unwrap();
    assert_eq!((stats.rows, stats.max_key.as_deref()), (1020, Some("key-0002499")));
    Bytes::from(file)
}

#[test]
fn what_stays_the_same_is_copied() {
    let old = all_types(2500);
    let source = old_file(&old, options());
    let ones = Arc::new(Int32Array::from(vec![1; 1000])) as ArrayRef;
    let file = spliced(&old, &source, &ones, 1);
    assert_eq!(file, spliced(&old, &source, &ones, 3));
    let reader = BaseFileReader::open(file).unwrap();
    let mut columns = old.slice(1000, 1000).columns().to_vec();
    columns[2] = ones;
    let middle = RecordBatch::try_new(old.schema(), columns).unwrap();
    let expected = concat_batches(&old.schema(), [&old.slice(0, 10), &middle, &old.slice(0, 10)]).unwrap();
    assert_eq!(read(&reader, &ScanOptions::new(old.schema())), expected);
    // Statistics and page indexes came along.
    let predicate = Predicate::Eq("long".into(), Arc::new(Int64Array::from(vec![1_003 * 1500])));
    assert_eq!(reader.matching_row_groups(&predicate).unwrap(), [1]);
    assert_eq!(read(&reader, &ScanOptions::new(old.schema()).with_predicate(Some(predicate))).num_rows(), 1);
    let with_index = reader.metadata_with_page_index().unwrap();
    let long = old.schema().index_of("long").unwrap();
    assert!(with_index.page_index_for_row_group(1).column_index(long).is_some());
}

#[test]
fn a_constant_is_the_same_as_writing_it() {
    for nullable in [true, false] {
        for rows in [1, 7, 128, 1000] {
            let name = Field::new("name", DataType::Utf8, nullable);
            let schema = Arc::new(Schema::new(vec![name]));
            let strings: ArrayRef = Arc::new(StringArray::from(vec!["old"; rows]));
            let old = RecordBatch::try_new(schema.clone(), vec![strings]).unwrap();
            let source = old_file(&old, options());
            let splice = Splice::new(&source, &schema, &options()).unwrap().unwrap();
            let mut writer = BaseFileWriter::try_new(Vec::new(), schema.clone(), options()).unwrap();
            let column = |_| Ok(SplicedColumn::Constant("a new n\u{e4}me".to_owned()));
            writer.splice_row_group(&source, &splice, 0, rows, 2, &column).unwrap();
            writer.set_keys(FileKeys::default());
            let reader = BaseFileReader::open(Bytes::from(writer.finish().unwrap().0)).unwrap();
            let expected: ArrayRef = Arc::new(StringArray::from(vec!["a new n\u{e4}me"; rows]));
            let got = read(&reader, &ScanOptions::new(schema.clone()));
            assert_eq!(got.column(0), &expected);
            for (value, found) in [("a new n\u{e4}me", rows), ("b", 0)] {
                let predicate = Predicate::Eq("name".into(), Arc::new(StringArray::from(vec![value])));
                let scan = ScanOptions::new(schema.clone()).with_predicate(Some(predicate));
                assert_eq!(read(&reader, &scan).num_rows(), found);
            }
        }
    }
}

#[test]
fn only_what_this_writer_would_write_is_copied() {
    let old = all_types(1500);
    let can_copy = |data: &RecordBatch, written: BaseFileOptions, schema: &Schema| -> Option<Vec<bool>> {
        let splice = Splice::new(&old_file(data, written), schema, &options()).unwrap()?;
        Some((0..schema.fields().len()).map(|i| splice.can_copy(i)).collect())
    };
    let all = vec![true; old.num_columns()];
    assert_eq!(can_copy(&old, options(), &old.schema()), Some(all.clone()));
    let gzip = BaseFileOptions { codec: Compression::GZIP(Default::default()), ..options() };
    assert_eq!(can_copy(&old, gzip, &old.schema()), Some(vec![false; old.num_columns()]));
    // A wider type, a new column, another order.
    let mut fields: Vec<Field> = old.schema().fields().iter().rev().map(|f| f.as_ref().clone()).collect();
    let int = fields.iter().position(|f| f.name() == "int").unwrap();
    fields[int] = Field::new("int", DataType::Int64, true);
    fields.push(Field::new("added", DataType::Utf8, true));
    let mut expected = all;
    expected[int] = false;
    expected.push(false);
    assert_eq!(can_copy(&old, options(), &Schema::new(fields)), Some(expected));
    // Row groups far from the size of new ones.
    let large = BaseFileOptions { row_group_rows: 5000, ..options() };
    assert_eq!(can_copy(&all_types(2500), large, &old.schema()), None);
    let fragments = BaseFileOptions { row_group_rows: 100, ..options() };
    assert_eq!(can_copy(&old, fragments, &old.schema()), None);
}

#[test]
fn a_splice_that_does_not_fit_is_refused() {
    let old = all_types(1500);
    let source = old_file(&old, options());
    let splice = Splice::new(&source, &old.schema(), &options()).unwrap().unwrap();
    let writer = || BaseFileWriter::try_new(Vec::new(), old.schema(), options()).unwrap();
    let short = |_| Ok(SplicedColumn::Values(vec![Arc::new(Int32Array::from(vec![1])) as ArrayRef]));
    let refused = writer().splice_row_group(&source, &splice, 0, 1000, 2, &short).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Schema);
    let same = |_| Ok(SplicedColumn::Same);
    assert_eq!(writer().splice_row_group(&source, &splice, 7, 1000, 2, &same).unwrap_err().kind(), ErrorKind::Schema);
    let mut without_keys = writer();
    without_keys.splice_row_group(&source, &splice, 0, 1000, 2, &same).unwrap();
    assert_eq!(without_keys.finish().err().unwrap().kind(), ErrorKind::Schema);
}

fn text_of(keys: &FileKeys) -> String {
    let filter = keys.bloom.as_ref().unwrap();
    let mut text = Vec::new();
    filter.write_string(&mut text).unwrap();
    assert_eq!(text.len(), filter.string_len());
    String::from_utf8(text).unwrap()
}

#[test]
fn keys_grow_without_being_read() {
    let old = all_types(1000);
    let source = old_file(&old, options());
    let same = FileKeys::grown(&source, &[], &options()).unwrap().unwrap();
    let anew = FileKeys::of(&keys_of(&old), &options()).unwrap();
    assert_eq!((&same.range, text_of(&same)), (&anew.range, text_of(&anew)));
    let more = vec![StringArray::from(vec!["a", "key-0000500x", "z"])];
    let grown = FileKeys::grown(&source, &more, &options()).unwrap().unwrap();
    let range = grown.range.clone().unwrap();
    assert_eq!((range.min.as_str(), range.max.as_str()), ("a", "z"));
    let filter_type = grown.bloom.as_ref().unwrap().filter_type();
    let filter = hoodoo_format::bloom::BloomFilter::from_base64(filter_type, &text_of(&grown)).unwrap();
    for key in keys_of(&old)[0].iter().flatten().chain(["a", "key-0000500x", "z"]) {
        assert!(filter.might_contain(key), "{key}");
    }
    assert_eq!((0..10_000).filter(|i| filter.might_contain(&format!("other-{i}"))).count(), 0);
    // More than the filter has room for: it has to be made anew.
    let many = vec![(0..200).map(|i| Some(format!("x{i}"))).collect::<StringArray>()];
    assert_eq!(FileKeys::grown(&source, &many, &options()).unwrap(), None);
}

#[test]
fn keys_of_whole_files_are_taken_from_their_footers() {
    let rows = all_types(3000);
    let (one, two) = (rows.slice(0, 1000), rows.slice(1000, 2000));
    let files = [old_file(&two, options()), old_file(&one, options())];
    let mut writer = BaseFileWriter::try_new(Vec::new(), rows.schema(), options()).unwrap();
    for (file, groups) in files.iter().zip([2, 1]) {
        assert!(writer.take_keys(TakenKeys::of(file, &options()).unwrap().unwrap()));
        let splice = Splice::new(file, &rows.schema(), &options()).unwrap().unwrap();
        for group in 0..groups {
            writer.splice_row_group(file, &splice, group, 1000, 2, &|_| Ok(SplicedColumn::Same)).unwrap();
        }
    }
    let fresh = RecordBatch::try_new(rows.schema(), rows.slice(0, 5).columns().to_vec()).unwrap();
    writer.write(&fresh).unwrap();
    let (file, stats) = writer.finish().unwrap();
    assert_eq!(stats.rows, 3005);
    assert_eq!((stats.min_key.as_deref(), stats.max_key.as_deref()), (Some("key-0000000"), Some("key-0002999")));
    let reader = BaseFileReader::open(Bytes::from(file)).unwrap();
    let filter = reader.bloom_filter().unwrap().unwrap();
    assert!(keys_of(&rows)[0].iter().flatten().all(|key| filter.might_contain(key)));
    assert!(!(0..1000).any(|i| filter.might_contain(&format!("other-{i}"))));
}

#[test]
fn keys_have_to_be_read_where_a_footer_says_too_little() {
    let rows = all_types(1000);
    let no_filter = old_file(&rows, BaseFileOptions { bloom: None, ..options() });
    assert!(TakenKeys::of(&no_filter, &options()).unwrap().is_none());
    assert!(TakenKeys::of(&no_filter, &BaseFileOptions { bloom: None, ..options() }).unwrap().is_some());
    let configured = BloomOptions { sizing: BloomSizing::HUDI, ..BloomOptions::default() };
    let by_hudi = old_file(&rows, BaseFileOptions { bloom: Some(configured), ..options() });
    assert!(TakenKeys::of(&by_hudi, &options()).unwrap().is_none(), "room for 60 times as many keys");
    // Nobody told the keys of the spliced rows.
    let source = old_file(&rows, options());
    let splice = Splice::new(&source, &rows.schema(), &options()).unwrap().unwrap();
    let mut writer = BaseFileWriter::try_new(Vec::new(), rows.schema(), options()).unwrap();
    writer.splice_row_group(&source, &splice, 0, 1000, 2, &|_| Ok(SplicedColumn::Same)).unwrap();
    assert_eq!(writer.finish().unwrap_err().kind(), ErrorKind::Schema);
}

#[test]
fn small_columns_are_read_together_and_come_out_as_they_are() {
    // Small ones, one that is larger than what is read at a time, and small ones again.
    let (small, rows) = (300, 3000);
    let number = |i: usize| Arc::new(Int32Array::from_iter_values((0..rows).map(|row| row * 7 + i as i32))) as ArrayRef;
    let long: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("{row}").repeat(300))));
    let columns = (0..small).map(|i| if i == small / 2 { long.clone() } else { number(i) });
    let names = (0..small).map(|i| format!("c{i}")).collect::<Vec<_>>();
    let data = RecordBatch::try_from_iter_with_nullable(
        names.iter().map(String::as_str).zip(columns).map(|(name, column)| (name, column, true)),
    )
    .unwrap();
    let options = BaseFileOptions { row_group_rows: 1000, ..options() };
    let source = old_file(&data, options.clone());
    let splice = Splice::new(&source, &data.schema(), &options).unwrap().unwrap();
    let read = |column: usize| column % 3 != 1;
    let fields = data.schema().fields().iter().cloned().enumerate().filter(|(i, _)| read(*i)).collect::<Vec<_>>();
    let columns = GroupColumns::new(&source, &splice, 1, fields);
    for column in (0..small).rev() {
        let pieces = columns.take(column).unwrap();
        let expected = read(column).then(|| vec![data.column(column).slice(1000, 1000)]);
        assert_eq!(pieces, expected, "column {column}");
        assert!(columns.take(column).unwrap().is_none(), "it was taken");
    }
}
