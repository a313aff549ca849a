//! Columns of strings without dictionaries, which are encoded by `string_column.rs`: they come back, and what footers and page
//! indexes say of them is what the general encoder says.

use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::basic::{BoundaryOrder, Compression, Encoding, GzipLevel, ZstdLevel};
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use super::*;

const RECORD_KEY: &str = RECORD_KEY_COLUMN;
const SEQUENCE: &str = "_hoodie_commit_seqno";
/// Bytes of a page that none reaches here.
const LARGE: usize = 64 << 20;

/// Texts of all lengths, the empty one and long ones with a common beginning too.
fn text(numbers: &mut Numbers) -> String {
    let words = ["a", "é", "\u{ff5e}", "\u{1f600}", "zz", "0"];
    let word = |n: u64| words[n as usize % words.len()];
    match numbers.below(20) {
        0 => String::new(),
        1 => format!("{}{}", "the same beginning ".repeat(20), numbers.next()),
        2 => format!("{}{}", "é\u{1f600}".repeat(40), numbers.next()),
        _ => (0..numbers.below(9)).map(|_| word(numbers.next())).collect::<String>() + &numbers.next().to_string(),
    }
}

fn strings(rows: usize, nulls: bool, seed: u64) -> RecordBatch {
    let mut numbers = Numbers(seed);
    let is_null = |row: usize| nulls && (row % 7 == 3 || (21_000..45_000).contains(&row));
    let mut of = |nulls: bool| -> StringArray {
        (0..rows).map(|row| (!(nulls && is_null(row))).then(|| text(&mut numbers))).collect()
    };
    let columns: Vec<(&str, ArrayRef)> = vec![
        (SEQUENCE, Arc::new(of(nulls))),
        (RECORD_KEY, Arc::new(of(false))),
        ("text", Arc::new(of(nulls))),
        (
            "rising",
            Arc::new((0..rows).map(|row| (!is_null(row)).then(|| format!("{row:09}"))).collect::<StringArray>()),
        ),
    ];
    let fields = columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), *name != RECORD_KEY));
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn options() -> BaseFileOptions {
    BaseFileOptions { row_group_rows: 70_000, bloom: None, ..Default::default() }
}

fn with_index(file: &Bytes) -> Arc<ParquetMetaData> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Required);
    parquet::arrow::arrow_reader::ArrowReaderMetadata::load(file, options).unwrap().metadata().clone()
}

#[test]
fn all_texts_come_back_from_every_codec() {
    let codecs = [
        Compression::ZSTD(ZstdLevel::default()),
        Compression::ZSTD(ZstdLevel::try_new(5).unwrap()),
        Compression::GZIP(GzipLevel::default()),
        Compression::SNAPPY,
        Compression::UNCOMPRESSED,
    ];
    for (codec, seed) in codecs.into_iter().zip(1..) {
        for rows in [1, 2, 5000, 19_999, 20_000, 20_001, 90_000] {
            for nulls in [false, true] {
                let data = strings(rows, nulls, seed);
                let cut = |at: usize| data.slice(at, 9999.min(rows - at));
                let options = BaseFileOptions { codec, ..options() };
                let (file, _) = write(&(0..rows).step_by(9999).map(cut).collect::<Vec<_>>(), options);
                let reader = BaseFileReader::open(file).unwrap();
                assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data, "{codec} {rows} {nulls}");
            }
        }
    }
}

