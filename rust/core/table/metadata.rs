//! The metadata table of a table.

use super::HudiTable;
use crate::error::{Error, Result};
use crate::metadata_table::{FILES, MetadataTable};
use crate::timeline::Timeline;

impl HudiTable {
    /// The metadata table; `None` if the table has none that is complete.
    ///
    /// # Errors
    /// `Corrupt` for a metadata table that is damaged; `Unsupported` for one of table version 6; `Storage`.
    pub fn metadata_table(&self) -> Result<Option<MetadataTable>> {
        match self.config().complete_metadata_partitions() {
            partitions if partitions.iter().any(|name| name == FILES) => {
                if self.config().version() < 8 {
                    return Err(Error::unsupported("metadata tables of table version 6 are not supported")
                        .with("table", self.storage().uri())
                        .remedy("Upgrade the table with Hudi"));
                }
                self.metadata_table_at(&self.timeline()?)
            }
            _ => Ok(None),
        }
    }

    /// The same beside a timeline of the table; `None` for table version 6 too.
    ///
    /// # Errors
    /// Those of [`HudiTable::metadata_table`].
    pub(crate) fn metadata_table_at(&self, timeline: &Timeline) -> Result<Option<MetadataTable>> {
        let partitions = self.config().complete_metadata_partitions();
        if self.config().version() < 8 || !partitions.iter().any(|name| name == FILES) {
            return Ok(None);
        }
        MetadataTable::open(self.storage(), timeline, partitions).map(Some)
    }
}
