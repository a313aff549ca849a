//! Files against commit metadata: what commits name is there, and what is there belongs to a commit.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Report, is_about_content};
use crate::error::Result;
use crate::file_group::{BaseFile, LogFile, data_file_instant, is_partition_metadata, join};
use crate::format::instant::Instant;
use crate::format::properties::Properties;
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableView};
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};
use crate::timeline::{META_FOLDER, Timeline};

/// Files by folder, Hudi's own folder left out.
pub(super) type Listing = BTreeMap<String, Vec<FileMeta>>;

/// What commits of the active timeline say about the files they wrote, by path.
#[derive(Default)]
pub(super) struct Written {
    files: HashMap<String, WrittenFile>,
    /// Commits whose metadata could be read.
    instants: HashSet<String>,
}

pub(super) struct WrittenFile {
    pub(super) rows: Option<i64>,
    size: Option<i64>,
    instant: String,
    group: (String, String),
}

impl Written {
    /// What is said about a file.
    pub(super) fn get(&self, path: &str) -> Option<&WrittenFile> {
        self.files.get(path)
    }
}

/// Lists the table once.
pub(super) fn list(storage: &Storage) -> Result<Listing> {
    let top = storage.list("")?;
    let mut listing = Listing::new();
    let mut files = top.files;
    let below: Vec<&String> = top.folders.iter().filter(|f| f.as_str() != META_FOLDER).collect();
    files.extend(storage.list_all_recursive(&below)?);
    for file in files {
        let folder = file.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        listing.entry(folder.to_owned()).or_default().push(file);
    }
    Ok(listing)
}

pub(super) fn check(table: &HudiTable, view: &TableView, listing: &Listing, report: &mut Report) -> Result<Written> {
    let written = written(table, view.timeline(), report)?;
    partitions(table.storage(), view.timeline(), listing, report)?;
    named_files(table, view, listing, &written, report);
    strangers(table, view.timeline(), listing, &written, report)?;
    Ok(written)
}

fn written(table: &HudiTable, timeline: &Timeline, report: &mut Report) -> Result<Written> {
    let mut out = Written::default();
    for instant in timeline.completed_writes() {
        let metadata = match read_write_metadata(table.storage(), timeline, instant) {
            Ok(metadata) => metadata,
            // Already reported with the instants.
            Err(e) if is_about_content(&e) => continue,
            Err(e) => return Err(e),
        };
        report.count("commits", 1);
        // An empty file says nothing about what it wrote; it was reported with the instants.
        if metadata.operation_type.is_none() && metadata.partition_to_write_stats.is_empty() {
            continue;
        }
        out.instants.insert(instant.requested.clone());
        for (partition, stats) in metadata.partition_to_write_stats {
            for stat in stats {
                let (Some(path), Some(file_id)) = (stat.path, stat.file_id) else { continue };
                let logs = stat.log_files.into_iter().flatten().map(|name| join(&partition, &name));
                for log in logs.filter(|log| *log != path) {
                    out.files.entry(log).or_insert_with(|| file(instant, &partition, &file_id, None, None));
                }
                let written = file(instant, &partition, &file_id, stat.num_writes, stat.file_size_in_bytes);
                out.files.insert(path, written);
            }
        }
    }
    Ok(out)
}

fn file(instant: &Instant, partition: &str, file_id: &str, rows: Option<i64>, size: Option<i64>) -> WrittenFile {
    WrittenFile { rows, size, instant: instant.requested.clone(), group: (partition.to_owned(), file_id.to_owned()) }
}

