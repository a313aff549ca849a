//! Incoming rows that make records of their own with what is stored, by the columns of both.

use std::collections::HashSet;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::FieldRef;

use crate::error::{Error, Result};
use crate::format::field_lookup::FieldLookup;
use crate::merge::{
    Budget, Kept, MergeMode, Records, Step, fold, has_duplicates, in_order, nullable, precombine, rows_at_once,
};
use crate::storage::spill;
use crate::write::locate::tagging::MatchedRow;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::Gathered;
use crate::write::rewrite::outcome::Outcome;

/// Merges the stored records that incoming rows meet with these, and puts the results into `new`, which begins with the
/// rows of `met`. `stored` has the table's columns from row `offset` on.
pub(in crate::write) fn merge_columns(
    context: &WriteContext,
    stored: &RecordBatch,
    offset: usize,
    met: &[MatchedRow],
    new: &mut Gathered,
    delete_by_key: bool,
) -> Result<Vec<Outcome>> {
    if delete_by_key {
        return Ok(vec![Outcome::Gone; met.len()]);
    }
    let rows = UInt32Array::from_iter_values(met.iter().map(|m| (m.position as usize).saturating_sub(offset) as u32));
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(context.data_schema.fields().len());
    let lookup = FieldLookup::new(stored.schema_ref().fields());
    for field in context.data_schema.fields() {
        let column = lookup.position(field.name()).and_then(|at| stored.columns().get(at));
        let column = column.ok_or_else(|| Error::schema(format!("column '{}' is missing", field.name())))?;
        columns.push(take(column, &rows, None)?);
    }
    let schema = nullable(&context.data_schema);
    let options = RecordBatchOptions::new().with_row_count(Some(met.len()));
    let data = RecordBatch::try_new_with_options(schema.clone(), columns, &options)?;
    let older = records(context, data, new.keys.clone(), None, false)?;
    let given = RecordBatch::try_new_with_options(schema, new.data.columns().to_vec(), &options)?;
    let newer = records(context, given, new.keys.clone(), new.deleted.clone(), true)?;
    let merged = context.settings.rule.merge(Step::Final, &older, &newer)?;
    if merged.records.len() != met.len() || merged.unchanged.len() != met.len() {
        let (pairs, made) = (met.len(), merged.records.len());
        return Err(Error::internal(format!("merging {pairs} pairs of records made {made}")));
    }
    new.data = merged.records.data;
    let outcome = |(i, m): (usize, &MatchedRow)| match () {
        () if m.moved || merged.records.deleted.value(i) => Outcome::Gone,
        () if merged.unchanged.value(i) => Outcome::Old,
        () => Outcome::New,
    };
    Ok(met.iter().enumerate().map(outcome).collect())
}

/// Rows as records. Those of the write may bring only some columns.
fn records(
    context: &WriteContext,
    data: RecordBatch,
    keys: arrow::array::StringArray,
    deleted: Option<BooleanArray>,
    is_given: bool,
) -> Result<Records> {
    let rows = data.num_rows();
    let all = |value: bool| {
        let bits = if value { BooleanBuffer::new_set(rows) } else { BooleanBuffer::new_unset(rows) };
        BooleanArray::new(bits, None)
    };
    let present = context.given_columns.as_ref().filter(|_| is_given).map(|names| {
        let names: HashSet<&str> = names.iter().map(String::as_str).collect();
        let (given, not_given) = (all(true), all(false));
        let is_given = |f: &FieldRef| if names.contains(f.name().as_str()) { given.clone() } else { not_given.clone() };
        data.schema_ref().fields().iter().map(is_given).collect()
    });
    Ok(Records {
        ordering: context.ordering(&data)?,
        keys,
        deleted: deleted.unwrap_or_else(|| all(false)),
        delete_block: None,
        present,
        data,
    })
}

/// Where the table's rule makes a record of its own of several rows: merges the rows of each key in the write.
pub(in crate::write) fn combine_rows(context: &WriteContext, incoming: &mut Incoming, whole_table: bool) -> Result<()> {
    use crate::merge::MergeRule;
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
            batches.push(records(context, data, batch.keys.clone(), batch.deleted.clone(), true)?);
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
