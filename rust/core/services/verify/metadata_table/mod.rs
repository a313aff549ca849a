//! Compares the metadata table with the table: Hudi's readers and writers believe it.

mod column_stats;
mod expression_index;
mod files;
mod record_index;
mod secondary_index;

use std::collections::BTreeMap;

use super::files::Written;
use super::listing::Listing;
use super::{Report, file_groups, is_about_content};
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, is_partition_metadata};
use crate::metadata_table::expression_index::is_expression_index;
use crate::metadata_table::secondary_entries::is_secondary_index;
use crate::metadata_table::{FOLDER, ListedFiles, MetadataTable, REBUILD};
use crate::table::{HudiTable, TableView};

/// What to do about one partition of it.
const REBUILD_PARTITION: &str = "Let Hudi build this partition of the metadata table again: CALL \
                                 drop_metadata_table_partition or drop the index, then write with the index enabled";

/// The newest slices by partition.
type Latest = BTreeMap<String, Vec<FileSlice>>;

/// What is compared.
struct Compared<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
    listing: &'a Listing,
    written: &'a Written,
    latest: Latest,
}

/// Compares the metadata table, if there is one, with the files.
pub(super) fn check(
    table: &HudiTable,
    view: &TableView,
    listing: &Listing,
    written: &Written,
    report: &mut Report,
) -> Result<()> {
    let metadata = match table.metadata_table_at(view.timeline()) {
        Ok(Some(metadata)) => metadata,
        Ok(None) => return Ok(()),
        Err(e) => return unreadable(FOLDER, e, report),
    };
    if let Some(missing) = metadata.first_missing(view.timeline()) {
        let message = format!("it does not have the action {missing}, which is completed on the table: it is not read");
        report.warning(FOLDER, message, REBUILD);
    }
    let mut latest = Latest::new();
    for (partition, files) in listing {
        if files.iter().any(|f| is_partition_metadata(f.name())) {
            latest.insert(partition.clone(), view.latest_of(file_groups(view, partition, files)?));
        }
    }
    let compared = Compared { table, view, listing, written, latest };
    match metadata.files() {
        Ok(files) => files::check(&compared, &files, report)?,
        Err(e) => unreadable(&format!("{FOLDER}/files"), e, report)?,
    }
    for partition in metadata.partitions() {
        report.count("metadata table partitions", 1);
        let done = match partition.as_str() {
            "column_stats" => column_stats::check(&compared, &metadata, report),
            "record_index" => record_index::check(&compared, &metadata, report),
            name if is_secondary_index(name) => secondary_index::check(&compared, &metadata, name, report),
            name if is_expression_index(name) => expression_index::check(&compared, &metadata, name, report),
            "files" => Ok(()),
            other => readable(&metadata, other, report),
        };
        if let Err(e) = done {
            unreadable(&format!("{FOLDER}/{partition}"), e, report)?;
        }
    }
    Ok(())
}

/// Reads a partition whose rows are not compared.
fn readable(metadata: &MetadataTable, partition: &str, report: &mut Report) -> Result<()> {
    let mut rows = 0;
    metadata.each_row(partition, &mut |batch| {
        rows += batch.num_rows() as u64;
        Ok(())
    })?;
    report.count("metadata table rows", rows);
    Ok(())
}

fn unreadable(subject: &str, e: Error, report: &mut Report) -> Result<()> {
    if !is_about_content(&e) {
        return Err(e);
    }
    report.error(subject, format!("the metadata table cannot be read: {e}"), REBUILD);
    Ok(())
}
