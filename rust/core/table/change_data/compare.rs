//! Changes from two states of a file group: which rows differ, by key.
//!
//! First the keys of rows that may differ are found. Log files name them; of two base files the narrow columns tell: rows that
//! the commit wrote, and those that are there no more. Then these rows are read from both states, some at a time, and put
//! side by side.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{or, take};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use hashbrown::HashMap;

use super::reader::{COMMIT_TIME, ChangeReader, Changes};
use crate::error::{Error, Result};
use crate::file_group::{FileSlice, LogFile};
use crate::format::change_data::ChangeKind;

/// Keys whose rows are compared at once.
const AT_ONCE: usize = 65_536;
/// The column whose values differ between rows of one commit.
const SEQUENCE: &str = "_hoodie_commit_seqno";

/// A row before and a row after, either of which may not be there.
type Pair = (Option<u32>, Option<u32>);

impl ChangeReader {
    /// The changes between two states of a file group. `added`: the log files by which they differ, if these are all.
    ///
    /// # Errors
    /// Those of reading the slices; while streaming too.
    pub(super) fn compared(
        self: &Arc<Self>,
        instant: String,
        before: FileSlice,
        after: FileSlice,
        added: Vec<LogFile>,
    ) -> Result<Changes> {
        let keys = match added.is_empty() {
            true => self.keys_of_files(&instant, &before, &after)?,
            false => self.keys_of_logs(&FileSlice { logs: added, ..after.clone() })?,
        };
        let chunks: Vec<Vec<String>> = keys.chunks(AT_ONCE).map(<[String]>::to_vec).collect();
        let reader = self.clone();
        Ok(Box::new(chunks.into_iter().map(move |keys| reader.differences(&instant, &before, &after, &keys))))
    }

    /// The keys that log files name, in their order, each once.
    fn keys_of_logs(&self, added: &FileSlice) -> Result<Vec<String>> {
        let mut keys = Vec::new();
        self.slices.each_key_in_logs(added, &mut |key, _| keys.push(key.to_owned()))?;
        Ok(keys)
    }

    /// The keys of rows that may differ between two states: those that a commit wrote, or all of them where rows do not tell;
    /// then those that are not there any more.
    fn keys_of_files(&self, instant: &str, before: &FileSlice, after: &FileSlice) -> Result<Vec<String>> {
        // A rule that makes rows of two may change one without its commit time.
        let tells = self.has_meta && self.keeps_one;
        let narrow = self.all.fields().iter().filter(|field| tells && field.name() == COMMIT_TIME);
        let narrow: SchemaRef = Arc::new(Schema::new(narrow.cloned().collect::<Vec<_>>()));
        let (mut there, mut keys) = (HashSet::new(), Vec::new());
        for rows in self.slices.keyed_rows(after, &narrow)? {
            let (found, rows) = rows?;
            let times = rows.column_by_name(COMMIT_TIME).filter(|_| tells).and_then(|c| c.as_string_opt::<i32>());
            for (row, key) in found.iter().enumerate() {
                let key = key.unwrap_or_default();
                let may_differ = times.is_none_or(|times| times.is_valid(row) && times.value(row) == instant);
                if there.insert(key.to_owned()) && may_differ {
                    keys.push(key.to_owned());
                }
            }
        }
        let mut gone = HashSet::new();
        self.slices.each_key(before, &mut |key| {
            if !there.contains(key) && gone.insert(key.to_owned()) {
                keys.push(key.to_owned());
            }
        })?;
        Ok(keys)
    }

    /// The changes in the rows of some keys.
    fn differences(
        &self,
        instant: &str,
        before: &FileSlice,
        after: &FileSlice,
        keys: &[String],
    ) -> Result<RecordBatch> {
        let numbers: HashMap<&str, u32> = keys.iter().map(String::as_str).zip(0u32..).collect();
        let find = |key: &str| numbers.get(key).copied();
        let before = Side::of(self.slices.find(before, &self.all, &find)?);
        let after = Side::of(self.slices.find(after, &self.all, &find)?);
        let mut pairs: Vec<Pair> = Vec::with_capacity(keys.len());
        let (mut from, mut to) = (0, 0);
        for key in 0..keys.len() as u32 {
            let (old, new) = (before.rows_of(key, &mut from), after.rows_of(key, &mut to));
            match (old, new) {
                ([old], [new]) => pairs.push((Some(*old), Some(*new))),
                (old, new) => self.pair_copies(&before.rows, old, &after.rows, new, &mut pairs)?,
            }
        }
        self.changes_of(instant, &before.rows, &after.rows, &pairs)
    }

