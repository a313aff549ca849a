//! Changes from change data logs. What a log leaves out is looked up, by record key, in the base files before and after.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::concat_batches;

use super::reader::{COMMIT_TIME, ChangeReader};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::log::ChangeLogScan;
use crate::format::change_data::{AFTER, BEFORE, ChangeKind, OP, RECORD_KEY};

/// Records whose rows are looked up at once.
const LOOKED_UP: usize = 65_536;

/// The changes in some logs of one commit, batch after batch.
pub(super) struct LoggedChanges {
    reader: Arc<ChangeReader>,
    instant: String,
    files: std::vec::IntoIter<(String, u64)>,
    before: Option<FileSlice>,
    after: Option<FileSlice>,
    scan: Option<ChangeLogScan>,
    ready: std::vec::IntoIter<RecordBatch>,
    failed: bool,
}

impl LoggedChanges {
    /// Of these files (path, bytes); and the slices that have what they leave out.
    pub(super) fn new(
        reader: Arc<ChangeReader>,
        instant: String,
        files: Vec<(String, u64)>,
        before: Option<FileSlice>,
        after: Option<FileSlice>,
    ) -> Self {
        let (files, ready) = (files.into_iter(), Vec::new().into_iter());
        Self { reader, instant, files, before, after, scan: None, ready, failed: false }
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.next() {
                return Ok(Some(batch));
            }
            let Some(scan) = &mut self.scan else {
                let Some((path, size)) = self.files.next() else { return Ok(None) };
                self.scan = Some(self.reader.open_log(&self.instant, &path, size)?);
                continue;
            };
            let mut records = Vec::new();
            let block = scan.next_block(&mut |batch| {
                records.push(batch);
                Ok(())
            });
            if block?.is_none() {
                self.scan = None;
            }
            self.ready = self.changes(records)?.into_iter();
        }
    }

    /// Records of one block as changes.
    fn changes(&self, records: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
        let Some(first) = records.first() else { return Ok(Vec::new()) };
        if first.column_by_name(RECORD_KEY).is_none() {
            return records.iter().map(|records| self.whole(records)).collect();
        }
        // Looking rows up takes a pass over a base file each time.
        let schema = first.schema();
        let (mut some, mut rows, mut changes) = (Vec::new(), 0, Vec::new());
        for batch in records {
            rows += batch.num_rows();
            some.push(batch);
            if rows >= LOOKED_UP {
                changes.push(self.looked_up(&concat_batches(&schema, &some)?)?);
                (some, rows) = (Vec::new(), 0);
            }
        }
        if rows > 0 {
            changes.push(self.looked_up(&concat_batches(&schema, &some)?)?);
        }
        Ok(changes)
    }

    /// Records that have the rows before and after.
    fn whole(&self, records: &RecordBatch) -> Result<RecordBatch> {
        let rows = |name: &str| self.reader.rows.logged(column(records, name)?);
        self.reader.rows.changes(ops(records)?, &self.instant, rows(BEFORE)?, rows(AFTER)?)
    }

    /// Records that have keys instead.
    fn looked_up(&self, records: &RecordBatch) -> Result<RecordBatch> {
        let ops = ops(records)?;
        let keys = column(records, RECORD_KEY)?.as_string_opt::<i32>().ok_or_else(no_strings)?;
        let after = self.images(self.after.as_ref(), keys, &ops, ChangeKind::Delete, true)?;
        let before = match records.column_by_name(BEFORE) {
            Some(rows) => self.reader.rows.logged(rows)?,
            None => self.images(self.before.as_ref(), keys, &ops, ChangeKind::Insert, false)?,
        };
        self.reader.rows.changes(ops.clone(), &self.instant, before, after)
    }

    /// The rows of a slice with these keys, in their order, but for changes of one kind, which have none. Of several rows of
    /// a key the first one was changed; after a commit (`is_after`), one that the commit wrote.
    fn images(
        &self,
        slice: Option<&FileSlice>,
        keys: &StringArray,
        ops: &ArrayRef,
        without: ChangeKind,
        is_after: bool,
    ) -> Result<ArrayRef> {
        let ops = ops.as_string_opt::<i32>().ok_or_else(no_strings)?;
        let has_row = |row: usize| ops.value(row) != without.letter();
        let mut wanted: HashMap<&str, u32> = HashMap::with_capacity(keys.len());
        for (row, key) in keys.iter().enumerate().filter(|(row, _)| has_row(*row)) {
            let key = key.ok_or_else(|| Error::corrupt("a record of a change data log has no record key"))?;
            wanted.insert(key, u32::try_from(row).unwrap_or(u32::MAX));
        }
        if wanted.is_empty() {
            return Ok(self.reader.rows.none(keys.len()));
        }
        let slice =
            slice.ok_or_else(|| Error::corrupt("a change data log names rows, and there is no base file of them"))?;
        let find = |key: &str| wanted.get(key).copied();
        let (entries, rows) = self.reader.slices.find(slice, &self.reader.all, &find)?;
        let times = rows.column_by_name(COMMIT_TIME).and_then(|column| column.as_string_opt::<i32>());
        let is_of_commit =
            |row: usize| times.is_some_and(|times| times.is_valid(row) && times.value(row) == self.instant);
        let mut found: Vec<Option<u32>> = vec![None; keys.len()];
        for (row, entry) in entries.iter().enumerate() {
            let Some(slot) = found.get_mut(*entry as usize) else { continue };
            let better = |known: u32| is_after && is_of_commit(row) && !is_of_commit(known as usize);
            if slot.is_none_or(better) {
                *slot = u32::try_from(row).ok();
            }
        }
        if let Some(missing) = found.iter().enumerate().find(|(row, at)| has_row(*row) && at.is_none()) {
            return Err(Error::corrupt("a change data log names a record that its base file does not have")
                .with("key", keys.value(missing.0))
                .with("file group", &slice.file_id)
                .with("instant", &self.instant));
        }
        self.reader.rows.taken(&rows, &UInt32Array::from(found))
    }
}

impl Iterator for LoggedChanges {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.advance().transpose();
        self.failed = matches!(next, Some(Err(_)));
        next
    }
}

fn no_strings() -> Error {
    Error::corrupt("a column of a change data log holds no strings")
}

fn column<'b>(records: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    let column = records.column_by_name(name);
    column.ok_or_else(|| Error::corrupt(format!("the records of a change data log have no field '{name}'")))
}

/// The kinds of some changes.
fn ops(records: &RecordBatch) -> Result<ArrayRef> {
    let ops = column(records, OP)?;
    let strings = ops.as_string_opt::<i32>().ok_or_else(no_strings)?;
    let kinds = [ChangeKind::Insert, ChangeKind::Update, ChangeKind::Delete];
    let is_kind = |op: Option<&str>| op.is_some_and(|op| kinds.iter().any(|kind| kind.letter() == op));
    match strings.iter().find(|op| !is_kind(*op)) {
        None => Ok(ops.clone()),
        Some(other) => {
            Err(Error::corrupt("a change data log holds a change of no known kind").with("op", other.unwrap_or("null")))
        }
    }
}
