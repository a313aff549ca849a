//! Which base files may have some record keys, by the bloom filters in the metadata table: their footers have the same
//! filters, but each has to be opened for it.

use crate::error::Result;
use crate::format::bloom::BloomFilter;
use crate::metadata_table::BLOOM_FILTERS;
use crate::table::file_listing::is_about_content;
use crate::table::{HudiTable, TableView};

/// From so many files on, asking the metadata table takes less than opening footers.
const MANY_FILES: usize = 16;
/// With more keys than this, many files have some of them, and on a local disk their footers are read faster.
const MOST_KEYS: usize = 200;

impl HudiTable {
    /// Whether each of the base files (partition, path) may have some of the keys that are looked for in it: `keys` gives
    /// them by number of the file, none if they are not known. `None` if nothing is known of the files, or there are few.
    /// The table's files store the keys.
    ///
    /// # Errors
    /// `Storage`. Damaged filters say nothing, with a warning.
    pub(crate) fn files_with_keys<'k>(
        &self,
        view: &TableView,
        files: &[(&str, &str)],
        keys: &(dyn Fn(usize) -> &'k [&'k str] + Sync),
        threads: usize,
    ) -> Result<Option<Vec<bool>>> {
        let is_asked = |keys: &[&str]| !keys.is_empty() && keys.len() <= MOST_KEYS;
        let asked: Vec<usize> = (0..files.len()).filter(|file| is_asked(keys(*file))).collect();
        if asked.len() < MANY_FILES {
            return Ok(None);
        }
        let Some(metadata) = view.metadata_table()?.filter(|metadata| metadata.has(BLOOM_FILTERS)) else {
            return Ok(None);
        };
        let names: Vec<(&str, &str)> = asked
            .iter()
            .filter_map(|file| files.get(*file))
            .map(|(partition, path)| (*partition, path.rsplit('/').next().unwrap_or(path)))
            .collect();
        let may_hold = |number: usize, filter: &BloomFilter| {
            asked.get(number).is_none_or(|file| keys(*file).iter().any(|key| filter.might_contain(key)))
        };
        match metadata.ask_bloom_filters(&names, threads, &may_hold) {
            Err(e) if is_about_content(&e) => {
                self.warn_of_metadata_table(&format!(
                    "keys are looked for in all files, because bloom filters cannot be used: {e}"
                ));
                Ok(None)
            }
            answers => {
                let mut may = vec![true; files.len()];
                for (file, answer) in asked.iter().zip(answers?) {
                    if let Some(may) = may.get_mut(*file) {
                        *may = answer;
                    }
                }
                Ok(Some(may))
            }
        }
    }
}
