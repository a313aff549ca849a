//! How often a reader calls its source, and for which bytes.

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileReader, HFileReaderOptions, HFileWriter, HFileWriterOptions};

use crate::counting::Counting;
use crate::linear::{Pair, found, numbered, scan};
use crate::maker::Maker;

/// A file with ten entries in each of its blocks of the same size.
fn file(entries: &[Pair]) -> Vec<u8> {
    let options = HFileWriterOptions::default().codec(Codec::None).block_bytes(10 * (18 + 20 + 21));
    let mut writer = HFileWriter::new(Vec::new(), options);
    entries.iter().try_for_each(|(key, value)| writer.append(key, value)).unwrap();
    writer.add_meta_block("bloomFilter", vec![7; 1000]).unwrap();
    writer.finish().unwrap()
}

#[test]
fn opening_reads_the_tail_once() {
    let entries = numbered(3_000);
    let file = file(&entries);
    let reader = HFileReader::open(Counting::new(&file)).unwrap();
    let size = file.len() as u64;
    let source = Counting::new(&file);
    drop(HFileReader::open(&source).unwrap());
    assert_eq!(source.take(), [[size - 65_536..size]]);
    assert_eq!(reader.entry_count(), 3_000);
}

#[test]
fn a_long_index_takes_one_more_read() {
    let entries = numbered(3_000);
    let file = file(&entries);
    let source = Counting::new(&file);
    let options = HFileReaderOptions::default().tail_bytes(1);
    let reader = HFileReader::open_with(&source, &options).unwrap();
    let size = file.len() as u64;
    let calls = source.take();
    assert_eq!(calls[0], [size - 4096..size]);
    assert_eq!(calls[1].len(), 1);
    assert_eq!(calls[1][0].end, size - 4096);
    assert_eq!(calls.len(), 2);
    assert_eq!(scan(&reader).unwrap(), entries);
}

#[test]
fn a_small_file_is_read_once() {
    let source = Counting::new(&file(&numbered(10)));
    let reader = HFileReader::open(&source).unwrap();
    assert_eq!(source.take().len(), 1);
    assert_eq!(scan(&reader).unwrap().len(), 10);
}

#[test]
fn a_lookup_reads_the_blocks_that_it_needs() {
    let entries = numbered(3_000);
    let source = Counting::new(&file(&entries));
    let reader = HFileReader::open(&source).unwrap();
    source.take();
    let block = 33 + 10 * 59 + 4;
    assert!(reader.get(&entries[123].0).unwrap().is_some());
    assert_eq!(source.take(), [[12 * block..13 * block]]);
    // The first key of a block needs no other block.
    assert!(reader.get(&entries[120].0).unwrap().is_some());
    assert_eq!(source.take(), [[12 * block..13 * block]]);
    // Blocks 5 and 6 adjoin, block 6 is needed twice, block 9 lies apart; the last key is too large for the file.
    let keys = [entries[55].0.clone(), entries[61].0.clone(), entries[69].0.clone(), entries[90].0.clone(), vec![b'z']];
    assert_eq!(found(reader.get_many(&keys).unwrap()).unwrap().len(), 4);
    assert_eq!(source.take(), [[5 * block..7 * block, 9 * block..10 * block]]);
    // The block before the first key with a prefix is needed: it may end with such keys.
    for (prefix, entries, blocks) in
        [("hudi-key-00000001", 10, 0..2), ("hudi-key-000000012", 1, 1..2), ("hudi-key-0000012", 100, 119..130)]
    {
        assert_eq!(found(reader.prefix(&prefix).unwrap()).unwrap().len(), entries);
        assert_eq!(source.take(), [[blocks.start * block..blocks.end * block]], "{prefix}");
    }
}

#[test]
fn keys_outside_of_the_file_read_nothing() {
    let source = Counting::new(&file(&numbered(300)));
    let reader = HFileReader::open(&source).unwrap();
    source.take();
    for key in ["", "a", "hudi-key-000000300", "z"] {
        assert_eq!(reader.get(key.as_bytes()).unwrap(), None);
    }
    assert_eq!(found(reader.prefixes(&["a", "z"]).unwrap()).unwrap(), []);
    assert_eq!(found(reader.get_many(&[] as &[&str]).unwrap()).unwrap(), []);
    assert_eq!(source.take().len(), 0);
}

#[test]
fn a_meta_block_is_read_alone() {
    let source = Counting::new(&file(&numbered(300)));
    let reader = HFileReader::open(&source).unwrap();
    source.take();
    assert_eq!(reader.meta_block("bloomFilter").unwrap().unwrap(), vec![7; 1000]);
    let calls = source.take();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0][0].end - calls[0][0].start, 33 + 1000 + 4);
}

#[test]
fn all_blocks_are_read_in_large_ranges() {
    let entries = numbered(300_000);
    let source = Counting::new(&file(&entries));
    let reader = HFileReader::open(&source).unwrap();
    source.take();
    assert_eq!(scan(&reader).unwrap(), entries);
    let calls = source.take();
    assert_eq!(calls.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
}

#[test]
fn a_lookup_in_several_levels_reads_one_node_of_each() {
    let entries = numbered(64);
    let source = Counting::new(&Maker { levels: 3, ..Maker::default() }.make(&entries));
    let reader = HFileReader::open(&source).unwrap();
    source.take();
    assert!(reader.get(&entries[33].0).unwrap().is_some());
    let calls = source.take();
    assert!(calls.len() == 3 && calls.iter().all(|ranges| ranges.len() == 1), "{calls:?}");
}

#[test]
fn readers_can_be_shared_and_sent_between_threads() {
    fn shared<T: Send + Sync>(_: &T) {}
    fn sent<T: Send>(_: &T) {}
    let reader = HFileReader::open(Bytes::from(file(&numbered(30)))).unwrap();
    shared(&reader);
    sent(&reader.data_blocks().unwrap());
    sent(&reader.prefix(&"a").unwrap());
    sent(&HFileWriter::new(Vec::new(), HFileWriterOptions::default()));
}
