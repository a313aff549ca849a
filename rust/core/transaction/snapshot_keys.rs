//! What an index of keys has of a table that it is built for, collected while others write.
//!
//! The slices of the table are read before the table lock is taken, for which other writers wait. Under the lock, those that
//! are others by then are read once more, and what was read of them before is left out.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableView};

/// Takes what an index has of slices.
pub(super) trait SliceCollector: Sync {
    /// A number for what comes of a slice.
    ///
    /// # Errors
    /// `Corrupt` for a slice whose instant is no time.
    fn begin(&self, slice: &FileSlice) -> Result<u32>;
}

/// What was collected, by slice.
pub(super) struct SnapshotKeys<C> {
    collector: C,
    /// Slices by partition and file id, with their numbers.
    known: HashMap<(String, String), (FileSlice, u32)>,
    /// Numbers of slices that are others by now.
    stale: HashSet<u32>,
}

impl<C: SliceCollector> SnapshotKeys<C> {
    /// Nothing yet.
    pub(super) fn new(collector: C) -> Self {
        Self { collector, known: HashMap::new(), stale: HashSet::new() }
    }

    /// Collects from the slices of a view that are not known as they are, by `read`. `is_locked` says that nobody else
    /// changes the table: then a file that is not there is an error, and else its slice is a matter for the next time.
    ///
    /// # Errors
    /// Those of `read`.
    pub(super) fn catch_up(
        &mut self,
        table: &HudiTable,
        view: &TableView,
        is_locked: bool,
        read: impl Fn(&C, &FileSlice, u32) -> Result<()> + Sync,
    ) -> Result<()> {
        let mut before = std::mem::take(&mut self.known);
        let mut others = Vec::new();
        for slice in view.all_latest_slices()? {
            let group = (slice.partition.clone(), slice.file_id.clone());
            match before.remove(&group) {
                Some(known) if known.0 == slice => _ = self.known.insert(group, known),
                known => {
                    self.stale.extend(known.map(|(_, number)| number));
                    others.push((group, slice));
                }
            }
        }
        self.stale.extend(before.into_values().map(|(_, number)| number));
        let collector = &self.collector;
        let read = run_parallel(others, table.threads()?, |(group, slice)| {
            let number = collector.begin(&slice)?;
            match read(collector, &slice, number) {
                Err(e) if !is_locked && is_gone(&e) => Ok((None, number)),
                done => done.map(|()| (Some((group, slice)), number)),
            }
        })?;
        for (slice, number) in read {
            match slice {
                Some((group, slice)) => _ = self.known.insert(group, (slice, number)),
                None => _ = self.stale.insert(number),
            }
        }
        Ok(())
    }

    /// The collector, and the numbers of what does not count.
    pub(super) fn finish(self) -> (C, HashSet<u32>) {
        (self.collector, self.stale)
    }

    /// The collector.
    pub(super) fn collector_mut(&mut self) -> &mut C {
        &mut self.collector
    }
}

/// Whether a file was cleaned since the slices were listed.
fn is_gone(error: &Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.is_outdated_plan()
}
