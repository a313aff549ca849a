//! A new base file of an existing file group: the old one with incoming rows merged in, and new rows behind.
//!
//! Where the row groups of the old file are as this writer would cut them, the new file is put together from them
//! column by column, and what did not change is copied (`splice_merge.rs`); else it streams through batch by batch
//! (`stream_merge.rs`). The rows that come out are the same.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::base::{BaseFileWriter, Splice};
use crate::format::avro::metadata::WriteStat;
use crate::transaction::{ChangeLog, NewFile};
use crate::write::locate::lookup::MatchedRow;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::MadeColumns;
use crate::write::rewrite::merge_rows::{MergeOutput, MergeRows};
use crate::write::rewrite::splice_merge::splice_merge;
use crate::write::rewrite::stream_merge::stream_merge;

impl MergeRows<'_> {
    /// Whether no stored record goes.
    pub(in crate::write) fn keep_keys(&self) -> Result<bool> {
        for update in self.updates {
            let deleted = self.incoming.batch(update.row.batch)?.deleted.as_ref();
            if self.delete_by_key || update.moved || deleted.is_some_and(|d| d.value(update.row.row as usize)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Of several stored records of a key in a file, the first is changed, and the others are copied, as Hudi does.
pub(crate) fn first_copies(updates: &[MatchedRow]) -> Vec<MatchedRow> {
    let mut met = HashSet::with_capacity(updates.len());
    updates.iter().filter(|update| met.insert(update.row)).copied().collect()
}

/// Writes the new base file of a slice. `task` tells which task of the write this is, `token` is its write token.
pub(crate) fn merge_file(
    context: &WriteContext,
    slice: &FileSlice,
    rows: &MergeRows<'_>,
    task: usize,
    token: &str,
) -> Result<WriteStat> {
    let base = slice.base.as_ref().ok_or_else(|| {
        Error::unsupported("merging into a file group without base file").with("file group", &slice.file_id)
    })?;
    let file = NewFile::next(context.files()?, slice, token);
    let named = |e: Error| e.with("table", context.storage.uri()).with("file", &base.path);
    let reader = context.opened.open(&context.storage, base)?;
    // Records that are put together of two need all columns at once.
    let picks = context.settings.rule.picks().is_some() || rows.delete_by_key;
    let splice = match picks {
        true => Splice::new(&reader, &context.file_schema, &context.config.base_file).map_err(named)?,
        false => None,
    };
    let sink = file.create(context.files()?, false)?;
    let writer = BaseFileWriter::try_new(sink, context.file_schema.clone(), context.base_file_options());
    let mut writer = writer.map_err(|e| e.with("file", &file.path))?;
    let made = MadeColumns::new(context, &slice.partition, &file.name);
    let (files, kept) = (context.files()?, context.kept_partition_columns.as_slice());
    let mut changes = context.changes.as_deref().map(|settings| ChangeLog::new(settings, files, slice, token, kept));
    let output = MergeOutput { writer: &mut writer, made, changes: changes.as_mut(), task };
    let counts = match &splice {
        Some(splice) => splice_merge(context, &reader, splice, output, rows),
        None => stream_merge(context, &reader, output, rows),
    }
    .map_err(named)?;
    let published = || {
        let cdc_stats = changes.map(ChangeLog::finish).transpose()?;
        Ok(WriteStat { cdc_stats, ..file.finish(files, writer, |_| counts)?.stat })
    };
    published().map_err(|e: Error| e.with("table", context.storage.uri()))
}
