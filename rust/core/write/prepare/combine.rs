//! Several rows of one key in a write that make a record of their own.

use arrow::array::RecordBatch;

use crate::error::{Error, Result};
use crate::merge::{
    Budget, Kept, MergeMode, MergeRule, Records, Step, fold, has_duplicates, in_order, nullable, precombine,
    rows_at_once,
};
use crate::storage::spill;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;

/// Where the table's rule makes a record of its own of several rows: merges the rows of each key in the write.
pub(in crate::write) fn combine_rows(context: &WriteContext, incoming: &mut Incoming, whole_table: bool) -> Result<()> {
    let rule = &context.settings.rule;
    if matches!(rule, MergeRule::Pick(_) | MergeRule::Partial(_)) {
        return Ok(());
    }
    let schema = nullable(&context.data_schema);
    if whole_table {
        return refuse_doubled(context, incoming);
    }
    for (partition, numbers) in incoming.by_partition(false) {
        let mut batches: Vec<Records> = Vec::with_capacity(numbers.len());
        for number in &numbers {
            let batch = incoming.batch(*number)?;
            if batch.data.num_columns() == 0 {
                // Deletes by key: any of them will do.
                return Ok(());
            }
            let data = batch.data.clone().with_schema(schema.clone())?;
            let ordering = context.ordering(&data)?;
            batches.push(context.records(data, ordering, batch.keys.clone(), batch.deleted.clone()));
        }
        if !has_duplicates(&batches)? {
            continue;
        }
        let put_away = |batches: &[RecordBatch]| spill(&context.spill.folder, batches);
        let budget = Some(Budget { bytes: context.spill.budget, spill: &put_away });
        let mut merged = Kept::new(budget);
        let at_once = rows_at_once(&batches, budget)?;
        fold(&schema, &batches, in_order(&batches), rule, Step::Batch, at_once, &mut |part| merged.push(part))?;
        incoming.replace_rows(partition, &numbers, merged.into_list())?;
    }
    Ok(())
}

/// Rows of one key in several partitions cannot become one here.
fn refuse_doubled(context: &WriteContext, incoming: &Incoming) -> Result<()> {
    let numbers: Vec<u32> = incoming.by_partition(true).into_values().flatten().collect();
    let keyed = incoming.keyed_rows(&numbers, &context.settings)?;
    if precombine(&keyed, MergeMode::CommitTime, true)?.rows.len() == incoming.rows() {
        return Ok(());
    }
    Err(Error::unsupported(
        "several rows of one key in a write to a table with a global index whose records are merged column by column",
    )
    .remedy("Give one row for each key"))
}
