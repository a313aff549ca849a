//! A new base file of an existing file group: the old one with incoming rows merged in, and new rows behind.
//!
//! Where the row groups of the old file are as this writer would cut them, the new file is put together from them
//! column by column, and what did not change is copied (`splice_merge.rs`); else it streams through batch by batch
//! (`stream_merge.rs`). The rows that come out are the same.

use std::collections::HashSet;
use std::time::Instant as Stopwatch;

use crate::error::{Error, Result};
use crate::file_group::base::Splice;
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, FileSlice, join};
use crate::format::avro::metadata::WriteStat;
use crate::write::locate::lookup::MatchedRow;
use crate::write::rewrite::context::{WriteContext, empty_stat};
use crate::write::rewrite::file_rows::MadeColumns;
use crate::write::rewrite::merge_rows::MergeRows;
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
pub fn first_copies(updates: &[MatchedRow]) -> Vec<MatchedRow> {
    let mut met = HashSet::with_capacity(updates.len());
    updates.iter().filter(|update| met.insert(update.row)).copied().collect()
}

/// Writes the new base file of a slice. `task` tells which task of the write this is, `token` is its write token.
pub fn merge_file(
    context: &WriteContext,
    slice: &FileSlice,
    rows: &MergeRows<'_>,
    task: usize,
    token: &str,
) -> Result<WriteStat> {
    let started = Stopwatch::now();
    let base = slice.base.as_ref().ok_or_else(|| {
        Error::unsupported("merging into a file group without base file").with("file group", &slice.file_id)
    })?;
    let name = BaseFile::file_name(&slice.file_id, token, &context.instant);
    let path = join(&slice.partition, &name);
    let named = |e: Error| e.with("table", context.storage.uri()).with("file", &base.path);
    let reader = context.opened.open(&context.storage, base)?;
    // Records that are put together of two need all columns at once.
    let picks = context.settings.rule.picks().is_some() || rows.delete_by_key;
    let splice = match picks {
        true => Splice::new(&reader, &context.file_schema, &context.config.base_file).map_err(named)?,
        false => None,
    };
    let mut writer = context.start_file(&path, None)?;
    let made = MadeColumns::new(context, &slice.partition, &name);
    let counts = match &splice {
        Some(splice) => splice_merge(context, &reader, splice, &mut writer, made, rows, task),
        None => stream_merge(context, &reader, &mut writer, made, rows, task),
    }
    .map_err(named)?;
    let (written, bytes) = context.finish_file(&path, MarkerType::Merge, writer)?;
    let mut stat = empty_stat(&slice.partition, &slice.file_id);
    let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    stat.path = Some(path);
    stat.prev_commit = Some(base.instant.clone());
    stat.prev_base_file = Some(base.name().to_owned());
    stat.num_writes = count(written);
    stat.num_update_writes = count(counts.updated);
    stat.num_deletes = count(counts.deleted);
    stat.num_inserts = count(counts.inserted);
    stat.total_write_bytes = count(bytes);
    stat.file_size_in_bytes = count(bytes);
    if let Some(runtime) = &mut stat.runtime_stats {
        runtime.total_upsert_time = i64::try_from(started.elapsed().as_millis()).ok();
    }
    Ok(stat)
}
