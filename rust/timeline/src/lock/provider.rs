//! What a lock provider does.

use std::time::Duration;

use hoodoo_runtime::error::{Error, ErrorKind, Result};

/// A lock that excludes other processes.
pub(crate) trait LockProvider: Send + Sync {
    /// Tries once to acquire the lock. `owner` is the name of a [`Holder`]; all attempts of one caller have the same.
    fn try_acquire(&self, owner: &str) -> Result<Attempt>;
    /// Name of the provider, for messages.
    fn name(&self) -> &'static str;
    /// Path of the lock, for messages.
    fn path(&self) -> String;
    /// What to do if the lock cannot be acquired.
    fn remedy(&self) -> String;
}

/// The result of one attempt.
pub(crate) enum Attempt {
    /// This process holds the lock.
    Acquired(Box<dyn Lease>),
    /// Another writer holds it, if known who.
    Busy(Option<LockOwner>),
    /// It was free a moment ago, and another writer was faster.
    Outrun,
}

/// A writer that holds the lock.
pub(crate) struct LockOwner {
    /// Differs each time that the lock is acquired.
    pub(crate) id: String,
    /// The writer and its lock, for messages.
    pub(crate) description: String,
}

/// A lock that is held.
pub(crate) trait Lease: Send {
    /// Fails if this process knows that the lock was lost. Makes no request.
    fn check(&self) -> Result<()>;
    /// Fails unless the storage confirms that this process holds the lock.
    fn verify(&self) -> Result<()>;
    /// Releases the lock, unless it was lost.
    fn release(&mut self) -> Result<()>;
}

/// The error of a lock that was lost.
pub(super) fn lost(why: impl std::fmt::Display, path: &str) -> Error {
    Error::new(ErrorKind::Lock, format!("the table lock was lost: {why}"))
        .with("lock", path)
        .remedy("Nothing was published. Write again; the next write removes the invisible files of this one")
}

/// Milliseconds.
pub(super) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
