//! The decision tables of commit-time and event-time ordering.

use std::cmp::Ordering;

use arrow::array::BooleanArray;

use super::ordering_values::{OrderingValues, RowComparator};
use hoodoo_runtime::error::Result;

/// How two records of one key are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMode {
    /// The record that was written later is kept.
    CommitTime,
    /// The record with the larger ordering value is kept; equal values: the one written later.
    EventTime,
}

/// Which step of a merge this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The rows of one write with each other.
    Batch,
    /// Records of log files with each other.
    Delta,
    /// What the delta step left, with the base file. Records of a base file are never deletes.
    Final,
}

/// One side of a merge.
#[derive(Debug, Clone, Copy)]
pub struct Side<'a> {
    /// Ordering values of its rows.
    pub ordering: &'a OrderingValues,
    /// Which rows are deletes. `None`: none of them.
    pub deleted: Option<&'a BooleanArray>,
    /// Which rows come from a delete block, and not from records that are marked as deletes. `None`: none of them.
    pub delete_block: Option<&'a BooleanArray>,
}

impl<'a> Side<'a> {
    /// A side without rows from delete blocks.
    pub fn new(ordering: &'a OrderingValues, deleted: Option<&'a BooleanArray>) -> Self {
        Self { ordering, deleted, delete_block: None }
    }
}

/// Decides pairs of an old and a new record of one key.
pub struct RecordComparator<'a> {
    mode: MergeMode,
    step: Step,
    old: Side<'a>,
    new: Side<'a>,
    comparator: RowComparator,
}

impl<'a> RecordComparator<'a> {
    /// A comparator of two sides.
    pub fn new(mode: MergeMode, step: Step, old: Side<'a>, new: Side<'a>) -> Result<Self> {
        // Without ordering values event time is commit time.
        let mode = if new.ordering.is_empty() { MergeMode::CommitTime } else { mode };
        let comparator = match mode {
            MergeMode::CommitTime => OrderingValues::default().comparator(&OrderingValues::default())?,
            MergeMode::EventTime => new.ordering.comparator(old.ordering)?,
        };
        Ok(Self { mode, step, old, new, comparator })
    }

    /// Whether the new record (a delete included) replaces the old one.
    pub fn new_wins(&self, old: usize, new: usize) -> bool {
        if self.mode == MergeMode::CommitTime {
            return true;
        }
        let not_older = || self.comparator.compare(new, old) != Ordering::Less;
        if is_deleted(self.new.deleted, new) && self.new.ordering.is_default(new) {
            return true;
        }
        match self.step {
            Step::Final => not_older(),
            // A delete without ordering value is forgotten as soon as a record follows, but no delete block undoes it.
            _ if is_deleted(self.old.deleted, old) && self.old.ordering.is_default(old) => {
                !is_deleted(self.new.delete_block, new)
            }
            Step::Batch | Step::Delta => not_older(),
        }
    }
}

fn is_deleted(deleted: Option<&BooleanArray>, row: usize) -> bool {
    deleted.is_some_and(|d| d.value(row))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use arrow::array::{ArrayRef, Int32Array, Int64Array};
    use std::sync::Arc;

    /// Whether new wins, for (old ordering, old is delete) and (new ordering, new is delete).
    fn decide(mode: MergeMode, step: Step, old: (ArrayRef, bool), new: (ArrayRef, bool)) -> bool {
        let (oo, no) = (OrderingValues::try_new(vec![old.0]).unwrap(), OrderingValues::try_new(vec![new.0]).unwrap());
        let (od, nd) = (BooleanArray::from(vec![old.1]), BooleanArray::from(vec![new.1]));
        let comparator = RecordComparator::new(mode, step, Side::new(&oo, Some(&od)), Side::new(&no, Some(&nd)));
        comparator.unwrap().new_wins(0, 0)
    }

    fn int(v: i32) -> ArrayRef {
        Arc::new(Int32Array::from(vec![v]))
    }

    #[test]
    fn event_time_table() {
        use Step::{Delta, Final};
        let e = MergeMode::EventTime;
        for step in [Delta, Final] {
            assert!(decide(e, step, (int(10), false), (int(11), false)), "row 1");
            assert!(decide(e, step, (int(10), false), (int(10), false)), "row 2");
            assert!(!decide(e, step, (int(10), false), (int(9), false)), "row 3");
            assert!(decide(e, step, (int(10), false), (int(11), true)), "row 4");
            assert!(decide(e, step, (int(10), false), (int(10), true)), "row 5");
            assert!(!decide(e, step, (int(10), false), (int(9), true)), "row 6");
            assert!(decide(e, step, (int(10), false), (int(0), true)), "row 7");
        }
        assert!(decide(e, Delta, (int(10), true), (int(10), false)), "row 8");
        assert!(!decide(e, Delta, (int(10), true), (int(9), false)), "row 9");
        assert!(decide(e, Delta, (int(0), true), (int(-5), false)), "row 10");
        assert!(!decide(e, Delta, (int(10), true), (int(9), true)), "row 11");
        assert!(decide(e, Delta, (int(10), true), (int(10), true)), "row 12");
        assert!(decide(e, Delta, (int(0), true), (int(-1), true)), "row 13, marker rows");
        assert!(decide(e, Delta, (int(10), true), (int(0), true)), "row 14");
    }

    #[test]
    fn a_delete_block_does_not_undo_a_delete_without_ordering() {
        let (zero, five) =
            (OrderingValues::try_new(vec![int(0)]).unwrap(), OrderingValues::try_new(vec![int(5)]).unwrap());
        let deleted = BooleanArray::from(vec![true]);
        let side = |ordering| Side { ordering, deleted: Some(&deleted), delete_block: Some(&deleted) };
        let wins = |new| {
            RecordComparator::new(MergeMode::EventTime, Step::Delta, side(&zero), side(new)).unwrap().new_wins(0, 0)
        };
        assert!(!wins(&five), "row 13");
        assert!(wins(&zero), "row 14");
    }

    #[test]
    fn a_long_zero_is_an_ordinary_value() {
        let long = |v: i64| -> ArrayRef { Arc::new(Int64Array::from(vec![v])) };
        assert!(!decide(MergeMode::EventTime, Step::Final, (long(10), false), (long(0), true)));
    }

    #[test]
    fn nulls_are_lowest() {
        let null: ArrayRef = Arc::new(Int64Array::from(vec![None::<i64>]));
        let one: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        assert!(!decide(MergeMode::EventTime, Step::Final, (one.clone(), false), (null.clone(), false)));
        assert!(decide(MergeMode::EventTime, Step::Final, (null.clone(), false), (one, false)));
        assert!(decide(MergeMode::EventTime, Step::Final, (null.clone(), false), (null, false)));
    }

    #[test]
    fn commit_time_is_always_new() {
        assert!(decide(MergeMode::CommitTime, Step::Final, (int(10), false), (int(1), false)));
        assert!(decide(MergeMode::CommitTime, Step::Delta, (int(10), true), (int(1), true)));
    }
}
