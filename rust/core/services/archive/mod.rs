//! Archiving: completed instants move from the active timeline to the history, and the history is compacted.
//!
//! What may go is Hudi's decision (`TimelineArchiverV2`), with one thing more: that the files which an instant replaced
//! or rolled back are gone is looked up and not assumed. A plan also says what holds the rest back.

mod execute;
mod plan;

#[cfg(test)]
mod tests;

pub use execute::{ArchiveOutcome, archive, archive_if_due, compact_history, planned};
pub use plan::{ArchiveBlocker, ArchiveOptions, ArchivePlan, Reason, Retention};
