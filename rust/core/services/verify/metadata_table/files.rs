//! `files` against the listing. Hudi's readers see only the files in it, and plan with its sizes.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::{Compared, FOLDER, ListedFiles, REBUILD, Report};
use crate::error::Result;
use crate::file_group::{FileSlice, data_file_instant, is_partition_metadata, join};
use crate::format::instant::Action;
use crate::services::verify::files::unknown_change_data;
use crate::storage::FileMeta;

pub(super) fn check(compared: &Compared<'_>, files: &ListedFiles, report: &mut Report) -> Result<()> {
    partitions(compared, files, report);
    let newest: HashSet<&str> = compared.latest.values().flatten().flat_map(paths).collect();
    for (partition, stored) in compared.listing {
        if !stored.iter().any(|file| is_partition_metadata(file.name())) {
            continue;
        }
        let known = files.files.get(partition);
        let is_listed = |file: &&FileMeta| known.is_some_and(|known| known.contains_key(file.name()));
        unknown_change_data(compared.view.timeline(), stored.iter().filter(|file| !is_listed(file)), report);
        for file in stored.iter().filter(|file| is_committed(compared, file)) {
            report.count("metadata table files", 1);
            match known.and_then(|known| known.get(file.name())) {
                None => missing(file, newest.contains(file.path.as_str()), report),
                Some(size) if *size != file.size => report.error(
                    &file.path,
                    format!("the file has {} bytes, but the metadata table says {size}", file.size),
                    REBUILD,
                ),
                Some(_) => {}
            }
        }
    }
    gone(compared, files, report)
}

fn paths(slice: &FileSlice) -> impl Iterator<Item = &str> {
    let base = slice.base.iter().map(|base| base.path.as_str());
    base.chain(slice.logs.iter().map(|log| log.path.as_str()))
}

/// Whether a completed instant wrote a file. An archived instant is believed to have written all data files with its
/// time, but not a change data log: a rollback by Hudi leaves these, and readers find them by the commit.
fn is_committed(compared: &Compared<'_>, file: &FileMeta) -> bool {
    let timeline = compared.view.timeline();
    let is_archived = |instant: &str| timeline.is_committed(instant) && timeline.completion_time(instant).is_none();
    compared.written.get(&file.path).is_some() || data_file_instant(file).is_some_and(|instant| is_archived(&instant))
}

fn missing(file: &FileMeta, is_newest: bool, report: &mut Report) {
    if is_newest {
        report.error(
            &file.path,
            "a completed instant wrote this file, but it is not in the metadata table: Hudi's readers do not see its rows",
            REBUILD,
        );
    } else {
        report.warning(
            &file.path,
            "this file of an older file slice is not in the metadata table: Hudi's readers do not find it when they look back",
            REBUILD,
        );
    }
}

fn partitions(compared: &Compared<'_>, files: &ListedFiles, report: &mut Report) {
    let stored: BTreeSet<&String> =
        compared.latest.iter().filter(|(_, slices)| !slices.is_empty()).map(|(partition, _)| partition).collect();
    for partition in &stored {
        report.count("metadata table partition paths", 1);
        if !files.partitions.contains(*partition) {
            report.error(
                format!("partition '{partition}'"),
                "the partition is not in the metadata table: Hudi's readers do not see its rows",
                REBUILD,
            );
        }
    }
    for partition in files.partitions.iter().filter(|partition| !compared.listing.contains_key(*partition)) {
        report.warning(
            format!("partition '{partition}'"),
            "the metadata table lists this partition, but there is no such folder",
            REBUILD,
        );
    }
}

/// Files that are listed and that are not there.
fn gone(compared: &Compared<'_>, files: &ListedFiles, report: &mut Report) -> Result<()> {
    let stored: HashSet<&str> = compared.listing.values().flatten().map(|file| file.path.as_str()).collect();
    // A clean deletes files before it says so.
    let cleans =
        |i: &crate::format::instant::Instant| matches!(i.action, Action::Clean | Action::Rollback | Action::Restore);
    let is_cleaning = compared.view.timeline().pending().any(cleans);
    for (partition, known) in &files.files {
        let listed: Vec<FileMeta> = known
            .iter()
            .map(|(name, size)| FileMeta { path: join(partition, name), size: *size, modified_ms: 0 })
            .collect();
        let gone: Vec<&FileMeta> = listed.iter().filter(|file| !stored.contains(file.path.as_str())).collect();
        if gone.is_empty() {
            continue;
        }
        let slices = compared.view.latest_of(super::file_groups(compared.view, partition, &listed)?);
        let newest: HashMap<&str, ()> = slices.iter().flat_map(paths).map(|path| (path, ())).collect();
        for file in gone {
            let subject = format!("{FOLDER}/files: {}", file.path);
            let message = "the metadata table lists a file that is not there";
            if newest.contains_key(file.path.as_str()) && !is_cleaning {
                report.error(subject, format!("{message}: Hudi's readers fail when they open it"), REBUILD);
            } else {
                report.warning(subject, format!("{message}; it is of an older file slice"), REBUILD);
            }
        }
    }
    Ok(())
}
