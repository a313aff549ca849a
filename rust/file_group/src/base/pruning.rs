//! Which row groups and pages of a file may have rows that match a predicate, by their statistics.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Fields, Float32Type, Float64Type};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::basic::Type as Physical;
use parquet::file::metadata::ParquetMetaData;
use parquet::file::metadata::page_index::PageIndexProvider;

use super::evolution::evolve;
use super::predicate::{Comparison, Predicate, canonical, compare};
use super::row_group::leaf_count;
use hoodoo_runtime::error::{Error, Result};

/// Number of values of an `In` above which only their minimum and maximum are compared.
const FEW_VALUES: usize = 64;

/// Minimum, maximum and counts of one column in row groups, pages or files. What is null is unknown.
pub struct Bounds {
    /// Minimum of each, of the type of the column.
    pub mins: ArrayRef,
    /// Maximum of each.
    pub maxes: ArrayRef,
    /// Nulls of each.
    pub nulls: UInt64Array,
    /// Rows of each.
    pub rows: UInt64Array,
}

/// What a predicate tests in one column.
pub(super) enum Question<'a> {
    Compare(Comparison, &'a ArrayRef),
    In(&'a ArrayRef),
    IsNull,
    IsNotNull,
}

impl Question<'_> {
    pub(super) fn literal(&self) -> Option<&ArrayRef> {
        match self {
            Self::Compare(_, literal) | Self::In(literal) => Some(literal),
            Self::IsNull | Self::IsNotNull => None,
        }
    }
}

/// What is kept or skipped: row groups, pages of the remaining row groups, or file slices.
pub(super) trait Prunable {
    type Kept;
    fn all(&self) -> Self::Kept;
    fn none(&self) -> Self::Kept;
    fn both(&self, a: Self::Kept, b: Self::Kept) -> Self::Kept;
    fn either(&self, a: Self::Kept, b: Self::Kept) -> Self::Kept;
    fn answer(&self, column: &str, question: &Question<'_>) -> Result<Self::Kept>;
}

/// Returns what may have a match. Pushes `Not` down to the comparisons.
pub(super) fn keep<P: Prunable>(target: &P, predicate: &Predicate, negated: bool) -> Result<P::Kept> {
    match (predicate, negated) {
        (Predicate::And(parts), false) | (Predicate::Or(parts), true) => {
            parts.iter().try_fold(target.all(), |kept, part| Ok(target.both(kept, keep(target, part, negated)?)))
        }
        (Predicate::Or(parts), false) | (Predicate::And(parts), true) => {
            parts.iter().try_fold(target.none(), |kept, part| Ok(target.either(kept, keep(target, part, negated)?)))
        }
        (Predicate::Not(part), _) => keep(target, part, !negated),
        (Predicate::In(..), true) => Ok(target.all()),
        (Predicate::In(column, values), false) => target.answer(column, &Question::In(values)),
        (Predicate::IsNull(column), false) | (Predicate::IsNotNull(column), true) => {
            target.answer(column, &Question::IsNull)
        }
        (Predicate::IsNotNull(column), false) | (Predicate::IsNull(column), true) => {
            target.answer(column, &Question::IsNotNull)
        }
        _ => match predicate.comparison() {
            Some((comparison, column, literal)) => {
                let comparison = if negated { comparison.negated() } else { comparison };
                target.answer(column, &Question::Compare(comparison, literal))
            }
            None => Ok(target.all()),
        },
    }
}

/// Whether each row group or page may have a match.
pub(super) fn may_match(question: &Question<'_>, column: &str, bounds: &Bounds) -> Result<Vec<bool>> {
    let count = bounds.rows.len();
    let nulls = |i: usize| bounds.nulls.is_valid(i).then(|| bounds.nulls.values().get(i).copied()).flatten();
    let all_null = |i: usize| nulls(i).is_some() && nulls(i) == bounds.rows.values().get(i).copied();
    let by_values = match question {
        Question::IsNull => return Ok((0..count).map(|i| nulls(i) != Some(0)).collect()),
        Question::IsNotNull => vec![true; count],
        Question::Compare(comparison, literal) => compare_bounds(*comparison, column, literal, bounds)?,
        Question::In(values) if values.is_empty() => vec![false; count],
        Question::In(values) if values.len() > FEW_VALUES => match extremes(values) {
            Some((least, greatest)) => {
                let low = compare_bounds(Comparison::LtEq, column, &greatest, bounds)?;
                let high = compare_bounds(Comparison::GtEq, column, &least, bounds)?;
                low.into_iter().zip(high).map(|(a, b)| a && b).collect()
            }
            None => vec![true; count],
        },
        Question::In(values) => {
            let mut any = vec![false; count];
            for i in 0..values.len() {
                let one = compare_bounds(Comparison::Eq, column, &values.slice(i, 1), bounds)?;
                any.iter_mut().zip(one).for_each(|(a, b)| *a |= b);
            }
            any
        }
    };
    Ok(by_values.into_iter().enumerate().map(|(i, keep)| keep && !all_null(i)).collect())
}

/// Minimum and maximum of a list of values, if they are cheap to find.
fn extremes(values: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let sorted = arrow::compute::sort(values, None).ok()?;
    let first = (0..sorted.len()).find(|i| sorted.is_valid(*i))?;
    (!is_float(values.data_type())).then(|| (sorted.slice(first, 1), sorted.slice(sorted.len() - 1, 1)))
}

fn is_float(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Float32 | DataType::Float64)
}

