//! The runtime behind the blocking calls.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use super::secrets::masked;
use hoodoo_runtime::error::Error;
use hoodoo_runtime::interrupt;

/// The runtime with the process that made it: a forked child inherits the value but not its threads.
static RUNTIME: Mutex<Option<(u32, Arc<Runtime>)>> = Mutex::new(None);

pub(super) fn runtime() -> std::io::Result<Arc<Runtime>> {
    let mut guard = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = std::process::id();
    match &*guard {
        Some((owner, runtime)) if *owner == pid => Ok(runtime.clone()),
        _ => {
            let made =
                Arc::new(Builder::new_multi_thread().worker_threads(2).thread_name("hoodoo-io").enable_all().build()?);
            if let Some((_, inherited)) = guard.replace((pid, made.clone())) {
                // Its threads do not exist in this process; shutting it down would wait for them for ever.
                std::mem::forget(inherited);
            }
            Ok(made)
        }
    }
}

pub(super) fn hold_lock() -> impl std::any::Any {
    RUNTIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for a storage call that changes something, to its end: what is given up may be done all the same. Must not be
/// called from an async task.
pub fn block_on<T>(work: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
    let failed = |source| object_store::Error::Generic { store: "runtime", source };
    match runtime() {
        // What the check of the options let through that the HTTP client has no error for.
        Ok(runtime) => catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)))
            .unwrap_or_else(|_| Err(failed("the client of the storage panicked".into())))
            .map_err(masked),
        Err(e) => Err(failed(Box::new(e))),
    }
}

/// Waits for a storage call that only reads, no longer than until the call that it is for is interrupted.
pub(super) fn block_on_read<T>(work: impl Future<Output = object_store::Result<T>>) -> object_store::Result<T> {
    if !interrupt::is_possible() {
        return block_on(work);
    }
    let mut work = pin!(work);
    loop {
        // The runtime is left in between: looking for signals may run calls of its own.
        match block_on(async { Ok(tokio::time::timeout(interrupt::INTERVAL, work.as_mut()).await) })? {
            Ok(done) => return done.map_err(masked),
            Err(_) => interrupt::check().map_err(as_object_store)?,
        }
    }
}

fn as_object_store(e: Error) -> object_store::Error {
    object_store::Error::Generic { store: "call", source: Box::new(e) }
}

/// An error of our own that came through a store.
pub(super) fn own_error(e: object_store::Error) -> Result<Error, object_store::Error> {
    match e {
        object_store::Error::Generic { store, source } => match source.downcast::<Error>() {
            Ok(own) => Ok(*own),
            Err(source) => Err(object_store::Error::Generic { store, source }),
        },
        other => Err(other),
    }
}

/// Whether the same request may succeed a moment later: the server is overloaded or failed, or was not reached.
pub(super) fn is_transient(e: &object_store::Error) -> bool {
    let object_store::Error::Generic { source, .. } = e else { return false };
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(source.as_ref());
    while let Some(error) = cause {
        if error.is::<object_store::client::HttpError>() {
            return true;
        }
        // The type of an answer that was given up on is the store library's own; its text has the status.
        let text = error.to_string();
        if let Some((_, status)) = text.split_once("status code: ") {
            return status.starts_with('5') || status.starts_with("429") || status.starts_with("408");
        }
        cause = error.source();
    }
    false
}
