//! Compares files with commit metadata: files that commits name exist, and existing files belong to a commit.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::expected::Expected;
use super::listing::Listing;
use super::{Repair, Report, is_about_content};
use crate::error::Result;
use crate::file_group::markers::marked_files;
use crate::file_group::{BaseFile, LogFile, data_file_instant, is_partition_metadata, join, parse_change_log};
use crate::format::instant::Instant;
use crate::format::properties::Properties;
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableView};
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};

/// Files that commits of the active timeline wrote, by path.
#[derive(Default)]
pub(super) struct Written {
    files: HashMap<String, WrittenFile>,
    /// Files of change data, each with its data file.
    change_data: Vec<(String, String)>,
    /// Commits whose metadata could be read.
    instants: HashSet<String>,
}

pub(super) struct WrittenFile {
    pub(super) rows: Option<i64>,
    size: Option<i64>,
    instant: String,
}

impl Written {
    /// The commit entry of a file.
    pub(super) fn get(&self, path: &str) -> Option<&WrittenFile> {
        self.files.get(path)
    }
}

pub(super) fn check(table: &HudiTable, view: &TableView, listing: &Listing, report: &mut Report) -> Result<Written> {
    let mut expected = Expected::of_history(table, view.timeline())?;
    let written = written(table, view.timeline(), &mut expected, report)?;
    partitions(table.storage(), view.timeline(), listing, report)?;
    let wrong = sizes(table, listing, &written, report);
    expected.check(view, listing, &wrong, report)?;
    change_data(listing, &written, report);
    if table.config().metadata_partitions().is_empty() {
        unknown_change_data(view.timeline(), listing.values().flatten(), report);
    }
    unknown_files(table, view.timeline(), listing, &written, report)?;
    Ok(written)
}

fn written(table: &HudiTable, timeline: &Timeline, expected: &mut Expected, report: &mut Report) -> Result<Written> {
    let mut out = Written::default();
    for instant in timeline.completed_writes() {
        let metadata = match read_write_metadata(table.storage(), timeline, instant) {
            Ok(metadata) => metadata,
            // Already reported with the instants.
            Err(e) if is_about_content(&e) => continue,
            Err(e) => return Err(e),
        };
        report.count("commits", 1);
        // An empty completed file names no files; it was reported with the instants.
        if metadata.operation_type.is_none() && metadata.partition_to_write_stats.is_empty() {
            continue;
        }
        expected.add(&metadata, &instant.requested, timeline);
        out.instants.insert(instant.requested.clone());
        for (partition, stats) in metadata.partition_to_write_stats {
            for stat in stats {
                let Some(path) = stat.path.filter(|path| !path.is_empty()) else { continue };
                let logs = stat.log_files.into_iter().flatten().map(|name| join(&partition, &name));
                for log in logs.filter(|log| *log != path) {
                    out.files.entry(log).or_insert_with(|| file(instant, None, None));
                }
                for (change_data, size) in stat.cdc_stats.into_iter().flatten() {
                    let written = file(instant, None, Some(size));
                    out.files.insert(change_data.clone(), written);
                    out.change_data.push((change_data, path.clone()));
                }
                let written = file(instant, stat.num_writes, stat.file_size_in_bytes);
                out.files.insert(path, written);
            }
        }
    }
    Ok(out)
}

fn file(instant: &Instant, rows: Option<i64>, size: Option<i64>) -> WrittenFile {
    WrittenFile { rows, size, instant: instant.requested.clone() }
}

fn partitions(storage: &Storage, timeline: &Timeline, listing: &Listing, report: &mut Report) -> Result<()> {
    for (partition, files) in listing {
        let Some(metadata) = files.iter().find(|f| is_partition_metadata(f.name())) else {
            let shown = |f: &&FileMeta| data_file_instant(f).is_some_and(|i| timeline.is_committed(&i));
            if let Some(file) = files.iter().find(shown) {
                report.error(
                    &file.path,
                    "the folder of a committed file has no .hoodie_partition_metadata: readers do not see the partition",
                    "Create the file with commitTime=<instant> and partitionDepth=<levels of the path>",
                );
                report.repairable(Repair::PartitionMetadata);
            }
            continue;
        };
        report.count("partitions", 1);
        if metadata.name() != ".hoodie_partition_metadata" {
            continue;
        }
        let depth = if partition.is_empty() { 0 } else { partition.split('/').count() };
        let stated = Properties::parse(&storage.read(&metadata.path)?)
            .ok()
            .and_then(|p| p.get("partitionDepth").and_then(|d| d.trim().parse::<usize>().ok()));
        if stated != Some(depth) {
            let said = stated.map_or("missing".to_owned(), |d| d.to_string());
            report.warning(
                &metadata.path,
                format!("partitionDepth is {said} in the file, but the partition has depth {depth}"),
                "Rewrite the file with this depth",
            );
            report.repairable(Repair::PartitionMetadata);
        }
    }
    Ok(())
}

/// Checks that all files have their committed size. Returns the paths of those that do not.
fn sizes(table: &HudiTable, listing: &Listing, written: &Written, report: &mut Report) -> BTreeSet<String> {
    let stored = listing.values().flatten().filter_map(|f| Some((f, written.get(&f.path)?)));
    let mut wrong = BTreeSet::new();
    for (file, written) in stored {
        let is_base = BaseFile::parse(file).is_some();
        if let Some(stated) = written.size
            // Version 6 appends to log files; their commits have the size at the time.
            && (is_base || !table.config().timeline().was_version_6)
            && i64::try_from(file.size).ok() != Some(stated)
        {
            report.error(
                &file.path,
                format!("the file has {} bytes, but its commit {} wrote {stated}", file.size, written.instant),
                "The file was changed or truncated: restore it from a backup, or restore the table to a savepoint before the commit",
            );
            wrong.insert(file.path.clone());
        }
    }
    wrong
}

