//! The instant of a write, from requested to completed. What others did meanwhile is judged in `transaction::conflicts`.

pub(crate) mod alter;
pub(in crate::write) mod commit_statistics;
pub(in crate::write) mod delete_partition;
mod first_ids;
pub(in crate::write) mod pending;
pub(in crate::write) mod replaced;
pub(in crate::write) mod retry;
