//! Markers, heartbeats and pending instants of other writers, running or failed.

use crate::error::Result;
use crate::parallel::both;
use crate::storage::Storage;
use crate::timeline::heartbeat::{HEARTBEATS, Heartbeats};
use crate::timeline::{META_FOLDER, Timeline, TimelineConfig};

/// The folder of all markers.
const MARKER_FOLDERS: &str = ".hoodie/.temp";

/// Markers, heartbeats and timeline of a table.
pub(crate) struct Leftovers {
    /// Marker folders.
    pub(super) markers: Vec<String>,
    /// Listed after the timeline.
    pub(super) heartbeats: Heartbeats,
    pub(super) timeline: Timeline,
}

impl Leftovers {
    /// Loads them.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn look(storage: &Storage, config: &TimelineConfig) -> Result<Self> {
        if !storage.is_remote() {
            // Listed before the timeline, so that a write that begins in between is on the timeline.
            let markers = storage.list(MARKER_FOLDERS)?.folders;
            let timeline = Timeline::load(storage, config)?;
            return Ok(Self { markers, heartbeats: Heartbeats::list(storage)?, timeline });
        }
        // One listing shows whether there are markers or heartbeats; mostly there are none.
        let folders = || Ok(storage.list(META_FOLDER)?.folders);
        let (folders, timeline) = both(true, folders, || Timeline::load(storage, config))?;
        let has = |folder: &str| folders.iter().any(|found| found == folder);
        let some_work = has(HEARTBEATS) || timeline.pending().next().is_some();
        let markers = || if has(MARKER_FOLDERS) { Ok(storage.list(MARKER_FOLDERS)?.folders) } else { Ok(Vec::new()) };
        let heartbeats = || if some_work { Heartbeats::list(storage) } else { Ok(Heartbeats::default()) };
        let (markers, heartbeats) = both(has(MARKER_FOLDERS) && some_work, markers, heartbeats)?;
        Ok(Self { markers, heartbeats, timeline })
    }

    /// The timeline.
    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// The timeline; nothing is rolled back.
    pub(crate) fn into_timeline(self) -> Timeline {
        self.timeline
    }
}
