#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use proptest::prelude::*;
use serde::Deserialize;

use super::*;
use hoodoo_runtime::error::{Error, ErrorKind, Result};

/// A block by the table of the module's documentation, independent of the reader.
fn encode(kind: i32, header: &[(i32, &str)], content: &[u8]) -> Vec<u8> {
    let mut inside = Vec::new();
    inside.extend(1i32.to_be_bytes());
    inside.extend(kind.to_be_bytes());
    inside.extend(i32::try_from(header.len()).unwrap().to_be_bytes());
    for (key, text) in header {
        inside.extend(key.to_be_bytes());
        inside.extend(i32::try_from(text.len()).unwrap().to_be_bytes());
        inside.extend(text.as_bytes());
    }
    inside.extend((content.len() as u64).to_be_bytes());
    inside.extend(content);
    inside.extend(0i32.to_be_bytes());
    let size = inside.len() as u64 + 8;
    let mut block = MAGIC.to_vec();
    block.extend(size.to_be_bytes());
    block.extend(inside);
    block.extend((size + 6).to_be_bytes());
    block
}

fn records(records: &[&[u8]]) -> Vec<u8> {
    let mut content = 3i32.to_be_bytes().to_vec();
    content.extend(u32::try_from(records.len()).unwrap().to_be_bytes());
    for record in records {
        content.extend(u32::try_from(record.len()).unwrap().to_be_bytes());
        content.extend(*record);
    }
    content
}

fn read(bytes: &[u8]) -> (Vec<Block>, Option<Error>) {
    let file = LogFile::new(Bytes::copy_from_slice(bytes));
    let mut blocks = Vec::new();
    for block in file.blocks() {
        match block {
            Ok(block) => blocks.push(block),
            Err(e) => return (blocks, Some(e)),
        }
    }
    (blocks, None)
}

/// Reads all that can be read; whatever the bytes are, it ends, and every range lies within them.
fn read_to_the_end(bytes: &[u8]) -> usize {
    let file = LogFile::new(Bytes::copy_from_slice(bytes));
    let (mut at, mut seen) = (0, 0);
    for block in file.blocks() {
        let Ok(block) = block else { continue };
        assert!(block.range.start == at && block.range.end > at, "blocks lie behind each other: {block:?}");
        assert!(block.content.start >= block.range.start && block.content.end <= block.range.end);
        at = block.range.end;
        seen += 1;
        let content = file.content(&block).unwrap();
        if let Ok(records) = AvroRecords::new(&content) {
            let sizes: usize = records.flatten().map(<[u8]>::len).sum();
            assert!(sizes <= content.len());
        }
    }
    assert!(at <= bytes.len() as u64);
    seen
}

fn sample() -> Vec<u8> {
    let mut file = encode(3, &[(0, "20260101000000000"), (2, "\"bytes\"")], &records(&[b"one", b"", b"three"]));
    file.extend(encode(0, &[(0, "3"), (1, "2"), (3, "0"), (77, "new")], b""));
    file.extend(encode(1, &[(0, "4")], b"keys"));
    file
}

#[test]
fn blocks_come_with_headers_and_contents() {
    let bytes = sample();
    let file = LogFile::new(Bytes::from(bytes.clone()));
    let blocks: Vec<Block> = file.blocks().collect::<Result<_>>().unwrap();
    assert_eq!(
        blocks.iter().map(|b| b.kind).collect::<Vec<_>>(),
        [BlockKind::AvroData, BlockKind::Command, BlockKind::Delete]
    );
    assert_eq!(blocks[0].header(HeaderKey::InstantTime), Some("20260101000000000"));
    assert_eq!(AvroRecords::schema(&blocks[0]).unwrap(), "\"bytes\"");
    assert_eq!(AvroRecords::schema(&blocks[1]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(blocks[1].header(HeaderKey::Other(77)), Some("new"));
    assert_eq!(file.content(&blocks[2]).unwrap().as_ref(), b"keys");
    let content = file.content(&blocks[0]).unwrap();
    let found: Vec<&[u8]> = AvroRecords::new(&content).unwrap().collect::<Result<_>>().unwrap();
    assert_eq!(found, [b"one".as_slice(), b"", b"three"]);
    assert_eq!(blocks[2].range.end, bytes.len() as u64);
    assert!(read(b"").0.is_empty() && read(b"#HUD").1.is_none());
}

#[test]
fn what_is_cut_off_is_one_corrupt_block() {
    let bytes = sample();
    let ends: Vec<usize> = read(&bytes).0.iter().map(|b| usize::try_from(b.range.end).unwrap()).collect();
    for cut in 0..bytes.len() {
        let (blocks, error) = read(&bytes[..cut]);
        assert!(error.is_none(), "cut at {cut}: {error:?}");
        let whole = ends.iter().filter(|end| **end <= cut).count();
        // A rest that is shorter than a magic is not seen at all.
        let rest = cut - ends.get(whole.wrapping_sub(1)).copied().unwrap_or(0);
        let corrupt = usize::from(rest >= MAGIC.len());
        assert_eq!(blocks.len(), whole + corrupt, "cut at {cut}");
        assert_eq!(blocks.iter().filter(|b| b.kind == BlockKind::Corrupt).count(), corrupt, "cut at {cut}");
    }
}

#[test]
fn the_next_magic_is_found_where_reads_meet() {
    for gap in (0..1400).chain((1 << 20) - 12..(1 << 20) + 12).chain([3 << 20]) {
        let mut bytes = MAGIC.to_vec();
        bytes.resize(6 + gap, b'#');
        bytes.extend(encode(1, &[], b"keys"));
        let (blocks, error) = read(&bytes);
        assert!(error.is_none());
        assert_eq!(blocks.iter().map(|b| b.kind).collect::<Vec<_>>(), [BlockKind::Corrupt, BlockKind::Delete], "{gap}");
    }
}

/// Counts what is read of it.
struct Counted(Bytes, std::sync::atomic::AtomicU64);

impl parquet::file::reader::Length for Counted {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }
}

impl parquet::file::reader::ChunkReader for Counted {
    type T = bytes::buf::Reader<Bytes>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        self.0.get_read(start)
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.1.fetch_add(length as u64, std::sync::atomic::Ordering::Relaxed);
        self.0.get_bytes(start, length)
    }
}

