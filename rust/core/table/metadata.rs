//! The metadata table of a table.

use std::sync::{Mutex, PoisonError};

use super::HudiTable;
use super::file_listing::{MetadataSource, warn_once};
use super::truncated_logs::SKIP_TRUNCATED;
use crate::error::{Error, Result};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::{FILES, MetadataListing, MetadataTable};
use crate::timeline::Timeline;

/// Option: whether the metadata table is used.
const ENABLE: &str = "hoodie.metadata.enable";
/// Option: whether the metadata table gets a record index of the whole table.
pub(crate) const GLOBAL_RECORD_INDEX: &str = "hoodie.metadata.global.record.level.index.enable";
/// Option: whether it gets one of each data partition.
pub(crate) const RECORD_INDEX_BY_PARTITION: &str = "hoodie.metadata.record.level.index.enable";

/// What a handle last saw of the metadata table.
#[derive(Default)]
pub(super) struct LastLook {
    /// Its files, and the timeline of the table before it.
    listing: Option<(Timeline, MetadataListing)>,
    definitions: Option<IndexDefinitions>,
}

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
                        .remedy("Upgrade the table: t.upgrade() or hoodoo upgrade"));
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

    /// What views find files with in the metadata table; `None` where the folders are listed.
    ///
    /// # Errors
    /// `InvalidOption` for an option that is neither true nor false.
    pub(super) fn metadata_source(&self, timeline: &Timeline) -> Result<Option<MetadataSource>> {
        let partitions = self.config().complete_metadata_partitions();
        let has_files = self.config().version() >= 8 && partitions.iter().any(|name| name == FILES);
        // What is left of a log file shows only where its size is looked up.
        if !has_files || !self.options().flag(ENABLE, true)? || self.options().flag(SKIP_TRUNCATED, false)? {
            return Ok(None);
        }
        Ok(Some(MetadataSource {
            timeline: timeline.clone(),
            partitions,
            listing: Mutex::new(self.take_metadata_listing(timeline)),
            warned: self.warned.clone(),
        }))
    }

    /// Keeps a look at the metadata table that was taken after the timeline of the table was loaded, for the view that is
    /// made of this timeline, and the definitions of indexes for the write that follows.
    pub(crate) fn keep_metadata_listing(
        &self,
        timeline: &Timeline,
        listing: MetadataListing,
        definitions: IndexDefinitions,
    ) {
        let kept = LastLook { listing: Some((timeline.clone(), listing)), definitions: Some(definitions) };
        *self.last_look.lock().unwrap_or_else(PoisonError::into_inner) = kept;
    }

    /// Takes what was kept; `None` if that was beside another state of the timeline.
    fn take_metadata_listing(&self, timeline: &Timeline) -> Option<MetadataListing> {
        let kept = self.last_look.lock().unwrap_or_else(PoisonError::into_inner).listing.take();
        kept.filter(|(beside, _)| beside.is_same(timeline)).map(|(_, listing)| listing)
    }

    /// The definitions of indexes; those that were kept are taken.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(super) fn index_definitions(&self) -> Result<IndexDefinitions> {
        let kept = self.last_look.lock().unwrap_or_else(PoisonError::into_inner).definitions.take();
        kept.map_or_else(|| IndexDefinitions::read(self.storage(), self.config().get(PATH_PROPERTY)), Ok)
    }

    /// Whether a metadata table is made with the next action where there is none: for a table to which nothing was written
    /// yet, unless the options say otherwise; for one that has done without it until now, only if they say so.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(crate) fn makes_metadata_table(&self, timeline: &Timeline) -> Result<bool> {
        let is_new = !timeline.is_written();
        Ok(self.options().flag(ENABLE, true)?
            && (is_new || self.options().get(ENABLE).is_some() || self.wanted_record_index()?.is_some()))
    }

    /// Whether the options ask for a record index, and if so, whether each data partition is to have shards of its own.
    ///
    /// # Errors
    /// `InvalidOption`.
    pub(crate) fn wanted_record_index(&self) -> Result<Option<bool>> {
        let is_on = |option: &str| self.options().flag(option, false);
        Ok(match (is_on(GLOBAL_RECORD_INDEX)?, is_on(RECORD_INDEX_BY_PARTITION)?) {
            (true, _) => Some(false),
            (false, true) => Some(true),
            (false, false) => None,
        })
    }

    /// Warns of a metadata table that is not used, or not for all that it is for; of the same thing once.
    pub(crate) fn warn_of_metadata_table(&self, message: &str) {
        warn_once(&self.warned, self.storage(), message);
    }
}
