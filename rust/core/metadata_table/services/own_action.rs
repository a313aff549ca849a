//! An action of the metadata table's own: a compaction or a clean.

use super::MetadataServices;
use crate::error::Result;
use crate::format::instant::{Action, Instant, State};
use crate::timeline::Timeline;

/// An action that is under way.
pub(crate) struct OwnAction<'a> {
    services: &'a MetadataServices<'a>,
    metadata: &'a Timeline,
    instant: Instant,
}

impl<'a> MetadataServices<'a> {
    /// Begins an action with its plan. `metadata` is the timeline of the metadata table, of which it is the newest instant.
    ///
    /// # Errors
    /// `Lock`; `Storage`.
    pub(crate) fn begin(&'a self, action: Action, plan: Vec<u8>, metadata: &'a Timeline) -> Result<OwnAction<'a>> {
        let requested = (self.new_time)(metadata.newest_time())?;
        let instant = Instant { requested, action, state: State::Requested, completed: None };
        self.held.verify()?;
        self.storage.create_durable(&metadata.path(&instant), plan)?;
        self.resume(instant, metadata)
    }

    /// Goes on with an action that is requested or inflight.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn resume(&'a self, instant: Instant, metadata: &'a Timeline) -> Result<OwnAction<'a>> {
        let started = Instant { state: State::Inflight, ..instant.clone() };
        if instant.state == State::Requested {
            self.storage.create(&metadata.path(&started), Vec::new())?;
            // Files that outlive their instant would look like those of an archived one.
            self.storage.sync()?;
        }
        Ok(OwnAction { services: self, metadata, instant: started })
    }
}

impl OwnAction<'_> {
    /// Requested time.
    pub(crate) fn requested(&self) -> &str {
        &self.instant.requested
    }

    /// Publishes the action with its metadata.
    ///
    /// # Errors
    /// `Lock`; `Storage`. Then the action is pending, and the next services deal with it.
    pub(crate) fn complete(self, body: Vec<u8>) -> Result<Instant> {
        let Self { services, metadata, instant } = self;
        let newest = metadata.newest_time().max(Some(&instant.requested));
        let completed = (services.new_time)(newest)?;
        let done = Instant { state: State::Completed, completed: Some(completed), ..instant };
        services.held.verify()?;
        services.storage.create_durable(&metadata.path(&done), body)?;
        Ok(Instant { action: done.action.completed_as(), ..done })
    }
}
