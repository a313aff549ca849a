//! Rows on their way in: the columns of the table, keys, partitions, ordering values, delete marks.

pub(in crate::write) mod combine;
pub(in crate::write) mod conformer;
pub(in crate::write) mod incoming;
pub(in crate::write) mod key_encoding;
pub(in crate::write) mod partial_rows;
pub(in crate::write) mod sort;
