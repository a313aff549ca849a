//! Which columns have ranges in the metadata table.

use std::sync::Arc;

use arrow::datatypes::Schema;

use super::HudiTable;
use crate::error::Result;
use crate::metadata_table::COLUMN_STATS;
use crate::metadata_table::column_ranges::{IndexVersion, IndexedColumnOptions, indexed_columns};
use crate::metadata_table::expression_index::is_expression_index;
use crate::timeline::Timeline;

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
