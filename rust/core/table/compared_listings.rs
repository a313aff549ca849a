//! Listings of a view, compared with what was cleaned after its timeline was loaded.

use super::cleaned_files::{KnownCleans, new_cleans, refuse_lacking};
use super::current::gone;
use super::file_listing::{Files, ListedFolders};
use super::view::TableView;
use crate::error::Result;
use crate::storage::Storage;
use crate::timeline::Timeline;

impl TableView {
    /// Compares what was listed since this was last done, for views that are to do so. Takes one more look at the timeline
    /// after folders were listed.
    ///
    /// # Errors
    /// `Conflict` of an outdated plan when the listing lacks files of the state of this view; `Corrupt`; `Storage`.
    pub(super) fn compare_listings(&self) -> Result<()> {
        let Some(known) = &self.known_cleans else { return Ok(()) };
        let new = self.listing.newly_found();
        if let Some(files) = new.of_metadata {
            // The metadata table is read as of a timeline, and shows what cleans of this one did.
            self.compare(known, &|partition| files.get(partition).cloned(), known.timeline())?;
        }
        if !new.all && new.partitions.is_empty() {
            return Ok(());
        }
        let now = Timeline::load(self.storage(), self.timeline().config())?;
        let listed = self.listing.listed_folders();
        let is_new = |partition: &str| new.all || new.partitions.contains(partition);
        self.compare(known, &|partition| listed.files_of(partition).filter(|_| is_new(partition)), &now)
    }

    fn compare(&self, known: &KnownCleans, listed: &dyn Fn(&str) -> Option<Files>, now: &Timeline) -> Result<()> {
        let new = new_cleans(self.storage(), self.timeline(), known, now)?;
        let slices_of = |partition: &str, files: &[_]| Ok(self.latest_of(self.group(partition, files)?));
        refuse_lacking(self.storage(), (now, &new), listed, &slices_of)
    }
}

/// Compares folders that were listed after this timeline was loaded, by the timeline as it is now.
///
/// # Errors
/// `Conflict` of an outdated plan when they lack files of the state that the timeline shows; `Corrupt`; `Storage`.
pub(crate) fn refuse_cleaned(
    storage: &Storage,
    timeline: &Timeline,
    listed: &ListedFolders,
    now: &Timeline,
) -> Result<()> {
    if listed.is_empty() {
        return Ok(());
    }
    let known = KnownCleans::of(timeline);
    if new_cleans(storage, timeline, &known, now)?.is_empty() {
        return Ok(());
    }
    let view = TableView::new(storage.clone(), timeline.clone()).map_err(gone)?;
    view.compare(&known, &|partition| listed.files_of(partition), now)
}
