//! One file group merged, made or appended to.

pub(in crate::write) mod append_log;
pub(in crate::write) mod context;
pub(in crate::write) mod create_file;
pub(in crate::write) mod file_rows;
pub(in crate::write) mod group;
pub(in crate::write) mod merge_file;
pub(in crate::write) mod merge_rows;
pub(in crate::write) mod met_rows;
pub(in crate::write) mod splice_merge;
pub(in crate::write) mod stream_merge;
