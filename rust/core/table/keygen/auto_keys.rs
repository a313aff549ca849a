//! Generated record keys, for tables without key fields.

use std::fmt::Write;

use arrow::array::StringArray;

use super::string_builder::{KeyStringBuilder, write_digits};
use crate::error::Result;

/// Counts the rows of one writing task: keys are `<instant>_<task partition id>_<row number in the task>`.
///
/// A retried task must start again from the same state, so that it makes the same keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AutoKeys {
    /// The instant of the write.
    pub instant: String,
    /// Which task of the write this is.
    pub task_partition_id: u32,
    /// The number of the next row.
    pub next_row: u64,
}

impl AutoKeys {
    /// A task that has seen no row.
    pub fn new(instant: impl Into<String>, task_partition_id: u32) -> Self {
        Self { instant: instant.into(), task_partition_id, next_row: 0 }
    }

    /// Keys of the next `rows` rows.
    ///
    /// # Errors
    /// More than 2 GiB of keys at once.
    pub fn next(&mut self, rows: usize) -> Result<StringArray> {
        let prefix = format!("{}_{}_", self.instant, self.task_partition_id);
        let mut keys = KeyStringBuilder::new(rows, prefix.len() + 8);
        for row in (self.next_row..).take(rows) {
            // Writing to memory does not fail.
            let _ = keys.write_str(&prefix).and_then(|()| write_digits(&mut keys, row, 1));
            keys.end()?;
        }
        self.next_row += rows as u64;
        keys.finish()
    }
}
