//! Keys that log files delete, or bring back.

use std::collections::HashSet;

use arrow::array::StringArray;

use crate::error::Result;
use crate::file_group::{FileSlice, LogFile, bucket_of_file_id};
use crate::format::avro::metadata::WriteStat;
use crate::table::file_group_reader::FileGroupReader;

/// Log files that were added to a slice.
pub(in crate::transaction) struct AddedLogs {
    before: FileSlice,
    added: Vec<LogFile>,
    /// Whether they delete anything.
    have_deletes: bool,
    /// The name of the base file that they were written to.
    written_to: Option<String>,
}

impl AddedLogs {
    /// None yet, to this slice.
    pub(super) fn to(before: FileSlice) -> Self {
        Self { before, added: Vec::new(), have_deletes: false, written_to: None }
    }

    /// Those that were written while a compaction made this slice, which has none yet.
    pub(super) fn overtaking(compacted: FileSlice, added: Vec<LogFile>) -> Self {
        Self { before: compacted, added, have_deletes: false, written_to: Some(String::new()) }
    }

    /// Adds one; `stat` is what its writer says of it.
    pub(super) fn add(&mut self, log: LogFile, stat: &WriteStat) {
        self.have_deletes |= stat.num_deletes.unwrap_or(0) > 0;
        self.written_to = stat.base_file.clone().filter(|name| !name.is_empty()).or_else(|| self.written_to.take());
        self.added.push(log);
    }

    /// Partition and file id.
    pub(super) fn group(&self) -> (&str, &str) {
        (&self.before.partition, &self.before.file_id)
    }

    /// The keys that are back and those that are gone since the log files are there. An ordinary record of a log file
    /// changes nothing: its key was there before. Those of a bucket index may be new.
    ///
    /// # Errors
    /// Those of reading the slice.
    pub(super) fn back_and_gone(&self, reader: &FileGroupReader) -> Result<(StringArray, StringArray)> {
        let before = &self.before;
        let deleted_before = match reader.may_delete(before)? {
            true => deleted_keys(reader, before)?,
            false => HashSet::new(),
        };
        let is_compacted = self.is_compacted();
        let (mut back, mut gone) = (HashSet::new(), HashSet::new());
        if bucket_of_file_id(&before.file_id).is_some() {
            reader.each_key_in_logs(&self.alone(), &mut |key, is_deleted| {
                if !is_deleted && !deleted_before.contains(key) {
                    back.insert(key.to_owned());
                }
            })?;
        }
        if deleted_before.is_empty() && !self.have_deletes && !is_compacted {
            return Ok((array(back), array(gone)));
        }
        // What log files deleted before may have stayed, for the record of the base file was newer.
        let deleted_now = match self.have_deletes && !deleted_before.is_empty() && !reader.deletes_win() {
            true => deleted_keys(reader, &self.alone())?,
            false => HashSet::new(),
        };
        let after = self.after();
        reader.each_key_in_logs(&after, &mut |key, is_deleted| match deleted_before.contains(key) {
            true if !is_deleted => {
                back.insert(key.to_owned());
            }
            was_deleted if is_deleted && (!was_deleted || deleted_now.contains(key)) => {
                gone.insert(key.to_owned());
            }
            _ => {}
        })?;
        if !gone.is_empty() && after.base.is_some() && !reader.deletes_win() {
            // The record of the base file may be newer than the delete.
            remove_stored(reader, &after, &mut gone)?;
        }
        if is_compacted {
            back.extend(self.lost_to_compaction(reader)?);
        }
        Ok((array(back), array(gone)))
    }

    /// The slice before them.
    pub(in crate::transaction) fn before(&self) -> &FileSlice {
        &self.before
    }

    /// The slice with them.
    pub(in crate::transaction) fn after(&self) -> FileSlice {
        let mut after = self.before.clone();
        after.logs.extend_from_slice(&self.added);
        after
    }

    /// A slice of these log files alone.
    pub(in crate::transaction) fn alone(&self) -> FileSlice {
        FileSlice { logs: self.added.clone(), ..self.before.clone() }
    }

    /// Whether the slice has another base file by now than the one that the log files were written to.
    fn is_compacted(&self) -> bool {
        let base = self.before.base.as_ref().map(|base| base.name());
        self.written_to.is_some() && self.written_to.as_deref() != base
    }

    /// The keys that a compaction did not find any more while the log files were written, for they were deleted.
    fn lost_to_compaction(&self, reader: &FileGroupReader) -> Result<HashSet<String>> {
        let mut live = HashSet::new();
        reader.each_key_in_logs(&self.alone(), &mut |key, is_deleted| {
            if !is_deleted {
                live.insert(key.to_owned());
            }
        })?;
        remove_stored(reader, &self.before, &mut live)?;
        Ok(live)
    }
}

/// Takes the keys out that a slice has.
fn remove_stored(reader: &FileGroupReader, slice: &FileSlice, keys: &mut HashSet<String>) -> Result<()> {
    reader.each_keys(slice, &mut |stored| {
        stored.iter().flatten().for_each(|key| {
            keys.remove(key);
        });
        Ok(())
    })
}

fn deleted_keys(reader: &FileGroupReader, slice: &FileSlice) -> Result<HashSet<String>> {
    let mut deleted = HashSet::new();
    reader.each_key_in_logs(slice, &mut |key, is_deleted| {
        if is_deleted {
            deleted.insert(key.to_owned());
        }
    })?;
    Ok(deleted)
}

fn array(keys: HashSet<String>) -> StringArray {
    keys.into_iter().map(Some).collect()
}
