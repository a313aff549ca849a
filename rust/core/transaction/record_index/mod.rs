//! Which keys an action put somewhere else: what the record index of the metadata table has to learn.
//!
//! | what was written | keys |
//! |---|---|
//! | a base file of a new file group | all of them are there now |
//! | a base file in place of another | those that the other lacks are there now, those that only the other has are gone |
//! | log files | deleted ones are gone, deleted ones that were written anew are back |
//! | the base file of a compaction | those are back of which newer log files have a row, and whose delete it carried out |
//! | file groups that were replaced as a whole | all of them are gone |
//!
//! A key that is gone here and there now elsewhere has moved. This is found out before the table lock is taken, and does not
//! depend on how the write found its keys.

mod difference;
mod logs;
mod shard_count;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::array::{Array, StringArray};

pub(super) use self::difference::added_and_gone;
use self::logs::AddedLogs;
pub(super) use self::shard_count::{record_index_shards, shard_count};
use crate::error::{Error, Result};
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::format::avro::metadata::WriteStat;
use crate::metadata_table::record_index_shards::RecordIndexShards;
use crate::metadata_table::write::record_index::{KeyCollector, Location};
use crate::metadata_table::write::{KeyChanges, KeyWrites};
use crate::parallel::run_parallel;
use crate::storage::{FileMeta, SpillOptions};
use crate::table::{HudiTable, SliceKeys, TableView};
use crate::timeline::parse_instant_ms;

/// Shards of a data partition that is new to an index by partition.
const NEW_SHARDS: &str = "hoodie.metadata.record.level.index.min.filegroup.count";
/// The part of the memory budget that keys may take: the rows of the write may still be there.
const SHARE: usize = 4;

/// What was done to a file group.
pub(super) enum Unit {
    /// A base file was written, perhaps in place of another slice.
    Base { partition: String, new: BaseFile, before: Option<FileSlice> },
    /// Log files were added to its slice.
    Logs(AddedLogs),
    /// It was replaced.
    Replaced(FileSlice),
}

/// The keys whose location an action changed, for an index with these shards.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`.
pub(super) fn key_changes(
    table: &HudiTable,
    view: &TableView,
    requested: &str,
    shards: &RecordIndexShards,
    writes: &KeyWrites,
) -> Result<KeyChanges> {
    let known = shards.file_ids().len();
    let mut keys = KeyCollector::new(shards.clone(), new_shards(table)?, spill_options(table)?)?;
    let units = units(view, writes)?;
    keys.add_partitions(units.iter().filter_map(|unit| match unit {
        Unit::Base { partition, .. } => Some(partition.as_str()),
        _ => None,
    }));
    let written_ms = parse_instant_ms(requested, table.config().timeline().zone)
        .ok_or_else(|| Error::internal("the requested time of an action is no time").with("instant", requested))?;
    // What the action wrote is seen as well.
    let timeline = view.timeline().clone().with_archived([(requested.to_owned(), requested.to_owned())]);
    let source = SliceKeys::at(table, timeline, &writes.columns, None)?;
    let collecting = Collecting { keys, source, written_ms };
    run_parallel(units, table.threads()?, |unit| collecting.collect(&unit))?;
    collecting.keys.finish(known)
}

/// How many shards a data partition gets that is new to an index by partition.
///
/// # Errors
/// `InvalidOption`.
pub(super) fn new_shards(table: &HudiTable) -> Result<usize> {
    table.options().number(NEW_SHARDS, 1usize)
}

/// What keys may take of the memory.
pub(super) fn spill_options(table: &HudiTable) -> Result<SpillOptions> {
    let spill = table.spill_options()?;
    Ok(SpillOptions { budget: spill.budget / SHARE, ..spill })
}

