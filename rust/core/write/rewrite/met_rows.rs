//! Incoming rows that meet stored records of a base file.

use std::ops::Range;

use arrow::array::{ArrayRef, RecordBatch};

use crate::error::{Error, Result};
use crate::format::field_lookup::FieldLookup;
use crate::merge::{Chosen, MergeMode, MergeRule, Met, OrderingValues, Records, Stored, choose, nullable};
use crate::write::locate::lookup::MatchedRow;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::Gathered;

/// Incoming rows, gathered to be merged with the stored records that they meet.
pub(in crate::write) struct MetRows<'a> {
    context: &'a WriteContext,
    records: Records,
    delete_by_key: bool,
}

impl<'a> MetRows<'a> {
    pub(in crate::write) fn new(context: &'a WriteContext, new: &Gathered, delete_by_key: bool) -> Result<Self> {
        let data = new.data.clone().with_schema(nullable(&context.data_schema))?;
        // Deletes by key have no values.
        let ordering = if delete_by_key { OrderingValues::default() } else { context.ordering(&data)? };
        let records = context.records(data, ordering, new.keys.clone(), new.deleted.clone());
        Ok(Self { context, records, delete_by_key })
    }

    /// Decides for the stored records in these rows of the base file, of which `stored` has at least the ordering columns
    /// if there are any. `met` are the gathered rows from number `from` on.
    ///
    /// # Errors
    /// Those of [`choose`].
    pub(in crate::write) fn choose(
        &self,
        stored: Option<&RecordBatch>,
        rows: Range<usize>,
        met: &[MatchedRow],
        from: usize,
    ) -> Result<Chosen> {
        let (ordering, rule) = match stored {
            _ if self.delete_by_key => (OrderingValues::default(), &MergeRule::Pick(MergeMode::CommitTime)),
            Some(stored) => (self.context.ordering(stored)?, &self.context.settings.rule),
            None => (OrderingValues::default(), &self.context.settings.rule),
        };
        let data = stored.filter(|_| rule.picks().is_none()).map(|stored| self.data(stored)).transpose()?;
        // A row before these is beyond their end.
        let row = |met: &MatchedRow| (met.position as usize).wrapping_sub(rows.start);
        let met = met.iter().zip(from..);
        let met: Vec<Met> =
            met.map(|(met, i)| Met { row: row(met), newer: (0, i), goes: met.moved || self.delete_by_key }).collect();
        choose(rule, Stored { rows: rows.len(), ordering: &ordering, data: data.as_ref() }, &met, &[&self.records])
    }

    /// Stored records in the columns of the table.
    fn data(&self, stored: &RecordBatch) -> Result<RecordBatch> {
        let lookup = FieldLookup::new(stored.schema_ref().fields());
        let column = |name: &String| {
            let column = lookup.position(name).and_then(|at| stored.columns().get(at)).cloned();
            column.ok_or_else(|| Error::schema(format!("column '{name}' is missing")))
        };
        let fields = self.context.data_schema.fields().iter();
        let columns: Vec<ArrayRef> = fields.map(|field| column(field.name())).collect::<Result<_>>()?;
        Ok(RecordBatch::try_new(nullable(&self.context.data_schema), columns)?)
    }
}

/// Tells the incoming rows that replace stored ones their places in the new file, of which `written` rows are there already.
pub(in crate::write) fn number(chosen: &Chosen, written: usize, positions: &mut [usize]) {
    for replaced in &chosen.replaced {
        if let Some((_, row)) = chosen.rows.get(replaced.at)
            && let Some(position) = positions.get_mut(*row)
        {
            *position = written + replaced.at;
        }
    }
}
