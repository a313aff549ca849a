//! An index of keys as it is planned, and its tasks on threads of this process.

use arrow::datatypes::Schema;

use super::plan::{KeyIndexKind, KeyIndexPlan, SliceUnit, location};
use super::task::{KeyReader, KeyReport, staged_rows};
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::write::sharded_keys::ShardedKeys;
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableSchema, TableView};
use crate::timeline::Timeline;
use crate::transaction::record_index::{record_index_shards, shard_count, spill_options};
use crate::transaction::secondary_index::indexed_column;

/// The write token of files that are written without an engine.
const WRITE_TOKEN: &str = "0-0-0";
/// Bytes of file slices that one task reads, where there are several.
const TASK_BYTES: u64 = 256 << 20;

/// An index of keys that is being built.
pub(crate) struct PlannedIndex {
    plan: KeyIndexPlan,
    /// The slices, by number.
    pub(super) slices: Vec<FileSlice>,
    /// The timeline by which they are read.
    timeline: Timeline,
}

impl PlannedIndex {
    /// Plans to build an index of a table as a view shows it, within an action with this requested time.
    ///
    /// # Errors
    /// `InvalidOption` for a column that the table does not have; `Corrupt`, with the file; `Storage`.
    pub(in crate::transaction) fn new(
        table: &HudiTable,
        view: &TableView,
        kind: &KeyIndexKind,
        instant: &str,
    ) -> Result<Self> {
        let slices = view.all_latest_slices()?;
        let schema = TableSchema::resolve(table.config(), view)?;
        if let (KeyIndexKind::Values(_), Some(schema)) = (kind, &schema) {
            schema.refuse_field_ids("building a secondary index")?;
        }
        let shards = match kind {
            KeyIndexKind::Records(is_partitioned) => {
                let partitions = if *is_partitioned { view.partitions()? } else { Vec::new() };
                let partitions = partitions.iter().map(String::as_str);
                KeyShards::Records(record_index_shards(table, &slices, *is_partitioned, partitions)?)
            }
            KeyIndexKind::Values(index) => {
                let file_ids = index.file_ids(shard_count(table, &slices)?);
                KeyShards::Values { index: index.clone(), file_ids }
            }
        };
        let columns = schema.as_ref().map(|schema| schema.data.as_ref());
        let zone = table.config().timeline().zone;
        let groups = slices.iter().map(|slice| location(slice, zone)).collect::<Result<_>>()?;
        let plan = KeyIndexPlan::new(instant, shards, columns.map(|columns| (columns, table.config().name())), groups)?;
        Ok(Self { plan, slices, timeline: view.timeline().clone() })
    }

    /// What the tasks have to know.
    pub(crate) fn plan(&self) -> &KeyIndexPlan {
        &self.plan
    }

    /// The index.
    pub(in crate::transaction) fn kind(&self) -> KeyIndexKind {
        match &self.plan.shards {
            KeyShards::Records(shards) => KeyIndexKind::Records(shards.is_partitioned()),
            KeyShards::Values { index, .. } => KeyIndexKind::Values(index.clone()),
        }
    }

    /// Whether its keys have the same form in a table of these columns.
    ///
    /// # Errors
    /// Those of [`indexed_column`].
    pub(in crate::transaction) fn suits(&self, columns: &Schema) -> Result<bool> {
        let KeyShards::Values { index, .. } = &self.plan.shards else { return Ok(true) };
        let column = indexed_column(index, columns)?;
        let planned = self.plan.columns()?;
        Ok(planned.field_with_name(&index.column).is_ok_and(|known| known.data_type() == column.data_type()))
    }

    /// The slices, as tasks read them.
    pub(crate) fn units(&self) -> Vec<SliceUnit> {
        let mut units: Vec<SliceUnit> = Vec::new();
        let mut bytes = 0;
        for (number, slice) in (0u32..).zip(&self.slices) {
            let size =
                slice.base.iter().map(|base| base.size).chain(slice.logs.iter().map(|log| log.size)).sum::<u64>();
            bytes += size;
            match units.last_mut() {
                Some(unit) if bytes <= TASK_BYTES => unit.0.push((number, slice.clone())),
                _ => {
                    bytes = size;
                    units.push(SliceUnit(vec![(number, slice.clone())]));
                }
            }
        }
        units
    }

    /// Does the work of the tasks on threads of this process.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`.
    pub(crate) fn run(&self, table: &HudiTable) -> Result<Vec<KeyReport>> {
        if self.slices.is_empty() {
            return Ok(Vec::new());
        }
        let Self { plan, slices, timeline } = self;
        let reader = KeyReader::new(table, timeline.clone(), &plan.columns()?, &plan.shards)?;
        let keys = ShardedKeys::new(spill_options(table)?)?;
        run_parallel((0..).zip(slices).collect(), table.threads()?, |(number, slice)| {
            reader.rows_of(number, slice).try_for_each(|rows| keys.add_rows(rows?))
        })?;
        staged_rows(table.storage(), plan, keys.finish()?, WRITE_TOKEN)
    }
}
