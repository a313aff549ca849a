//! The record index of the metadata table: it names the file groups that have the keys of a write, so that no others are
//! looked into.
//!
//! It is believed as long as it can be read, has every action of the table, and each key that it knows is where it says.
//! Otherwise keys are looked for in all files, and a warning says why: a wrong answer would double keys.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::StringArray;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::metadata_table::{KeyLocation, MetadataTable, RECORD_INDEX, RecordIndex};
use crate::table::{HudiTable, TableView, is_about_content};

/// The metadata table of a view, if it has a record index that is neither behind the view nor ahead of it.
///
/// # Errors
/// `Storage`.
pub(in crate::write) fn metadata_table_of(table: &HudiTable, view: &TableView) -> Result<Option<Arc<MetadataTable>>> {
    let Some(metadata) = view.metadata_table()?.filter(|metadata| metadata.has(RECORD_INDEX)) else { return Ok(None) };
    // What another writer is about to complete, or has since the view was made, may never be completed on the table.
    if metadata.is_ahead_of(view.timeline()) {
        tracing::info!(table = table.storage().uri(), "keys are looked for in the files: others are writing");
        return Ok(None);
    }
    Ok(Some(metadata))
}

/// Asks the record index.
pub(crate) struct IndexLookup<'a> {
    table: &'a HudiTable,
    metadata: &'a MetadataTable,
}

/// The slices that have keys, and the keys that they have, by number.
pub(in crate::write) struct Located {
    /// To look into.
    pub(in crate::write) slices: Vec<FileSlice>,
    /// Keys that are in them.
    pub(in crate::write) keys: HashSet<u32>,
}

impl<'a> IndexLookup<'a> {
    /// That of a table.
    pub(in crate::write) fn new(table: &'a HudiTable, metadata: &'a MetadataTable) -> Self {
        Self { table, metadata }
    }

    /// The shards of the index; `None`, with a warning, if it cannot be used. `is_global`: whether keys are unique in the
    /// table, so that one location of each is enough.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::write) fn open(&self, is_global: bool) -> Result<Option<RecordIndex<'a>>> {
        match RecordIndex::open(self.metadata) {
            Ok(index) if index.is_partitioned() || is_global => Ok(Some(index)),
            Ok(_) => {
                self.distrust(&"it is one of the whole table, and keys are to be unique in their partition");
                Ok(None)
            }
            Err(e) if is_about_content(&e) => {
                self.distrust(&e);
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Where keys are: in a data partition, or, for `None`, in the table. `slices` gives the slices of a partition. `None`,
    /// with a warning, if the index cannot be right.
    ///
    /// # Errors
    /// `Storage`; those of `slices`.
    pub(in crate::write) fn locate(
        &self,
        index: &RecordIndex<'_>,
        keys: &StringArray,
        partition: Option<&str>,
        slices: &dyn Fn(Option<&str>) -> Result<Vec<FileSlice>>,
        threads: usize,
    ) -> Result<Option<Located>> {
        let found = match index.look_up(partition, keys, threads) {
            Err(e) if is_about_content(&e) => {
                self.distrust(&e);
                return Ok(None);
            }
            found => found?,
        };
        let groups: HashSet<(&str, &str)> = found.iter().map(|one| (&*one.partition, &*one.file_id)).collect();
        let partitions: BTreeSet<&str> = groups.iter().map(|(partition, _)| *partition).collect();
        let mut located = Vec::with_capacity(groups.len());
        for partition in partitions {
            let known = slices(Some(partition))?;
            located.extend(known.into_iter().filter(|slice| groups.contains(&(partition, slice.file_id.as_str()))));
        }
        if located.len() != groups.len() {
            self.distrust(&Error::corrupt("it names a file group that is not there"));
            return Ok(None);
        }
        let number = |one: &KeyLocation| u32::try_from(one.key).ok();
        Ok(Some(Located { slices: located, keys: found.iter().filter_map(number).collect() }))
    }

    /// Says that keys are looked for in the files from now on.
    pub(in crate::write) fn distrust(&self, reason: &dyn std::fmt::Display) {
        let message = format!("keys are looked for in the files, because the record index cannot be used: {reason}");
        self.table.warn_of_metadata_table(&message);
    }
}
