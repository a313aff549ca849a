//! New files of rows as they come.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use arrow::array::RecordBatch;

use super::{TaskPlan, TaskReport, generated_keys};
use crate::error::Result;
use crate::table::HudiTable;
use crate::write::locate::new_rows::rows_to_insert;
use crate::write::rewrite::create_file::{FileCreator, NewGroup};
use crate::write::setup::WriteSetup;

/// Writes rows as they come into new files, a file for each partition at a time (`bulk_insert` without shuffle).
pub fn write_rows(
    table: &HudiTable,
    plan: &TaskPlan,
    batches: impl Iterator<Item = Result<RecordBatch>>,
    task: usize,
    token: &str,
) -> Result<Vec<TaskReport>> {
    let setup = WriteSetup::of_task(table, plan)?;
    let context = setup.task_context(plan)?;
    let mut creators: BTreeMap<String, FileCreator<'_>> = BTreeMap::new();
    let mut generated = generated_keys(plan, task);
    for batch in batches {
        let batch = batch?;
        let mut preparer = setup.preparer(&setup.schema, &batch.schema())?;
        preparer.add(&batch).map_err(|e| e.with("table", table.storage().uri()))?;
        let mut incoming = preparer.finish();
        if setup.keys.generates_keys() {
            incoming.generate_keys(&mut generated)?;
        }
        for (partition, rows) in rows_to_insert(&incoming, &context, false)? {
            let path = incoming.partition(partition)?.to_owned();
            let creator = match creators.entry(path) {
                Entry::Occupied(creator) => creator.into_mut(),
                Entry::Vacant(none) => {
                    let group = NewGroup::of_partition(none.key());
                    let creator = FileCreator::new(&context, &group, task, token)?;
                    none.insert(creator)
                }
            };
            creator.append(&incoming, &rows)?;
        }
    }
    let mut reports = Vec::new();
    for creator in creators.into_values() {
        reports.extend(creator.finish()?.into_iter().map(TaskReport::file));
    }
    // The commit is made by another process, which does not know what is still to be synced here.
    table.storage().sync()?;
    Ok(reports)
}