#[test]
fn what_is_said_of_them_is_what_the_general_encoder_says() {
    for (nulls, seed) in [(false, 7), (true, 8)] {
        let data = strings(65_000, nulls, seed);
        let (file, _) = write(std::slice::from_ref(&data), BaseFileOptions { page_bytes: LARGE, ..options() });
        let plain = |name: &str| ColumnPath::new(vec![name.to_owned()]);
        let mut properties = WriterProperties::builder()
            .set_statistics_truncate_length(Some(256))
            .set_data_page_size_limit(LARGE)
            .set_data_page_row_count_limit(20_000)
            .set_write_batch_size(1000);
        for field in data.schema().fields() {
            properties = properties.set_column_dictionary_enabled(plain(field.name()), false);
        }
        let mut general = ArrowWriter::try_new(Vec::new(), data.schema(), Some(properties.build())).unwrap();
        general.write(&data).unwrap();
        let general = with_index(&general.into_inner().unwrap().into());
        let ours = with_index(&file);
        for (i, field) in data.schema().fields().iter().enumerate().filter(|(_, field)| field.name() != SEQUENCE) {
            let (a, b) = (ours.row_group(0).column(i), general.row_group(0).column(i));
            assert!(a.encodings().all(|encoding| encoding != Encoding::RLE_DICTIONARY));
            assert_eq!(a.statistics(), b.statistics(), "{field}");
            let (a, b) = (ours.page_index_for_row_group(0), general.page_index_for_row_group(0));
            macro_rules! rows {
                ($index:expr) => {{
                    let pages = $index.offset_index(i).unwrap().page_locations().iter();
                    pages.map(|page| page.first_row_index).collect::<Vec<i64>>()
                }};
            }
            assert_eq!(rows!(a), rows!(b), "{field}");
            // But for how often there are which levels, which other columns of this project do not say either.
            let said = |index: String| {
                let (before, after) = index.split_once("definition_level_histograms").unwrap();
                (before.to_owned(), after.split_once("nan_counts").unwrap().1.to_owned())
            };
            let (a_says, b_says) = (format!("{:?}", a.column_index(i)), format!("{:?}", b.column_index(i)));
            assert_eq!(said(a_says), said(b_says), "{field}");
            let rises = field.name() == "rising";
            let order = if rises { BoundaryOrder::ASCENDING } else { BoundaryOrder::UNORDERED };
            assert_eq!(a.column_index(i).unwrap().get_boundary_order(), Some(order), "{field}");
        }
        // Nobody looks for rows by these.
        assert!(ours.row_group(0).column(0).statistics().is_none());
    }
}

#[test]
fn pages_end_by_their_bytes_too() {
    let data = strings(10_000, true, 9);
    let options = BaseFileOptions { page_bytes: 16 << 10, ..options() };
    let (file, _) = write(std::slice::from_ref(&data), options);
    let index = with_index(&file);
    let pages = index.page_index_for_row_group(0).offset_index(2).unwrap().page_locations().len();
    assert!(pages > 20, "{pages}");
    let reader = BaseFileReader::open(file).unwrap();
    assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data);
}

#[test]
fn only_nulls_and_required_texts() {
    let nulls: ArrayRef = Arc::new(StringArray::new_null(3000));
    let keys: ArrayRef = Arc::new((0..3000).map(|i| Some(i.to_string())).collect::<StringArray>());
    let schema = |nullable| {
        let fields = [Field::new(RECORD_KEY, DataType::Utf8, false), Field::new("text", DataType::Utf8, nullable)];
        Arc::new(Schema::new(fields.to_vec()))
    };
    let data = RecordBatch::try_new(schema(true), vec![keys, nulls]).unwrap();
    let never = || BaseFileOptions { dictionary: DictionaryUse::Never, ..options() };
    let reader = BaseFileReader::open(write(std::slice::from_ref(&data), never()).0).unwrap();
    assert_eq!(read(&reader, &ScanOptions::new(data.schema())), data);
    let statistics = reader.metadata().row_group(0).column(1).statistics().unwrap();
    assert_eq!((statistics.null_count_opt(), statistics.min_bytes_opt()), (Some(3000), None));
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema(false), never()).unwrap();
    let error = writer.write(&data).and_then(|()| writer.finish().map(|_| ())).unwrap_err();
    assert_eq!(error.kind(), hoodoo_runtime::ErrorKind::Schema, "{error}");
    assert!(error.to_string().contains("text"), "{error}");
}
