//! What a write makes of one file group.

use crate::error::{Error, Result};
use crate::format::avro::metadata::WriteStat;
use crate::merge::RowRef;
use crate::write::locate::lookup::FileUpdates;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::append_log::{AppendRows, append_log};
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::merge_file::{first_copies, merge_file};
use crate::write::rewrite::merge_rows::MergeRows;

/// Writes the rows that meet stored records of a file group, and new ones: into log files of a merge-on-read table, unless
/// there are new rows, which go to a new base file. `task` tells which task of the write this is, `token` is its write
/// token.
///
/// # Errors
/// `Internal` for new rows of a slice with log files: they are in no base file.
pub(in crate::write) fn rewrite_group(
    context: &WriteContext,
    incoming: &Incoming,
    met: &FileUpdates,
    inserts: &[RowRef],
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let FileUpdates { slice, rows: updates, logged } = met;
    let delete_by_key = context.delete_by_key;
    if !inserts.is_empty() && !slice.logs.is_empty() {
        return Err(
            Error::internal("new rows are routed to a file slice with log files").with("file group", &slice.file_id)
        );
    }
    if context.appends && inserts.is_empty() {
        return append_log(context, slice, &AppendRows { incoming, updates, logged, delete_by_key }, task, token);
    }
    let first = context.appends.then(|| first_copies(updates));
    let updates = first.as_deref().unwrap_or(updates);
    Ok(vec![merge_file(context, slice, &MergeRows { incoming, updates, inserts, delete_by_key }, task, token)?])
}
