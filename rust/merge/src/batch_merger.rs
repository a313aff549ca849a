//! Merges newer records with each other, and then into older ones as these stream by.

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::SchemaRef;

use super::budget::{Budget, Kept, PART_ROWS, rows_at_once};
use super::choose::{Chosen, Met, Stored, choose};
use super::event_time_ordering::Step;
use super::fold::fold_several;
use super::key_table::{KeyTable, hash_key};
use super::ordering_values::OrderingValues;
use super::precombine::{KeyedRows, RowRef, latest_rows};
use super::records::{Records, RowAddress, gather_used, interleave_columns, numbered, renumber};
use super::rule::MergeRule;
use hoodoo_runtime::error::{Error, Result};

/// Newer records, one for each key.
pub struct MergedRecords {
    schema: SchemaRef,
    /// The records, and besides them such as lost against another of their key.
    parts: Vec<Records>,
    /// Part and row of each record.
    rows: Vec<RowRef>,
    /// Positions in `rows`, by hash of the key.
    table: KeyTable,
    /// Records that may be put side by side.
    part_rows: usize,
}

impl MergedRecords {
    /// Merges records with each other, batch after batch.
    ///
    /// # Errors
    /// What merging and the budget fail with.
    pub fn new(
        schema: &SchemaRef,
        batches: Vec<Records>,
        rule: &MergeRule,
        step: Step,
        budget: Option<Budget<'_>>,
    ) -> Result<Self> {
        let part_rows = rows_at_once(&batches, budget)?;
        if let Some(mode) = rule.picks() {
            // Which of them is left is all there is to find out: they stay where they are.
            let keyed: Vec<KeyedRows<'_>> = batches.iter().map(KeyedRows::of).collect();
            let (rows, hashes) = latest_rows(&keyed, mode)?;
            drop(keyed);
            return Self::of(schema, batches, rows, &hashes, part_rows);
        }
        let mut kept = Kept::new(budget);
        let mut merged = |part| kept.push(part);
        let alone = fold_several(schema, &batches, rule, step, part_rows, &mut merged)?;
        // Records that are the only ones of their key stay where they are.
        let at = |batch: usize, row: usize| RowRef { batch: batch as u32, row: row as u32 };
        let (mut rows, mut hashes): (Vec<RowRef>, Vec<u64>) =
            alone.into_iter().map(|((batch, row), hash)| (at(batch, row), hash)).unzip();
        let mut parts = batches;
        for part in kept.into_list() {
            rows.extend((0..part.len()).map(|row| at(parts.len(), row)));
            hashes.extend((0..part.len()).map(|row| hash_key(part.keys.value(row))));
            parts.push(part);
        }
        if u32::try_from(rows.len()).is_err() {
            return Err(Error::unsupported("more than 4 billion keys in the log files of one file group"));
        }
        Self::of(schema, parts, rows, &hashes, part_rows)
    }

    /// Of the records that `rows` names, with the hashes of their keys. All that comes later relies on what is checked here.
    fn of(
        schema: &SchemaRef,
        parts: Vec<Records>,
        rows: Vec<RowRef>,
        hashes: &[u64],
        part_rows: usize,
    ) -> Result<Self> {
        if rows.len() != hashes.len() {
            return Err(Error::internal(format!("{} records with {} hashes of keys", rows.len(), hashes.len())));
        }
        if let Some(last) = rows.iter().map(|at| at.batch).max().filter(|last| *last as usize >= parts.len()) {
            return Err(Error::internal(format!("a newer record is in part {last} of {}", parts.len())));
        }
        Ok(Self { schema: schema.clone(), parts, rows, table: KeyTable::new(hashes), part_rows })
    }

    /// The records, each key once, some at a time.
    ///
    /// # Errors
    /// `Schema`; and those of `each`.
    pub fn each_part(&self, each: &mut dyn FnMut(Records) -> Result<()>) -> Result<()> {
        let all: Vec<&Records> = self.parts.iter().collect();
        for chunk in self.rows.chunks(self.part_rows) {
            each(gather_used(&self.schema, &all, chunk.iter().copied().map(address_of).collect())?)?;
        }
        Ok(())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn has_key(&self, at: RowRef, key: &str) -> bool {
        self.parts.get(at.batch as usize).is_some_and(|p| p.keys.value(at.row as usize) == key)
    }

    fn address(&self, entry: u32) -> Option<RowRef> {
        self.rows.get(entry as usize).copied()
    }

    /// Tells `found` of all keys that have a record: the row of the key, the number of the record.
    fn find_all(&self, keys: &StringArray, found: impl FnMut(usize, u32)) {
        let is = |entry, key: &str| self.address(entry).is_some_and(|at| self.has_key(at, key));
        self.table.find_all(keys, false, is, found);
    }

    fn is_deleted(&self, at: RowRef) -> bool {
        self.parts.get(at.batch as usize).is_some_and(|p| p.deleted.value(at.row as usize))
    }
}

fn address_of(at: RowRef) -> RowAddress {
    (at.batch as usize, at.row as usize)
}

/// What merging did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MergeCounts {
    /// Older records in whose place another came.
    pub updated: u64,
    /// Older records that went.
    pub deleted: u64,
    /// Records that were not there before.
    pub inserted: u64,
}

impl MergeCounts {
    /// Counts what became of stored records.
    pub fn add(&mut self, chosen: &Chosen) {
        self.updated += chosen.replaced.len() as u64;
        self.deleted += chosen.gone as u64;
    }
}

/// Is told what became of older records, and the columns of the newer ones among which they were chosen.
pub type Observe<'o> = dyn FnMut(&Chosen, &[&[ArrayRef]]) -> Result<()> + 'o;

