//! Predicates on rows; [`super::pruning`] uses them to skip row groups and pages without a match.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, BooleanBuilder, Float32Array, Float64Array, RecordBatch, Scalar,
    new_null_array,
};
use arrow::compute::kernels::cmp;
use arrow::compute::{and_kleene, is_not_null, is_null, not, or_kleene};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, SortField};

use super::evolution::evolve;
use hoodoo_runtime::error::{Error, Result};

/// A predicate on the rows of a base file.
///
/// Literals are arrays of one value (for `In`, of any number) with the column's type in the table; the column is cast
/// to that type as on read. Comparisons with null are unknown, and such rows do not match. Floats compare as in Spark:
/// NaN equals NaN and is the largest value, and both zeros are equal.
#[derive(Debug, Clone)]
pub enum Predicate {
    /// Column equals literal.
    Eq(String, ArrayRef),
    /// Column differs from literal.
    NotEq(String, ArrayRef),
    /// Column is less than literal.
    Lt(String, ArrayRef),
    /// Column is at most literal.
    LtEq(String, ArrayRef),
    /// Column is greater than literal.
    Gt(String, ArrayRef),
    /// Column is at least literal.
    GtEq(String, ArrayRef),
    /// Column equals one of the values.
    In(String, ArrayRef),
    /// Column is null.
    IsNull(String),
    /// Column is not null.
    IsNotNull(String),
    /// All match; an empty list matches.
    And(Vec<Predicate>),
    /// At least one matches; an empty list does not match.
    Or(Vec<Predicate>),
    /// Does not match.
    Not(Box<Predicate>),
}

/// A comparison of a column with a literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Eq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
}

impl Comparison {
    pub(super) fn negated(self) -> Self {
        match self {
            Self::Eq => Self::NotEq,
            Self::NotEq => Self::Eq,
            Self::Lt => Self::GtEq,
            Self::LtEq => Self::Gt,
            Self::Gt => Self::LtEq,
            Self::GtEq => Self::Lt,
        }
    }
}

impl Predicate {
    /// The columns of the predicate, each once.
    pub fn columns(&self) -> Vec<&str> {
        let mut columns = Vec::new();
        self.collect(&mut |column, _| {
            if !columns.contains(&column) {
                columns.push(column);
            }
        });
        columns
    }

    /// Calls `f` with each column and its literal.
    pub(super) fn collect<'a>(&'a self, f: &mut impl FnMut(&'a str, Option<&'a ArrayRef>)) {
        match self {
            Self::And(parts) | Self::Or(parts) => {
                for part in parts {
                    part.collect(f);
                }
            }
            Self::Not(part) => part.collect(f),
            Self::IsNull(column) | Self::IsNotNull(column) => f(column, None),
            Self::In(column, literal) => f(column, Some(literal)),
            _ => {
                if let Some((_, column, literal)) = self.comparison() {
                    f(column, Some(literal));
                }
            }
        }
    }

    pub(super) fn comparison(&self) -> Option<(Comparison, &str, &ArrayRef)> {
        Some(match self {
            Self::Eq(c, l) => (Comparison::Eq, c, l),
            Self::NotEq(c, l) => (Comparison::NotEq, c, l),
            Self::Lt(c, l) => (Comparison::Lt, c, l),
            Self::LtEq(c, l) => (Comparison::LtEq, c, l),
            Self::Gt(c, l) => (Comparison::Gt, c, l),
            Self::GtEq(c, l) => (Comparison::GtEq, c, l),
            _ => return None,
        })
    }

    /// Whether each row matches; null if unknown. A missing column is null.
    ///
    /// # Errors
    /// `Schema` if a column cannot be cast to the type of its literal, or a literal is not one value.
    pub fn evaluate(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let rows = batch.num_rows();
        match self {
            Self::And(parts) => parts.iter().try_fold(BooleanArray::from(vec![true; rows]), |all, part| {
                Ok(and_kleene(&all, &part.evaluate(batch)?)?)
            }),
            Self::Or(parts) => parts.iter().try_fold(BooleanArray::from(vec![false; rows]), |any, part| {
                Ok(or_kleene(&any, &part.evaluate(batch)?)?)
            }),
            Self::Not(part) => Ok(not(&part.evaluate(batch)?)?),
            Self::IsNull(column) => match batch.column_by_name(column) {
                Some(array) => Ok(is_null(array)?),
                None => Ok(BooleanArray::from(vec![true; rows])),
            },
            Self::IsNotNull(column) => match batch.column_by_name(column) {
                Some(array) => Ok(is_not_null(array)?),
                None => Ok(BooleanArray::from(vec![false; rows])),
            },
            Self::In(column, values) => is_in(&typed_column(batch, column, values.data_type())?, values),
            _ => {
                let Some((comparison, column, literal)) = self.comparison() else {
                    return Err(Error::unsupported("this kind of predicate is not supported"));
                };
                compare(comparison, &typed_column(batch, column, literal.data_type())?, column, literal)
            }
        }
    }
}

