//! The files that savepoints hold: they must be there, or the table cannot be restored to its savepoints, nor read as of them.

use std::collections::HashSet;

use super::listing::Listing;
use super::{Report, is_about_content};
use crate::error::Result;
use crate::file_group::join;
use crate::format::instant::Action;
use crate::services::savepoint::read_savepoint;
use crate::table::{HudiTable, TableView};

/// Compares each savepoint with what is there. One that cannot be read is reported with the timeline.
pub(super) fn check(table: &HudiTable, view: &TableView, listing: &Listing, report: &mut Report) -> Result<()> {
    let timeline = view.timeline();
    let there: HashSet<&str> = listing.values().flatten().map(|file| file.path.as_str()).collect();
    for instant in timeline.completed(Action::Savepoint) {
        let held = match read_savepoint(table, timeline, instant) {
            Err(e) if is_about_content(&e) => continue,
            other => other?,
        };
        let files = held.partition_metadata.into_iter().flat_map(|(partition, held)| {
            held.savepoint_data_file.into_iter().map(move |name| join(&partition, &name))
        });
        let gone: Vec<String> = files.filter(|path| !there.contains(path.as_str())).collect();
        let Some(first) = gone.first() else { continue };
        report.warning(
            instant.to_string(),
            format!("{} files that the savepoint holds are missing, {first} among them", gone.len()),
            "The table can neither be restored to this savepoint nor be read as of it. Restore the files from a backup, or delete the savepoint: t.delete_savepoint(instant)",
        );
    }
    Ok(())
}
