//! Several rows of one key in a write that make a record of their own.

use arrow::array::{Array, RecordBatch};

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
    if picks(rule) {
        return Ok(());
    }
    let schema = nullable(&context.data_schema);
    if whole_table {
        return refuse_combining(context, incoming, true);
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

/// Whether one of several records of a key is the result.
fn picks(rule: &MergeRule) -> bool {
    matches!(rule, MergeRule::Pick(_) | MergeRule::Partial(_))
}

/// Refuses several rows of one key, in a partition or in the `whole_table`, where they would make a record of their own:
/// rows of several partitions cannot become one, nor can rows of which only the keys are here.
///
/// # Errors
/// `Unsupported`.
pub(in crate::write) fn refuse_combining(context: &WriteContext, incoming: &Incoming, whole_table: bool) -> Result<()> {
    if picks(&context.settings.rule) {
        return Ok(());
    }
    let by_partition: Vec<Vec<u32>> = incoming.by_partition(whole_table).into_values().collect();
    let groups = if whole_table { vec![by_partition.concat()] } else { by_partition };
    for numbers in groups {
        let rows: usize =
            numbers.iter().map(|number| incoming.batch(*number).map(|b| b.keys.len())).sum::<Result<_>>()?;
        let keyed = incoming.keyed_rows(&numbers, &context.settings)?;
        if precombine(&keyed, MergeMode::CommitTime, true)?.rows.len() != rows {
            return Err(Error::unsupported(
                "several rows of one key in a write that looks keys up in the whole table or in an index on Spark, to a table whose records are merged column by column",
            )
            .remedy("Give one row for each key"));
        }
    }
    Ok(())
}