/// What was done to which file group; `view` is the table before.
pub(super) fn units(view: &TableView, writes: &KeyWrites) -> Result<Vec<Unit>> {
    if let Some(planned) = &writes.compacted {
        return overtaken(view, writes, planned);
    }
    let partition_of = |stat: &WriteStat| stat.partition_path.clone().unwrap_or_default();
    let is_new = |stat: &WriteStat| stat.prev_commit.as_deref().is_none_or(|commit| commit == "null");
    let touched: BTreeSet<String> = writes.stats.iter().filter(|stat| !is_new(stat)).map(partition_of).collect();
    let mut slices: HashMap<(String, String), FileSlice> = HashMap::new();
    for partition in touched.iter().chain(writes.emptied.keys()) {
        let known = view.latest_slices(partition)?;
        slices.extend(known.into_iter().map(|slice| ((partition.clone(), slice.file_id.clone()), slice)));
    }
    let mut units = Vec::new();
    let mut logs: BTreeMap<(String, String), AddedLogs> = BTreeMap::new();
    for stat in &writes.stats {
        let (Some(path), Some(size)) = (stat.path.clone(), stat.file_size_in_bytes) else { continue };
        let file = FileMeta { path, size: u64::try_from(size).unwrap_or(0), modified_ms: 0 };
        let partition = partition_of(stat);
        if let Some(log) = LogFile::parse(&file) {
            let group = (partition, log.file_id.clone());
            let before = || slices.get(&group).cloned().unwrap_or_else(|| no_slice(&group));
            logs.entry(group.clone()).or_insert_with(|| AddedLogs::to(before())).add(log, stat);
        } else if let Some(new) = BaseFile::parse(&file).filter(|_| size > 0) {
            let group = (partition, new.file_id.clone());
            let before = slices.get(&group).cloned();
            units.push(Unit::Base { partition: group.0, new, before });
        }
    }
    units.extend(logs.into_values().map(Unit::Logs));
    for (partition, ids) in &writes.emptied {
        let replaced = ids.iter().filter_map(|id| slices.get(&(partition.clone(), id.clone())).cloned());
        units.extend(replaced.map(Unit::Replaced));
    }
    Ok(units)
}

/// The file groups of a compaction that have log files which its plan does not.
fn overtaken(view: &TableView, writes: &KeyWrites, planned: &HashSet<String>) -> Result<Vec<Unit>> {
    let mut units = Vec::new();
    let mut slices: HashMap<String, Vec<FileSlice>> = HashMap::new();
    for stat in &writes.stats {
        let (Some(path), Some(size)) = (stat.path.clone(), stat.file_size_in_bytes) else { continue };
        let file = FileMeta { path, size: u64::try_from(size).unwrap_or(0), modified_ms: 0 };
        let Some(new) = BaseFile::parse(&file) else { continue };
        let partition = stat.partition_path.clone().unwrap_or_default();
        if !slices.contains_key(&partition) {
            slices.insert(partition.clone(), view.latest_slices(&partition)?);
        }
        let known = slices.get(&partition).into_iter().flatten().find(|slice| slice.file_id == new.file_id);
        let logs = known.map(|slice| slice.logs.as_slice()).unwrap_or_default();
        let newer: Vec<LogFile> = logs
            .iter()
            .filter(|log| !log.path.rsplit('/').next().is_some_and(|name| planned.contains(name)))
            .cloned()
            .collect();
        if !newer.is_empty() {
            let (file_id, base_instant) = (new.file_id.clone(), new.instant.clone());
            let base = (size > 0).then_some(new);
            let after = FileSlice { partition, file_id, base_instant, base, logs: Vec::new() };
            units.push(Unit::Logs(AddedLogs::overtaking(after, newer)));
        }
    }
    Ok(units)
}

fn no_slice((partition, file_id): &(String, String)) -> FileSlice {
    let (partition, file_id) = (partition.clone(), file_id.clone());
    FileSlice { partition, file_id, base_instant: String::new(), base: None, logs: Vec::new() }
}

struct Collecting {
    keys: KeyCollector,
    source: SliceKeys,
    written_ms: i64,
}

impl Collecting {
    fn collect(&self, unit: &Unit) -> Result<()> {
        let Self { keys, source, .. } = self;
        match unit {
            Unit::Base { partition, new, before } => {
                let location = self.location(partition, &new.file_id);
                let Some(old) = before.as_ref().and_then(|slice| slice.base.as_ref()) else {
                    return source.of_base(new)?.try_for_each(|some| keys.put(partition, &some?, location));
                };
                let mut put = |some: &StringArray| keys.put(partition, some, location);
                let gone = added_and_gone(source.of_base(old)?, || source.of_base(new), &mut put)?;
                keys.remove(partition, &gone)
            }
            Unit::Logs(logs) => {
                let (back, gone) = logs.back_and_gone(source.reader()?)?;
                let (partition, file_id) = logs.group();
                if !back.is_empty() {
                    keys.put(partition, &back, self.location(partition, file_id))?;
                }
                keys.remove(partition, &gone)
            }
            Unit::Replaced(slice) => source.each(slice, &mut |some| keys.remove(&slice.partition, some)),
        }
    }

    fn location(&self, partition: &str, file_id: &str) -> u32 {
        let (partition, file_id) = (partition.to_owned(), file_id.to_owned());
        self.keys.location(Location { partition, file_id, written_ms: self.written_ms })
    }
}
