//! A whole log file: the frames of its blocks, and what each of them holds.
#![no_main]

use hoodoo::file_group::log::order_blocks;
use hoodoo::format::log::BlockKind;
use hoodoo_fuzz::{blocks, read_block};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: hoodoo_fuzz::panics_are_errors(), |data: &[u8]| {
    let (file, found) = blocks(data);
    for block in &found {
        read_block(&file, block);
    }
    let order = order_blocks(&found.iter().collect::<Vec<_>>(), |_| true);
    assert!(order.iter().all(|place| *place < found.len()));
    // A writer that dies within the last block takes nothing from the whole ones before it.
    if let Some((last, before)) = found.split_last() {
        let (_, cut) = blocks(&data[..last.range.end as usize - 1]);
        let whole = before.iter().take_while(|block| block.kind != BlockKind::Corrupt).count();
        assert_eq!(cut.get(..whole), Some(&before[..whole]));
    }
});
