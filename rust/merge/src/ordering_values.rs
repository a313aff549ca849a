//! Ordering values: what "later" means in event time.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_select::interleave::interleave;

use hoodoo_runtime::error::{Error, Result};

/// The ordering columns of some rows. No column: every row has the default value.
#[derive(Debug, Clone, Default)]
pub struct OrderingValues {
    pub(super) columns: Vec<ArrayRef>,
    /// Rows with the default value, whatever their columns hold.
    pub(super) default: Option<BooleanArray>,
}

impl OrderingValues {
    /// Ordering by these columns, compared left to right. Nulls are lowest, NaN is highest.
    pub fn try_new(columns: Vec<ArrayRef>) -> Result<Self> {
        let columns = columns.into_iter().map(canonical).collect::<Result<_>>()?;
        Ok(Self { columns, default: None })
    }

    /// The same, where some rows have no value of their own but the default.
    pub fn with_default(columns: Vec<ArrayRef>, default: BooleanArray) -> Result<Self> {
        Ok(Self { default: Some(default), ..Self::try_new(columns)? })
    }

    /// Rows of several parts, each row named by part and row, as one. All parts have the same columns.
    ///
    /// # Errors
    /// `Schema` when they have not.
    pub fn gather(parts: &[&Self], rows: &[(usize, usize)]) -> Result<Self> {
        let count = parts.first().map_or(0, |p| p.columns.len());
        if rows.is_empty() {
            return Ok(Self::default());
        }
        if parts.iter().any(|p| p.columns.len() != count) {
            return Err(Error::schema("records of one merge have different ordering columns"));
        }
        if count == 0 {
            return Ok(Self::default());
        }
        let column = |at: usize| {
            let arrays: Vec<&dyn Array> = parts.iter().filter_map(|p| p.columns.get(at)).map(AsRef::as_ref).collect();
            Ok(interleave(&arrays, rows)?)
        };
        let columns = (0..count).map(column).collect::<Result<Vec<_>>>()?;
        let default = parts.iter().any(|p| p.default.is_some()).then(|| {
            let is_default = |(part, row): &(usize, usize)| {
                parts.get(*part).and_then(|p| p.default.as_ref()).is_some_and(|d| d.value(*row))
            };
            rows.iter().map(|at| Some(is_default(at))).collect::<BooleanArray>()
        });
        Ok(Self { columns, default })
    }

    /// Some of the rows.
    #[must_use]
    pub fn slice(&self, offset: usize, length: usize) -> Self {
        Self {
            columns: self.columns.iter().map(|c| c.slice(offset, length)).collect(),
            default: self.default.as_ref().map(|d| d.slice(offset, length)),
        }
    }

    /// The columns.
    pub fn columns(&self) -> &[ArrayRef] {
        &self.columns
    }

    /// Whether there is no ordering at all.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Whether the row has the default value: Hudi's 32-bit integer 0, or nothing.
    ///
    /// A delete with this value wins over what came before and loses to what comes after, whatever the order says.
    /// A 64-bit 0 is an ordinary value.
    pub fn is_default(&self, row: usize) -> bool {
        if self.default.as_ref().is_some_and(|d| d.value(row)) {
            return true;
        }
        // Of several values too, one that is missing is enough.
        if self.columns.iter().any(|column| column.is_null(row)) {
            return true;
        }
        let [column] = self.columns.as_slice() else { return self.columns.is_empty() };
        match column.data_type() {
            DataType::Int8 => column.as_primitive::<Int8Type>().value(row) == 0,
            DataType::Int16 => column.as_primitive::<Int16Type>().value(row) == 0,
            DataType::Int32 => column.as_primitive::<Int32Type>().value(row) == 0,
            _ => false,
        }
    }

    /// Compares rows of two sides.
    pub fn comparator(&self, other: &Self) -> Result<RowComparator> {
        if self.columns.len() != other.columns.len() {
            return Err(Error::schema("the two sides of a merge have different ordering columns"));
        }
        let options = SortOptions { descending: false, nulls_first: true };
        let columns = self.columns.iter().zip(&other.columns);
        let columns = columns.map(|(a, b)| make_comparator(a.as_ref(), b.as_ref(), options).map_err(Error::from));
        Ok(RowComparator { columns: columns.collect::<Result<_>>()? })
    }
}

/// Compares an ordering value of one side with one of the other.
pub struct RowComparator {
    columns: Vec<DynComparator>,
}

impl RowComparator {
    /// How row `a` of the first side stands to row `b` of the second.
    pub(crate) fn compare(&self, a: usize, b: usize) -> Ordering {
        self.columns.iter().map(|c| c(a, b)).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// One spelling of NaN, so that every NaN is equal and largest, as in Java.
fn canonical(column: ArrayRef) -> Result<ArrayRef> {
    match column.data_type() {
        DataType::Float32 => {
            let values = column.as_primitive::<Float32Type>();
            let one: Float32Array = values.unary(|v| if v.is_nan() { f32::NAN } else { v });
            Ok(Arc::new(one))
        }
        DataType::Float64 => {
            let values = column.as_primitive::<Float64Type>();
            let one: Float64Array = values.unary(|v| if v.is_nan() { f64::NAN } else { v });
            Ok(Arc::new(one))
        }
        DataType::List(_) | DataType::Map(..) | DataType::Struct(_) | DataType::Union(..) => {
            Err(Error::invalid_option(format!("a column of type {} cannot order records", column.data_type())).remedy(
                "Choose a number, string, date, timestamp, decimal or boolean column in hoodie.table.ordering.fields",
            ))
        }
        _ => Ok(column),
    }
}
