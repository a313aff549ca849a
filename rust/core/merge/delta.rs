//! What newer records come down to, and putting them onto older ones as these stream by.

use arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};

use super::budget::{Budget, Kept, PART_ROWS, rows_at_once};
use super::fold::fold_several;
use super::judge::{Judge, MergeMode, Side, Step};
use super::key_table::KeyTable;
use super::ordering::OrderingValues;
use super::precombine::{KeyedRows, RowRef, hash_key, precombine};
use super::records::{Place, Records, interleave_batches};
use super::rule::MergeRule;
use crate::error::{Error, Result};

/// Newer records, one for each key.
pub struct Delta {
    schema: SchemaRef,
    /// The records, and besides them such as lost against another of their key.
    parts: Vec<Records>,
    /// Part and row of each record.
    rows: Vec<RowRef>,
    /// Places in `rows`, by hash of the key.
    table: KeyTable,
    /// Records that may be put side by side.
    part_rows: usize,
}

impl Delta {
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
            let (rows, hashes) = precombine(&keyed, mode, true)?.into_parts();
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
            each(gather_used(&self.schema, &all, chunk.iter().copied().map(place_of).collect())?)?;
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

    fn place(&self, entry: u32) -> Option<RowRef> {
        self.rows.get(entry as usize).copied()
    }

    /// Tells `found` of all keys that have a record: the row of the key, the number of the record.
    fn find_all(&self, keys: &StringArray, found: impl FnMut(usize, u32)) {
        self.table.find_all(keys, |entry, key| self.place(entry).is_some_and(|at| self.has_key(at, key)), found);
    }

    fn is_deleted(&self, at: RowRef) -> bool {
        self.parts.get(at.batch as usize).is_some_and(|p| p.deleted.value(at.row as usize))
    }
}

fn place_of(at: RowRef) -> Place {
    (at.batch as usize, at.row as usize)
}

/// [`Records::gather`], looking only at the parts that are used.
fn gather_used(schema: &SchemaRef, parts: &[&Records], mut rows: Vec<Place>) -> Result<Records> {
    let used = renumber(&mut rows)?;
    Records::gather(schema, &numbered(parts, &used)?, &rows)
}

/// The elements of these numbers. None may be missing: the others would get its number.
fn numbered<T: Copy>(list: &[T], numbers: &[usize]) -> Result<Vec<T>> {
    let of_number = |number: &usize| list.get(*number).copied();
    let found: Option<Vec<T>> = numbers.iter().map(of_number).collect();
    found.ok_or_else(|| {
        Error::internal(format!("parts {numbers:?} are wanted of {} parts of newer records", list.len()))
    })
}