#[test]
fn a_file_full_of_magics_is_not_read_over_and_over() {
    let magics = MAGIC.repeat(100_000);
    let file = LogFile::new(Counted(Bytes::from(magics.clone()), Default::default()));
    assert_eq!(file.blocks().filter(|b| b.as_ref().unwrap().kind == BlockKind::Corrupt).count(), 100_000);
    assert!(file.source().1.load(std::sync::atomic::Ordering::Relaxed) < 50 * magics.len() as u64);
}

#[test]
fn a_whole_frame_with_nonsense_inside_is_an_error() {
    let patched = |at: usize, value: i32| {
        let mut bytes = encode(1, &[(0, "1")], b"keys");
        bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
        read(&bytes).1.unwrap()
    };
    assert_eq!(patched(14, 2).kind(), ErrorKind::Unsupported); // version of the format
    for (at, value) in
        [(18, 2), (18, 99), (22, -1), (22, 1 << 20), (30, -1), (30, 1 << 30), (39, -1), (39, 1 << 20), (47, 1)]
    {
        let error = patched(at, value);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{at} {value}: {error}");
    }
    assert_eq!(read(b"PAR1 and so on").1.unwrap().kind(), ErrorKind::Corrupt);
}

#[test]
fn a_decoder_goes_on_after_damaged_records() {
    // A map, which only the general decoder takes.
    let schema = r#"{"type":"record","name":"again","fields":[{"name":"m","type":{"type":"map","values":"int"}}]}"#;
    let good: &[u8] = &[2, 2, b'a', 4, 0];
    let batches = |all: &[&[u8]]| avro_batches(&records(all), schema, &["m"], 2);
    let first = batches(&[good, good, good]).unwrap();
    assert_eq!(first.iter().map(|batch| batch.num_rows()).collect::<Vec<_>>(), [2, 1]);
    // Cut off, a count of entries that nobody has, bytes behind the record, and nothing.
    for bad in [&[2, 2, b'a'][..], &[0xff, 0xff, 0xff, 0x0f, 0], &[2, 2, b'a', 4, 0, 0], &[]] {
        let failed = batches(&[good, bad, good]).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Corrupt, "{bad:?}");
        assert_eq!(batches(&[good, good, good]).unwrap(), first, "{bad:?}");
    }
}

#[test]
fn lengths_of_records_are_held_against_what_is_left() {
    let content = records(&[b"one", b"two"]);
    for cut in 0..content.len() {
        let failed = match AvroRecords::new(&content[..cut]) {
            Ok(records) => records.collect::<Result<Vec<_>>>().err(),
            Err(e) => Some(e),
        };
        assert_eq!(failed.unwrap().kind(), ErrorKind::Corrupt, "cut at {cut}");
    }
    let mut later = content.clone();
    later[3] = 4;
    assert_eq!(AvroRecords::new(&later).unwrap_err().kind(), ErrorKind::Unsupported);
    let mut many = content;
    many[4..8].copy_from_slice(&[0xff; 4]);
    assert_eq!(AvroRecords::new(&many).unwrap_err().kind(), ErrorKind::Corrupt);
}

#[derive(Deserialize)]
struct Expected {
    whole: Reading,
    damaged: Vec<Form>,
}

#[derive(Deserialize)]
struct Form {
    recipe: Recipe,
    #[serde(flatten)]
    reading: Reading,
}

/// What Hudi's reader gave.
#[derive(Deserialize)]
struct Reading {
    blocks: Vec<HudiBlock>,
    error: Option<String>,
}

#[derive(Deserialize, Debug)]
struct HudiBlock {
    kind: String,
    content_at: u64,
    content_length: u64,
    header: BTreeMap<String, String>,
}

