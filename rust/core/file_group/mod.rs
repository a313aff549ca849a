//! File groups: names of data files, base files, log files, and file slices.

pub mod base;
pub mod log;
pub mod markers;
mod names;
mod slices;

pub use names::{
    BaseFile, LogFile, data_file_instant, is_data_path, is_partition_metadata, is_partition_path, join, new_file_id,
};
pub use slices::{CommitTimes, FileGroup, FileSlice, group_files};
