//! What is done around a fork of this process.
//!
//! Between [`before_fork`] and the fork, the thread that forks must not give the GIL back: one that gets it may wait for a
//! lock of the core, and the thread that forks has them all and would wait for the GIL. Python calls what
//! `os.register_at_fork` is given too early for that, for the hooks of other modules come after it. So the C library calls
//! it, as the last thing before the fork.

use std::io::Error;

use pyo3::prelude::*;

use crate::logging;

extern "C" fn before_fork() {
    hoodoo::fork::before();
    logging::before_fork();
}

extern "C" fn after_fork() {
    logging::after_fork();
    hoodoo::fork::after();
}

/// Has the C library call the core around each fork, where there is such a thing.
#[cfg(unix)]
#[allow(unsafe_code)]
pub fn register() -> PyResult<()> {
    // SAFETY: the three are functions that live as long as the process, for Python never unloads an extension. They do not
    // unwind, and what they do is allowed there: they lock mutexes and allocate memory before the fork, and give both back
    // after it, in the same thread.
    match unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) } {
        0 => Ok(()),
        code => Err(Error::from_raw_os_error(code).into()),
    }
}

/// There are no forks.
#[cfg(not(unix))]
pub fn register() -> PyResult<()> {
    Ok(())
}
