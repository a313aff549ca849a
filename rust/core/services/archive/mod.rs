//! Archiving moves completed instants from the active timeline to the history, and compacts the history.
//!
//! The rules are Hudi's (`TimelineArchiverV2`). In addition, archiving checks that the files that an instant replaced
//! or rolled back are deleted. A plan also has the archive blockers: why the other instants stay.

mod actions;
mod execute;
mod input;
mod plan;

#[cfg(test)]
mod tests;

pub(crate) use execute::archive_if_due;
pub use execute::{ArchiveOutcome, archive, compact_history, planned};
pub(in crate::services) use execute::{archive_planned, finish_interrupted, half_archived};
pub(in crate::services) use input::last_clean;
pub(crate) use plan::ArchiveOptions;
pub(in crate::services) use plan::{ArchiveInput, MetadataTable, Reason, plan_archive};
