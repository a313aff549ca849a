//! What a writer takes, and the bytes that it makes of it.

use std::io::Write;

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileError, HFileReader, HFileWriter, HFileWriterOptions};

use crate::linear::{numbered, scan};

fn writer() -> HFileWriter<Vec<u8>> {
    HFileWriter::new(Vec::new(), HFileWriterOptions::default())
}

#[test]
fn keys_come_sorted_and_once() {
    let mut writer = writer();
    writer.append(b"b", b"1").unwrap();
    for key in ["a", "b", ""] {
        assert!(matches!(writer.append(key.as_bytes(), b"2"), Err(HFileError::UnsortedKeys { position: 1 })));
    }
    // By their bytes, which differs from the order of Java's strings.
    writer.append("\u{e000}".as_bytes(), b"2").unwrap();
    writer.append("\u{10000}".as_bytes(), b"3").unwrap();
    let reader = HFileReader::open(Bytes::from(writer.finish().unwrap())).unwrap();
    assert_eq!(scan(&reader).unwrap().len(), 3);
}

#[test]
fn the_first_key_may_be_empty() {
    let mut writer = writer();
    writer.append(b"", b"1").unwrap();
    assert!(writer.append(b"", b"2").is_err());
}

#[test]
fn keys_that_java_cannot_read_are_refused() {
    let error = writer().append(&vec![b'k'; 32_768], b"").unwrap_err();
    assert!(matches!(error, HFileError::TooLong { what: "key", bytes: 32_768, limit: 32_767 }), "{error}");
}

#[test]
fn what_the_writer_sets_is_reserved() {
    for name in ["hfile.LASTKEY", "hfile.AVG_KEY_LEN", "KEY_VALUE_VERSION", "hfile.CREATE_TIME_TS"] {
        assert!(matches!(writer().set_file_info(name, "x"), Err(HFileError::ReservedName(found)) if found == name));
    }
}

#[test]
fn file_info() {
    let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().create_time(0x0102_0304_0506));
    for (key, value) in [("a", "12"), ("bbb", "123"), ("cccc", "")] {
        writer.append(key.as_bytes(), value.as_bytes()).unwrap();
    }
    writer.set_file_info("schema", "first").unwrap();
    writer.set_file_info("schema", "second").unwrap();
    let reader = HFileReader::open(Bytes::from(writer.finish().unwrap())).unwrap();
    for (name, value) in [
        ("schema", b"second".as_slice()),
        ("hfile.LASTKEY", b"\0\x04cccc"),
        ("hfile.AVG_KEY_LEN", b"\0\0\0\x02"),
        ("hfile.AVG_VALUE_LEN", b"\0\0\0\x01"),
        ("KEY_VALUE_VERSION", b"\0\0\0\x01"),
        ("MAX_MEMSTORE_TS_KEY", b"\0\0\0\0\0\0\0\0"),
        ("hfile.CREATE_TIME_TS", b"\0\0\x01\x02\x03\x04\x05\x06"),
    ] {
        assert_eq!(reader.file_info(name).map(|found| found.to_vec()), Some(value.to_vec()), "{name}");
    }
}

/// A file with one block, byte by byte as Hudi 1.2.0 writes it.
#[test]
fn the_bytes_of_a_file() {
    let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().codec(Codec::None));
    writer.append(b"a", b"one").unwrap();
    writer.append(b"b", b"two").unwrap();
    writer.add_meta_block("bloomFilter", "hello").unwrap();
    let file = writer.finish().unwrap();
    let entry = |key: &str, value: &str| {
        let lead = b"\0\0\0\x0d\0\0\0\x03\0\x01";
        [lead, key.as_bytes(), b"\0\x7f\xff\xff\xff\xff\xff\xff\xff\x04", value.as_bytes(), b"\0"].concat()
    };
    let none = [0xff; 8];
    let data = [
        b"DATABLK*\0\0\0\x36\0\0\0\x32".as_slice(),
        &none,
        b"\0\0\0\x40\0\0\0\0\x53",
        &entry("a", "one"),
        &entry("b", "two"),
        b"\0\0\0\0",
    ];
    let meta = [b"METABLKc\0\0\0\x09\0\0\0\x05".as_slice(), &none, b"\0\0\0\x40\0\0\0\0\x26hello\0\0\0\0"];
    let root = [
        b"IDXROOT2\0\0\0\x14\0\0\0\x10".as_slice(),
        &none,
        b"\0\0\0\x40\0\0\0\0\x31\0\0\0\0\0\0\0\0\0\0\0\x57\x03\0\x01a\0\0\0\0",
    ];
    let meta_index = [
        b"IDXROOT2\0\0\0\x1c\0\0\0\x18".as_slice(),
        &none,
        b"\0\0\0\x40\0\0\0\0\x39\0\0\0\0\0\0\0\x57\0\0\0\x2a\x0bbloomFilter\0\0\0\0",
    ];
    let expected = [data.concat(), meta.concat(), root.concat(), meta_index.concat(), b"FILEINF2".to_vec()].concat();
    assert_eq!(file[..expected.len()], expected);
    assert_eq!(file[file.len() - 4096..][..8], *b"TRABLK\"$");
    assert_eq!(file[file.len() - 5..], [0, 0, 0, 0, 3]);
}

#[test]
fn blocks_end_at_their_size() {
    // An entry has 18 + 20 + 21 = 59 bytes.
    for (block_bytes, per_block) in [(58, 1), (59, 1), (117, 1), (118, 2), (1 << 20, 100)] {
        let options = HFileWriterOptions::default().block_bytes(block_bytes);
        let mut writer = HFileWriter::new(Vec::new(), options);
        for (key, value) in numbered(100) {
            writer.append(&key, &value).unwrap();
        }
        let reader = HFileReader::open(Bytes::from(writer.finish().unwrap())).unwrap();
        let counts: Vec<usize> = reader.data_blocks().unwrap().map(|block| block.unwrap().count()).collect();
        assert_eq!(counts, vec![per_block; 100 / per_block]);
    }
}

/// Hudi's reader loses entries at the end of a block that are shorter than its checksums.
#[test]
fn a_block_of_any_size_has_one_checksum() {
    for (length, covered) in [(0, 1 << 14), (16_000, 1 << 14), (17_000, 1 << 15), (3_000_000, 1 << 22)] {
        let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().codec(Codec::None));
        writer.append(b"a", &vec![7; length]).unwrap();
        let file = writer.finish().unwrap();
        let number = |at: usize| u32::from_be_bytes(file[at..at + 4].try_into().unwrap()) as usize;
        assert_eq!((number(8), number(25), number(29)), (length + 22 + 4, covered, 33 + length + 22));
    }
}

struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or_else(|| std::io::Error::other("full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_output_that_fails_is_an_error() {
    for room in [0, 500, 5_000] {
        let mut writer = HFileWriter::new(Full(room), HFileWriterOptions::default().block_bytes(300));
        let appended = numbered(300).iter().try_for_each(|(key, value)| writer.append(key, value));
        let error = appended.and_then(|()| writer.finish().map(drop)).unwrap_err();
        assert!(matches!(&error, HFileError::Io(e) if e.to_string() == "full"), "{error}");
    }
}
