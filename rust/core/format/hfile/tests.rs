#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

use std::io::Write;
use std::path::Path;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::*;
use crate::error::ErrorKind;

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hfiles").join(name)).unwrap()
}

fn read(bytes: &[u8]) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let file = HFile::open(Bytes::copy_from_slice(bytes))?;
    let mut found = Vec::new();
    for block in file.data_blocks() {
        found.extend(block?.entries().map(|entry| (entry.key.to_vec(), entry.value.to_vec())));
    }
    assert_eq!(found.len() as u64, file.entries());
    Ok(found)
}

fn numbered(count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    (0..count).map(|n| (format!("hudi-key-{n:09}").into_bytes(), format!("hudi-value-{n:09}").into_bytes())).collect()
}

#[test]
fn files_of_hbase() {
    assert_eq!(read(&fixture("hudi_1_0_hbase_2_4_9_16KB_GZ_20000.hfile")).unwrap(), numbered(20_000));
    assert_eq!(read(&fixture("hudi_1_0_hbase_2_4_9_64KB_NONE_5000.hfile")).unwrap(), numbered(5_000));
    assert_eq!(read(&fixture("hudi_1_0_hbase_2_4_9_no_entry.hfile")).unwrap(), []);
    let copies = read(&fixture("hudi_1_0_hbase_2_4_9_16KB_GZ_200_20_non_unique.hfile")).unwrap();
    assert_eq!(copies.len(), 4_200);
    for (number, group) in copies.chunks(21).enumerate() {
        let key = format!("hudi-key-{number:09}");
        assert!(group.iter().all(|(found, _)| found == key.as_bytes()), "{number}");
        assert_eq!(group[0].1, format!("hudi-value-{number:09}").as_bytes());
        assert_eq!(group[20].1, format!("hudi-value-{number:09}_19").as_bytes());
    }
}

#[test]
fn checksums_of_hbase_are_checked() {
    let whole = fixture("hudi_1_0_hbase_2_4_9_64KB_NONE_5000.hfile");
    // The value of an entry: nothing else would notice.
    for at in [60, 65_000, 70_000, 262_500] {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        assert_eq!(read(&changed).unwrap_err().kind(), ErrorKind::Corrupt, "{at}");
    }
}

/// A file of the given depth, by the tables of the modules' documentation and independent of the reader.
struct Maker {
    file: Vec<u8>,
    gzip: bool,
    crc32: bool,
}

impl Maker {
    fn block(&mut self, magic: &[u8; 8], content: &[u8]) -> (u64, u32) {
        let offset = self.file.len();
        let stored = if self.gzip {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(content).unwrap();
            encoder.finish().unwrap()
        } else {
            content.to_vec()
        };
        let checked = 33 + stored.len();
        let sums = checked.div_ceil(64);
        let mut block = magic.to_vec();
        block.extend(u32::try_from(stored.len() + 4 * sums).unwrap().to_be_bytes());
        block.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        block.extend((-1i64).to_be_bytes());
        block.push(u8::from(self.crc32));
        block.extend(64u32.to_be_bytes());
        block.extend(u32::try_from(checked).unwrap().to_be_bytes());
        block.extend(stored);
        let sum = |piece: &[u8]| if self.crc32 { crc32fast::hash(piece) } else { 0 };
        let sums: Vec<u8> = block.chunks(64).flat_map(|piece| sum(piece).to_be_bytes()).collect();
        block.extend(sums);
        self.file.extend_from_slice(&block);
        (offset as u64, u32::try_from(block.len()).unwrap())
    }
}

