//! The records of the timeline: plans and commit metadata as Hudi stores them.
//!
//! Each record is one Rust type with Hudi's field names (less the `Hoodie` before the type names) and one Avro schema,
//! both made from the same definition ([`record`]). A field that Hudi declares nullable is an `Option`, so that what
//! was read can be written back unchanged; the exceptions are the maps of a commit, which Hudi does not take as null.
//!
//! On disk (table versions 8 and 9) every record is an Avro container file; version 6 has commits as JSON.

mod archived;
mod clean;
mod clustering;
mod commit;
mod compaction;
mod index;
mod record;
mod restore;
mod rollback;
mod savepoint;

#[cfg(test)]
mod tests;

pub use archived::{ArchivedMetaEntry, MergeArchiveFilePlan};
pub use clean::CleanPartitionMetadata;
pub use clean::{ActionInstant, CleanFileInfo, CleanMetadata, CleanerPlan};
pub use clustering::RequestedReplaceMetadata;
pub use clustering::{ClusteringGroup, ClusteringPlan, ClusteringStrategy, SliceInfo};
pub use commit::RuntimeStats;
pub use commit::{CommitMetadata, ReplaceCommitMetadata, WriteStat};
pub use compaction::CompactionStrategy;
pub use compaction::{CompactionOperation, CompactionPlan};
pub use index::IndexPlan;
pub use index::{IndexCommitMetadata, IndexPartitionInfo};
pub(crate) use record::RecordSchema;
pub use restore::RestoreMetadata;
pub use restore::RestorePlan;
pub use rollback::{InstantInfo, RollbackPartitionMetadata, RollbackRequest};
pub use rollback::{RollbackMetadata, RollbackPlan};
pub use savepoint::{SavepointMetadata, SavepointPartitionMetadata};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::container::{read_first_record, write_container};
use crate::json;
use hoodoo_runtime::error::Result;

/// A record that is the whole content of a timeline file.
pub trait TimelineRecord: Serialize + DeserializeOwned + Default {
    /// Hudi's name of the record, without the namespace.
    const NAME: &'static str;

    /// The Avro schema that we write it with.
    fn avro_schema() -> &'static RecordSchema;
}

/// The Avro container file with this record in it.
///
/// # Errors
/// None in practice: type and schema come from one definition.
pub fn encode<T: TimelineRecord>(record: &T) -> Result<Vec<u8>> {
    let schema = T::avro_schema();
    write_container(schema.datum(), schema.json(), record).map_err(|e| e.with("record", T::NAME))
}

/// Reads the first record of an Avro container file, whoever wrote it: fields that we do not know are dropped, missing
/// ones get their default.
///
/// # Errors
/// `Corrupt` if the bytes are no intact container, hold no record, or hold one of another kind.
pub fn decode<T: TimelineRecord>(bytes: &[u8]) -> Result<T> {
    read_first_record(bytes).map_err(|e| e.with("record", T::NAME))
}

/// Reads the JSON body of a commit or replacecommit of timeline layout 1. Unknown keys are ignored.
///
/// # Errors
/// `Corrupt` if the bytes are not JSON of that shape.
pub fn decode_json<T: TimelineRecord>(bytes: &[u8]) -> Result<T> {
    json::parse(bytes, "a JSON body of the timeline could not be read").map_err(|e| e.with("record", T::NAME))
}

/// The record as JSON with Hudi's field names.
pub fn to_json<T: TimelineRecord>(record: &T) -> serde_json::Value {
    // Only map keys that are not strings could fail, and there are none.
    serde_json::to_value(record).unwrap_or_default()
}
