//! Entries that are written as an HFile, and read again. The first byte has the codec and the size of blocks; then come
//! lengths of a key and a value, and their bytes.
#![no_main]

use bytes::Bytes;
use hoodoo_hfile::{Codec, HFileReader, HFileWriter, HFileWriterOptions};
use libfuzzer_sys::fuzz_target;

fn entry(data: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let ([key, value], rest) = data.split_first_chunk::<2>()?;
    let (key, rest) = rest.split_at_checked(usize::from(*key))?;
    let (value, rest) = rest.split_at_checked(usize::from(*value))?;
    Some((key, value, rest))
}

fuzz_target!(|data: &[u8]| {
    let Some((first, mut rest)) = data.split_first() else { return };
    let codec = if first & 1 == 0 { Codec::None } else { Codec::Gzip };
    let options = HFileWriterOptions::default().codec(codec).block_bytes(usize::from(*first) * 8);
    let mut writer = HFileWriter::new(Vec::new(), options);
    let mut entries: Vec<(&[u8], &[u8])> = Vec::new();
    while let Some((key, value, after)) = entry(rest) {
        rest = after;
        let sorted = entries.last().is_none_or(|(last, _)| *last < key);
        assert_eq!(writer.append(key, value).is_ok(), sorted);
        if sorted {
            entries.push((key, value));
        }
    }
    writer.add_meta_block("rest", rest).expect("a meta block");
    let file = Bytes::from(writer.finish().expect("writing to memory"));
    let reader = HFileReader::open(file).expect("what is written can be read");
    assert_eq!(reader.meta_block("rest").expect("a meta block").as_deref(), Some(rest));
    let mut expected = entries.iter();
    for block in reader.data_blocks().expect("an index of one level") {
        for entry in block.expect("a data block").entries() {
            assert_eq!(Some(&(entry.key, entry.value)), expected.next());
        }
    }
    assert_eq!(expected.next(), None);
    let keys: Vec<&[u8]> = entries.iter().step_by(3).map(|(key, _)| *key).collect();
    let found = reader.get_many(&keys).expect("sorted keys").map(|block| block.expect("a data block").count());
    assert_eq!(found.sum::<usize>(), keys.len());
});
