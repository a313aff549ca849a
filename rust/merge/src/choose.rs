//! What becomes of stored records that newer ones meet.
//!
//! Copy-on-write merges, merge-on-read snapshots, compactions and `hoodoo.merge` all decide it here.

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::buffer::BooleanBuffer;

use super::event_time_ordering::{MergeMode, RecordComparator, Side, Step};
use super::ordering_values::OrderingValues;
use super::records::{Records, RowAddress, gather_used, interleave_columns, nullable, numbered, renumber};
use super::rule::MergeRule;
use hoodoo_runtime::error::{Error, Result};

/// A stored record that a newer one meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Met {
    /// Its row among the stored records.
    pub row: usize,
    /// The newer record: batch and row.
    pub newer: RowAddress,
    /// The stored record goes, whatever the rule says.
    pub goes: bool,
}

/// Stored records.
#[derive(Debug, Clone, Copy)]
pub struct Stored<'a> {
    /// How many there are.
    pub rows: usize,
    /// Their ordering values; none where the newer ones have none.
    pub ordering: &'a OrderingValues,
    /// Their columns, in the order of those of the newer records. Not needed where the rule keeps one of two as it is.
    pub data: Option<&'a RecordBatch>,
}

/// What becomes of stored records that newer ones meet.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The rows that come out, in the order of the stored records: (0, row) is one of these, (n, row) one of the n-th of
    /// [`Chosen::newer`].
    pub rows: Vec<RowAddress>,
    /// The stored records in whose place another one came.
    pub replaced: Vec<Replaced>,
    /// How many stored records went.
    pub gone: usize,
    /// Which batches of newer records are among [`Chosen::newer`].
    pub batches: Vec<usize>,
    /// Records that were made of two.
    pub made: Option<RecordBatch>,
}

/// A stored record in whose place another one came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replaced {
    /// Its row among the stored records.
    pub row: usize,
    /// Where in [`Chosen::rows`] the other one is.
    pub at: usize,
}

impl Chosen {
    /// The columns of the newer records among which the rows choose, in the order of their sides; `batch` gives those of a
    /// batch by its number.
    ///
    /// # Errors
    /// `Internal` when there is no such batch.
    pub fn newer<'c>(&'c self, batch: impl Fn(usize) -> Option<&'c [ArrayRef]>) -> Result<Vec<&'c [ArrayRef]>> {
        let missing = |number| Error::internal(format!("a choice names batch {number} of newer records"));
        let newer = self.batches.iter().map(|number| batch(*number).ok_or_else(|| missing(*number)));
        newer.chain(self.made.iter().map(|made| Ok(made.columns()))).collect()
    }

    /// Whether any stored record is not as it was.
    pub fn changes(&self) -> bool {
        self.gone > 0 || !self.replaced.is_empty()
    }

    /// Which of so many stored records went.
    pub fn gone_rows(&self, stored: usize) -> Vec<usize> {
        let mut gone = Vec::with_capacity(self.gone);
        if self.gone == 0 {
            return gone;
        }
        let (mut replaced, mut next) = (self.replaced.iter().peekable(), 0);
        for (at, (_, row)) in self.rows.iter().enumerate() {
            let row = replaced.next_if(|replaced| replaced.at == at).map_or(*row, |replaced| replaced.row);
            gone.extend(next..row);
            next = row + 1;
        }
        gone.extend(next..stored);
        gone
    }

    /// The rows with each stored record back in its place.
    pub fn as_stored(&self) -> Vec<RowAddress> {
        let mut rows = self.rows.clone();
        for replaced in &self.replaced {
            if let Some(row) = rows.get_mut(replaced.at) {
                *row = (0, replaced.row);
            }
        }
        rows
    }
}

enum Fate {
    Stays,
    Replaced(RowAddress),
    Goes,
}

/// Decides for each stored record that a newer one meets. `met` is in the order of the stored records, each of them once.
///
/// # Errors
/// `Internal` for `met` records that are not in order or not there; what the rule fails with.
pub fn choose(rule: &MergeRule, stored: Stored<'_>, met: &[Met], newer: &[&Records]) -> Result<Chosen> {
    check_met(met, stored.rows, newer)?;
    match rule.picks() {
        _ if met.is_empty() => Ok(in_order(stored.rows, std::iter::empty())),
        Some(mode) => pick(mode, stored, met, newer),
        None => combine(rule, stored, met, newer),
    }
}

/// A row that is met twice would come out twice.
fn check_met(met: &[Met], rows: usize, newer: &[&Records]) -> Result<()> {
    if !met.is_sorted_by(|a, b| a.row < b.row) || met.last().is_some_and(|last| last.row >= rows) {
        return Err(Error::internal(format!(
            "the records that newer ones meet are not in order, or not all in {rows} rows"
        )));
    }
    let there = |(batch, row): RowAddress| newer.get(batch).is_some_and(|records| row < records.len());
    match met.iter().find(|met| !there(met.newer)) {
        Some(met) => {
            Err(Error::internal(format!("the newer record {:?} is not among those that were given", met.newer)))
        }
        None => Ok(()),
    }
}

