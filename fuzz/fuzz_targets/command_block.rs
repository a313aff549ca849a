//! Command blocks between data blocks: which blocks are left to be applied. The input is split at zeros into the headers
//! of blocks.
#![no_main]

use hoodoo::file_group::log::order_blocks;
use hoodoo::format::log::BlockKind;
use hoodoo_fuzz::{blocks, frame};
use libfuzzer_sys::fuzz_target;

const KINDS: [BlockKind; 4] = [BlockKind::Command, BlockKind::Delete, BlockKind::AvroData, BlockKind::CdcData];

fuzz_target!(|data: &[u8]| {
    let mut file = Vec::new();
    for block in data.split(|byte| *byte == 0).take(64) {
        let Some((what, rest)) = block.split_first() else { continue };
        let text = String::from_utf8_lossy(rest);
        let parts: Vec<&str> = text.split('/').collect();
        // Keys of headers: the instant, its target, the command, the instants that it stands for.
        let header: Vec<(i32, &str)> = [0, 1, 3, 4].into_iter().zip(parts).filter(|(_, part)| *part != "-").collect();
        file.extend(frame(KINDS[usize::from(*what) % KINDS.len()], &header, b""));
    }
    let (_, found) = blocks(&file);
    assert!(found.iter().all(|block| block.kind != BlockKind::Corrupt));
    let places = order_blocks(&found.iter().collect::<Vec<_>>(), |_| true);
    let mut once = places.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), places.len(), "a block is applied once");
    for place in &places {
        assert!(matches!(found[*place].kind, BlockKind::Delete | BlockKind::AvroData));
    }
    assert!(order_blocks(&found.iter().collect::<Vec<_>>(), |_| false).is_empty());
});
