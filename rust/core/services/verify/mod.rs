//! Verifies that the metadata of a table matches its files.
//!
//! Read only. Instants and their states ([`timeline`]), those that were archived ([`history`]), files against commit
//! metadata ([`files`], [`expected`]), base files and the keys in them ([`base_files`]), the file groups of a bucket index
//! ([`buckets`]), what savepoints hold ([`savepoints`]), the metadata table ([`metadata_table`]). Each finding is a [`Problem`] with a remedy; the check itself fails only if the storage cannot be
//! read.

mod base_files;
mod buckets;
mod expected;
mod files;
mod hidden_files;
mod history;
mod keys;
mod listing;
mod metadata_table;
mod savepoints;
mod timeline;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::error::Result;
use crate::file_group::{FileGroup, group_files};
use crate::storage::FileMeta;
use crate::table::{HudiTable, TableSchema, TableView};
use crate::timeline::Timeline;

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Readers see the right rows; something is left over or unusual.
    Warning,
    /// Readers see wrong rows, or cannot read.
    Error,
}

impl Severity {
    /// `warning` or `error`.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// What can be done about a problem without a choice of the user, and without the risk of losing a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Repair {
    /// An interrupted change of the properties is ended.
    Properties,
    /// Failed writes are rolled back, their markers deleted, interrupted rollbacks and cleans finished.
    RollBack,
    /// An interrupted archiving is ended.
    Archive,
    /// The partition gets a metadata file.
    PartitionMetadata,
    /// A file is deleted that no reader sees.
    DeleteFile,
    /// The metadata table is made anew.
    MetadataTable,
}

impl Repair {
    /// What is done, in words.
    pub fn name(self) -> &'static str {
        match self {
            Repair::Properties => "end the change of the properties",
            Repair::RollBack => "roll back what failed",
            Repair::Archive => "end the archiving",
            Repair::PartitionMetadata => "write the metadata of the partition",
            Repair::DeleteFile => "delete the file",
            Repair::MetadataTable => "make the metadata table anew",
        }
    }
}

/// Something that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about: a path relative to the table, an instant, a partition.
    pub subject: String,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
    /// What [`repair`](crate::client::repair) does about it.
    pub repair: Option<Repair>,
}

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// What is wrong, errors first, in the order of the checks.
    pub problems: Vec<Problem>,
    /// How many things of each kind were looked at.
    pub checked: BTreeMap<String, u64>,
}

impl Report {
    /// Whether nothing at all was found.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    fn error(&mut self, subject: impl Into<String>, message: impl Into<String>, remedy: &str) {
        self.add(Severity::Error, subject.into(), message.into(), remedy);
    }

    fn warning(&mut self, subject: impl Into<String>, message: impl Into<String>, remedy: &str) {
        self.add(Severity::Warning, subject.into(), message.into(), remedy);
    }

    fn add(&mut self, severity: Severity, subject: String, message: String, remedy: &str) {
        self.problems.push(Problem { severity, subject, message, remedy: remedy.to_owned(), repair: None });
    }

    /// Says that the last problem can be repaired.
    fn repairable(&mut self, repair: Repair) {
        if let Some(last) = self.problems.last_mut() {
            last.repair = Some(repair);
        }
    }

    fn count(&mut self, what: &str, more: u64) {
        *self.checked.entry(what.to_owned()).or_default() += more;
    }
}

/// How often a table that others change meanwhile is checked.
const ATTEMPTS: u32 = 3;

/// Checks a table. What looks wrong while others write to it is looked at again.
///
/// # Errors
/// Only when the storage cannot be listed or read.
pub fn verify(table: &HudiTable) -> Result<Report> {
    attempted(table, verify_at)
}

/// Compares the metadata table with the files of the table, and checks nothing else.
///
/// # Errors
/// As [`verify`]; `Corrupt` if the table's timeline cannot be read.
pub fn verify_metadata_table(table: &HudiTable) -> Result<Report> {
    attempted(table, |table, now| {
        let mut report = Report::default();
        let view = TableView::new(table.storage().clone(), now)?;
        let listing = listing::list(table.storage())?;
        let written = files::check(table, &view, &listing, &mut Report::default())?;
        metadata_table::check(table, &view, &listing, &written, &mut report)?;
        report.problems.sort_by_key(|p| std::cmp::Reverse(p.severity));
        Ok(report)
    })
}

fn attempted(table: &HudiTable, check: impl Fn(&HudiTable, Timeline) -> Result<Report>) -> Result<Report> {
    table.storage().forget_unchanging();
    for _ in 1..ATTEMPTS {
        let now = table.timeline()?;
        let report = check(table, now.clone())?;
        let is_right = report.problems.iter().all(|p| p.severity < Severity::Error);
        if is_right || table.timeline()?.instants() == now.instants() {
            return Ok(report);
        }
    }
    check(table, table.timeline()?)
}

fn verify_at(table: &HudiTable, now: Timeline) -> Result<Report> {
    let mut report = Report::default();
    if table.storage().exists(".hoodie/hoodie.properties.backup")? {
        report.warning(
            ".hoodie/hoodie.properties.backup",
            "a change of the table's properties was interrupted",
            "The next change of a property puts it in order",
        );
        report.repairable(Repair::Properties);
    }
    timeline::check(table, &now, &mut report)?;
    history::check(table, &now, &mut report)?;
    match TableView::new(table.storage().clone(), now) {
        Ok(view) => check_view(table, &view, &mut report)?,
        Err(e) if is_about_content(&e) => report.error(
            "timeline",
            format!("the files of the table are unknown, because a replacecommit cannot be read: {e}"),
            "Restore that instant's file from a copy",
        ),
        Err(e) => return Err(e),
    }
    report.problems.sort_by_key(|p| std::cmp::Reverse(p.severity));
    Ok(report)
}

fn check_view(table: &HudiTable, view: &TableView, report: &mut Report) -> Result<()> {
    let schema = match TableSchema::resolve(table.config(), view) {
        Ok(schema) => schema,
        Err(e) if is_about_content(&e) => {
            report.error(
                "schema",
                format!("the table's schema cannot be read: {e}"),
                "Restore the file named here from a copy",
            );
            None
        }
        Err(e) => return Err(e),
    };
    let listing = listing::list(table.storage())?;
    let written = files::check(table, view, &listing, report)?;
    hidden_files::check(view, &listing, report);
    base_files::check(table, view, &listing, &written, schema.as_ref(), report)?;
    buckets::check(table, view, &listing, report)?;
    savepoints::check(table, view, &listing, report)?;
    let before = report.problems.len();
    let checked = metadata_table::check(table, view, &listing, &written, report);
    report.problems.iter_mut().skip(before).for_each(|problem| _ = problem.repair.get_or_insert(Repair::MetadataTable));
    checked
}

/// The file groups of a partition. A history that cannot be read is left out: it is reported elsewhere.
fn file_groups(view: &TableView, partition: &str, files: &[FileMeta]) -> Result<Vec<FileGroup>> {
    match view.group(partition, files) {
        Err(e) if is_about_content(&e) => Ok(group_files(partition, files, view.timeline())),
        other => other,
    }
}

/// Whether an error tells of a bad file, and not of a storage that fails.
fn is_about_content(e: &crate::Error) -> bool {
    use crate::ErrorKind::{Conflict, Interrupted, Lock, Storage};
    !matches!(e.kind(), Storage | Conflict | Lock | Interrupted)
}