fn is_nan(literal: &ArrayRef) -> bool {
    match literal.data_type() {
        DataType::Float32 => literal.as_primitive::<Float32Type>().iter().flatten().any(f32::is_nan),
        DataType::Float64 => literal.as_primitive::<Float64Type>().iter().flatten().any(f64::is_nan),
        _ => false,
    }
}

fn compare_bounds(comparison: Comparison, column: &str, literal: &ArrayRef, bounds: &Bounds) -> Result<Vec<bool>> {
    let count = bounds.rows.len();
    // Statistics leave NaN out, and NaN is larger than all values.
    let unbounded_above = is_float(literal.data_type());
    if literal.null_count() > 0 {
        return Ok(vec![false; count]);
    }
    if is_nan(literal) {
        return Ok(vec![true; count]);
    }
    // Unknown bounds compare as unknown, which keeps the row group or page.
    let possible = |test: BooleanArray| test.iter().map(|t| t != Some(false)).collect::<Vec<_>>();
    let test = |comparison, side| compare(comparison, side, column, literal).map(possible);
    let both = |a: Vec<bool>, b: Vec<bool>| a.into_iter().zip(b).map(|(a, b)| a && b).collect();
    match comparison {
        Comparison::Lt => test(Comparison::Lt, &bounds.mins),
        Comparison::LtEq => test(Comparison::LtEq, &bounds.mins),
        Comparison::Gt | Comparison::GtEq if unbounded_above => Ok(vec![true; count]),
        Comparison::Gt => test(Comparison::Gt, &bounds.maxes),
        Comparison::GtEq => test(Comparison::GtEq, &bounds.maxes),
        Comparison::Eq => Ok(both(test(Comparison::LtEq, &bounds.mins)?, test(Comparison::GtEq, &bounds.maxes)?)),
        Comparison::NotEq if unbounded_above => Ok(vec![true; count]),
        Comparison::NotEq => {
            let low = test(Comparison::NotEq, &bounds.mins)?;
            let high = test(Comparison::NotEq, &bounds.maxes)?;
            Ok(low.into_iter().zip(high).map(|(a, b)| a || b).collect())
        }
    }
}

/// Whether a cast keeps the order of values, so that bounds remain valid.
pub(super) fn keeps_order(from: &DataType, to: &DataType) -> bool {
    let number = |t: &DataType| t.is_integer() || is_float(t);
    from == to
        || (number(from) && number(to))
        || (from.is_decimal() && to.is_decimal())
        || (matches!(from, DataType::Timestamp(_, _)) && matches!(to, DataType::Timestamp(_, _)))
        // Not bytes as strings: a bound that ends within a letter would become another one.
        || (from, to) == (&DataType::Utf8, &DataType::Binary)
}

