//! What an action changes in the indexes of keys: the record index, and secondary indexes.

use std::collections::{BTreeMap, HashSet};

use super::properties::{is_kept, is_unkept};
use crate::error::{Error, ErrorKind, Result};
use crate::format::avro::metadata::WriteStat;
use crate::format::instant::Instant;
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::secondary_entries::{SecondaryIndex, is_secondary_index};
use crate::metadata_table::write::{
    FileChanges, KeyChanges, KeyWrites, MetadataWriter, record_index_shards, secondary_index_shards,
};
use crate::table::{HudiTable, TableConfig, TableView};
use crate::timeline::Timeline;
use crate::transaction::record_index::key_changes;
use crate::transaction::secondary_index::entry_changes;

/// What was found out before the table lock was taken.
#[derive(Default)]
pub(in crate::transaction) struct KeysAhead {
    record_index: Option<KeyChanges>,
    secondary: Vec<(SecondaryIndex, KeyChanges)>,
    /// The state of the table that it was found out by.
    seen: Option<Timeline>,
}

impl KeysAhead {
    /// What still holds in the table as a view shows it: nothing, if another action was completed since in a file group of
    /// this one. A compaction of it, say, may have carried out a delete, by which an older row that is written now lives.
    fn if_unchanged(self, view: &TableView, writes: &KeyWrites) -> Result<Self> {
        let Some(seen) = &self.seen else { return Ok(Self::default()) };
        let own: HashSet<(&str, &str)> = groups(&writes.stats, &writes.emptied).collect();
        let completed: HashSet<&Instant> = seen.completed_writes().collect();
        // What left the timeline since may be anything.
        if view.timeline().first_active() != seen.first_active() {
            return Ok(Self::default());
        }
        for other in view.timeline().completed_writes().filter(|instant| !completed.contains(instant)) {
            let done = view.write_metadata(other)?;
            let stats = done.partition_to_write_stats.values().flatten();
            if groups(stats, &done.partition_to_replace_file_ids).any(|group| own.contains(&group)) {
                return Ok(Self::default());
            }
        }
        Ok(self)
    }
}

/// The file groups (partition, id) of write stats and those that were replaced.
fn groups<'a>(
    stats: impl IntoIterator<Item = &'a WriteStat>,
    replaced: &'a BTreeMap<String, Vec<String>>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let of = |stat: &'a WriteStat| {
        (stat.partition_path.as_deref().unwrap_or_default(), stat.file_id.as_deref().unwrap_or_default())
    };
    let replaced = replaced.iter().flat_map(|(partition, ids)| ids.iter().map(|id| (partition.as_str(), id.as_str())));
    stats.into_iter().map(of).chain(replaced)
}

/// What goes into the indexes of keys, and the partitions that cannot be kept up to date.
#[derive(Default)]
pub(super) struct KeptKeys {
    pub(super) changes: Vec<KeyChanges>,
    pub(super) unkept: Vec<String>,
}

/// The secondary indexes that are complete.
fn complete_indexes(config: &TableConfig) -> Vec<String> {
    let complete = config.complete_metadata_partitions().into_iter();
    complete.filter(|name| is_secondary_index(name)).collect()
}

/// Finds out what an action changes in the indexes of keys, before the table lock is taken.
pub(super) fn keys_ahead(table: &HudiTable, requested: &str, writes: &KeyWrites) -> Result<KeysAhead> {
    let mut ahead = KeysAhead::default();
    let config = table.config();
    if !is_kept(config, RECORD_INDEX) || !config.metadata_partitions().iter().any(|name| name == RECORD_INDEX) {
        return Ok(ahead);
    }
    let storage = table.storage();
    let view = table.view(None)?;
    ahead.seen = Some(view.timeline().clone());
    let found = record_index_shards(storage).and_then(|shards| key_changes(table, &view, requested, &shards, writes));
    ahead.record_index = unless_unkept(found)?;
    let partitions = complete_indexes(config);
    if partitions.is_empty() {
        return Ok(ahead);
    }
    let definitions = IndexDefinitions::read(storage, config.get(PATH_PROPERTY))?;
    let mut indexes = Vec::new();
    for index in definitions.secondary_indexes(&partitions) {
        if let Some(shards) = unless_unkept(secondary_index_shards(storage, &index))? {
            indexes.push((index, shards));
        }
    }
    let known: Vec<SecondaryIndex> = indexes.iter().map(|(index, _)| index.clone()).collect();
    let Some(found) = unless_unkept(entry_changes(table, &view, requested, indexes, writes))? else { return Ok(ahead) };
    for (index, changes) in known.into_iter().zip(found) {
        ahead.secondary.extend(unless_unkept(changes)?.map(|changes| (index, changes)));
    }
    Ok(ahead)
}

