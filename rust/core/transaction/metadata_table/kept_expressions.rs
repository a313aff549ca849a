//! What an action changes in expression indexes.

use arrow::datatypes::Schema;

use super::function_ranges::RangeReader;
use super::properties::is_unkept;
use crate::error::{Error, Result};
use crate::metadata_table::expression_index::{ExpressionIndex, is_expression_index};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{ExpressionChanges, FileChanges, FunctionRanges, MetadataWriter};
use crate::table::{HudiTable, TableConfig, TableSchema, TableView};
use crate::timeline::Timeline;

/// The ranges that were found out before the table lock was taken.
#[derive(Default)]
pub(in crate::transaction) struct ExpressionsAhead(Vec<(ExpressionIndex, FunctionRanges)>);

/// What goes into expression indexes; and those that cannot be kept up to date, with the reason.
#[derive(Default)]
pub(super) struct KeptExpressions {
    pub(super) changes: Vec<ExpressionChanges>,
    pub(super) unkept: Vec<(String, Error)>,
}

/// The expression indexes that are complete.
fn complete_indexes(config: &TableConfig) -> Vec<String> {
    let complete = config.complete_metadata_partitions().into_iter();
    complete.filter(|name| is_expression_index(name)).collect()
}

/// Finds out the ranges of the files that an action added, before the table lock is taken.
///
/// # Errors
/// `Corrupt` for definitions of indexes that are damaged; `Storage`.
pub(super) fn expressions_ahead(table: &HudiTable, changes: &FileChanges) -> Result<ExpressionsAhead> {
    let names = complete_indexes(table.config());
    let mut ahead = ExpressionsAhead::default();
    if names.is_empty() || !has_files(changes) {
        return Ok(ahead);
    }
    let definitions = IndexDefinitions::read(table.storage(), table.config().get(PATH_PROPERTY))?;
    let data = data_schema(table, &table.timeline()?, changes)?;
    for name in names {
        let found = definitions.expression_index(&name).and_then(|index| {
            let ranges = RangeReader::new(table, &index, &data)?.ranges(changes, &FunctionRanges::new())?;
            Ok((index, ranges))
        });
        match found {
            // Under the lock it is seen what becomes of it.
            Err(e) if is_unkept(&e) => {}
            found => ahead.0.push(found?),
        }
    }
    Ok(ahead)
}

/// Whether an action added files.
fn has_files(changes: &FileChanges) -> bool {
    changes.partitions.values().any(|one| !one.added.is_empty())
}

/// The columns of the table after an action.
fn data_schema(table: &HudiTable, timeline: &Timeline, changes: &FileChanges) -> Result<Schema> {
    if let Some(keys) = &changes.keys {
        return Ok(keys.columns.as_ref().clone());
    }
    let view = TableView::new(table.storage().clone(), timeline.clone())?;
    Ok(TableSchema::resolve(table.config(), &view)?.map_or_else(Schema::empty, |schema| schema.data.as_ref().clone()))
}

/// What an action changes in expression indexes. Another writer may have made one, or made it anew, since it was looked
/// ahead. The caller holds the table lock.
///
/// # Errors
/// `Storage`.
pub(super) fn kept_expressions(
    table: &HudiTable,
    timeline: &Timeline,
    (config, definitions): (&TableConfig, &IndexDefinitions),
    writer: &MetadataWriter,
    changes: &FileChanges,
    ahead: ExpressionsAhead,
) -> Result<KeptExpressions> {
    let names = complete_indexes(config);
    let mut kept = KeptExpressions::default();
    if names.is_empty() {
        return Ok(kept);
    }
    let data = has_files(changes).then(|| data_schema(table, timeline, changes)).transpose()?;
    let mut ahead = ahead.0;
    let mut changes_of = |name: &String| {
        let index = definitions.expression_index(name)?;
        let known = ahead.iter().position(|(known, _)| *known == index).map(|at| ahead.swap_remove(at).1);
        let mut ranges = known.unwrap_or_default();
        if let Some(data) = &data {
            let more = RangeReader::new(table, &index, data)?.ranges(changes, &ranges)?;
            ranges.extend(more);
        }
        writer.expression_changes(timeline, &index, changes, &ranges)
    };
    for name in names {
        match changes_of(&name) {
            Err(e) if is_unkept(&e) => {
                tracing::warn!(table = table.storage().uri(), "{name} cannot be kept: {e}");
                kept.unkept.push((name, e));
            }
            changed => kept.changes.push(changed?),
        }
    }
    Ok(kept)
}