/// Bounds, of which NaN is unknown: some writers put it there where the first value is one.
pub(super) fn without_nan(bounds: ArrayRef) -> ArrayRef {
    match bounds.data_type() {
        DataType::Float32 => {
            let known =
                bounds.as_primitive::<Float32Type>().unary_opt::<_, Float32Type>(|v| (!v.is_nan()).then_some(v));
            Arc::new(known)
        }
        DataType::Float64 => {
            let known =
                bounds.as_primitive::<Float64Type>().unary_opt::<_, Float64Type>(|v| (!v.is_nan()).then_some(v));
            Arc::new(known)
        }
        _ => bounds,
    }
}

/// The statistics of a file.
pub(super) struct FileStatistics<'a> {
    pub(super) metadata: &'a ParquetMetaData,
    pub(super) fields: &'a Fields,
}

impl FileStatistics<'_> {
    /// Leaf index of a column that is not nested, and the column; `None` if the file does not have it.
    pub(super) fn leaf(&self, column: &str) -> Option<(usize, &Arc<Field>)> {
        let mut leaf = 0;
        for field in self.fields {
            if field.name() == column {
                return Some((leaf, field));
            }
            leaf += leaf_count(field.data_type());
        }
        None
    }

    /// Whether statistics of this column are valid: not for types without a defined order.
    pub(super) fn trusted(&self, leaf: usize, field: &Field) -> bool {
        let Some(descriptor) = self.metadata.file_metadata().schema_descr().columns().get(leaf) else { return false };
        let physical = descriptor.physical_type();
        let plain = matches!(physical, Physical::INT32 | Physical::INT64 | Physical::FLOAT | Physical::DOUBLE);
        let old = self
            .metadata
            .row_groups()
            .iter()
            .filter_map(|g| g.columns().get(leaf)?.statistics())
            .any(|s| s.is_min_max_deprecated() && s.min_bytes_opt().or(s.max_bytes_opt()).is_some());
        !field.data_type().is_nested() && physical != Physical::INT96 && (plain || !old)
    }

    fn typed(&self, array: ArrayRef, question: &Question<'_>, column: &str) -> Result<Option<ArrayRef>> {
        match question.literal() {
            Some(literal) if keeps_order(array.data_type(), literal.data_type()) => {
                Ok(Some(canonical(evolve(&without_nan(array), literal.data_type(), column)?)))
            }
            Some(_) => Ok(None),
            None => Ok(Some(array)),
        }
    }

    /// The row groups that may have a match.
    pub(super) fn row_groups(&self, predicate: &Predicate) -> Result<Vec<usize>> {
        let kept = keep(&RowGroups(self), predicate, false)?;
        if kept.len() != self.metadata.num_row_groups() {
            let (groups, answers) = (self.metadata.num_row_groups(), kept.len());
            return Err(Error::internal(format!("{answers} answers for {groups} row groups")));
        }
        Ok(kept.into_iter().enumerate().filter_map(|(i, keep)| keep.then_some(i)).collect())
    }

    /// The rows of `groups` whose pages may have a match; `None` if no page can be skipped.
    pub(super) fn rows(
        &self,
        predicate: &Predicate,
        index: &dyn PageIndexProvider,
        groups: &[usize],
    ) -> Result<Option<RowSelection>> {
        let total = groups.iter().filter_map(|g| self.metadata.row_groups().get(*g)).map(|g| g.num_rows()).sum::<i64>();
        let Ok(total) = usize::try_from(total) else { return Ok(None) };
        let kept = keep(&Pages { file: self, index, groups, total }, predicate, false)?;
        Ok((kept.row_count() < total).then_some(kept))
    }
}

struct RowGroups<'a>(&'a FileStatistics<'a>);

