//! Leaving out base files that have none of the wanted keys, by the statistics and the bloom filters of the metadata table:
//! their footers say the same, but each has to be opened for it.

use crate::error::Result;
use crate::table::{HudiTable, TableView};
use crate::write::locate::key_list::KeyList;

/// From so many files on, asking the metadata table takes less than opening footers.
const MANY_FILES: usize = 64;

/// Asks the metadata table for the keys of base files.
pub(crate) struct KnownKeys<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
}

impl<'a> KnownKeys<'a> {
    /// Those of a table that stores its keys, as a view shows it.
    pub(in crate::write) fn new(table: &'a HudiTable, view: &'a TableView) -> Self {
        Self { table, view }
    }

    /// Whether each of the files (partition, path) may have keys by its range of them; `None` if nothing is known of the
    /// files, or there are few. `keys` gives what is looked for by number of the file.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::write) fn by_range<'k, 's: 'k>(
        &self,
        files: &[(&str, &str)],
        keys: impl Fn(usize) -> Option<&'k KeyList<'s>>,
        threads: usize,
    ) -> Result<Option<Vec<bool>>> {
        if files.len() < MANY_FILES {
            return Ok(None);
        }
        let names: Vec<(&str, &str)> =
            files.iter().map(|(partition, path)| (*partition, path.rsplit('/').next().unwrap_or(path))).collect();
        let ranges = self.table.key_ranges(self.view, &names, threads)?;
        let is_open = |(file, range): (usize, Option<(String, String)>)| match range {
            Some((min, max)) => keys(file).is_none_or(|keys| keys.may_be_in(&min, &max)),
            None => true,
        };
        Ok(ranges.map(|ranges| ranges.into_iter().enumerate().map(is_open).collect()))
    }

    /// The same by the bloom filters of the files.
    ///
    /// # Errors
    /// `Storage`.
    pub(in crate::write) fn by_bloom_filter<'k, 's: 'k>(
        &self,
        files: &[(&str, &str)],
        keys: &(dyn Fn(usize) -> Option<&'k KeyList<'s>> + Sync),
        threads: usize,
    ) -> Result<Option<Vec<bool>>> {
        let keys = |file: usize| keys(file).map_or(&[][..], |keys| &keys.all);
        self.table.files_with_keys(self.view, files, &keys, threads)
    }
}