#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Recipe {
    Cut { cut: usize },
    Replace { at: usize, byte: u8 },
    Insert { insert_at: usize, hex: String },
}

impl Recipe {
    fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        match self {
            Recipe::Cut { cut } => bytes[..*cut].to_vec(),
            Recipe::Replace { at, byte } => {
                let mut changed = bytes.to_vec();
                changed[*at] = *byte;
                changed
            }
            Recipe::Insert { insert_at, hex } => {
                let (before, behind) = bytes.split_at(*insert_at);
                let foreign = (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap());
                before.iter().copied().chain(foreign).chain(behind.iter().copied()).collect()
            }
        }
    }
}

fn kind_in_hudi(kind: BlockKind) -> &'static str {
    match kind {
        BlockKind::Command => "COMMAND_BLOCK",
        BlockKind::Delete => "DELETE_BLOCK",
        BlockKind::Corrupt => "CORRUPT_BLOCK",
        BlockKind::AvroData => "AVRO_DATA_BLOCK",
        BlockKind::HfileData => "HFILE_DATA_BLOCK",
        BlockKind::ParquetData => "PARQUET_DATA_BLOCK",
        BlockKind::CdcData => "CDC_DATA_BLOCK",
    }
}

fn key_in_hudi(key: HeaderKey) -> &'static str {
    match key {
        HeaderKey::InstantTime => "INSTANT_TIME",
        HeaderKey::TargetInstantTime => "TARGET_INSTANT_TIME",
        HeaderKey::Schema => "SCHEMA",
        HeaderKey::CommandBlockType => "COMMAND_BLOCK_TYPE",
        HeaderKey::CompactedBlockTimes => "COMPACTED_BLOCK_TIMES",
        HeaderKey::RecordPositions => "RECORD_POSITIONS",
        HeaderKey::BlockIdentifier => "BLOCK_IDENTIFIER",
        HeaderKey::IsPartial => "IS_PARTIAL",
        HeaderKey::BaseFileInstantTimeOfRecordPositions => "BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS",
        HeaderKey::Other(_) => "OTHER",
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/logs")
}

fn files() -> BTreeMap<String, (Vec<u8>, Expected)> {
    let json = std::fs::read(folder().join("expected.json")).unwrap();
    let expected: BTreeMap<String, Expected> = serde_json::from_slice(&json).unwrap();
    expected.into_iter().map(|(name, e)| (name.clone(), (std::fs::read(folder().join(name)).unwrap(), e))).collect()
}

fn same_as_hudi(what: &str, bytes: &[u8], hudi: &Reading) {
    let (ours, error) = read(bytes);
    assert_eq!(error.is_some(), hudi.error.is_some(), "{what}: {error:?}, in Hudi {:?}", hudi.error);
    assert_eq!(ours.len(), hudi.blocks.len(), "{what}");
    for (our, their) in ours.iter().zip(&hudi.blocks) {
        assert_eq!(kind_in_hudi(our.kind), their.kind, "{what}");
        let content = their.content_at..their.content_at + their.content_length;
        assert_eq!(our.content, content, "{what} {their:?}");
        let shown = |text: &String| match text.chars().count() {
            n if n < 200 => text.clone(),
            n => format!("{n} characters"),
        };
        let header: BTreeMap<String, String> =
            our.header.iter().map(|(key, text)| (key_in_hudi(*key).to_owned(), shown(text))).collect();
        assert_eq!(header, their.header, "{what}");
    }
}

#[test]
fn files_of_hudi_are_read_as_hudi_reads_them() {
    for (name, (bytes, expected)) in files() {
        same_as_hudi(&name, &bytes, &expected.whole);
    }
}

#[test]
fn damaged_files_are_read_as_hudi_reads_them() {
    for (name, (bytes, expected)) in files() {
        for form in &expected.damaged {
            same_as_hudi(&format!("{name} {:?}", form.recipe), &form.recipe.apply(&bytes), &form.reading);
        }
    }
}

#[test]
fn files_of_hudi_can_be_cut_anywhere() {
    for (name, (bytes, _)) in files() {
        let whole = read_to_the_end(&bytes);
        // Most of a large file is text of schemas.
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 8_000) {
            assert!(read_to_the_end(&bytes[..cut]) <= whole, "{name} cut at {cut}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn changed_bytes_never_panic_or_hang(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        moved in any::<prop::sample::Index>(),
    ) {
        let mut bytes = sample();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        read_to_the_end(&bytes);
        let at = moved.index(bytes.len());
        bytes.rotate_left(at);
        bytes.splice(0..0, MAGIC.iter().copied());
        read_to_the_end(&bytes);
    }

    #[test]
    fn any_bytes_never_panic_or_hang(bytes in prop::collection::vec(any::<u8>(), 0..400), lead in any::<bool>()) {
        let bytes = if lead { [MAGIC.as_slice(), &bytes].concat() } else { bytes };
        read_to_the_end(&bytes);
        if let Ok(records) = AvroRecords::new(&bytes) {
            for record in records.flatten() {
                prop_assert!(record.len() <= bytes.len());
            }
        }
    }
}