/// One of two is kept as it is.
fn pick(mode: MergeMode, stored: Stored<'_>, met: &[Met], newer: &[&Records]) -> Result<Chosen> {
    let mut addresses: Vec<RowAddress> = met.iter().map(|met| met.newer).collect();
    let batches = renumber(&mut addresses)?;
    let used = numbered(newer, &batches)?;
    let ordering = OrderingValues::gather(&used.iter().map(|r| &r.ordering).collect::<Vec<_>>(), &addresses)?;
    let is_deleted = |(batch, row): &RowAddress| used.get(*batch).is_some_and(|r| r.deleted.value(*row));
    let deleted: BooleanArray = addresses.iter().map(|at| Some(is_deleted(at))).collect();
    let comparator = RecordComparator::new(
        mode,
        Step::Final,
        Side::new(stored.ordering, None),
        Side::new(&ordering, Some(&deleted)),
    )?;
    let fate = |i: usize, met: &Met, (batch, row): RowAddress| match () {
        () if met.goes => Fate::Goes,
        () if !comparator.new_wins(met.row, i) => Fate::Stays,
        () if deleted.value(i) => Fate::Goes,
        () => Fate::Replaced((batch + 1, row)),
    };
    let fates = met.iter().zip(addresses).enumerate().map(|(i, (met, at))| (met.row, fate(i, met, at)));
    Ok(Chosen { batches, ..in_order(stored.rows, fates) })
}

/// Records are made of two.
fn combine(rule: &MergeRule, stored: Stored<'_>, met: &[Met], newer: &[&Records]) -> Result<Chosen> {
    let data =
        stored.data.ok_or_else(|| Error::internal("records are made of two without the columns of the stored ones"))?;
    let schema = nullable(&data.schema());
    // Newer records may have columns behind those of the stored ones.
    let newer = gather_used(&schema, newer, met.iter().map(|met| met.newer).collect())?;
    let rows: Vec<RowAddress> = met.iter().map(|met| (0, met.row)).collect();
    let older = Records {
        keys: newer.keys.clone(),
        data: interleave_columns(&schema, &[data.columns()], &rows)?,
        ordering: OrderingValues::gather(&[stored.ordering], &rows)?,
        deleted: BooleanArray::new(BooleanBuffer::new_unset(rows.len()), None),
        delete_block: None,
        present: None,
    };
    let merged = rule.merge(Step::Final, &older, &newer)?;
    if merged.records.len() != met.len() || merged.unchanged.len() != met.len() {
        let (pairs, made) = (met.len(), merged.records.len());
        return Err(Error::internal(format!("merging {pairs} pairs of records made {made}")));
    }
    let fate = |i: usize, met: &Met| match () {
        () if met.goes || merged.records.deleted.value(i) => Fate::Goes,
        () if merged.unchanged.value(i) => Fate::Stays,
        () => Fate::Replaced((1, i)),
    };
    let chosen = in_order(stored.rows, met.iter().enumerate().map(|(i, met)| (met.row, fate(i, met))));
    Ok(Chosen { made: Some(merged.records.data), ..chosen })
}

/// What comes out of `rows` stored records, some of which have a fate.
fn in_order(rows: usize, fates: impl Iterator<Item = (usize, Fate)>) -> Chosen {
    let mut chosen = Chosen { rows: Vec::with_capacity(rows), ..Chosen::default() };
    let mut next = 0;
    for (row, fate) in fates {
        chosen.rows.extend((next..row).map(|row| (0, row)));
        next = row + 1;
        match fate {
            Fate::Stays => chosen.rows.push((0, row)),
            Fate::Replaced(by) => {
                chosen.replaced.push(Replaced { row, at: chosen.rows.len() });
                chosen.rows.push(by);
            }
            Fate::Goes => chosen.gone += 1,
        }
    }
    chosen.rows.extend((next..rows).map(|row| (0, row)));
    chosen
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{RecordBatchOptions, StringArray};
    use arrow::datatypes::Schema;
    use hoodoo_runtime::error::ErrorKind;
    use std::sync::Arc;

    fn records(rows: usize, deleted: &[usize]) -> Records {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::new(Schema::empty());
        Records {
            keys: StringArray::from_iter_values((0..rows).map(|row| row.to_string())),
            data: RecordBatch::try_new_with_options(schema, Vec::new(), &options).unwrap(),
            ordering: OrderingValues::default(),
            deleted: (0..rows).map(|row| Some(deleted.contains(&row))).collect(),
            delete_block: None,
            present: None,
        }
    }

    fn met(row: usize, newer: RowAddress) -> Met {
        Met { row, newer, goes: false }
    }

    fn chosen(met: &[Met]) -> Result<Chosen> {
        let stored = Stored { rows: 5, ordering: &OrderingValues::default(), data: None };
        let (first, second) = (records(3, &[]), records(3, &[1]));
        choose(&MergeRule::Pick(MergeMode::CommitTime), stored, met, &[&first, &second])
    }

    #[test]
    fn each_stored_row_comes_out_once() {
        let moved = Met { goes: true, ..met(0, (1, 0)) };
        let chosen = chosen(&[moved, met(1, (1, 2)), met(3, (1, 1))]).unwrap();
        assert_eq!(chosen.rows, [(1, 2), (0, 2), (0, 4)]);
        assert_eq!(chosen.replaced, [Replaced { row: 1, at: 0 }]);
        assert_eq!((chosen.gone, &chosen.batches), (2, &vec![1]));
        assert_eq!(chosen.gone_rows(5), [0, 3]);
        assert_eq!(chosen.as_stored(), [(0, 1), (0, 2), (0, 4)]);
        assert_eq!(chosen.newer(|_| None).unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn met_rows_out_of_order_or_range_are_refused() {
        let refused = |met: &[Met]| chosen(met).is_err_and(|e| e.kind() == ErrorKind::Internal);
        assert!(!refused(&[]));
        assert!(!refused(&[met(0, (0, 0)), met(4, (1, 0))]));
        assert!(refused(&[met(1, (0, 0)), met(1, (0, 1))]), "one twice");
        assert!(refused(&[met(2, (0, 0)), met(1, (0, 1))]), "out of order");
        assert!(refused(&[met(5, (0, 0))]), "behind the last");
        assert!(refused(&[met(0, (0, 3))]), "no such newer record");
        assert!(refused(&[met(0, (2, 0))]), "no such newer batch");
    }
}
