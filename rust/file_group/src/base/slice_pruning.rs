//! Which file slices may have rows that match a predicate, by statistics of their files that are kept elsewhere.
//!
//! A merged row takes each of its values from one of the files of its slice, but not all values from the same file: a
//! partial update has only some of them. So a comparison is settled for a whole slice, and only then combined with others:
//! it may hold in a slice if it may hold in any of its files.

use arrow::datatypes::DataType;

use super::predicate::{Predicate, canonical};
use super::pruning::{Bounds, Prunable, Question, keep, may_match, without_nan};
use hoodoo_runtime::error::{Error, Result};

/// Statistics of files.
pub trait KeptStatistics {
    /// Bounds of a column in all files, in their order; min and max have the type of the table's column. `None` if nothing
    /// is known.
    ///
    /// # Errors
    /// Those of reading them.
    fn bounds(&self, column: &str, data_type: Option<&DataType>) -> Result<Option<Bounds>>;
}

/// Whether each of so many slices may have a match. `slice_of` tells the slice of each file.
///
/// # Errors
/// Those of the statistics, and of comparisons that no file could be compared with either.
pub fn matching_slices(
    predicate: &Predicate,
    slices: usize,
    slice_of: &[usize],
    statistics: &dyn KeptStatistics,
) -> Result<Vec<bool>> {
    keep(&Slices { slices, slice_of, statistics }, predicate, false)
}

struct Slices<'a> {
    slices: usize,
    slice_of: &'a [usize],
    statistics: &'a dyn KeptStatistics,
}

impl Prunable for Slices<'_> {
    type Kept = Vec<bool>;

    fn all(&self) -> Vec<bool> {
        vec![true; self.slices]
    }

    fn none(&self) -> Vec<bool> {
        vec![false; self.slices]
    }

    fn both(&self, a: Vec<bool>, b: Vec<bool>) -> Vec<bool> {
        a.into_iter().zip(b).map(|(a, b)| a && b).collect()
    }

    fn either(&self, a: Vec<bool>, b: Vec<bool>) -> Vec<bool> {
        a.into_iter().zip(b).map(|(a, b)| a || b).collect()
    }

    fn answer(&self, column: &str, question: &Question<'_>) -> Result<Vec<bool>> {
        let data_type = question.literal().map(|literal| literal.data_type());
        let Some(mut bounds) = self.statistics.bounds(column, data_type)? else { return Ok(self.all()) };
        bounds.mins = without_nan(canonical(bounds.mins));
        bounds.maxes = canonical(bounds.maxes);
        let files = may_match(question, column, &bounds)?;
        if files.len() != self.slice_of.len() {
            let (files, answers) = (self.slice_of.len(), files.len());
            return Err(Error::internal(format!("{answers} answers for {files} files")));
        }
        let mut slices = self.none();
        for (slice, may_match) in self.slice_of.iter().zip(files) {
            if let Some(kept) = slices.get_mut(*slice) {
                *kept |= may_match;
            }
        }
        Ok(slices)
    }
}
