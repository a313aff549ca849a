//! What one task of a compaction gets.

use serde::{Deserialize, Serialize};

use super::plan::Kind;
use crate::error::{Error, Result};
use crate::format::avro::metadata::CompactionOperation;
use crate::timeline::Clock;

/// One operation of a plan, in one attempt to execute the plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompactionTask {
    /// What is compacted.
    pub kind: Kind,
    /// The operation.
    pub operation: CompactionOperation,
    /// The attempt to execute the plan, below 2³¹. A plan keeps its requested time when it is executed again, so that only
    /// the write token tells the files of its attempts apart: a task of an attempt that failed may still be running, and
    /// writes or deletes files of its own attempt only.
    pub attempt: u32,
}

/// A number for an attempt to execute a plan, that no other attempt has.
pub(super) fn new_attempt(clock: &dyn Clock) -> u32 {
    (clock.now_ms() & 0x7fff_ffff) as u32
}

impl CompactionTask {
    /// The write token. `attempt_of_task` is an engine's token `<task>-<stage>-<attempt>`, whose stage is replaced: the
    /// engine may number its stages anew after a restart.
    ///
    /// # Errors
    /// `InvalidOption` for another form.
    pub(super) fn token(&self, attempt_of_task: &str) -> Result<String> {
        let mut parts = attempt_of_task.splitn(3, '-');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(task), Some(_), Some(attempt)) => Ok(format!("{task}-{}-{attempt}", self.attempt)),
            _ => Err(Error::invalid_option("a write token has three numbers").with("token", attempt_of_task)),
        }
    }
}
