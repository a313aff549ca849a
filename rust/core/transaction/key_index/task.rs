//! What tasks do: they read the keys of file slices, and write whole shards.

use std::sync::Arc;

use arrow::array::{Array, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{Field, SchemaRef};
use serde::{Deserialize, Serialize};

use super::engine_rows::{engine_schema, from_engine, to_engine};
use super::plan::{KeyIndexPlan, SliceUnit, column_of};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::metadata_table::encode::secondary_record;
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::write::record_index::{Location, no_shards};
use crate::metadata_table::write::sharded_keys::key_rows;
use crate::metadata_table::write::staged_shards::{ShardWriter, StagedShard, UNREAD, Written};
use crate::parallel::{BatchStream, Part};
use crate::storage::Storage;
use crate::table::{HudiTable, Keys, SliceKeys, SliceValues};
use crate::timeline::Timeline;
use crate::transaction::DataFiles;

/// What a task tells the process that commits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum KeyReport {
    /// It wrote a shard.
    Shard(StagedShard),
    /// The slice of this number was cleaned since it was planned, so that only some of its keys may be in the shards.
    Unread(u32),
}

/// Reads what an index has of file slices.
pub(super) struct KeyReader {
    table: HudiTable,
    keys: SliceKeys,
    /// The indexed column of a secondary index.
    column: Option<Field>,
    shards: Arc<KeyShards>,
}

impl KeyReader {
    /// Of a table of these columns.
    ///
    /// # Errors
    /// `InvalidOption` for a column that the table does not have; `Unsupported` for a table whose merger is missing.
    pub(super) fn new(table: &HudiTable, timeline: Timeline, columns: &SchemaRef, shards: &KeyShards) -> Result<Self> {
        let (column, keys) = (column_of(shards, columns)?, SliceKeys::at(table, timeline, columns, None)?);
        Ok(Self { table: table.clone(), keys, column, shards: Arc::new(shards.clone()) })
    }

    /// The keys of a slice: record keys, or the entries of a secondary index.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`; while streaming too.
    pub(super) fn of_slice(&self, slice: &FileSlice) -> Result<Keys> {
        match &self.column {
            Some(column) => SliceValues::new(&self.table, &self.keys, column)?.of_slice(slice),
            None => self.keys.of_slice(slice),
        }
    }

    /// The same with the shard of each key and the number of the slice. A slice that is gone ends with a row of no shard.
    pub(super) fn rows_of(&self, number: u32, slice: &FileSlice) -> KeyRows {
        let keys = self.of_slice(slice).unwrap_or_else(|e| Box::new(std::iter::once(Err(e))));
        let (shards, partition, mut is_over) = (self.shards.clone(), slice.partition.clone(), false);
        let located = move |keys: StringArray| {
            let of_keys = shards.of_keys(&partition, &keys)?.ok_or_else(|| no_shards(&partition))?;
            rows(of_keys, &keys, number)
        };
        Box::new(keys.map_while(move |keys| {
            if std::mem::replace(&mut is_over, keys.is_err()) {
                return None;
            }
            Some(match keys {
                Err(e) if is_gone(&e) => rows(UInt32Array::from(vec![UNREAD]), &StringArray::from(vec![""]), number),
                keys => keys.and_then(&located),
            })
        }))
    }
}

/// Keys with their shards, batch after batch.
type KeyRows = Box<dyn Iterator<Item = Result<RecordBatch>>>;

fn rows(shards: UInt32Array, keys: &StringArray, number: u32) -> Result<RecordBatch> {
    key_rows(shards, keys, UInt32Array::from_value(number, keys.len()))
}

/// Whether a file was cleaned since the slices were listed.
pub(super) fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.is_outdated_plan()
}

/// The keys of file slices for an index that another process builds, each with its shard and the number of its slice.
///
/// # Errors
/// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`; while streaming too.
pub(crate) fn read_keys(table: &HudiTable, plan: &KeyIndexPlan, units: Vec<SliceUnit>) -> Result<BatchStream> {
    let reader = Arc::new(KeyReader::new(table, table.timeline()?, &plan.columns()?, &plan.shards)?);
    let part = |(number, slice): (u32, FileSlice)| -> Part {
        let reader = reader.clone();
        Box::new(move || {
            let rows = reader.rows_of(number, &slice).map(|rows| to_engine(&rows?));
            Ok(Box::new(rows))
        })
    };
    let parts = units.into_iter().flat_map(|unit| unit.0).map(part).collect();
    Ok(BatchStream::new(engine_schema(), parts, table.threads()?))
}

/// Writes shards of an index that another process builds, from its keys in the order of shards and keys. `token` is unique to
/// this attempt.
///
/// # Errors
/// `Conflict` if the index is no longer being built; `Storage`; those of `rows`.
pub(crate) fn write_shards(
    table: &HudiTable,
    plan: &KeyIndexPlan,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    token: &str,
) -> Result<Vec<KeyReport>> {
    DataFiles::of_task(table, &plan.instant)?;
    let rows = rows.map(|rows| from_engine(&rows?));
    let written = staged_rows(table.storage(), plan, rows, token)?;
    if let Err(over) = DataFiles::of_task(table, &plan.instant) {
        // Nobody else removes what was written after the end.
        table.storage().delete_folder(&plan.folder())?;
        return Err(over);
    }
    Ok(written)
}

/// Writes shards.
pub(super) fn staged_rows(
    storage: &Storage,
    plan: &KeyIndexPlan,
    rows: impl Iterator<Item = Result<RecordBatch>>,
    token: &str,
) -> Result<Vec<KeyReport>> {
    let values: Vec<Vec<u8>> = match &plan.shards {
        KeyShards::Records(_) => plan.groups.iter().map(Location::record).collect(),
        KeyShards::Values { .. } => vec![secondary_record(false); plan.groups.len()],
    };
    let writer = ShardWriter {
        folder: plan.folder(),
        token,
        storage,
        partition: plan.shards.partition(),
        file_ids: plan.shards.file_ids(),
        values: &values,
    };
    let Written { shards, unread } = writer.write(rows)?;
    Ok(shards.into_iter().map(KeyReport::Shard).chain(unread.into_iter().map(KeyReport::Unread)).collect())
}
