//! The table lock within this process.
//!
//! Hudi's default: one writer process per table, whose threads exclude each other. Times are generated and instants
//! completed under it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The lock of one table; all handles to the same location share it.
#[derive(Clone, Default)]
pub struct TableLock(Arc<Mutex<()>>);

impl TableLock {
    /// Waits for the lock.
    pub fn acquire(&self) -> MutexGuard<'_, ()> {
        // A thread that died in the critical section left a pending instant at worst, which the next write rolls back.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

static LOCKS: Mutex<BTreeMap<String, TableLock>> = Mutex::new(BTreeMap::new());

/// The lock of the table at `uri`.
pub fn table_lock(uri: &str) -> TableLock {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner).entry(uri.to_owned()).or_default().clone()
}
