//! Archiving moves completed instants from the active timeline to the history, and compacts the history.
//!
//! The rules are Hudi's (`TimelineArchiverV2`). In addition, archiving checks that the files that an instant replaced
//! or rolled back are deleted. A plan also has the archive blockers: why the other instants stay.

mod execute;
mod plan;

#[cfg(test)]
mod tests;

pub use execute::{ArchiveOutcome, archive, archive_if_due, compact_history, planned};
pub use plan::{ArchiveBlocker, ArchiveOptions, ArchivePlan, Reason, Retention};
