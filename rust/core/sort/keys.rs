//! What rows are compared by: sixteen bytes that settle most comparisons, and all of it where they do not.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::datatypes::Schema;
use arrow_row::{RowConverter, Rows, SortField};

use super::rows::OrderBy;
use crate::error::{Error, Result};

/// Bytes that are compared first.
const PREFIX: usize = 16;
/// Keys of so many bytes leave room for the position of their row behind them.
const TINY: usize = 12;

/// Makes keys of batches.
pub(super) struct KeyEncoder {
    order_by: OrderBy,
    converter: RowConverter,
    /// Whether the first bytes are all there is of any key.
    short: bool,
    /// Whether the last of them are always zero.
    tiny: bool,
}

/// The keys of a batch.
pub(super) struct Keys {
    /// The first bytes of each key.
    prefixes: Vec<u128>,
    /// The keys, unless the first bytes are all there is: in the order in which they were made.
    rows: Option<Rows>,
    /// Where in `rows` each key is, once they were put into their order.
    positions: Vec<u32>,
    /// Whether the lower 32 bits of all first bytes are zero, and they are all there is.
    tiny: bool,
}

impl KeyEncoder {
    pub(super) fn new(order_by: OrderBy, schema: &Schema) -> Result<Self> {
        let columns = order_by(&RecordBatch::new_empty(schema.clone().into()))?;
        if columns.is_empty() {
            return Err(Error::invalid_option("rows are to be sorted by no column"));
        }
        // A value of fixed width is its bytes, and one before them for null.
        let width = |c: &ArrayRef| c.data_type().primitive_width().map(|bytes| bytes + 1);
        let bytes = columns.iter().map(width).sum::<Option<usize>>();
        let (short, tiny) = (bytes.is_some_and(|bytes| bytes <= PREFIX), bytes.is_some_and(|bytes| bytes <= TINY));
        let fields = columns.iter().map(|c| SortField::new(c.data_type().clone()));
        let converter = RowConverter::new(fields.collect())
            .map_err(|e| Error::unsupported("sorting by a column of a type that has no order").caused_by(e))?;
        Ok(Self { order_by, converter, short, tiny })
    }

    pub(super) fn of(&self, batch: &RecordBatch) -> Result<Keys> {
        let rows = self.converter.convert_columns(&(self.order_by)(batch)?)?;
        let prefix = |bytes: &[u8]| {
            let mut first = [0u8; PREFIX];
            first.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u128::from_be_bytes(first)
        };
        let prefixes = rows.iter().map(|row| prefix(row.as_ref())).collect();
        Ok(Keys { prefixes, rows: (!self.short).then_some(rows), positions: Vec::new(), tiny: self.tiny })
    }
}

impl Keys {
    pub(super) fn prefix(&self, row: usize) -> u128 {
        self.prefixes.get(row).copied().unwrap_or(u128::MAX)
    }

    /// Whether the lower 32 bits of [`Keys::prefix`] are free, and the others are all there is to compare.
    pub(super) fn are_tiny(&self) -> bool {
        self.tiny
    }

    pub(super) fn len(&self) -> usize {
        self.prefixes.len()
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.prefixes.len() * 16 + self.positions.len() * 4 + self.rows.as_ref().map_or(0, Rows::size)
    }

    /// Compares two keys whose first bytes are equal.
    pub(super) fn compare_rest(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        match (&self.rows, &other.rows) {
            (Some(a), Some(b)) => a.row(self.position(row)).cmp(&b.row(other.position(other_row))),
            _ => Ordering::Equal,
        }
    }

    fn position(&self, row: usize) -> usize {
        self.positions.get(row).map_or(row, |position| *position as usize)
    }

    /// Puts the keys into their order, equal ones as they came: where each was. `None` when they are in order.
    pub(super) fn sort(&mut self) -> Option<UInt32Array> {
        if (1..self.len()).all(|row| self.compare(row - 1, self, row).is_le()) {
            return None;
        }
        if self.tiny {
            let mut order: Vec<u128> =
                self.prefixes.iter().zip(0u32..).map(|(key, row)| key | u128::from(row)).collect();
            order.sort_unstable();
            let moved: Vec<u32> = order.iter().map(|entry| *entry as u32).collect();
            self.prefixes = order.into_iter().map(|entry| entry >> 32 << 32).collect();
            return Some(moved.into());
        }
        let mut order: Vec<(u128, u32)> = self.prefixes.iter().copied().zip(0..).collect();
        order.sort_unstable_by(|a, b| {
            let rest = || self.compare_rest(a.1 as usize, self, b.1 as usize);
            a.0.cmp(&b.0).then_with(rest).then_with(|| a.1.cmp(&b.1))
        });
        let moved: Vec<u32> = order.iter().map(|(_, row)| *row).collect();
        if self.rows.is_some() {
            self.positions = moved.iter().map(|row| self.position(*row as usize) as u32).collect();
        }
        self.prefixes = order.into_iter().map(|(prefix, _)| prefix).collect();
        Some(moved.into())
    }

    pub(super) fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        self.prefix(row).cmp(&other.prefix(other_row)).then_with(|| self.compare_rest(row, other, other_row))
    }
}
