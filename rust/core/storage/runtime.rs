//! The runtime behind the blocking calls.

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Builder, Runtime};

use super::secrets::masked;

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

/// Waits for a storage call. Must not be called from an async task.
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
