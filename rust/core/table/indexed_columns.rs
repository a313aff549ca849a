//! Which columns have ranges in the metadata table.

use std::sync::Arc;

use arrow::datatypes::Schema;

use super::{HudiTable, META_COLUMNS};
use crate::error::Result;
use crate::merge::ordering_type;
use crate::metadata_table::COLUMN_STATS;
use crate::metadata_table::column_ranges::{IndexVersion, IndexedColumnOptions, indexed_columns};
use crate::metadata_table::expression_index::is_expression_index;
use crate::timeline::Timeline;

/// Whether a table of these columns has a column, or a field of a struct by its path, of a type that can have ranges.
pub(crate) fn can_have_ranges(data: &Schema, column: &str) -> bool {
    META_COLUMNS.contains(&column) || ordering_type(data, column).is_some()
}

impl HudiTable {
    /// The columns whose ranges a write has to collect, in a table of these columns: those that the index has, or else those
    /// that it will have, and those of expression indexes. `None` if the metadata table has no statistics of columns, so that
    /// other tables pay nothing for them.
    ///
    /// # Errors
    /// Those of [`HudiTable::columns_to_index`]; `Corrupt` for definitions of indexes that are damaged; `Storage`.
    pub(super) fn collected_columns(&self, data: &Schema) -> Result<Option<Arc<[String]>>> {
        let partitions = self.config().metadata_partitions();
        let has_statistics = partitions.iter().any(|partition| partition == COLUMN_STATS);
        if !has_statistics && !partitions.iter().any(|partition| is_expression_index(partition)) {
            return Ok(None);
        }
        let definitions = self.index_definitions()?;
        let known = definitions.source_fields(COLUMN_STATS).filter(|columns| !columns.is_empty());
        let mut columns = match (has_statistics, known) {
            (false, _) => Vec::new(),
            (true, known) => known.map_or_else(|| self.columns_to_index(data), Ok)?,
        };
        columns.retain(|column| can_have_ranges(data, column));
        // Those of an index that cannot be kept are of no use, but it is not looked at here.
        let indexes = partitions.iter().filter_map(|partition| definitions.expression_index(partition).ok());
        for index in indexes.filter(|index| index.of_rows().is_none() && data.index_of(&index.column).is_ok()) {
            if !columns.contains(&index.column) {
                columns.push(index.column);
            }
        }
        Ok(Some(columns.into()))
    }

    /// The columns whose ranges a write collects because the metadata table will be made with it, or beside it by another
    /// writer; `None` where there is one, or none is made.
    ///
    /// # Errors
    /// Those of [`HudiTable::columns_to_index`].
    pub(crate) fn collected_for_new(&self, data: &Schema, timeline: &Timeline) -> Result<Option<Arc<[String]>>> {
        if !self.config().metadata_partitions().is_empty() || !self.makes_metadata_table(timeline)? {
            return Ok(None);
        }
        self.columns_to_index(data).map(|columns| Some(columns.into()))
    }

    /// The columns that statistics get because a write adds them to the table, beside those that they have: none where somebody
    /// chose columns. Hudi's next write puts them into the index in any case, and its readers then pass over files without
    /// statistics of them.
    pub(crate) fn new_to_index(&self, known: &[String], before: &Schema, after: &Schema) -> Vec<String> {
        // Another list in the options, with columns that are not there, is warned of elsewhere.
        let mut wanted = self.columns_to_index(after).unwrap_or_default();
        wanted.retain(|column| !known.contains(column));
        // A column, or a field of a struct by its path.
        let has = |columns, name: &String| ordering_type(columns, name).is_some();
        let is_new = |column: &String| has(after, column) && !has(before, column);
        if wanted.iter().all(is_new) { wanted } else { Vec::new() }
    }

    /// The columns whose ranges a write collects that makes these columns of those which the table had; `None` where it adds
    /// none to the index.
    ///
    /// # Errors
    /// `Corrupt` for definitions of indexes that are damaged; `Storage`.
    pub(crate) fn collected_with_new(&self, before: &Schema, after: &Schema) -> Result<Option<Arc<[String]>>> {
        if before.fields() == after.fields() {
            return Ok(None);
        }
        let Some(collected) = self.collected_columns(after)? else { return Ok(None) };
        let known = self.index_definitions()?.source_fields(COLUMN_STATS).unwrap_or_default();
        if known.is_empty() {
            return Ok(None);
        }
        let new = self.new_to_index(&known, before, after);
        let more = new.into_iter().filter(|column| !collected.contains(column));
        Ok(Some(collected.iter().cloned().chain(more).collect()))
    }

    /// The columns that have ranges once the metadata table has statistics of columns, in a table of these columns.
    ///
    /// # Errors
    /// `InvalidOption` for a list that names a column that the table does not have.
    pub(crate) fn columns_to_index(&self, data: &Schema) -> Result<Vec<String>> {
        let options = IndexedColumnOptions::new(|key| self.options().get(key))?;
        indexed_columns(data, self.config().populates_meta_fields(), &options, self.index_version())
    }

    /// The columns of a list that have ranges, beside those that always have them.
    ///
    /// # Errors
    /// `InvalidOption` for a list that names a column that the table does not have.
    pub(crate) fn columns_of_list(&self, data: &Schema, columns: &[String]) -> Result<Vec<String>> {
        let options = IndexedColumnOptions::of_list(columns.to_vec());
        indexed_columns(data, self.config().populates_meta_fields(), &options, self.index_version())
    }

    /// The version of those statistics.
    pub(crate) fn index_version(&self) -> IndexVersion {
        IndexVersion::of_table(self.config().version())
    }
}
