//! Work from a look at the table that another process may make outdated.

use crate::error::{Error, ErrorKind, Result};

/// How often work begins anew because the table changed meanwhile.
const ATTEMPTS: u32 = 10;

/// Work from a view and a listing that agree: between the two, others may compact and clean.
///
/// # Errors
/// Those of the work.
pub(crate) fn current<T>(work: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..ATTEMPTS {
        match work() {
            Err(e) if e.is_outdated_plan() => {}
            other => return other,
        }
    }
    work()
}

/// A file that is not there any more was cleaned or archived since the view was taken, if the table is whole.
pub(crate) fn gone(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { error.outdated_plan() } else { error }
}
