//! Which rows of an old file stay, and which give way to incoming ones. Pure: no files.

use arrow::array::{Array, RecordBatch};

use crate::error::{Error, Result};
use crate::merge::{Judge, Side, Step};
use crate::write::locate::tagging::MatchedRow;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::Gathered;

/// What becomes of a stored record that an incoming row meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::write) enum Outcome {
    /// It stays.
    Old,
    /// The incoming row takes its place.
    New,
    /// It goes.
    Gone,
}

/// Checks that rows meet stored ones in the order of these, each of them once, and all among the `rows` rows from `offset`
/// on. What follows relies on it: a row met twice would be written twice.
pub(in crate::write) fn check_met(met: &[MatchedRow], offset: usize, rows: usize) -> Result<()> {
    let within = |m: &MatchedRow| (m.position as usize).checked_sub(offset).is_some_and(|row| row < rows);
    if met.first().is_none_or(within)
        && met.last().is_none_or(within)
        && met.is_sorted_by(|a, b| a.position < b.position)
    {
        return Ok(());
    }
    let end = offset.saturating_add(rows);
    Err(Error::internal(format!(
        "the rows that meet stored ones are not in order, or not all in rows {offset} to {end}"
    )))
}

/// Whether the stored ordering values are needed to decide.
pub(in crate::write) fn needs_stored_ordering(context: &WriteContext, delete_by_key: bool) -> bool {
    !delete_by_key && !context.settings.ordering.is_empty()
}

/// Decides for each met record. `stored` has at least the ordering columns of rows from `offset` on when
/// [`needs_stored_ordering`] says so; `new` begins with the incoming rows of `met`.
pub(in crate::write) fn decide(
    context: &WriteContext,
    stored: &RecordBatch,
    offset: usize,
    met: &[MatchedRow],
    new: &Gathered,
    delete_by_key: bool,
) -> Result<Vec<Outcome>> {
    if new.keys.len() < met.len() {
        return Err(Error::internal(format!(
            "{} rows meet stored ones, but {} were gathered",
            met.len(),
            new.keys.len()
        )));
    }
    let gone = |i: usize| new.deleted.as_ref().is_some_and(|d| d.value(i));
    if !needs_stored_ordering(context, delete_by_key) {
        let outcome = |(i, m): (usize, &MatchedRow)| if m.moved || gone(i) { Outcome::Gone } else { Outcome::New };
        return Ok(met.iter().enumerate().map(outcome).collect());
    }
    let (stored, given) = (context.ordering(stored)?, context.ordering(&new.data)?);
    let side = Side::new(&given, new.deleted.as_ref());
    let judge = Judge::new(context.batch_mode(), Step::Final, Side::new(&stored, None), side)?;
    let outcome = |(i, m): (usize, &MatchedRow)| {
        if m.moved {
            Outcome::Gone
        } else if !judge.new_wins((m.position as usize).saturating_sub(offset), i) {
            Outcome::Old
        } else if gone(i) {
            Outcome::Gone
        } else {
            Outcome::New
        }
    };
    Ok(met.iter().enumerate().map(outcome).collect())
}

/// Rows of a new file, in order, as choices between old and incoming ones.
#[derive(Debug, Default)]
pub(in crate::write) struct Picks {
    /// (0, row) takes a row of the old ones, counted from their offset; (1, row) one of the incoming ones.
    pub(in crate::write) rows: Vec<(usize, usize)>,
    /// Where in the new file each incoming row comes to lie, if it does.
    pub(in crate::write) positions: Vec<usize>,
    /// Old row and incoming row of each replacement.
    pub(in crate::write) replaced: Vec<(usize, usize)>,
    /// Old rows that go.
    pub(in crate::write) gone: Vec<usize>,
}

impl Picks {
    /// Puts `old_rows` rows from `offset` on and the incoming ones together; `written` rows of the new file come before.
    /// `met` was checked: see [`check_met`].
    ///
    /// # Errors
    /// `Internal` when it is not known of each met row what becomes of it.
    pub(in crate::write) fn new(
        old_rows: usize,
        offset: usize,
        met: &[MatchedRow],
        outcomes: &[Outcome],
        written: usize,
    ) -> Result<Self> {
        if outcomes.len() != met.len() {
            return Err(Error::internal(format!("of {} met rows {} were decided", met.len(), outcomes.len())));
        }
        let mut picks = Self { rows: Vec::with_capacity(old_rows), positions: vec![0; met.len()], ..Self::default() };
        let mut next = 0usize;
        for (i, (m, outcome)) in met.iter().zip(outcomes).enumerate() {
            let row = (m.position as usize).saturating_sub(offset);
            picks.rows.extend((next..row).map(|r| (0, r)));
            next = row + 1;
            match outcome {
                Outcome::Old => picks.rows.push((0, row)),
                Outcome::New => {
                    if let Some(position) = picks.positions.get_mut(i) {
                        *position = written + picks.rows.len();
                    }
                    picks.rows.push((1, i));
                    picks.replaced.push((row, i));
                }
                Outcome::Gone => picks.gone.push(row),
            }
        }
        picks.rows.extend((next..old_rows).map(|r| (0, r)));
        Ok(picks)
    }

    /// Puts incoming rows behind: those after the ones that met something.
    pub(in crate::write) fn append(&mut self, count: usize, written: usize) {
        let first = self.positions.len();
        for i in first..first + count {
            self.positions.push(written + self.rows.len());
            self.rows.push((1, i));
        }
    }

    /// The same choice with each incoming row put back to the old row that it replaces; appended rows stay.
    pub(in crate::write) fn as_stored(&self) -> Vec<(usize, usize)> {
        let mut replaced = self.replaced.iter().peekable();
        let stored = |pick: &(usize, usize)| match (pick, replaced.peek()) {
            ((1, i), Some((row, j))) if i == j => {
                let row = *row;
                replaced.next();
                (0, row)
            }
            _ => *pick,
        };
        self.rows.iter().map(stored).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;
    use crate::merge::RowRef;

    fn met(positions: &[u32]) -> Vec<MatchedRow> {
        let row = |position: &u32| MatchedRow { position: *position, row: RowRef { batch: 0, row: 0 }, moved: false };
        positions.iter().map(row).collect()
    }

    fn refused(positions: &[u32]) -> bool {
        check_met(&met(positions), 100, 10).is_err_and(|e| e.kind() == ErrorKind::Internal)
    }

    #[test]
    fn each_stored_row_comes_out_once() {
        let picks = Picks::new(4, 100, &met(&[101, 103]), &[Outcome::New, Outcome::Gone], 7).unwrap();
        assert_eq!(picks.rows, [(0, 0), (1, 0), (0, 2)]);
        assert_eq!(picks.positions, [8, 0]);
    }

    #[test]
    fn met_rows_out_of_order_or_range_are_refused() {
        assert!(!refused(&[]));
        assert!(!refused(&[100, 109]));
        assert!(refused(&[101, 101]), "one twice");
        assert!(refused(&[102, 101]), "out of order");
        assert!(refused(&[99, 101]), "before the first");
        assert!(refused(&[110]), "behind the last");
    }

    #[test]
    fn a_met_row_without_outcome_is_refused() {
        let made = Picks::new(10, 100, &met(&[101, 102]), &[Outcome::New], 0);
        assert_eq!(made.unwrap_err().kind(), ErrorKind::Internal);
    }
}
