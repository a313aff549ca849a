//! Leaving out file slices that a filter rules out, by the statistics of the metadata table.
//!
//! A slice is left out only if each of its files has statistics that rule the filter out: what a file does not say keeps its
//! slice. Statistics of partitions are not used: Hudi writes them, as exact, also where a file of the partition has none of
//! its own, and then they hide its rows.

mod bloom_filters;
mod bounds;

use std::collections::BTreeMap;

use arrow::array::AsArray;
use arrow::datatypes::DataType;

use self::bounds::bounds_of;
use super::file_listing::is_about_content;
use super::{HudiTable, TableView};
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::file_group::base::{Bounds, KeptStatistics, Predicate, RECORD_KEY_COLUMN, matching_slices};
use crate::format::internal_schema::SchemaHistory;
use crate::merge::MergeRule;
use crate::metadata_table::{COLUMN_STATS, ColumnStats, MetadataTable};

/// Option: whether file slices are left out by statistics.
pub(super) const ENABLE: &str = "hoodie.enable.data.skipping";

/// The smallest and largest key of files; `None` where they are not certain.
type CertainRanges = Vec<Option<(String, String)>>;

impl HudiTable {
    /// Leaves out the slices that cannot have rows for which a predicate holds; returns how many these are.
    ///
    /// # Errors
    /// `Storage`. Damaged statistics leave nothing out, with a warning.
    pub(super) fn skip_by_statistics(
        &self,
        view: &TableView,
        slices: &mut Vec<FileSlice>,
        predicate: &Predicate,
        history: Option<&SchemaHistory>,
    ) -> Result<usize> {
        // The footer of a single file says the same.
        if slices.len() < 2 || !self.options().flag(ENABLE, true)? {
            return Ok(0);
        }
        let Some(metadata) = view.metadata_table()?.filter(|metadata| metadata.has(COLUMN_STATS)) else { return Ok(0) };
        let kept = match may_match(&metadata, slices, predicate, history, self.threads()?) {
            Err(e) if is_about_content(&e) => {
                self.warn_of_metadata_table(&format!(
                    "no file is skipped by column statistics, which cannot be used: {e}"
                ));
                return Ok(0);
            }
            kept => kept?,
        };
        let merges_values = self.merges_values();
        let before = slices.len();
        let mut kept = kept.into_iter();
        slices.retain(|slice| kept.next().unwrap_or(true) || merges_values && !slice.logs.is_empty());
        Ok(before - slices.len())
    }

    /// The smallest and largest record key of files (partition, name), as far as the metadata table is certain of them;
    /// `None` if it has no statistics of columns. The table's files store the keys.
    ///
    /// # Errors
    /// `Storage`. Damaged statistics say nothing, with a warning.
    pub(crate) fn key_ranges(
        &self,
        view: &TableView,
        files: &[(&str, &str)],
        threads: usize,
    ) -> Result<Option<CertainRanges>> {
        let Some(metadata) = view.metadata_table()?.filter(|metadata| metadata.has(COLUMN_STATS)) else {
            return Ok(None);
        };
        match key_ranges_of(&metadata, files, threads) {
            Err(e) if is_about_content(&e) => {
                self.warn_of_metadata_table(&format!(
                    "keys are looked for in all files, because column statistics cannot be used: {e}"
                ));
                Ok(None)
            }
            ranges => ranges.map(Some),
        }
    }

    /// Whether merging makes values that are in no file, so that nothing is known of what is in log files.
    fn merges_values(&self) -> bool {
        let settings = self.merge_settings();
        !settings.is_ok_and(|settings| matches!(settings.rule, MergeRule::Pick(_) | MergeRule::Fill(..)))
    }
}

/// The ranges of record keys in files that are certain.
fn key_ranges_of(metadata: &MetadataTable, files: &[(&str, &str)], threads: usize) -> Result<CertainRanges> {
    let stats = metadata.file_stats(&[RECORD_KEY_COLUMN], files, threads)?.pop().unwrap_or_default();
    let bounds = bounds_of(&stats, RECORD_KEY_COLUMN, Some(&DataType::Utf8))?;
    let (mins, maxes) = (bounds.mins.as_string::<i32>(), bounds.maxes.as_string::<i32>());
    let range = |(min, max): (Option<&str>, Option<&str>)| Some((min?.to_owned(), max?.to_owned()));
    Ok(mins.iter().zip(maxes).map(range).collect())
}

/// Whether each slice may have rows for which a predicate holds, by the statistics of its files.
fn may_match(
    metadata: &MetadataTable,
    slices: &[FileSlice],
    predicate: &Predicate,
    history: Option<&SchemaHistory>,
    threads: usize,
) -> Result<Vec<bool>> {
    let mut slice_of = Vec::new();
    let mut files = Vec::new();
    for (number, slice) in slices.iter().enumerate() {
        let logs = slice.logs.iter().map(|log| log.path.as_str());
        for path in slice.base.iter().map(|base| base.path.as_str()).chain(logs) {
            slice_of.push(number);
            files.push((slice.partition.as_str(), path.rsplit('/').next().unwrap_or(path)));
        }
    }
    let mut columns = predicate.columns();
    // Statistics go by the name that a column had when they were written.
    columns.retain(|column| history.is_none_or(|history| history.is_unchanged(column)));
    let stats = metadata.file_stats(&columns, &files, threads)?;
    let statistics = Statistics(columns.into_iter().zip(stats).collect());
    matching_slices(predicate, slices.len(), &slice_of, &statistics)
}

/// Statistics of all files by column.
struct Statistics<'a>(BTreeMap<&'a str, Vec<Option<ColumnStats>>>);

impl KeptStatistics for Statistics<'_> {
    fn bounds(&self, column: &str, data_type: Option<&DataType>) -> Result<Option<Bounds>> {
        self.0.get(column).map(|stats| bounds_of(stats, column, data_type)).transpose()
    }
}