fn typed_column(batch: &RecordBatch, column: &str, data_type: &DataType) -> Result<ArrayRef> {
    match batch.column_by_name(column) {
        Some(array) => Ok(canonical(evolve(array, data_type, column)?)),
        None => Ok(new_null_array(data_type, batch.num_rows())),
    }
}

/// Makes all zeros and all NaNs equal, so that Arrow's total order is Spark's order.
pub(super) fn canonical(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let one: Float32Array =
                array.as_primitive::<Float32Type>().unary(|v| if v.is_nan() { f32::NAN } else { v + 0.0 });
            Arc::new(one)
        }
        DataType::Float64 => {
            let one: Float64Array =
                array.as_primitive::<Float64Type>().unary(|v| if v.is_nan() { f64::NAN } else { v + 0.0 });
            Arc::new(one)
        }
        _ => array,
    }
}

pub(super) fn scalar(column: &str, literal: &ArrayRef) -> Result<Scalar<ArrayRef>> {
    if literal.len() != 1 {
        return Err(Error::invalid_option(format!("column '{column}' is compared with {} values", literal.len()))
            .with("column", column));
    }
    Ok(Scalar::new(canonical(literal.clone())))
}

pub(super) fn compare(
    comparison: Comparison,
    array: &ArrayRef,
    column: &str,
    literal: &ArrayRef,
) -> Result<BooleanArray> {
    let literal = scalar(column, literal)?;
    let result = match comparison {
        Comparison::Eq => cmp::eq(array, &literal),
        Comparison::NotEq => cmp::neq(array, &literal),
        Comparison::Lt => cmp::lt(array, &literal),
        Comparison::LtEq => cmp::lt_eq(array, &literal),
        Comparison::Gt => cmp::gt(array, &literal),
        Comparison::GtEq => cmp::gt_eq(array, &literal),
    };
    result.map_err(|e| Error::schema("two values cannot be compared").with("column", column).caused_by(e))
}

/// Unknown for null, and for values that are not found if the list has a null.
fn is_in(array: &ArrayRef, values: &ArrayRef) -> Result<BooleanArray> {
    let converter = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let listed = converter.convert_columns(&[canonical(values.clone())])?;
    let set: hashbrown::HashSet<&[u8], ahash::RandomState> =
        listed.iter().enumerate().filter(|(i, _)| values.is_valid(*i)).map(|(_, row)| row.data()).collect();
    let rows = converter.convert_columns(std::slice::from_ref(array))?;
    let mut found = BooleanBuilder::with_capacity(array.len());
    for (i, row) in rows.iter().enumerate() {
        match set.contains(row.as_ref()) {
            _ if array.is_null(i) => found.append_null(),
            true => found.append_value(true),
            false if values.null_count() > 0 => found.append_null(),
            false => found.append_value(false),
        }
    }
    Ok(found.finish())
}