/// Checks that change data of existing data files exist.
fn change_data(listing: &Listing, written: &Written, report: &mut Report) {
    let there: HashSet<&str> = listing.values().flatten().map(|f| f.path.as_str()).collect();
    for (path, of) in &written.change_data {
        if there.contains(of.as_str()) && !there.contains(path.as_str()) {
            report.error(
                path,
                "a file of change data is missing",
                "Restore the file from a backup; only readers of change data need it",
            );
        }
    }
}

/// Change data logs that no instant wrote: Hudi's rollbacks leave them. Its restores leave them too, and then list them in the
/// metadata table, from which they may not vanish.
pub(super) fn unknown_change_data<'f>(
    timeline: &Timeline,
    files: impl Iterator<Item = &'f FileMeta>,
    report: &mut Report,
) {
    for log in files.filter_map(parse_change_log) {
        if !timeline.is_pending(&log.instant) && !timeline.is_committed(&log.instant) {
            report.warning(
                &log.path,
                "no instant on the timeline wrote this file of change data; readers do not see it",
                "Delete it if no write is running",
            );
            report.repairable(Repair::DeleteFile);
        }
    }
}

/// Data files that no completed commit wrote.
fn unknown_files(
    table: &HudiTable,
    timeline: &Timeline,
    listing: &Listing,
    written: &Written,
    report: &mut Report,
) -> Result<()> {
    let first = timeline.first_active().unwrap_or_default().to_owned();
    let mut old: BTreeMap<String, Vec<&FileMeta>> = BTreeMap::new();
    let mut begun: BTreeSet<String> = BTreeSet::new();
    for file in listing.values().flatten() {
        let Some(instant) = data_file_instant(file) else { continue };
        report.count("data files", 1);
        if timeline.is_pending(&instant) {
            report.count("data files of pending writes", 1);
            // Version 6 names log files after their slice, not after their write.
            if LogFile::parse(file).is_none() || !table.config().timeline().was_version_6 {
                begun.insert(instant);
            }
        } else if !timeline.is_committed(&instant) {
            // Version 6 names log files after their slice, not after their write.
            if LogFile::parse(file).is_none() || !table.config().timeline().was_version_6 {
                report.warning(
                    &file.path,
                    "no instant on the timeline wrote this file; readers do not see it",
                    "Delete it if no write is running",
                );
                report.repairable(Repair::DeleteFile);
            }
        } else if timeline.completion_time(&instant).is_some() {
            let is_log_of_slice = LogFile::parse(file).is_some() && table.config().timeline().was_version_6;
            if written.instants.contains(&instant) && written.get(&file.path).is_none() && !is_log_of_slice {
                report.error(
                    &file.path,
                    "the commit of this file does not name it: readers see its rows, which were not committed",
                    "A repeated task may have left it. Compare it with the files of its commit, then delete it",
                );
            }
        } else if instant.as_str() < first.as_str() {
            old.entry(instant).or_default().push(file);
        }
    }
    lost_commits(table, begun, report)?;
    for file in never_archived(table, timeline, old)? {
        report.error(
            &file.path,
            "no commit, active or archived, wrote this file; readers see it as a file of an archived commit",
            "A failed write left it: check its rows, then delete it",
        );
    }
    Ok(())
}

/// Pending writes that had completed: they have data files, but no markers, which a writer creates before each data
/// file and deletes after its commit. So the file of the completed instant was lost. (Or a power failure lost the
/// markers, which are not synced.) Table services are left out: they are repeated, and their input still exists.
fn lost_commits(table: &HudiTable, begun: BTreeSet<String>, report: &mut Report) -> Result<()> {
    for instant in begun {
        if marked_files(table.storage(), &instant)?.is_some() {
            continue;
        }
        // It may have been completed or rolled back since the timeline was listed.
        let now = table.timeline()?;
        let is_service = |i: &Instant| i.action.completed_as() != i.action;
        if let Some(pending) = now.pending().find(|i| i.requested == instant && i.action.is_write() && !is_service(i)) {
            report.error(
                pending.to_string(),
                "the write has data files and no markers, so it completed, but the file of its completed instant is missing",
                "Restore that file from a backup before the next write, which would roll this write back",
            );
        }
    }
    Ok(())
}

/// Files whose instants are not in the history although it goes back that far. The history is streamed, because it may
/// have any length.
fn never_archived<'a>(
    table: &HudiTable,
    timeline: &Timeline,
    mut files: BTreeMap<String, Vec<&'a FileMeta>>,
) -> Result<Vec<&'a FileMeta>> {
    if files.is_empty() {
        return Ok(Vec::new());
    }
    let mut first: Option<String> = None;
    let mut pass = || -> Result<()> {
        let history = HistoryReader::new(table.storage(), timeline.config()).with_threads(table.threads()?);
        for batch in history.scan(TimeRange::all(), LoadMode::Action)? {
            for entry in entries(&batch?)?.into_iter().filter(|e| e.action.is_write()) {
                files.remove(&entry.requested);
                first.get_or_insert(entry.requested);
            }
        }
        Ok(())
    };
    match pass() {
        // A history that cannot be read is reported elsewhere.
        Err(e) if is_about_content(&e) => return Ok(Vec::new()),
        other => other?,
    }
    let Some(first) = first else { return Ok(Vec::new()) };
    Ok(files.into_iter().filter(|(instant, _)| *instant >= first).flat_map(|(_, files)| files).collect())
}
