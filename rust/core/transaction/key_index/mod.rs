//! Building an index of keys: the record index, or a secondary index.
//!
//! | step | where |
//! |---|---|
//! | [`PlannedIndex`]: the shards, and the file slices of the table as it is | process that commits |
//! | [`read_keys`]: the keys of file slices, each with its shard and the number of its slice | tasks, in any order |
//! | the keys are brought together by shard, and sorted | the engine, or a sorter that spills |
//! | [`write_shards`]: base files of whole shards, staged ([`crate::metadata_table::write::staged_shards`]) | tasks |
//! | [`StagedIndex`]: what others have changed meanwhile, and the delta commit | process that commits, under the table lock |
//!
//! The tasks run on threads of this process ([`PlannedIndex::run`]) or in those of an engine. Other writers go on
//! meanwhile. What they change goes into log files of the shards: the keys of slices that are gone are deleted, and those of
//! new slices are put in.

mod changes;
mod engine_rows;
mod plan;
mod planned;
mod staged;
mod task;

pub(in crate::transaction) use plan::KeyIndexKind;
pub use plan::{KeyIndexPlan, SliceUnit};
pub(crate) use planned::PlannedIndex;
pub(crate) use staged::StagedIndex;
pub(crate) use task::{KeyReport, read_keys, write_shards};
