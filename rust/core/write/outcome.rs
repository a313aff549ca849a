//! Which rows of an old file stay, and which give way to incoming ones. Pure: no files.

use arrow::array::RecordBatch;

use super::context::WriteContext;
use super::file_rows::Gathered;
use super::tagging::MatchedRow;
use crate::error::Result;
use crate::merge::{Judge, Side, Step};

/// What becomes of a stored record that an incoming row meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It stays.
    Old,
    /// The incoming row takes its place.
    New,
    /// It goes.
    Gone,
}

/// Whether the stored ordering values are needed to decide.
pub(super) fn needs_stored_ordering(context: &WriteContext, delete_by_key: bool) -> bool {
    !delete_by_key && !context.settings.ordering.is_empty()
}

/// Decides for each met record. `stored` has at least the ordering columns of rows from `offset` on when
/// [`needs_stored_ordering`] says so; `new` begins with the incoming rows of `met`.
pub(super) fn decide(
    context: &WriteContext,
    stored: &RecordBatch,
    offset: usize,
    met: &[MatchedRow],
    new: &Gathered,
    delete_by_key: bool,
) -> Result<Vec<Outcome>> {
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
pub(super) struct Picks {
    /// (0, row) takes a row of the old ones, counted from their offset; (1, row) one of the incoming ones.
    pub(super) rows: Vec<(usize, usize)>,
    /// Where in the new file each incoming row comes to lie, if it does.
    pub(super) positions: Vec<usize>,
    /// Old row and incoming row of each replacement.
    pub(super) replaced: Vec<(usize, usize)>,
    /// Old rows that go.
    pub(super) gone: Vec<usize>,
}

impl Picks {
    /// Puts `old_rows` rows from `offset` on and the incoming ones together; `written` rows of the new file come before.
    pub(super) fn new(
        old_rows: usize,
        offset: usize,
        met: &[MatchedRow],
        outcomes: &[Outcome],
        written: usize,
    ) -> Self {
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
        picks
    }

    /// Puts incoming rows behind: those after the ones that met something.
    pub(super) fn append(&mut self, count: usize, written: usize) {
        let first = self.positions.len();
        for i in first..first + count {
            self.positions.push(written + self.rows.len());
            self.rows.push((1, i));
        }
    }

    /// The same choice with each incoming row put back to the old row that it replaces; appended rows stay.
    pub(super) fn as_stored(&self) -> Vec<(usize, usize)> {
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
