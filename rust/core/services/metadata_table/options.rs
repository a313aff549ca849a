//! What Hudi makes of the table's options for the metadata table.

use crate::error::{Error, Result};
use crate::services::archive::ArchiveOptions;
use crate::services::clean::Retention;
use crate::table::Options;

const MAX_DELTA_COMMITS: &str = "hoodie.metadata.compact.max.delta.commits";
/// Commits whose files the cleaner of the metadata table retains at least.
const MIN_COMMITS_RETAINED: usize = 20;

/// Settings of the services.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MetadataServiceOptions {
    /// Delta commits after which the metadata table is compacted.
    pub max_delta_commits: usize,
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
