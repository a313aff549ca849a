//! File groups: names of data files, base files, log files, and file slices.

#![warn(missing_docs, unreachable_pub)]

pub mod base;
mod buckets;
pub mod log;
pub mod markers;
mod names;
mod slices;

pub use buckets::{
    are_bucket_file_ids, bucket_of_file_id, is_bucket_file_id, is_shared_file_id, new_bucket_file_id, shared_file_id,
};
pub use names::{
    BaseFile, change_log_name, data_file_instant, is_data_path, is_partition_metadata, is_partition_path, new_file_id,
    parse_change_log, written_at,
};
pub use names::{LogFile, join};
pub use slices::FileSlice;
pub use slices::{FileGroup, group_files};
