//! What Hudi makes of the table's options for the metadata table.

use crate::error::{Error, Result};
use crate::services::archive::ArchiveOptions;
use crate::services::clean::Retention;
use crate::table::Options;

const MAX_DELTA_COMMITS: &str = "hoodie.metadata.compact.max.delta.commits";
const LOG_COMPACTION: &str = "hoodie.metadata.log.compaction.enable";
const LOG_BLOCKS: &str = "hoodie.metadata.log.compaction.blocks.threshold";
/// Commits whose files the cleaner of the metadata table retains at least.
const MIN_COMMITS_RETAINED: usize = 20;

/// Settings of the services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetadataServiceOptions {
    /// Delta commits after which the metadata table is compacted.
    pub max_delta_commits: usize,
    /// Delta commits after which log files are merged, and number of them that a shard must have; `None`: never.
    pub log_blocks: Option<usize>,
    /// Commits of the metadata table whose files stay.
    pub commits_retained: usize,
    /// What is archived.
    pub archive: ArchiveOptions,
}

impl MetadataServiceOptions {
    /// Reads the settings.
    ///
    /// # Errors
    /// `InvalidOption` for invalid numbers; those of the options of archiving.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let max_delta_commits = options.number(MAX_DELTA_COMMITS, 10)?;
        if max_delta_commits == 0 {
            return Err(Error::invalid_value(MAX_DELTA_COMMITS, 0, "a number from 1"));
        }
        let log_blocks = match options.flag(LOG_COMPACTION, false)? {
            true => Some(options.number(LOG_BLOCKS, 5)?),
            false => None,
        };
        if log_blocks.is_some_and(|blocks| blocks < 2) {
            return Err(Error::invalid_value(LOG_BLOCKS, log_blocks.unwrap_or_default(), "a number from 2"));
        }
        let of_table = ArchiveOptions::from_options(options)?;
        // By the number of commits, whatever policy the table is cleaned by: files of the metadata table are read only as of
        // now, so that its cleaner need not keep what a policy of the table is about.
        let retained = match Retention::from_options(options)? {
            Retention::Commits(retained) => retained,
            Retention::Hours(_) | Retention::FileVersions(_) => 0,
        };
        let commits_retained = MIN_COMMITS_RETAINED.max(retained.saturating_mul(6) / 5);
        Ok(Self {
            max_delta_commits,
            log_blocks,
            commits_retained,
            archive: ArchiveOptions {
                keep_min: of_table.keep_min.saturating_add(1),
                keep_max: of_table.keep_max.saturating_add(1),
                beyond_savepoint: false,
                compacted_after: Some(max_delta_commits),
                retention: Retention::Commits(commits_retained),
                history: of_table.history,
            },
        })
    }
}
