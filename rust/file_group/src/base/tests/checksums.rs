//! Checksums of pages: each page has one, readers hold pages against them, and copies keep them.

use std::ops::Range;

use parquet::basic::Compression;

use super::*;
use hoodoo_runtime::ErrorKind;

/// A number of a header: zigzag, seven bits a byte.
fn number(file: &[u8], at: &mut usize) -> i64 {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let byte = file[*at];
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return (number >> 1) as i64 ^ -((number & 1) as i64);
        }
    }
}

/// The numbers before the one struct that a header has. Passes over the header.
fn numbers_of_header(file: &[u8], at: &mut usize) -> Vec<i64> {
    const NUMBER: u8 = 0x15;
    let mut numbers = Vec::new();
    while file[*at] == NUMBER {
        *at += 1;
        numbers.push(number(file, at));
    }
    *at += 1;
    while file[*at] != 0 {
        *at += 1;
        if file[*at - 1] == NUMBER {
            number(file, at);
        }
    }
    *at += 2;
    numbers
}

/// The bodies of the pages of a file, and how many headers have a checksum, which is that of the body.
fn bodies(file: &Bytes) -> (Vec<Range<usize>>, usize) {
    let reader = BaseFileReader::open(file.clone()).unwrap();
    let (mut bodies, mut checked) = (Vec::new(), 0);
    for chunk in reader.metadata().row_groups().iter().flat_map(|group| group.columns()) {
        let (start, length) = chunk.byte_range();
        let (mut at, end) = (start as usize, (start + length) as usize);
        while at < end {
            let numbers = numbers_of_header(file, &mut at);
            let body = at..at + numbers[2] as usize;
            if let Some(sum) = numbers.get(3) {
                assert_eq!(*sum as i32 as u32, crc32fast::hash(&file[body.clone()]));
                checked += 1;
            }
            at = body.end;
            bodies.push(body);
        }
        assert_eq!(at, end);
    }
    (bodies, checked)
}

/// Every type, strings of low cardinality, and a constant.
fn rows() -> RecordBatch {
    let rows = all_types(3000);
    let (mut fields, mut arrays) = (rows.schema().fields().to_vec(), rows.columns().to_vec());
    let few: StringArray = (0..3000).map(|i| Some(["a", "b", "c"][i % 3])).collect();
    for (name, array) in [("few", few), ("one", StringArray::from(vec![""; 3000]))] {
        fields.push(Arc::new(Field::new(name, DataType::Utf8, true)));
        arrays.push(Arc::new(array));
    }
    batch(fields.iter().map(|f| f.as_ref().clone()).zip(arrays).collect())
}

fn file(codec: Compression, page_checksums: bool) -> Bytes {
    let options = BaseFileOptions { codec, page_checksums, row_group_rows: 2000, ..Default::default() };
    let rows = rows();
    let mut writer = BaseFileWriter::try_new(Vec::new(), rows.schema(), options).unwrap();
    writer.set_constant(rows.num_columns() - 1, "the same".to_owned());
    writer.write(&rows).unwrap();
    writer.finish().unwrap().0.into()
}

fn read_all(file: Bytes) -> hoodoo_runtime::Result<RecordBatch> {
    let reader = BaseFileReader::open(file)?;
    let options = ScanOptions::new(reader.schema().clone());
    let batches = reader.scan(&options)?.collect::<hoodoo_runtime::Result<Vec<_>>>()?;
    Ok(concat_batches(&options.schema, &batches)?)
}

const CODECS: [fn() -> Compression; 4] = [
    || Compression::ZSTD(Default::default()),
    || Compression::SNAPPY,
    || Compression::GZIP(Default::default()),
    || Compression::UNCOMPRESSED,
];

#[test]
fn every_page_has_its_checksum_unless_it_is_to_have_none() {
    for codec in CODECS {
        let (with, without) = (file(codec(), true), file(codec(), false));
        let (pages, checked) = bodies(&with);
        assert!(pages.len() > 2 * rows().num_columns() && checked == pages.len());
        assert_eq!(bodies(&without).1, 0);
        assert_eq!(read_all(with).unwrap(), read_all(without).unwrap());
    }
}

#[test]
fn one_bit_that_is_wrong_in_a_page_is_found() {
    for codec in CODECS {
        let whole = file(codec(), true);
        let mut numbers = Numbers(7);
        for body in bodies(&whole).0.into_iter().filter(|body| !body.is_empty()) {
            let mut damaged = whole.to_vec();
            damaged[body.start + numbers.below(body.len() as u64) as usize] ^= 1 << numbers.below(8);
            let error = read_all(damaged.into()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains("does not match its checksum"), "{error}");
        }
    }
}

#[test]
fn a_wrong_bit_in_a_footer_is_found() {
    for bloom in [None, Some(Default::default())] {
        let options = BaseFileOptions { bloom, row_group_rows: 2000, ..Default::default() };
        let whole = write(&[rows()], options).0;
        let length = u32::from_le_bytes(whole[whole.len() - 8..whole.len() - 4].try_into().unwrap()) as usize;
        let mut numbers = Numbers(11);
        let (mut found, expected) = (0, read_all(whole.clone()).unwrap());
        for _ in 0..500 {
            let mut damaged = whole.to_vec();
            let at = whole.len() - 1 - numbers.below(length as u64 + 8) as usize;
            damaged[at] ^= 1 << numbers.below(8);
            match read_all(damaged.into()) {
                Ok(read) => assert_eq!(read, expected, "{at}"),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    found += 1;
                }
            }
        }
        // What is not found is in the key of the checksum, or in the name of the writer.
        assert!(found > 480, "{found}");
    }
}

#[test]
fn chunks_that_are_copied_keep_the_checksums_of_their_pages() {
    let whole = file(Compression::SNAPPY, true);
    let copy = |file: &Bytes| -> Bytes {
        let source = BaseFileReader::open(file.clone()).unwrap();
        let schema = source.schema().clone();
        let options = BaseFileOptions { codec: Compression::SNAPPY, row_group_rows: 2000, ..Default::default() };
        let keys = options.clone();
        let splice = Splice::new(&source, &schema, &options).unwrap().unwrap();
        let mut writer = BaseFileWriter::try_new(Vec::new(), schema, options).unwrap();
        for (group, info) in source.row_groups().into_iter().enumerate() {
            let same = |column| {
                Ok(if splice.can_copy(column) { SplicedColumn::Same } else { SplicedColumn::Constant("new".into()) })
            };
            writer.splice_row_group(&source, &splice, group, info.rows as usize, 1, &same).unwrap();
        }
        writer.set_keys(FileKeys::of(&[rows().column(0).as_string::<i32>().clone()], &keys).unwrap());
        writer.finish().unwrap().0.into()
    };
    let (pages, checked) = bodies(&copy(&whole));
    assert_eq!((pages.len(), checked), (bodies(&whole).0.len(), pages.len()));
    let mut damaged = whole.to_vec();
    damaged[bodies(&whole).0[3].start] ^= 4;
    assert_eq!(read_all(copy(&damaged.into())).unwrap_err().kind(), ErrorKind::Corrupt);
}