impl Prunable for RowGroups<'_> {
    type Kept = Vec<bool>;

    fn all(&self) -> Vec<bool> {
        vec![true; self.0.metadata.num_row_groups()]
    }

    fn none(&self) -> Vec<bool> {
        vec![false; self.0.metadata.num_row_groups()]
    }

    fn both(&self, a: Vec<bool>, b: Vec<bool>) -> Vec<bool> {
        a.into_iter().zip(b).map(|(a, b)| a && b).collect()
    }

    fn either(&self, a: Vec<bool>, b: Vec<bool>) -> Vec<bool> {
        a.into_iter().zip(b).map(|(a, b)| a || b).collect()
    }

    fn answer(&self, column: &str, question: &Question<'_>) -> Result<Vec<bool>> {
        let file = self.0;
        let Some((leaf, field)) = file.leaf(column) else {
            // A missing column is null in all rows.
            return Ok(if matches!(question, Question::IsNull) { self.all() } else { self.none() });
        };
        if !file.trusted(leaf, field) {
            return Ok(self.all());
        }
        let schema = file.metadata.file_metadata().schema_descr();
        let converter =
            StatisticsConverter::from_column_index(leaf, field, schema)?.with_missing_null_counts_as_zero(false);
        let groups = file.metadata.row_groups();
        let mins = file.typed(converter.row_group_mins(groups)?, question, column)?;
        let maxes = file.typed(converter.row_group_maxes(groups)?, question, column)?;
        let (Some(mins), Some(maxes)) = (mins, maxes) else { return Ok(self.all()) };
        let nulls = converter.row_group_null_counts(groups)?;
        let rows = groups.iter().map(|g| g.num_rows().max(0).cast_unsigned()).collect::<Vec<_>>().into();
        may_match(question, column, &Bounds { mins, maxes, nulls, rows })
    }
}

struct Pages<'a> {
    file: &'a FileStatistics<'a>,
    index: &'a dyn PageIndexProvider,
    groups: &'a [usize],
    total: usize,
}

impl Prunable for Pages<'_> {
    type Kept = RowSelection;

    fn all(&self) -> RowSelection {
        vec![RowSelector::select(self.total)].into()
    }

    fn none(&self) -> RowSelection {
        vec![RowSelector::skip(self.total)].into()
    }

    fn both(&self, a: RowSelection, b: RowSelection) -> RowSelection {
        a.intersection(&b)
    }

    fn either(&self, a: RowSelection, b: RowSelection) -> RowSelection {
        a.union(&b)
    }

    fn answer(&self, column: &str, question: &Question<'_>) -> Result<RowSelection> {
        let file = self.file;
        let Some((leaf, field)) = file.leaf(column) else {
            return Ok(if matches!(question, Question::IsNull) { self.all() } else { self.none() });
        };
        let indexed = self.groups.iter().all(|g| self.index.column_index(*g, leaf).is_some());
        if !indexed || !file.trusted(leaf, field) {
            return Ok(self.all());
        }
        let schema = file.metadata.file_metadata().schema_descr();
        let converter =
            StatisticsConverter::from_column_index(leaf, field, schema)?.with_missing_null_counts_as_zero(false);
        let counts = converter.data_page_row_counts(self.index, file.metadata.row_groups(), self.groups)?;
        let mins = file.typed(converter.data_page_mins(self.index, self.groups)?, question, column)?;
        let maxes = file.typed(converter.data_page_maxes(self.index, self.groups)?, question, column)?;
        let (Some(rows), Some(mins), Some(maxes)) = (counts, mins, maxes) else { return Ok(self.all()) };
        let nulls = converter.data_page_null_counts(self.index, self.groups)?;
        let sizes: Vec<usize> = rows.values().iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
        let fits = mins.len() == sizes.len() && maxes.len() == sizes.len() && nulls.len() == sizes.len();
        if !fits || rows.null_count() > 0 || sizes.iter().sum::<usize>() != self.total {
            return Ok(self.all());
        }
        let kept = may_match(question, column, &Bounds { mins, maxes, nulls, rows })?;
        let selectors = sizes
            .into_iter()
            .zip(kept)
            .map(|(size, keep)| if keep { RowSelector::select(size) } else { RowSelector::skip(size) });
        Ok(selectors.collect::<Vec<_>>().into())
    }
}
