//! Files that are cut off or changed: errors, never a panic, and never other entries where there are checksums.

use bytes::Bytes;
use hoodoo_hfile::{HFileError, HFileReader, HFileReaderOptions, HFileWriter, HFileWriterOptions};
use proptest::prelude::*;

use crate::linear::{Pair, found, numbered, read, scan};
use crate::maker::Maker;

/// Everything that can be read.
fn read_all(bytes: &[u8]) -> Result<Vec<Pair>, HFileError> {
    let options = HFileReaderOptions::default().tail_bytes(4_200);
    let reader = HFileReader::open_with(Bytes::copy_from_slice(bytes), &options)?;
    let _ = reader.meta_block("bloomFilter");
    let keys: Vec<Vec<u8>> = numbered(20).into_iter().step_by(3).map(|(key, _)| key).collect();
    let some = reader.get_many(&keys).and_then(found);
    let with_prefix = reader.prefix(b"hudi-key-00000001").and_then(found);
    let all = scan(&reader)?;
    drop((some, with_prefix));
    Ok(all)
}

fn of_the_writer(gzip: bool) -> Vec<u8> {
    let codec = if gzip { hoodoo_hfile::Codec::Gzip } else { hoodoo_hfile::Codec::None };
    let mut writer = HFileWriter::new(Vec::new(), HFileWriterOptions::default().block_bytes(300).codec(codec));
    numbered(20).iter().try_for_each(|(key, value)| writer.append(key, value)).unwrap();
    writer.add_meta_block("bloomFilter", "content").unwrap();
    writer.finish().unwrap()
}

#[test]
fn every_cut_is_noticed() {
    for file in [Maker { gzip: true, levels: 3, ..Maker::default() }.make(&numbered(30)), of_the_writer(true)] {
        for cut in 0..file.len() {
            assert!(read_all(&file[..cut]).is_err(), "{cut}");
            assert!(read_all(&file[cut + 1..]).is_err(), "{cut}");
        }
    }
}

#[test]
fn no_flipped_bit_changes_entries_where_there_are_checksums() {
    for (gzip, levels, checksum) in [(false, 3, 1), (true, 2, 2)] {
        let entries = numbered(30);
        let file = Maker { gzip, checksum, levels, ..Maker::default() }.make(&entries);
        let trailer = file.len() - 4096;
        let (mut read, mut refused) = (0, 0);
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                match read_all(&changed) {
                    Ok(found) => {
                        // Zeros of the trailer, the offset of the previous block of the meta index, and the like.
                        assert!(found == entries, "byte {at} bit {bit} of {}", file.len());
                        read += 1;
                    }
                    Err(_) => refused += 1,
                }
                let covered = at < trailer;
                assert!(!covered || read == 0, "byte {at} bit {bit} of {}: no error", file.len());
            }
        }
        assert!(refused > 8 * trailer && read > 0);
    }
}

#[test]
fn no_flipped_bit_panics() {
    for gzip in [false, true] {
        let file = of_the_writer(gzip);
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut changed = file.clone();
                changed[at] ^= 1 << bit;
                let _ = read_all(&changed);
            }
        }
    }
}

#[test]
fn blocks_that_are_named_twice_are_refused() {
    let entries = numbered(8);
    let file = Maker::default().make(&entries);
    let root = file.windows(8).position(|found| found == b"IDXROOT2").unwrap() + 33;
    let length = 12 + 1 + 2 + entries[0].0.len();
    let (mut twice, mut swapped) = (file.clone(), file.clone());
    twice.copy_within(root..root + 12, root + length);
    swapped.copy_within(root..root + length, root + length);
    swapped[root..root + length].copy_from_slice(&file[root + length..root + 2 * length]);
    for changed in [twice, swapped] {
        assert!(matches!(read(&changed).unwrap_err(), HFileError::Corrupt { .. }));
    }
}

#[test]
fn another_number_of_entries_is_noticed() {
    let file = Maker::default().make(&numbered(9));
    let field = file.windows(2).rposition(|found| found == [7 << 3, 9]).unwrap() + 1;
    for count in [0, 8, 10] {
        let mut changed = file.clone();
        changed[field] = count;
        assert!(matches!(read(&changed).unwrap_err(), HFileError::Corrupt { .. }), "{count}");
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
        let mut file = Maker { gzip, levels, ..Maker::default() }.make(&numbered(20));
        // The zeros of the trailer are of no use here.
        let interesting = file.len() - 4000;
        for (at, byte) in edits {
            let at = at.index(interesting);
            file[at] = byte;
        }
        let _ = read_all(&file);
    }
}
