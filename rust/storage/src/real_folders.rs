//! Folders in object stores that have them: accounts of Azure with a hierarchical namespace (Data Lake Storage Gen2).
//! There a folder is made with the first file in it, and stays when the last one is deleted.
//!
//! An account does not say which kind it is. The first folder whose files were deleted tells: in an account without a
//! hierarchical namespace it is not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

pub(super) const NONE: u8 = 0;
pub(super) const UNKNOWN: u8 = 1;
pub(super) const THERE: u8 = 2;

/// Whether a store has folders.
#[derive(Clone, Default)]
pub(super) struct RealFolders(Arc<AtomicU8>);

impl RealFolders {
    /// Those of a store that may have some.
    pub(super) fn unknown() -> Self {
        Self(Arc::new(AtomicU8::new(UNKNOWN)))
    }

    pub(super) fn get(&self) -> u8 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn found(&self, state: u8) {
        self.0.store(state, Ordering::Relaxed);
    }
}
