//! Which route the new rows of a partition take, where nobody knows how many there will be.

use crate::file_group::FileSlice;
use crate::write::config::WriteConfig;
use crate::write::locate::pending_file_groups::PendingFileGroups;
use crate::write::route::assignment::{SmallFile, room_in_small_files, small_files};
use crate::write::setup::WriteSetup;

/// Most entries of a small file in [`weighted`].
const MOST_SHARES: usize = 64;

/// The routes of new rows in one partition: small files, in proportion to their room, or else buckets of new files.
pub(in crate::write) struct NewRows {
    small: Vec<String>,
    buckets: usize,
}

impl NewRows {
    /// The routes into a partition with these slices; those of pending file groups take no rows.
    pub(in crate::write) fn new(
        setup: &WriteSetup,
        (buckets, record_size): (u32, u64),
        slices: &[FileSlice],
        pending_groups: &PendingFileGroups,
    ) -> Self {
        let buckets = usize::try_from(buckets).unwrap_or(usize::MAX).max(1);
        if !setup.fills_small_files() {
            return Self { small: Vec::new(), buckets };
        }
        Self { small: weighted(&setup.config, &small_files(slices, pending_groups), record_size), buckets }
    }

    /// The route of a new key with this hash: equal keys get equal routes.
    pub(in crate::write) fn route(&self, hash: u64) -> String {
        let pick = |n: usize| usize::try_from(hash % n.max(1) as u64).unwrap_or_default();
        match self.small.get(pick(self.small.len())) {
            Some(small) => small.clone(),
            None => format!("+{}", pick(self.buckets)),
        }
    }
}

/// Small files, each as often as its share of the room is; how many rows there will be is not known yet.
fn weighted(config: &WriteConfig, small: &[SmallFile], record_size: u64) -> Vec<String> {
    let everything = room_in_small_files(config, small, record_size);
    let least = everything.iter().map(|(_, rows)| *rows).min().unwrap_or(1).max(1);
    let mut ids = Vec::new();
    for (id, rows) in everything {
        let share = (rows / least).clamp(1, MOST_SHARES);
        ids.extend(std::iter::repeat_n(id, share));
    }
    ids
}
