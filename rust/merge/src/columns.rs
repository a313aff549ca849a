//! Putting the record of a pair together, column by column.

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow::compute::kernels::cmp::{eq, not_distinct};
use arrow::compute::{and, cast, interleave, is_null};
use arrow::datatypes::DataType;

use super::ordering_values::OrderingValues;
use super::records::{Merged, Records, RowAddress};
use hoodoo_runtime::error::Result;

/// Values of a winning record in whose place the other record's are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fill {
    /// None.
    Nothing,
    /// Nulls. Hudi compares with the default of the column, but by identity: only null is ever equal.
    Nulls,
    /// This text in columns of strings or bytes.
    Marker(String),
}

impl Fill {
    /// Where a column has such values; `None`: nowhere.
    fn holes(&self, column: &ArrayRef) -> Result<Option<BooleanArray>> {
        match self {
            Self::Nothing => Ok(None),
            Self::Nulls => Ok((column.logical_null_count() > 0).then(|| is_null(column)).transpose()?),
            Self::Marker(text) => {
                let column = &plain(column)?;
                let holes = match column.data_type() {
                    DataType::Utf8 => eq(column, &StringArray::new_scalar(text))?,
                    DataType::Binary => {
                        column.as_binary::<i32>().iter().map(|v| Some(v == Some(text.as_bytes()))).collect()
                    }
                    _ => return Ok(None),
                };
                Ok((holes.true_count() > 0).then_some(holes))
            }
        }
    }
}

/// Strings and bytes in the types that tables have.
fn plain(column: &ArrayRef) -> Result<ArrayRef> {
    let values = match column.data_type() {
        DataType::Dictionary(_, values) => values.as_ref(),
        other => other,
    };
    let wanted = match values {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::Utf8,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            DataType::Binary
        }
        _ => return Ok(column.clone()),
    };
    Ok(if column.data_type() == &wanted { column.clone() } else { cast(column, &wanted)? })
}

/// Which record of each pair wins, and what becomes of it.
pub(super) struct Sides {
    new_wins: BooleanBufferBuilder,
    fills: BooleanBufferBuilder,
    deleted: BooleanBufferBuilder,
}

impl Sides {
    pub(super) fn with_capacity(rows: usize) -> Self {
        let builder = || BooleanBufferBuilder::new(rows);
        Self { new_wins: builder(), fills: builder(), deleted: builder() }
    }

    /// A pair: whether the newer record wins, whether values of the other may fill it, whether the result is a delete.
    pub(super) fn push(&mut self, new_wins: bool, fills: bool, deleted: bool) {
        self.new_wins.append(new_wins);
        self.fills.append(fills);
        self.deleted.append(deleted);
    }
}

/// Makes the records of pairs.
pub(super) fn put_together(older: &Records, newer: &Records, sides: &Sides, fill: &Fill) -> Result<Merged> {
    let array = |builder: &BooleanBufferBuilder| {
        BooleanArray::new(arrow::buffer::BooleanBuffer::new(builder.as_slice().into(), 0, builder.len()), None)
    };
    let (new_wins, fills, deleted) = (array(&sides.new_wins), array(&sides.fills), array(&sides.deleted));
    let high: Vec<RowAddress> = (0..new_wins.len()).map(|row| (usize::from(new_wins.value(row)), row)).collect();
    let mut changed: Vec<bool> = new_wins.values().iter().collect();
    let mut columns = Vec::with_capacity(newer.data.num_columns());
    let mut present = Vec::new();
    for (c, (old, new)) in older.data.columns().iter().zip(newer.data.columns()).enumerate() {
        let mut picks = high.clone();
        let has = |records: &Records, row: usize| {
            records.present.as_ref().and_then(|p| p.get(c)).is_none_or(|present| present.value(row))
        };
        if older.present.is_some() || newer.present.is_some() {
            // The winner's columns, and of the other those that it lacks.
            for (row, (side, _)) in picks.iter_mut().enumerate().filter(|(row, _)| fills.value(*row)) {
                let (winner, other) = if *side == 1 { (newer, older) } else { (older, newer) };
                if !has(winner, row) && has(other, row) {
                    *side = 1 - *side;
                }
            }
            let either =
                |(row, (side, _)): (usize, &RowAddress)| Some(has(if *side == 1 { newer } else { older }, row));
            present.push(picks.iter().enumerate().map(either).collect::<BooleanArray>());
        }
        let mut column = interleave(&[old.as_ref(), new.as_ref()], &picks)?;
        if let Some(holes) = fill.holes(&column)? {
            let holes = and(&holes, &fills)?;
            for (row, (side, _)) in
                picks.iter_mut().enumerate().filter(|(row, _)| holes.is_valid(*row) && holes.value(*row))
            {
                *side = 1 - *side;
                if let Some(changed) = changed.get_mut(row) {
                    *changed = true;
                }
            }
            column = interleave(&[old.as_ref(), new.as_ref()], &picks)?;
        }
        columns.push(column);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(high.len()));
    let schema = older.data.schema();
    let data = RecordBatch::try_new_with_options(schema, columns, &options)?;
    let blocks = |records: &Records, row: usize| records.delete_block.as_ref().is_some_and(|d| d.value(row));
    let records = Records {
        keys: newer.keys.clone(),
        data,
        ordering: OrderingValues::gather(&[&older.ordering, &newer.ordering], &high)?,
        deleted,
        delete_block: (older.delete_block.is_some() || newer.delete_block.is_some()).then(|| {
            high.iter().map(|(side, row)| Some(blocks(if *side == 1 { newer } else { older }, *row))).collect()
        }),
        present: (!present.is_empty()).then_some(present),
    };
    Ok(Merged { records, unchanged: changed.into_iter().map(|changed| Some(!changed)).collect() })
}

/// Which rows of two batches say the same in all columns.
pub(super) fn equal_rows(a: &RecordBatch, b: &RecordBatch) -> Result<BooleanArray> {
    let mut same = BooleanArray::from(vec![true; a.num_rows()]);
    for (a, b) in a.columns().iter().zip(b.columns()) {
        let column = if a.data_type().is_nested() {
            (0..a.len()).map(|row| Some(a.slice(row, 1) == b.slice(row, 1))).collect()
        } else {
            not_distinct(a, b)?
        };
        same = and(&same, &column)?;
    }
    Ok(same)
}