fn partitions(storage: &Storage, timeline: &Timeline, listing: &Listing, report: &mut Report) -> Result<()> {
    for (partition, files) in listing {
        let Some(metadata) = files.iter().find(|f| is_partition_metadata(f.name())) else {
            let shown = |f: &&FileMeta| data_file_instant(f).is_some_and(|i| timeline.is_committed(&i));
            if let Some(file) = files.iter().find(shown) {
                report.error(
                    &file.path,
                    "the folder of a committed file has no .hoodie_partition_metadata: readers do not see the partition",
                    "Put the file there: commitTime=<instant> and partitionDepth=<levels of the path>",
                );
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
            let said = stated.map_or("nothing readable".to_owned(), |d| d.to_string());
            report.warning(
                &metadata.path,
                format!("partitionDepth is {depth} here, the file says {said}"),
                "Rewrite the file with the right depth",
            );
        }
    }
    Ok(())
}

/// The newest base file of every live file group must be there; every file that is there has the size it was
/// committed with.
fn named_files(table: &HudiTable, view: &TableView, listing: &Listing, written: &Written, report: &mut Report) {
    let sizes: HashMap<&str, u64> = listing.values().flatten().map(|f| (f.path.as_str(), f.size)).collect();
    // Files of savepointed commits before the first active one may have been left by archiving without their groups.
    let first = view.timeline().first_active().unwrap_or_default();
    let mut newest: HashMap<&(String, String), (&str, &str)> = HashMap::new();
    for (path, file) in &written.files {
        let is_base = BaseFile::EXTENSIONS.iter().any(|e| path.ends_with(&format!(".{e}")));
        if is_base && file.instant.as_str() >= first {
            let entry = newest.entry(&file.group).or_insert((&file.instant, path));
            if entry.0 < file.instant.as_str() {
                *entry = (&file.instant, path);
            }
        }
        if let (Some(stored), Some(stated)) = (sizes.get(path.as_str()), file.size)
            // Version 6 appends to log files; their commits state the size at the time.
            && (is_base || table.config().version() >= 8)
            && i64::try_from(*stored).ok() != Some(stated)
        {
            report.error(
                path,
                format!("the file has {stored} bytes, its commit {} says {stated}", file.instant),
                "The file was changed or cut off: restore it from a copy, or roll the table back to before the commit",
            );
        }
    }
    let mut missing: Vec<&str> = newest
        .into_iter()
        .filter(|((partition, file_id), _)| view.replaced_at(partition, file_id).is_none())
        .map(|(_, (_, path))| path)
        .filter(|path| !sizes.contains_key(path))
        .collect();
    missing.sort_unstable();
    for path in missing {
        report.error(
            path,
            "a commit names this base file as the newest of its file group, but it is not there",
            "Restore the file from a copy, or roll the table back to a savepoint",
        );
    }
}

/// Data files that no completed commit wrote.
fn strangers(
    table: &HudiTable,
    timeline: &Timeline,
    listing: &Listing,
    written: &Written,
    report: &mut Report,
) -> Result<()> {
    let first = timeline.first_active().unwrap_or_default().to_owned();
    let mut old: BTreeMap<String, Vec<&FileMeta>> = BTreeMap::new();
    for file in listing.values().flatten() {
        let Some(instant) = data_file_instant(file) else { continue };
        report.count("data files", 1);
        if timeline.pending().any(|i| i.requested == instant) {
            report.count("data files of pending writes", 1);
        } else if !timeline.is_committed(&instant) {
            // Version 6 names logs after their slice; whether one is used is not in its name.
            if LogFile::parse(file).is_none() || table.config().version() >= 8 {
                report.warning(
                    &file.path,
                    "no instant on the timeline wrote this file; readers do not see it",
                    "Delete it, if no write is under way",
                );
            }
        } else if timeline.completion_time(&instant).is_some() {
            let is_log_of_slice = LogFile::parse(file).is_some() && table.config().version() < 8;
            if written.instants.contains(&instant) && written.get(&file.path).is_none() && !is_log_of_slice {
                report.error(
                    &file.path,
                    "the commit of this file does not name it: its rows are read though they were never committed",
                    "A task that was tried twice may have left it. Compare it with its commit's files, then delete it",
                );
            }
        } else if instant.as_str() < first.as_str() {
            old.entry(instant).or_default().push(file);
        }
    }
    for file in never_archived(table, timeline, old)? {
        report.error(
            &file.path,
            "no commit wrote this file, neither on the timeline nor in its history; readers take it for archived",
            "It was left by a failed write: delete it after a look at its rows",
        );
    }
    Ok(())
}

/// Files, by the instants in their names, whose instants the history does not have although it goes back that far.
/// The history may be of any length: it is passed through, not kept.
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
        // Of a history that cannot be read nothing is known; that it cannot is said elsewhere.
        Err(e) if is_about_content(&e) => return Ok(Vec::new()),
        other => other?,
    }
    let Some(first) = first else { return Ok(Vec::new()) };
    Ok(files.into_iter().filter(|(instant, _)| *instant >= first).flat_map(|(_, files)| files).collect())
}
