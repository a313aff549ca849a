//! Base files that nobody reads although no other one of their file group was committed later.

use std::collections::BTreeMap;

use super::Report;
use super::listing::Listing;
use crate::file_group::BaseFile;
use crate::table::TableView;

/// Reports base files that one with a later time in its name hides, which was committed before them: the write began before
/// that one, looked at the table after it, and changed it.
pub(super) fn check(view: &TableView, listing: &Listing, report: &mut Report) {
    if view.timeline().config().was_version_6 {
        // An upgrade takes the times at which files were changed for those of completion, and in a copy these mean nothing.
        return;
    }
    let completed = |base: &BaseFile| view.timeline().completion_time(&base.instant).map(str::to_owned);
    for (partition, files) in listing {
        let mut groups: BTreeMap<String, Vec<(String, BaseFile)>> = BTreeMap::new();
        for base in files.iter().filter_map(BaseFile::parse) {
            if let Some(at) = completed(&base) {
                groups.entry(base.file_id.clone()).or_default().push((at, base));
            }
        }
        for (file_id, bases) in groups {
            if view.replaced_at(partition, &file_id).is_some() {
                continue;
            }
            for (at, hidden) in &bases {
                let hides = |(earlier, other): &&(String, BaseFile)| other.instant > hidden.instant && earlier < at;
                let Some((_, newer)) = bases.iter().find(hides) else { continue };
                report.error(
                    &hidden.path,
                    format!(
                        "readers do not see the rows of this file, though it was committed after {}, whose name has a later time",
                        newer.path
                    ),
                    "Read the rows of the commit from this file, and upsert them again. The file stays until a clean deletes it",
                );
            }
        }
    }
}
