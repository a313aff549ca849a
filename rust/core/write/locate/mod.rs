//! Where the record of each row is stored, if it is.

pub(in crate::write) mod bucket_writers;
pub(in crate::write) mod buckets;
pub(in crate::write) mod key_list;
pub(in crate::write) mod known_keys;
pub(in crate::write) mod log_keys;
pub(in crate::write) mod logged;
pub(in crate::write) mod lookup;
mod moves;
pub(in crate::write) mod new_rows;
pub(in crate::write) mod pending_file_groups;
pub(in crate::write) mod record_index;
pub(in crate::write) mod stored_records;
pub(in crate::write) mod tagging;
