//! Compactions whose process died.

use super::MetadataServices;
use crate::error::{Error, Result};
use crate::format::instant::{Action, Instant};
use crate::metadata_table::write::remove_from;
use crate::timeline::Timeline;

/// Takes pending compactions and log compactions of the metadata table back: first their files, then their instants. Nobody
/// reads these files, and the next compaction takes what they took. Returns whether there were any.
///
/// # Errors
/// `Corrupt` for an instant of another action with the same time; `Storage`.
pub(crate) fn take_back_failed(services: &MetadataServices<'_>, metadata: &Timeline) -> Result<bool> {
    let is_compaction = |i: &Instant| matches!(i.action, Action::Compaction | Action::LogCompaction);
    let failed: Vec<&Instant> = metadata.pending().filter(|i| is_compaction(i)).collect();
    for instant in &failed {
        // Hudi may choose a time for a compaction, and nothing else looks whether there is an action of that time.
        if let Some((other, _)) = metadata.files_of(&instant.requested).iter().find(|(i, _)| i.action != instant.action)
        {
            return Err(Error::corrupt("two actions of the metadata table have one requested time")
                .with("table", services.storage.uri())
                .with("instant", instant)
                .with("other", other)
                .remedy(crate::metadata_table::REBUILD));
        }
        services.held.verify()?;
        remove_from(services.storage, metadata, &instant.requested)?;
    }
    Ok(!failed.is_empty())
}
