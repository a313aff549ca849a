//! How writers share a table, by Hudi's options.
//!
//! Whatever the mode, each action shows a heartbeat and compares, under the table lock, what it was planned from with the
//! timeline. So a mode changes little: which options must come with it, and when writes that failed are rolled back.

use crate::error::{Error, Result};
use crate::table::Options;

/// Option: how writers share a table.
const MODE: &str = "hoodie.write.concurrency.mode";
/// Option: when failed writes are rolled back.
const FAILED_WRITES: &str = "hoodie.clean.failed.writes.policy";
/// Option: who gives way.
const CONFLICTS: &str = "hoodie.write.lock.conflict.resolution.strategy";
/// Option: the lock.
const PROVIDER: &str = "hoodie.write.lock.provider";
/// Option: whether a writer looks for others before it writes files.
const EARLY: &str = "hoodie.write.concurrency.early.conflict.detection.enable";

/// When failed writes are rolled back (`hoodie.clean.failed.writes.policy`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailedWrites {
    /// By the next write.
    Eager,
    /// By the next clean.
    Lazy,
    /// By nobody but who asks for it.
    Never,
}

/// How a writer behaves beside others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Concurrency {
    /// When failed writes are rolled back.
    pub(crate) failed_writes: FailedWrites,
    /// Whether a clustering gives way to writes that are under way in its file groups.
    pub(crate) writers_first: bool,
    /// Whether a write looks, before it writes files, whether others are at work on the same file groups.
    pub(crate) looks_early: bool,
    /// Whether writes only append log files, which readers merge: none waits for another one, or fails because of it.
    pub(crate) non_blocking: bool,
    /// Whether there are other writers, also of real Hudi.
    pub(crate) several: bool,
}

impl Concurrency {
    /// Reads the options.
    ///
    /// # Errors
    /// `Unsupported` for modes and strategies that are not supported; `InvalidOption` for several writers without a lock, and
    /// for values that are none.
    pub(crate) fn from_options(options: &Options) -> Result<Self> {
        let mode = options.get(MODE).unwrap_or("SINGLE_WRITER").to_ascii_uppercase();
        let (several, non_blocking) = match mode.as_str() {
            "SINGLE_WRITER" => (false, false),
            "OPTIMISTIC_CONCURRENCY_CONTROL" => (true, false),
            "NON_BLOCKING_CONCURRENCY_CONTROL" => (true, true),
            _ => {
                let modes = "one of SINGLE_WRITER, OPTIMISTIC_CONCURRENCY_CONTROL, NON_BLOCKING_CONCURRENCY_CONTROL";
                return Err(Error::invalid_value(MODE, mode, modes));
            }
        };
        if several && options.get(PROVIDER).is_none() {
            return Err(Error::invalid_option(format!("{MODE}={mode} needs a lock, and {PROVIDER} is not given"))
                .remedy(format!(
                    "Give all writers the same lock: {PROVIDER}=\
                     org.apache.hudi.client.transaction.lock.StorageBasedLockProvider on an object store, \
                     FileSystemBasedLockProvider on a local disk"
                )));
        }
        let standard = if several { "LAZY" } else { "EAGER" };
        let policy = options.get(FAILED_WRITES).unwrap_or(standard).to_ascii_uppercase();
        let failed_writes = match policy.as_str() {
            "EAGER" => FailedWrites::Eager,
            "LAZY" => FailedWrites::Lazy,
            "NEVER" => FailedWrites::Never,
            _ => return Err(Error::invalid_value(FAILED_WRITES, policy, "EAGER, LAZY or NEVER")),
        };
        let looks_early = options.flag(EARLY, false)? && several && !non_blocking;
        Ok(Self {
            failed_writes,
            writers_first: several && writers_first(options)?,
            looks_early,
            non_blocking,
            several,
        })
    }
}

/// Whether the strategy for conflicts lets writers win.
///
/// # Errors
/// `Unsupported` for other strategies than those of Hudi.
pub(crate) fn writers_first(options: &Options) -> Result<bool> {
    let Some(class) = options.get(CONFLICTS) else { return Ok(false) };
    match class.rsplit('.').next().unwrap_or(class) {
        "PreferWriterConflictResolutionStrategy" => Ok(true),
        "SimpleConcurrentFileWritesConflictResolutionStrategy"
        | "BucketIndexConcurrentFileWritesConflictResolutionStrategy" => Ok(false),
        other => Err(Error::unsupported(format!("the strategy {other} in {CONFLICTS}")).remedy(
            "Use SimpleConcurrentFileWritesConflictResolutionStrategy or PreferWriterConflictResolutionStrategy",
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    const OCC: (&str, &str) = (MODE, "optimistic_concurrency_control");
    const LOCK: (&str, &str) = (PROVIDER, "org.apache.hudi.client.transaction.lock.InProcessLockProvider");

    fn of(given: &[(&str, &str)]) -> Result<Concurrency> {
        let given = given.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        Concurrency::from_options(&Options::new(given)?)
    }

    #[test]
    fn a_mode_says_when_failed_writes_go() {
        assert_eq!(of(&[]).unwrap().failed_writes, FailedWrites::Eager);
        assert_eq!(of(&[OCC, LOCK]).unwrap().failed_writes, FailedWrites::Lazy);
        assert_eq!(of(&[OCC, LOCK, (FAILED_WRITES, "EAGER")]).unwrap().failed_writes, FailedWrites::Eager);
        let old = "hoodie.cleaner.policy.failed.writes";
        assert_eq!(of(&[(old, "never")]).unwrap().failed_writes, FailedWrites::Never);
    }

    #[test]
    fn several_writers_need_a_lock() {
        assert_eq!(of(&[OCC]).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert_eq!(of(&[(MODE, "ANY")]).unwrap_err().kind(), ErrorKind::InvalidOption);
        let non_blocking = (MODE, "NON_BLOCKING_CONCURRENCY_CONTROL");
        assert_eq!(of(&[non_blocking]).unwrap_err().kind(), ErrorKind::InvalidOption);
        assert!(of(&[non_blocking, LOCK]).unwrap().non_blocking);
        assert_eq!(of(&[(FAILED_WRITES, "SOON")]).unwrap_err().kind(), ErrorKind::InvalidOption);
    }

    #[test]
    fn strategies_by_their_classes() {
        let prefer = (CONFLICTS, "org.apache.hudi.client.transaction.PreferWriterConflictResolutionStrategy");
        assert!(of(&[OCC, LOCK, prefer]).unwrap().writers_first);
        assert!(!of(&[prefer]).unwrap().writers_first, "a single writer has nobody to give way to");
        assert_eq!(of(&[OCC, LOCK, (CONFLICTS, "my.Own")]).unwrap_err().kind(), ErrorKind::Unsupported);
        assert!(of(&[OCC, LOCK, (EARLY, "true")]).unwrap().looks_early);
    }
}
