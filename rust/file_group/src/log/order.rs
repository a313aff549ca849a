//! Which blocks of a slice's log files are applied, and in which order. Pure: takes headers, returns indexes.
//!
//! Source: `BaseHoodieLogRecordReader.scanInternalV2` of Hudi 1.2.

use std::collections::HashMap;

use hoodoo_format::log::{Block, BlockKind, HeaderKey};

/// The header of a block that may have records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry<'a> {
    index: usize,
    instant: &'a str,
    compacted: Option<&'a str>,
}

/// Returns the indexes of the blocks to apply, in order. `counts` says whether an instant is complete and not later
/// than the time of the read.
///
/// Blocks are ordered by the first appearance of their instant. A rollback block removes earlier blocks of its target.
/// The blocks of a log compaction replace those of the instants that it lists, at the position of the latest of these.
pub fn order_blocks(blocks: &[&Block], counts: impl Fn(&str) -> bool) -> Vec<usize> {
    let mut groups: Vec<(&str, Vec<Entry<'_>>)> = Vec::new();
    for (index, block) in blocks.iter().enumerate() {
        let instant = block.header(HeaderKey::InstantTime).unwrap_or_default();
        match block.kind {
            BlockKind::Corrupt | BlockKind::CdcData => {}
            BlockKind::Command => {
                let is_rollback = block.header(HeaderKey::CommandBlockType).is_none_or(|kind| kind == "0");
                if let (true, Some(target)) = (is_rollback, block.header(HeaderKey::TargetInstantTime)) {
                    groups.retain(|(instant, _)| *instant != target);
                }
            }
            BlockKind::Delete | BlockKind::AvroData | BlockKind::HfileData | BlockKind::ParquetData => {
                if !counts(instant) {
                    continue;
                }
                let compacted = block.header(HeaderKey::CompactedBlockTimes);
                let entry = Entry { index, instant, compacted };
                match groups.iter_mut().find(|(known, _)| *known == instant) {
                    Some((_, group)) => group.push(entry),
                    None => groups.push((instant, vec![entry])),
                }
            }
        }
    }
    put_compacted_in(&groups)
}

fn put_compacted_in(groups: &[(&str, Vec<Entry<'_>>)]) -> Vec<usize> {
    let lists = |group: &[Entry<'_>]| group.first().and_then(|e| e.compacted.map(str::to_owned));
    let blocks_of = |wanted: &str| groups.iter().find(|(instant, _)| *instant == wanted).map(|(_, group)| group);
    // From the last to the first, so that a compaction of a compaction comes before the compactions that it lists.
    let mut stands_in: HashMap<String, &str> = HashMap::new();
    let mut taken: Vec<&str> = Vec::new();
    for (instant, group) in groups.iter().rev() {
        if let Some(listed) = lists(group) {
            let newest = stands_in.get(*instant).copied().unwrap_or(instant);
            for original in listed.split(',').map(str::trim).filter(|t| !t.is_empty()) {
                stands_in.insert(original.to_owned(), newest);
            }
            // Hudi would lose its records if none of the listed instants existed any more.
            let orphan = !listed.split(',').any(|t| blocks_of(t.trim()).is_some());
            if orphan && newest == *instant {
                taken.push(instant);
            }
            continue;
        }
        let wanted = stands_in.get(*instant).copied().unwrap_or(instant);
        if !taken.contains(&wanted) {
            taken.push(wanted);
        }
    }
    taken.iter().rev().filter_map(|instant| blocks_of(instant)).flatten().map(|entry| entry.index).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeMap;

    fn block(kind: BlockKind, header: &[(HeaderKey, &str)]) -> Block {
        let header: BTreeMap<HeaderKey, String> = header.iter().map(|(k, v)| (*k, (*v).to_owned())).collect();
        Block { kind, range: 0..0, header, footer: BTreeMap::new(), content: 0..0, checksum: None }
    }

    fn data(instant: &str) -> Block {
        block(BlockKind::AvroData, &[(HeaderKey::InstantTime, instant)])
    }

    fn compaction(instant: &str, of: &str) -> Block {
        block(BlockKind::AvroData, &[(HeaderKey::InstantTime, instant), (HeaderKey::CompactedBlockTimes, of)])
    }

    fn rollback(of: &str) -> Block {
        block(
            BlockKind::Command,
            &[(HeaderKey::InstantTime, "99"), (HeaderKey::TargetInstantTime, of), (HeaderKey::CommandBlockType, "0")],
        )
    }

    fn order(blocks: &[Block]) -> Vec<usize> {
        order_blocks(&blocks.iter().collect::<Vec<_>>(), |t| t != "7")
    }

    #[test]
    fn instants_stay_together_in_the_order_of_their_first_block() {
        let blocks = [data("2"), data("1"), data("2"), block(BlockKind::Delete, &[(HeaderKey::InstantTime, "1")])];
        assert_eq!(order(&blocks), [0, 2, 1, 3]);
    }

    #[test]
    fn what_does_not_count_is_left_out() {
        let corrupt = block(BlockKind::Corrupt, &[]);
        assert_eq!(order(&[data("1"), corrupt, data("7"), data("2")]), [0, 3]);
    }

    #[test]
    fn a_rollback_takes_what_came_before_it() {
        assert_eq!(order(&[data("1"), data("2"), rollback("1"), data("1"), data("3")]), [1, 3, 4]);
    }

    #[test]
    fn a_log_compaction_stands_in_for_what_it_lists() {
        // At the position of the latest one that it lists.
        assert_eq!(order(&[data("1"), data("2"), data("3"), compaction("4", "1,2")]), [3, 2]);
        // A compaction of a compaction.
        let twice = [data("1"), data("2"), compaction("3", "1,2"), data("4"), compaction("5", "3,4")];
        assert_eq!(order(&twice), [4]);
        // Nothing of what it lists is there.
        assert_eq!(order(&[data("4"), compaction("5", "1,2")]), [0, 1]);
    }
}