fn index_key(row: &[u8]) -> Vec<u8> {
    [&u16::try_from(row.len()).unwrap().to_be_bytes(), row].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Entries, so many in a data block, so many in an index node.
fn make(entries: &[(Vec<u8>, Vec<u8>)], gzip: bool, crc32: bool, fan_out: usize, levels: u64) -> Vec<u8> {
    let mut maker = Maker { file: Vec::new(), gzip, crc32 };
    let mut nodes: Vec<(Vec<u8>, u64, u32)> = Vec::new();
    for group in entries.chunks(fan_out) {
        let mut content = Vec::new();
        for (row, value) in group {
            content.extend(u32::try_from(row.len() + 12).unwrap().to_be_bytes());
            content.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
            content.extend(index_key(row));
            content.push(0);
            content.extend(i64::MAX.to_be_bytes());
            content.push(4);
            content.extend(value);
            content.push(0);
        }
        let (offset, length) = maker.block(b"DATABLK*", &content);
        nodes.push((index_key(&group[0].0), offset, length));
    }
    for level in 1..levels {
        let magic = if level == 1 { b"IDXLEAF2" } else { b"IDXINTE2" };
        let below = std::mem::take(&mut nodes);
        for group in below.chunks(fan_out) {
            let (mut bounds, mut body) = (vec![0u32], Vec::new());
            for (key, offset, length) in group {
                body.extend(offset.to_be_bytes());
                body.extend(length.to_be_bytes());
                body.extend(key);
                bounds.push(u32::try_from(body.len()).unwrap());
            }
            let mut content = u32::try_from(group.len()).unwrap().to_be_bytes().to_vec();
            content.extend(bounds.iter().flat_map(|bound| bound.to_be_bytes()));
            content.extend(body);
            let (offset, length) = maker.block(magic, &content);
            nodes.push((group[0].0.clone(), offset, length));
        }
    }
    let mut root = Vec::new();
    for (key, offset, length) in &nodes {
        root.extend(offset.to_be_bytes());
        root.extend(length.to_be_bytes());
        match u8::try_from(key.len()) {
            Ok(short @ 0..=127) => root.push(short),
            _ => root.extend([&[0x8e], &u16::try_from(key.len()).unwrap().to_be_bytes()[..]].concat()),
        }
        root.extend(key);
    }
    let (root_at, _) = maker.block(b"IDXROOT2", &root);
    maker.block(b"IDXROOT2", b"");
    let (info_at, _) = maker.block(b"FILEINF2", b"PBUF\0");
    let last = nodes.last().map_or(0, |(_, offset, _)| *offset);
    let mut message = Vec::new();
    for (number, value) in [
        (1, info_at),
        (2, root_at),
        (5, nodes.len() as u64),
        (7, entries.len() as u64),
        (8, levels),
        (9, 0),
        (10, last),
        (12, if gzip { 1 } else { 2 }),
    ] {
        message.extend(varint(number << 3));
        message.extend(varint(value));
    }
    let mut trailer = b"TRABLK\"$".to_vec();
    trailer.extend(varint(message.len() as u64));
    trailer.extend(message);
    trailer.resize(4092, 0);
    trailer.extend(3u32.to_be_bytes());
    maker.file.extend(trailer);
    maker.file
}

#[test]
fn indexes_of_several_levels() {
    let mut entries = numbered(60);
    entries.push((vec![b'z'; 300], Vec::new()));
    for levels in 1..=4 {
        for (gzip, crc32) in [(false, false), (true, false), (false, true), (true, true)] {
            let file = make(&entries, gzip, crc32, 4, levels);
            assert_eq!(read(&file).unwrap(), entries, "{levels} {gzip} {crc32}");
        }
    }
    let one_more = [make(&numbered(9), false, false, 4, 1), Vec::new()].concat();
    let entries_field = one_more.windows(2).rposition(|w| w == [7 << 3, 9]).unwrap() + 1;
    for count in [8, 10] {
        let mut changed = one_more.clone();
        changed[entries_field] = count;
        assert_eq!(read(&changed).unwrap_err().kind(), ErrorKind::Corrupt, "{count}");
    }
}

/// For a look with another reader: `HFILE_FOLDER=… cargo test files_for_other_readers -- --ignored`.
#[test]
#[ignore = "writes files for another reader"]
fn files_for_other_readers() {
    let folder = std::env::var("HFILE_FOLDER").unwrap();
    for levels in 1..=4 {
        let file = make(&numbered(60), levels % 2 == 0, false, 4, levels);
        std::fs::write(Path::new(&folder).join(format!("levels_{levels}.hfile")), file).unwrap();
    }
}

#[test]
fn blocks_that_are_named_twice_are_refused() {
    let entries = numbered(8);
    let file = make(&entries, false, false, 4, 1);
    let root = file.windows(8).rposition(|w| w == b"IDXROOT2").unwrap();
    let root = file[..root].windows(8).rposition(|w| w == b"IDXROOT2").unwrap() + 33;
    let length = 12 + 1 + 2 + entries[0].0.len();
    let (mut twice, mut swapped) = (file.clone(), file.clone());
    twice.copy_within(root..root + 12, root + length);
    swapped.copy_within(root..root + length, root + length);
    swapped[root..root + length].copy_from_slice(&file[root + length..root + 2 * length]);
    for changed in [twice, swapped] {
        assert_eq!(read(&changed).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

#[test]
fn every_cut_is_noticed() {
    let file = make(&numbered(30), true, false, 4, 3);
    for cut in 0..file.len() {
        assert!(read(&file[..cut]).is_err(), "{cut}");
        assert!(read(&file[cut + 1..]).is_err(), "{cut}");
    }
}

#[test]
fn no_changed_byte_changes_entries_where_there_are_checksums() {
    for (gzip, levels) in [(false, 3), (true, 2)] {
        let entries = numbered(30);
        let file = make(&entries, gzip, true, 4, levels);
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                if let Ok(found) = read(&changed) {
                    // What says that there are no checksums cannot be covered by them.
                    assert!(
                        found == entries,
                        "byte {at} bit {bit} of {} gzip {gzip}: {} entries",
                        file.len(),
                        found.len()
                    );
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn changed_bytes_never_panic(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        gzip in any::<bool>(),
        levels in 1..4u64,
    ) {
        let mut file = make(&numbered(20), gzip, false, 4, levels);
        // The zeros of the trailer are of no use here.
        let interesting = file.len() - 4000;
        for (at, byte) in edits {
            let at = at.index(interesting);
            file[at] = byte;
        }
        let _ = read(&file);
    }
}