    /// Rows of a key that a file group has several times: those that are as they were say nothing, the others follow each
    /// other.
    fn pair_copies(
        &self,
        before: &RecordBatch,
        old: &[u32],
        after: &RecordBatch,
        new: &[u32],
        pairs: &mut Vec<Pair>,
    ) -> Result<()> {
        let (mut old, mut changed) = (old.to_vec(), Vec::new());
        for row in new {
            let mut same = None;
            for (at, candidate) in old.iter().enumerate() {
                if self.is_same(before, *candidate, after, *row)? {
                    same = Some(at);
                    break;
                }
            }
            match same {
                Some(at) => _ = old.remove(at),
                None => changed.push(*row),
            }
        }
        for at in 0..old.len().max(changed.len()) {
            pairs.push((old.get(at).copied(), changed.get(at).copied()));
        }
        Ok(())
    }

    /// Whether one row is the other.
    fn is_same(&self, before: &RecordBatch, old: u32, after: &RecordBatch, new: u32) -> Result<bool> {
        let (old, new) = (UInt32Array::from(vec![old]), UInt32Array::from(vec![new]));
        let differs = self.differ(before, &old, after, &new)?;
        let number = |rows: &RecordBatch, at: &UInt32Array| {
            rows.column_by_name(SEQUENCE).filter(|_| self.has_meta).map(|column| take(column, at, None)).transpose()
        };
        Ok(differs.true_count() == 0 && number(before, &old)? == number(after, &new)?)
    }

    /// The changes that pairs of rows are, but for those of rows that are as they were.
    fn changes_of(
        &self,
        instant: &str,
        before: &RecordBatch,
        after: &RecordBatch,
        pairs: &[Pair],
    ) -> Result<RecordBatch> {
        let both: Vec<(u32, u32)> = pairs.iter().filter_map(|(old, new)| Some(((*old)?, (*new)?))).collect();
        let old = UInt32Array::from_iter_values(both.iter().map(|(old, _)| *old));
        let new = UInt32Array::from_iter_values(both.iter().map(|(_, new)| *new));
        let differs = self.differ(before, &old, after, &new)?;
        let mut differs = differs.iter();
        let mut changes = Vec::new();
        for pair in pairs {
            let is_change = match pair {
                (Some(_), Some(_)) => differs.next().flatten() == Some(true),
                (old, new) => old.is_some() || new.is_some(),
            };
            if is_change {
                changes.push(*pair);
            }
        }
        let kind = |pair: &Pair| match pair {
            (None, _) => ChangeKind::Insert.letter(),
            (_, None) => ChangeKind::Delete.letter(),
            _ => ChangeKind::Update.letter(),
        };
        let ops: ArrayRef = Arc::new(StringArray::from_iter_values(changes.iter().map(kind)));
        let old: UInt32Array = changes.iter().map(|(old, _)| *old).collect();
        let new: UInt32Array = changes.iter().map(|(_, new)| *new).collect();
        self.rows.changes(ops, instant, self.rows.taken(before, &old)?, self.rows.taken(after, &new)?)
    }

    /// Which rows differ from the others: another commit wrote them, or a column has another value.
    fn differ(
        &self,
        before: &RecordBatch,
        old: &UInt32Array,
        after: &RecordBatch,
        new: &UInt32Array,
    ) -> Result<BooleanArray> {
        let mut differs = BooleanArray::from(vec![false; old.len()]);
        for (at, field) in self.all.fields().iter().enumerate() {
            let is_meta = field.name().starts_with("_hoodie_");
            if is_meta && !(self.has_meta && field.name() == COMMIT_TIME) {
                continue;
            }
            let (Some(before), Some(after)) = (before.columns().get(at), after.columns().get(at)) else {
                return Err(Error::internal("two states of a file group have different columns"));
            };
            differs = or(&differs, &distinct(&take(before, old, None)?, &take(after, new, None)?)?)?;
        }
        Ok(differs)
    }
}

/// Rows of some keys.
struct Side {
    rows: RecordBatch,
    /// Number of the key and row, in the order of the keys.
    entries: Vec<u32>,
    order: Vec<u32>,
}

impl Side {
    /// Of the numbers of keys, and the rows that have them.
    fn of((keys, rows): (Vec<u32>, RecordBatch)) -> Self {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_by_key(|row| keys.get(*row as usize).copied());
        let entries = order.iter().filter_map(|row| keys.get(*row as usize).copied()).collect();
        Self { rows, entries, order }
    }

    /// The rows of the next key; `from` is where those of the key before end.
    fn rows_of(&self, key: u32, from: &mut usize) -> &[u32] {
        let first = *from;
        let rest = self.entries.get(first..).unwrap_or_default();
        *from += rest.iter().take_while(|entry| **entry == key).count();
        self.order.get(first..*from).unwrap_or_default()
    }
}

/// In which rows two columns have different values.
fn distinct(one: &ArrayRef, other: &ArrayRef) -> Result<BooleanArray> {
    match one.data_type() {
        DataType::List(_) | DataType::Map(..) | DataType::Struct(_) => {
            let differs = |row: usize| one.slice(row, 1).as_ref() != other.slice(row, 1).as_ref();
            Ok((0..one.len()).map(|row| Some(differs(row))).collect())
        }
        _ => Ok(arrow::compute::kernels::cmp::distinct(one, other)?),
    }
}
