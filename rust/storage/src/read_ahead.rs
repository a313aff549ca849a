//! Fetches the beginnings of files that are going to be read, many at a time: those who decode files are few, and would
//! wait for one request after the other.
//!
//! What is fetched is what a reader asks for first: the end of a data file, which holds its footer, and all of a small one.
//! So no request is made that would not be made otherwise, unless the rows are not wanted any more.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tokio::task::JoinHandle;

/// What is fetched ahead of readers.
pub(super) struct ReadAhead(Mutex<Queue>);

pub(super) struct Queue {
    /// Files that are not fetched yet, with their sizes.
    pub(super) waiting: VecDeque<(String, u64)>,
    pub(super) fetching: HashMap<String, JoinHandle<Option<Bytes>>>,
    /// Those that were read before it was their turn.
    pub(super) read: HashSet<String>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.fetching.values().for_each(JoinHandle::abort);
    }
}

impl ReadAhead {
    pub(super) fn new(waiting: VecDeque<(String, u64)>) -> Self {
        Self(Mutex::new(Queue { waiting, fetching: HashMap::new(), read: HashSet::new() }))
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
