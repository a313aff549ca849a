//! The order in which `bulk_insert` writes the rows of a partition.

use arrow::array::{Array, ArrayRef};
use arrow::compute::interleave;
use arrow_row::{RowConverter, SortField};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::merge::RowRef;
use crate::write::config::SortMode;
use crate::write::prepare::incoming::Incoming;

/// So many rows take long enough to sort that somebody may want to interrupt it.
const LEAST_ROWS_ASIDE: usize = 100_000;

/// Sorts rows; rows that compare equal keep their order.
pub(in crate::write) fn sort_rows(incoming: &Incoming, rows: Vec<RowRef>, mode: &SortMode) -> Result<Vec<RowRef>> {
    let columns: Vec<ArrayRef> = match mode {
        SortMode::None => return Ok(rows),
        SortMode::Key => vec![gather_column(incoming, &rows, |b| Ok(std::sync::Arc::new(b.keys.clone()) as ArrayRef))?],
        SortMode::Columns(names) => names
            .iter()
            .map(|name| {
                gather_column(incoming, &rows, |b| {
                    b.data.column_by_name(name).cloned().ok_or_else(|| {
                        Error::invalid_option(format!("there is no column '{name}' to sort by"))
                            .remedy("Check hoodie.bulkinsert.user.defined.partitioner.sort.columns")
                    })
                })
            })
            .collect::<Result<_>>()?,
    };
    let fields = columns.iter().map(|c| SortField::new(c.data_type().clone())).collect();
    let converter = RowConverter::new(fields)?;
    let count = rows.len();
    let sort = move || {
        let sortable = converter.convert_columns(&columns)?;
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| sortable.row(*a).cmp(&sortable.row(*b)));
        Ok::<_, Error>(order)
    };
    // Few rows are not worth a thread.
    let order = if count < LEAST_ROWS_ASIDE { sort()? } else { interrupt::aside(sort)?? };
    let sorted: Option<Vec<RowRef>> = order.into_iter().map(|i| rows.get(i).copied()).collect();
    sorted.ok_or_else(|| Error::internal(format!("sorting {count} rows named one more")))
}

fn gather_column(
    incoming: &Incoming,
    rows: &[RowRef],
    column: impl Fn(&crate::write::prepare::incoming::IncomingBatch) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let columns = incoming.batches.iter().map(column).collect::<Result<Vec<_>>>()?;
    let parts: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let at: Vec<(usize, usize)> = rows.iter().map(|r| (r.batch as usize, r.row as usize)).collect();
    Ok(interleave(&parts, &at)?)
}
