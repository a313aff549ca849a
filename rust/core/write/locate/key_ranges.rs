//! Leaving out base files whose range of keys has none of the wanted ones, by the statistics of the metadata table: their
//! footers say the same, but each has to be opened for it.

use crate::error::Result;
use crate::table::{HudiTable, TableView};

/// From so many files on, asking the metadata table takes less than opening footers.
const MANY_FILES: usize = 64;

/// Asks the column statistics.
pub(crate) struct KeyRanges<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
}

impl<'a> KeyRanges<'a> {
    /// Those of a table that stores its keys, as a view shows it.
    pub(in crate::write) fn new(table: &'a HudiTable, view: &'a TableView) -> Self {
        Self { table, view }
    }

    /// Whether each of the files (partition, path) may hold keys; `None` if nothing is known of them, or there are few.
    /// `may_hold` says so of a file and its smallest and largest key.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::write) fn may_hold(
        &self,
        files: &[(&str, &str)],
        threads: usize,
        may_hold: impl Fn(usize, &str, &str) -> bool,
    ) -> Result<Option<Vec<bool>>> {
        if files.len() < MANY_FILES {
            return Ok(None);
        }
        let names: Vec<(&str, &str)> =
            files.iter().map(|(partition, path)| (*partition, path.rsplit('/').next().unwrap_or(path))).collect();
        let ranges = self.table.key_ranges(self.view, &names, threads)?;
        let is_open = |(file, range): (usize, Option<(String, String)>)| match range {
            Some((min, max)) => may_hold(file, &min, &max),
            None => true,
        };
        Ok(ranges.map(|ranges| ranges.into_iter().enumerate().map(is_open).collect()))
    }
}
