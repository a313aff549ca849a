//! What newer records come down to, and putting them onto older ones as these stream by.

use arrow::array::{Array, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use hashbrown::HashTable;

use super::budget::{Budget, Kept};
use super::fold::fold;
use super::judge::{Judge, Side, Step};
use super::ordering::OrderingValues;
use super::precombine::{KeyedRows, RowRef, hash_key, precombine_in_order};
use super::records::{Place, Records, interleave_batches};
use super::rule::MergeRule;
use crate::error::{Error, Result};

/// Records that are put side by side at a time.
const PART_ROWS: usize = 65_536;
/// The fewest of them.
const LEAST_PART_ROWS: usize = 1024;

/// Newer records, one for each key.
pub struct Delta {
    schema: SchemaRef,
    parts: Vec<Records>,
    table: HashTable<(u32, u32)>,
}

impl Delta {
    /// Merges records with each other in the given order.
    ///
    /// # Errors
    /// What merging and the budget fail with.
    pub fn new(
        schema: &SchemaRef,
        batches: &[Records],
        order: impl Iterator<Item = Place>,
        rule: &MergeRule,
        step: Step,
        budget: Option<Budget<'_>>,
    ) -> Result<Self> {
        let mut kept = Kept::new(budget);
        if let Some(mode) = rule.picks() {
            let keyed: Vec<KeyedRows<'_>> = batches.iter().map(KeyedRows::of).collect();
            let order = order.map(|(batch, row)| RowRef { batch: batch as u32, row: row as u32 });
            let rows = precombine_in_order(&keyed, order, mode, true)?.rows;
            let all: Vec<&Records> = batches.iter().collect();
            for chunk in rows.chunks(part_rows(batches, budget)?) {
                let places: Vec<Place> = chunk.iter().map(|r| (r.batch as usize, r.row as usize)).collect();
                kept.push(gather_used(schema, &all, places)?)?;
            }
        } else {
            fold(schema, batches, order, rule, step, &mut |part| kept.push(part))?;
        }
        Self::of(schema.clone(), kept.into_list())
    }

    fn of(schema: SchemaRef, parts: Vec<Records>) -> Result<Self> {
        let total = parts.iter().map(Records::len).sum();
        let mut table: HashTable<(u32, u32)> = HashTable::with_capacity(total);
        let key = |(part, row): &(u32, u32)| parts.get(*part as usize).map_or("", |p| p.keys.value(*row as usize));
        for (part, records) in parts.iter().enumerate() {
            for row in 0..records.len() {
                let place = (part as u32, row as u32);
                table.insert_unique(hash_key(key(&place)), place, |other| hash_key(key(other)));
            }
        }
        Ok(Self { schema, parts, table })
    }

    /// The records, each key once.
    pub fn into_parts(self) -> Vec<Records> {
        self.parts
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    fn find(&self, key: &str) -> Option<Place> {
        let same = |(part, row): &(u32, u32)| {
            self.parts.get(*part as usize).is_some_and(|p| p.keys.value(*row as usize) == key)
        };
        self.table.find(hash_key(key), same).map(|(part, row)| (*part as usize, *row as usize))
    }

    fn is_deleted(&self, (part, row): Place) -> bool {
        self.parts.get(part).is_some_and(|p| p.deleted.value(row))
    }
}

/// Rows of a part: fewer where they are so large that a part would take much of the budget.
fn part_rows(batches: &[Records], budget: Option<Budget<'_>>) -> Result<usize> {
    let Some(budget) = budget else { return Ok(PART_ROWS) };
    let (mut rows, mut bytes) = (0, 0);
    for batch in batches {
        rows += batch.len();
        for column in batch.data.columns() {
            bytes += column.to_data().get_slice_memory_size()?;
        }
    }
    let each = bytes / rows.max(1);
    Ok((budget.bytes / 4 / each.max(1)).clamp(LEAST_PART_ROWS, PART_ROWS))
}

/// [`Records::gather`], looking only at the parts that are used.
fn gather_used(schema: &SchemaRef, parts: &[&Records], mut rows: Vec<Place>) -> Result<Records> {
    let used = renumber(&mut rows);
    let parts: Vec<&Records> = used.iter().filter_map(|part| parts.get(*part).copied()).collect();
    Records::gather(schema, &parts, &rows)
}

/// Numbers the parts of rows anew, without those that no row is in; gives the old numbers.
fn renumber(rows: &mut [Place]) -> Vec<usize> {
    let mut used: Vec<usize> = rows.iter().map(|(part, _)| *part).collect();
    used.sort_unstable();
    used.dedup();
    for (part, _) in rows.iter_mut() {
        *part = used.binary_search(part).unwrap_or_default();
    }
    used
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

/// Puts a [`Delta`] onto older records, batch after batch.
pub struct MergeOnto {
    delta: Delta,
    rule: MergeRule,
    /// The first columns of all batches: those that are given out.
    wanted: SchemaRef,
    /// Whether each copy of a key is merged, or the first one and the others stay.
    all_copies: bool,
    /// Records that met an older one, for each part.
    used: Vec<Vec<bool>>,
    counts: MergeCounts,
    /// Place of the next record that may be new.
    next_new: Place,
}

impl MergeOnto {
    /// `wanted` are the first columns of older and newer records.
    pub fn new(delta: Delta, rule: MergeRule, wanted: SchemaRef, all_copies: bool) -> Self {
        let used = delta.parts.iter().map(|part| vec![false; part.len()]).collect();
        Self { delta, rule, wanted, all_copies, used, counts: MergeCounts::default(), next_new: (0, 0) }
    }

    /// What was merged so far.
    pub fn counts(&self) -> MergeCounts {
        self.counts
    }

    /// How many newer records there are.
    pub fn records(&self) -> usize {
        self.delta.len()
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
        let mut met: Vec<(usize, Place)> = Vec::new();
        for row in 0..keys.len() {
            if let Some((part, place)) = self.delta.find(keys.value(row))
                && let Some(used) = self.used.get_mut(part).and_then(|p| p.get_mut(place))
                && (self.all_copies || !*used)
            {
                *used = true;
                met.push((row, (part, place)));
            }
        }
        if met.is_empty() {
            return self.wanted_of(base);
        }
        match self.rule.picks() {
            Some(_) => self.pick(base, met, &ordering(base)?),
            None => self.put_together(base, &met, keys, &ordering(base)?),
        }
    }

    fn pick(&mut self, base: &RecordBatch, met: Vec<(usize, Place)>, ordering: &OrderingValues) -> Result<RecordBatch> {
        let mut places: Vec<Place> = met.iter().map(|(_, place)| *place).collect();
        let used = renumber(&mut places);
        let parts: Vec<&Records> = used.iter().filter_map(|part| self.delta.parts.get(*part)).collect();
        let new_ordering = OrderingValues::gather(&parts.iter().map(|p| &p.ordering).collect::<Vec<_>>(), &places)?;
        let deleted: BooleanArray = met.iter().map(|(_, place)| Some(self.delta.is_deleted(*place))).collect();
        let mode = self.rule.picks().unwrap_or(super::MergeMode::EventTime);
        let judge = Judge::new(mode, Step::Final, Side::new(ordering, None), Side::new(&new_ordering, Some(&deleted)))?;
        let mut picks: Vec<Place> = Vec::with_capacity(base.num_rows());
        let mut next = 0;
        for (i, ((row, _), (part, place))) in met.iter().zip(&places).enumerate() {
            picks.extend((next..*row).map(|r| (0, r)));
            next = row + 1;
            if !judge.new_wins(*row, i) {
                picks.push((0, *row));
            } else if deleted.value(i) {
                self.counts.deleted += 1;
            } else {
                picks.push((part + 1, *place));
                self.counts.updated += 1;
            }
        }
        picks.extend((next..base.num_rows()).map(|r| (0, r)));
        let batches: Vec<&RecordBatch> = std::iter::once(base).chain(parts.iter().map(|p| &p.data)).collect();
        interleave_batches(&self.wanted, &batches, &picks)
    }

    fn put_together(
        &mut self,
        base: &RecordBatch,
        met: &[(usize, Place)],
        keys: &StringArray,
        ordering: &OrderingValues,
    ) -> Result<RecordBatch> {
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
        let newer = gather_used(&schema, &parts, met.iter().map(|(_, place)| *place).collect())?;
        let merged = self.rule.merge(Step::Final, &older, &newer)?;
        let mut picks: Vec<Place> = Vec::with_capacity(base.num_rows());
        let mut next = 0;
        for (i, (row, _)) in met.iter().enumerate() {
            picks.extend((next..*row).map(|r| (0, r)));
            next = row + 1;
            if merged.records.deleted.value(i) {
                self.counts.deleted += 1;
            } else if merged.unchanged.value(i) {
                picks.push((0, *row));
            } else {
                picks.push((1, i));
                self.counts.updated += 1;
            }
        }
        picks.extend((next..base.num_rows()).map(|r| (0, r)));
        interleave_batches(&self.wanted, &[base, &merged.records.data], &picks)
    }

    /// Records that met none, deletes left out; `None` when all were given out.
    ///
    /// # Errors
    /// `Schema` when one lacks a value that the wanted columns ask for.
    pub fn next_new(&mut self) -> Result<Option<RecordBatch>> {
        while let Some(records) = self.delta.parts.get(self.next_new.0) {
            let used = self.used.get(self.next_new.0).map(Vec::as_slice).unwrap_or_default();
            let is_new = |row: &usize| used.get(*row) == Some(&false) && !records.deleted.value(*row);
            let places: Vec<Place> = (0..records.len()).filter(is_new).map(|row| (0, row)).collect();
            self.next_new.0 += 1;
            if !places.is_empty() {
                self.counts.inserted += places.len() as u64;
                return interleave_batches(&self.wanted, &[&records.data], &places).map(Some);
            }
        }
        Ok(None)
    }

    fn wanted_of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns: Vec<usize> = (0..self.wanted.fields().len()).collect();
        batch.project(&columns)?.with_schema(self.wanted.clone()).map_err(Error::from)
    }

    /// The columns of the newer records.
    pub fn delta_schema(&self) -> &SchemaRef {
        &self.delta.schema
    }
}

/// The same columns, any of which may be null.
pub fn nullable(schema: &Schema) -> SchemaRef {
    let fields = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true));
    std::sync::Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}