/// Numbers the parts of rows anew, without those that no row is in; gives the old numbers.
fn renumber(rows: &mut [Place]) -> Result<Vec<usize>> {
    let mut used: Vec<usize> = rows.iter().map(|(part, _)| *part).collect();
    used.sort_unstable();
    used.dedup();
    for (part, _) in rows.iter_mut() {
        let found = used.binary_search(part);
        *part = found.map_err(|_| Error::internal(format!("part {part} of newer records is not among those used")))?;
    }
    Ok(used)
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

/// What becomes of older records that newer ones meet.
#[derive(Debug)]
pub struct Chosen {
    /// What comes out, in the order of the older records: (0, row) is one of these, (n, row) one of the n-th of
    /// [`MergeOnto::newer`].
    pub rows: Vec<Place>,
    /// Which of [`MergeOnto::parts`] they are; none where records were made of two.
    pub parts: Vec<usize>,
    /// Records that were made of two.
    made: Option<RecordBatch>,
    /// Older records that went.
    pub gone: u64,
}

/// Puts a [`Delta`] onto older records, batch after batch.
pub struct MergeOnto {
    delta: Delta,
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

impl MergeOnto {
    /// `wanted` are the first columns of older and newer records.
    pub fn new(delta: Delta, rule: MergeRule, wanted: SchemaRef, all_copies: bool) -> Self {
        let used = vec![false; delta.len()];
        Self { delta, rule, wanted, all_copies, used, counts: MergeCounts::default(), next_new: 0 }
    }

    /// Whether newer records are so large that a few of them take much of the budget.
    pub fn has_large_records(&self) -> bool {
        self.delta.part_rows < PART_ROWS
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
        self.delta.part_rows
    }

    /// Merges older records: in their order, without those that go.
    ///
    /// # Errors
    /// What the rule fails with.
    pub fn merge(
        &mut self,
        base: &RecordBatch,
        keys: &StringArray,
        ordering: &dyn Fn(&RecordBatch) -> Result<OrderingValues>,
    ) -> Result<RecordBatch> {
        let Some(chosen) = self.choose(base, keys, ordering)? else { return self.wanted_of(base) };
        let sides: Vec<&RecordBatch> = std::iter::once(base).chain(self.newer(&chosen)?).collect();
        interleave_batches(&self.wanted, &sides, &chosen.rows)
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
        let ordering = ordering(base)?;
        match self.rule.picks() {
            Some(mode) => self.judge(mode, &met, keys.len(), &ordering),
            None => self.put_together(base, &met, keys, &ordering),
        }
        .map(Some)
    }

    /// The newer records among which [`Chosen::rows`] chooses, in its order.
    ///
    /// # Errors
    /// `Internal` for a choice among other records.
    pub fn newer<'c>(&'c self, chosen: &'c Chosen) -> Result<Vec<&'c RecordBatch>> {
        let mut newer = Vec::with_capacity(chosen.parts.len() + 1);
        for number in &chosen.parts {
            let part = self.delta.parts.get(*number);
            let part = part.ok_or_else(|| Error::internal(format!("a choice names part {number} of newer records")))?;
            newer.push(&part.data);
        }
        newer.extend(&chosen.made);
        Ok(newer)
    }

    /// All newer records, and besides them such as lost against another of their key.
    pub fn parts(&self) -> impl Iterator<Item = &RecordBatch> {
        self.delta.parts.iter().map(|part| &part.data)
    }

    /// Whether any of the newer records deletes.
    pub fn has_deletes(&self) -> bool {
        self.delta.rows.iter().any(|at| self.delta.is_deleted(*at))
    }

    /// How many of the newer records met no older one so far, deletes left out.
    pub fn unmet(&self) -> usize {
        let unmet = self.delta.rows.iter().zip(&self.used).filter(|(at, used)| !**used && !self.delta.is_deleted(**at));
        unmet.count()
    }

    /// Rows of keys that a newer record has, with that record.
    fn met(&mut self, keys: &StringArray) -> Vec<(usize, RowRef)> {
        let (delta, used, all_copies) = (&self.delta, &mut self.used, self.all_copies);
        let mut met: Vec<(usize, RowRef)> = Vec::new();
        delta.find_all(keys, |row, entry| {
            if let (Some(at), Some(used)) = (delta.place(entry), used.get_mut(entry as usize))
                && (all_copies || !*used)
            {
                *used = true;
                met.push((row, at));
            }
        });
        met
    }

    fn judge(
        &mut self,
        mode: MergeMode,
        met: &[(usize, RowRef)],
        older: usize,
        ordering: &OrderingValues,
    ) -> Result<Chosen> {
        let mut places: Vec<Place> = met.iter().map(|(_, at)| place_of(*at)).collect();
        let used = renumber(&mut places)?;
        let parts = numbered(&self.delta.parts.iter().collect::<Vec<_>>(), &used)?;
        let new_ordering = OrderingValues::gather(&parts.iter().map(|p| &p.ordering).collect::<Vec<_>>(), &places)?;
        let deleted: BooleanArray = met.iter().map(|(_, at)| Some(self.delta.is_deleted(*at))).collect();
        let judge = Judge::new(mode, Step::Final, Side::new(ordering, None), Side::new(&new_ordering, Some(&deleted)))?;
        let mut picks: Vec<Place> = Vec::with_capacity(older);
        let (mut next, mut gone) = (0, 0);
        for (i, ((row, _), (part, place))) in met.iter().zip(&places).enumerate() {
            picks.extend((next..*row).map(|r| (0, r)));
            next = row + 1;
            if !judge.new_wins(*row, i) {
                picks.push((0, *row));
            } else if deleted.value(i) {
                gone += 1;
            } else {
                picks.push((part + 1, *place));
                self.counts.updated += 1;
            }
        }
        picks.extend((next..older).map(|r| (0, r)));
        self.counts.deleted += gone;
        Ok(Chosen { rows: picks, parts: used, made: None, gone })
    }

    fn put_together(
        &mut self,
        base: &RecordBatch,
        met: &[(usize, RowRef)],
        keys: &StringArray,
        ordering: &OrderingValues,
    ) -> Result<Chosen> {
        let schema = nullable(&base.schema());
        let older = Records {
            keys: keys.clone(),
            data: base.clone().with_schema(schema.clone())?,
            ordering: ordering.clone(),
            deleted: BooleanArray::new(arrow::buffer::BooleanBuffer::new_unset(base.num_rows()), None),
            delete_block: None,
            present: None,
        };
        let older = Records::gather(&schema, &[&older], &met.iter().map(|(row, _)| (0, *row)).collect::<Vec<_>>())?;
        let parts: Vec<&Records> = self.delta.parts.iter().collect();
        // Newer records may have columns behind those of the older ones.
        let newer = gather_used(&schema, &parts, met.iter().map(|(_, at)| place_of(*at)).collect())?;
        let merged = self.rule.merge(Step::Final, &older, &newer)?;
        let mut picks: Vec<Place> = Vec::with_capacity(base.num_rows());
        let (mut next, mut gone) = (0, 0);
        for (i, (row, _)) in met.iter().enumerate() {
            picks.extend((next..*row).map(|r| (0, r)));
            next = row + 1;
            if merged.records.deleted.value(i) {
                gone += 1;
            } else if merged.unchanged.value(i) {
                picks.push((0, *row));
            } else {
                picks.push((1, i));
                self.counts.updated += 1;
            }
        }
        picks.extend((next..base.num_rows()).map(|r| (0, r)));
        self.counts.deleted += gone;
        Ok(Chosen { rows: picks, parts: Vec::new(), made: Some(merged.records.data), gone })
    }

    /// Records that met none, deletes left out; `None` when all were given out.
    ///
    /// # Errors
    /// `Schema` when one lacks a value that the wanted columns ask for.
    pub fn next_new(&mut self) -> Result<Option<RecordBatch>> {
        let all: Vec<&RecordBatch> = self.delta.parts.iter().map(|p| &p.data).collect();
        while self.next_new < self.delta.len() {
            let end = self.delta.len().min(self.next_new + self.delta.part_rows);
            let entries = std::mem::replace(&mut self.next_new, end)..end;
            let unused = entries.filter(|entry| self.used.get(*entry) == Some(&false));
            let rows = unused.filter_map(|entry| self.delta.rows.get(entry).copied());
            let mut places: Vec<Place> = rows.filter(|at| !self.delta.is_deleted(*at)).map(place_of).collect();
            if !places.is_empty() {
                self.counts.inserted += places.len() as u64;
                let used = renumber(&mut places)?;
                let parts = numbered(&all, &used)?;
                return interleave_batches(&self.wanted, &parts, &places).map(Some);
            }
        }
        Ok(None)
    }

    fn wanted_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..self.wanted.fields().len()).collect();
        batch.project(&columns)?.with_schema(self.wanted.clone()).map_err(Error::from)
    }
}

/// The same columns, any of which may be null.
pub fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