/// Puts a [`Delta`] onto older records, batch after batch.
pub struct BatchMerger {
    newer: MergedRecords,
    rule: MergeRule,
    /// The first columns of all batches: those that are given out.
    wanted: SchemaRef,
    /// Whether each copy of a key is merged, or the first one and the others stay.
    all_copies: bool,
    /// Which records met an older one.
    used: Vec<bool>,
    counts: MergeCounts,
    /// Number of the next record that may be new.
    next_new: usize,
}

impl BatchMerger {
    /// `wanted` are the first columns of older and newer records.
    pub fn new(newer: MergedRecords, rule: MergeRule, wanted: SchemaRef, all_copies: bool) -> Self {
        let used = vec![false; newer.len()];
        Self { newer, rule, wanted, all_copies, used, counts: MergeCounts::default(), next_new: 0 }
    }

    /// Whether newer records are so large that a few of them take much of the budget.
    pub fn has_large_records(&self) -> bool {
        self.newer.part_rows < PART_ROWS
    }

    /// Whether of two records one is kept as it is.
    pub fn keeps_one(&self) -> bool {
        self.rule.picks().is_some()
    }

    /// What was merged so far.
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    /// How many older records are best merged at once, that what comes of them is no larger than a part.
    pub fn batch_rows(&self) -> usize {
        self.newer.part_rows
    }

    /// Merges older records: in their order, without those that go. `observe` is told what became of them.
    ///
    /// # Errors
    /// What the rule fails with; those of `observe`.
    pub fn merge(
        &mut self,
        base: &RecordBatch,
        keys: &StringArray,
        ordering: &dyn Fn(&RecordBatch) -> Result<OrderingValues>,
        observe: &mut Observe<'_>,
    ) -> Result<RecordBatch> {
        let Some(chosen) = self.choose(base, keys, ordering)? else { return self.wanted_of(base) };
        let newer = chosen.newer(|number| Some(self.newer.parts.get(number)?.data.columns()))?;
        observe(&chosen, &newer)?;
        let sides: Vec<&[ArrayRef]> = std::iter::once(base.columns()).chain(newer).collect();
        interleave_columns(&self.wanted, &sides, &chosen.rows)
    }

    /// Says what becomes of older records; `None` where none of them meets a newer one. Where the rule keeps one of two as
    /// it is, only the columns of `base` are needed that `ordering` looks at.
    ///
    /// # Errors
    /// What the rule fails with.
    pub fn choose(
        &mut self,
        base: &RecordBatch,
        keys: &StringArray,
        ordering: &dyn Fn(&RecordBatch) -> Result<OrderingValues>,
    ) -> Result<Option<Chosen>> {
        let met = self.met(keys);
        if met.is_empty() {
            return Ok(None);
        }
        let stored = Stored { rows: base.num_rows(), ordering: &ordering(base)?, data: Some(base) };
        let parts: Vec<&Records> = self.newer.parts.iter().collect();
        let chosen = choose(&self.rule, stored, &met, &parts)?;
        self.counts.add(&chosen);
        Ok(Some(chosen))
    }

    /// The columns of all newer records, batch after batch, and of such as lost against another of their key.
    pub fn parts(&self) -> impl Iterator<Item = &[ArrayRef]> {
        self.newer.parts.iter().map(|part| part.data.columns())
    }

    /// Whether any of the newer records deletes.
    pub fn has_deletes(&self) -> bool {
        self.newer.rows.iter().any(|at| self.newer.is_deleted(*at))
    }

    /// How many of the newer records met no older one so far, deletes left out.
    pub fn unmet(&self) -> usize {
        let unmet = self.newer.rows.iter().zip(&self.used).filter(|(at, used)| !**used && !self.newer.is_deleted(**at));
        unmet.count()
    }

    /// Rows of keys that a newer record has, with that record.
    fn met(&mut self, keys: &StringArray) -> Vec<Met> {
        let (newer, used, all_copies) = (&self.newer, &mut self.used, self.all_copies);
        let mut met = Vec::new();
        newer.find_all(keys, |row, entry| {
            if let (Some(at), Some(used)) = (newer.address(entry), used.get_mut(entry as usize))
                && (all_copies || !*used)
            {
                *used = true;
                met.push(Met { row, newer: address_of(at), goes: false });
            }
        });
        met
    }

    /// Records that met none, deletes left out; `None` when all were given out.
    ///
    /// # Errors
    /// `Schema` when one lacks a value that the wanted columns ask for.
    pub fn next_new(&mut self) -> Result<Option<RecordBatch>> {
        let all: Vec<&[ArrayRef]> = self.newer.parts.iter().map(|part| part.data.columns()).collect();
        while self.next_new < self.newer.len() {
            let end = self.newer.len().min(self.next_new + self.newer.part_rows);
            let entries = std::mem::replace(&mut self.next_new, end)..end;
            let unused = entries.filter(|entry| self.used.get(*entry) == Some(&false));
            let rows = unused.filter_map(|entry| self.newer.rows.get(entry).copied());
            let mut addresses: Vec<RowAddress> =
                rows.filter(|at| !self.newer.is_deleted(*at)).map(address_of).collect();
            if !addresses.is_empty() {
                self.counts.inserted += addresses.len() as u64;
                let used = renumber(&mut addresses)?;
                let parts = numbered(&all, &used)?;
                return interleave_columns(&self.wanted, &parts, &addresses).map(Some);
            }
        }
        Ok(None)
    }

    fn wanted_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..self.wanted.fields().len()).collect();
        batch.project(&columns)?.with_schema(self.wanted.clone()).map_err(Error::from)
    }
}
