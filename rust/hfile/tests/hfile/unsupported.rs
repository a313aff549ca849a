//! Features of HFiles that are not supported are named.

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileError, HFileReader, HFileReaderOptions, HFileWriter, HFileWriterOptions};

use crate::counting::Counting;
use crate::linear::{numbered, read, scan};
use crate::maker::Maker;

/// A file with another value of a field of the trailer.
fn with_field(tag: u8, before: u8, after: u8) -> Vec<u8> {
    let mut file = Maker::default().make(&numbered(9));
    let at = file.windows(2).rposition(|found| found == [tag, before]).unwrap();
    file[at + 1] = after;
    file
}

#[test]
fn codecs() {
    for (number, name) in [(0, "LZO"), (3, "SNAPPY"), (4, "LZ4"), (5, "BZIP2"), (6, "ZSTD"), (9, "9")] {
        let error = HFileReader::open(Bytes::from(with_field(12 << 3, 2, number))).unwrap_err();
        let HFileError::Unsupported { feature: "compression codec", value } = &error else { panic!("{error}") };
        assert_eq!(value, name);
        assert_eq!(error.to_string(), format!("the compression codec {name} of an HFile is not supported"));
    }
}

#[test]
fn versions() {
    let mut file = Maker::default().make(&numbered(9));
    *file.last_mut().unwrap() = 2;
    let error = read(&file).unwrap_err();
    assert!(matches!(error, HFileError::Unsupported { feature: "version", .. }), "{error}");
}

#[test]
fn checksum_types() {
    let error = read(&Maker { checksum: 3, ..Maker::default() }.make(&numbered(9))).unwrap_err();
    assert!(matches!(error, HFileError::Unsupported { feature: "checksum type", .. }), "{error}");
}

#[test]
fn encoded_blocks() {
    let mut file = Maker::default().make(&numbered(9));
    file[7] = b'E';
    let error = read(&file).unwrap_err();
    assert!(matches!(error, HFileError::Unsupported { feature: "data block encoding", .. }), "{error}");
}

#[test]
fn blocks_beyond_the_memory_limit() {
    let mut file = Maker { gzip: true, ..Maker::default() }.make(&numbered(9));
    let reader = HFileReader::open_with(Bytes::from(file.clone()), &HFileReaderOptions::default().max_block_bytes(200));
    let error = scan(&reader.unwrap()).unwrap_err();
    assert!(matches!(error, HFileError::TooLarge { limit: 200, offset: 0, .. }), "{error}");
    // The size lies: no so many bytes are allocated.
    file[12..16].copy_from_slice(&(200u32 << 20).to_be_bytes());
    assert!(matches!(read(&file).unwrap_err(), HFileError::Corrupt { offset: Some(0), .. }));
}

#[test]
fn long_blocks_are_not_even_read() {
    let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().codec(Codec::None));
    writer.append(b"key", &vec![1; 300_000]).unwrap();
    writer.add_meta_block("long", vec![2; 300_000]).unwrap();
    let source = Counting::new(&writer.finish().unwrap());
    let reader = HFileReader::open_with(&source, &HFileReaderOptions::default().max_block_bytes(70_000)).unwrap();
    source.take();
    assert!(matches!(reader.get(b"key"), Err(HFileError::TooLarge { limit: 70_000, offset: 0, .. })));
    assert!(matches!(reader.meta_block("long"), Err(HFileError::TooLarge { limit: 70_000, .. })));
    assert_eq!(source.take().len(), 0);
}

#[test]
fn blocks_of_checksum_type_0_may_lack_the_bytes() {
    let entries = numbered(3);
    let file = Maker::default().make(&entries);
    let length = u32::from_be_bytes(file[29..33].try_into().unwrap()) as usize;
    // The only data block without its checksums, and the index with its new length.
    let mut shorter = file.clone();
    let sums = length.div_ceil(64) * 4;
    shorter[8..12].copy_from_slice(&u32::try_from(length - 33).unwrap().to_be_bytes());
    let root = file.windows(8).position(|found| found == b"IDXROOT2").unwrap();
    shorter[root + 33 + 8..root + 33 + 12].copy_from_slice(&u32::try_from(length).unwrap().to_be_bytes());
    assert_eq!(root, length + sums);
    assert_eq!(read(&shorter).unwrap(), entries);
}
