//! Which partitions `delete_partition` deletes: those that are named, or else those of the rows that are given.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::table::keygen::{KeyGenConfig, KeyGenerator};
use crate::table::{HudiTable, TableView, conform_batch};
use crate::timeline::LockGuard;
use crate::write::commit::pending::{Committed, PendingCommit, PlannedFrom};
use crate::write::commit::replaced::file_groups;
use crate::write::config::Operation;
use crate::write::locate::pending_file_groups::PendingFileGroups;
use crate::write::prepare::incoming::key_schema;

/// Deletes whole partitions and commits.
pub(in crate::write) fn delete_partitions(
    table: &HudiTable,
    view: &TableView,
    schema: Option<SchemaRef>,
    chosen: BTreeSet<String>,
    held: Option<&LockGuard>,
) -> Result<Committed> {
    let replaced = file_groups(view, chosen)?;
    refuse_busy(table, view, &replaced)?;
    let planned_from = PlannedFrom::of(table, view, schema.clone())?;
    let pending = PendingCommit::begin(table, Operation::DeletePartition, planned_from, BTreeMap::new(), held, false)?;
    let schema = schema.unwrap_or_else(|| Arc::new(Schema::empty()));
    pending.commit(Vec::new(), replaced, &schema)
}

/// The partitions of the table that these patterns name.
pub(in crate::write) fn partitions_named(view: &TableView, patterns: &[String]) -> Result<BTreeSet<String>> {
    let all = view.partitions()?;
    let mut chosen = BTreeSet::new();
    for pattern in patterns {
        let pattern = pattern.trim().trim_matches('/');
        chosen.extend(all.iter().filter(|p| glob_matches(pattern, p)).cloned());
    }
    Ok(chosen)
}

/// The partitions of rows, of which nothing but the partition columns is looked at. They have the types of the table's
/// `columns`, as those of rows that are written: 2024.0 is in the partition of the integer 2024.
pub(in crate::write) fn partitions_of_rows(
    keys: &KeyGenConfig,
    columns: &Schema,
    given: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<BTreeSet<String>> {
    let typed = key_schema(Operation::Delete, &keys.without_keys(), columns, given);
    let generator = partition_generator(keys, &typed)?;
    let mut chosen = BTreeSet::new();
    for batch in batches {
        chosen.extend(generator.partition_paths(&conform_batch(&batch?, &typed)?)?.paths);
    }
    Ok(chosen)
}

/// The same for a reader.
pub(in crate::write) fn partitions_of_data(
    keys: &KeyGenConfig,
    columns: &Schema,
    data: Box<dyn RecordBatchReader + Send>,
) -> Result<BTreeSet<String>> {
    let given = data.schema();
    partitions_of_rows(keys, columns, &given, data.map(|batch| batch.map_err(Error::from)))
}

/// A generator of partition paths alone, for rows that need not have key columns.
pub(in crate::write) fn partition_generator(keys: &KeyGenConfig, given: &Schema) -> Result<KeyGenerator> {
    KeyGenerator::new(keys.without_keys(), given)
}

/// A pending clustering is about to write the records of its file groups anew: they must not be deleted meanwhile.
pub(in crate::write) fn refuse_busy(
    table: &HudiTable,
    view: &TableView,
    replaced: &BTreeMap<String, Vec<String>>,
) -> Result<()> {
    let pending_groups = PendingFileGroups::of(table, view)?;
    let mut taken = replaced.iter().flat_map(|(p, ids)| ids.iter().map(move |id| (p, id)));
    match taken.find(|(partition, id)| pending_groups.has(partition, id)) {
        None => Ok(()),
        Some((partition, id)) => Err(Error::conflict("a partition to delete is part of a pending clustering")
            .with("partition", partition)
            .with("file group", id)
            .waits_for_clustering()
            .remedy("Finish or roll back the pending clustering first")),
    }
}

/// `*` stands for any text, as Hudi has it in `hoodie.datasource.write.partitions.to.delete`.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(head) else { return false };
    loop {
        if glob_matches(rest, left) {
            return true;
        }
        let mut chars = left.chars();
        if chars.next().is_none() {
            return false;
        }
        left = chars.as_str();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs() {
        assert!(glob_matches("city=*", "city=sf") && glob_matches("*", "") && glob_matches("a*c*", "abcd"));
        assert!(!glob_matches("city", "city=sf") && !glob_matches("a*d", "abc"));
    }
}