/// Under the lock it is seen whether an index is still there, and what becomes of it.
fn unless_unkept<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(e) if is_unkept(&e) || e.kind() == ErrorKind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

/// What an action changes in the indexes of keys. Another writer may have made one, or made it anew, since it was looked
/// ahead, or have changed the file groups. The caller holds the table lock.
pub(super) fn kept_keys(
    table: &HudiTable,
    requested: &str,
    (config, definitions): (&TableConfig, &IndexDefinitions),
    writer: &MetadataWriter,
    changes: &FileChanges,
    ahead: KeysAhead,
) -> Result<KeptKeys> {
    let mut kept = KeptKeys::default();
    let Some(writes) = &changes.keys else { return Ok(kept) };
    let secondary = complete_indexes(config);
    let shards = match writer.record_index_shards() {
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            kept.drop(table, RECORD_INDEX, &e);
            None
        }
        shards => shards?,
    };
    let is_of_table = shards.as_ref().is_some_and(|shards| !shards.is_partitioned());
    if shards.is_none() && secondary.is_empty() {
        return Ok(kept);
    }
    let view = table.view(None)?;
    let ahead = ahead.if_unchanged(&view, writes)?;
    if let Some(shards) = shards {
        let known = ahead.record_index.filter(|keys| keys.are_for(&shards));
        match known.map_or_else(|| key_changes(table, &view, requested, &shards, writes), Ok) {
            Err(e) if e.kind() == ErrorKind::Unsupported => kept.drop(table, RECORD_INDEX, &e),
            keys => kept.changes.push(keys?),
        }
    }
    if secondary.is_empty() {
        return Ok(kept);
    }
    if !is_of_table || kept.unkept.iter().any(|name| name == RECORD_INDEX) {
        let e = Error::unsupported("there is no record index of the whole table to look up its keys in");
        secondary.iter().for_each(|name| kept.drop(table, name, &e));
        return Ok(kept);
    }
    kept.add_secondary((table, &view), requested, (secondary, definitions), writer, writes, ahead.secondary)?;
    Ok(kept)
}

impl KeptKeys {
    fn drop(&mut self, table: &HudiTable, partition: &str, why: &Error) {
        tracing::warn!(table = table.storage().uri(), "{partition} cannot be kept: {why}");
        self.unkept.push(partition.to_owned());
    }

    fn add_secondary(
        &mut self,
        (table, view): (&HudiTable, &TableView),
        requested: &str,
        (partitions, definitions): (Vec<String>, &IndexDefinitions),
        writer: &MetadataWriter,
        writes: &KeyWrites,
        mut ahead: Vec<(SecondaryIndex, KeyChanges)>,
    ) -> Result<()> {
        let mut unknown = Vec::new();
        for partition in partitions {
            let Some(index) = definitions.secondary_index(&partition) else {
                self.drop(table, &partition, &Error::corrupt("it is not defined, or not of one column"));
                continue;
            };
            let shards = match writer.secondary_index_shards(&index) {
                Err(e) if is_unkept(&e) => {
                    self.drop(table, &partition, &e);
                    continue;
                }
                shards => shards?,
            };
            let is_known =
                |(one, changes): &(SecondaryIndex, KeyChanges)| *one == index && changes.are_for_shards(&shards);
            match ahead.iter().position(is_known) {
                Some(at) => self.changes.push(ahead.swap_remove(at).1),
                None => unknown.push((index, shards)),
            }
        }
        let names: Vec<String> = unknown.iter().map(|(index, _)| index.partition.clone()).collect();
        match entry_changes(table, view, requested, unknown, writes) {
            Err(e) if is_unkept(&e) => names.iter().for_each(|name| self.drop(table, name, &e)),
            found => {
                for (name, changes) in names.iter().zip(found?) {
                    match changes {
                        Err(e) if is_unkept(&e) => self.drop(table, name, &e),
                        changes => self.changes.push(changes?),
                    }
                }
            }
        }
        Ok(())
    }
}
