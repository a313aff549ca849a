//! The clustering strategy: how the rows of a plan's groups are sorted and cut into files. The plan says it, and the
//! options where the plan does not. Pure.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, make_array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Float32Type, Float64Type, Schema};

use super::curve::{Curve, curve_values};
use super::options::{ClusteringOptions, Layout, columns};
use super::plan::{LAYOUT, SORT_COLUMNS, TARGET_BYTES};
use crate::error::{Error, Result};
use crate::format::avro::metadata::ClusteringPlan;
use crate::sort::OrderBy;

/// How the rows of a group are rewritten.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutionStrategy {
    /// Columns to sort by; if empty, rows keep their order.
    pub sort_columns: Vec<String>,
    /// How rows are ordered by several columns.
    pub layout: Layout,
    /// Target size of a file in bytes; `None` if each slice becomes one file.
    pub target_bytes: Option<u64>,
}

impl ExecutionStrategy {
    /// Reads the strategy of a plan. Hudi's plans name only the sort columns; the rest comes from the options.
    ///
    /// # Errors
    /// `Unsupported` for an execution strategy class that does more than rewrite rows; `InvalidOption`.
    pub(crate) fn of(plan: &ClusteringPlan, options: &ClusteringOptions) -> Result<Self> {
        let strategy = plan.strategy.as_ref();
        let class = strategy.and_then(|s| s.strategy_class_name.as_deref()).unwrap_or_default();
        let class = class.rsplit('.').next().unwrap_or(class);
        let one_file_each = match class {
            ""
            | "SparkSortAndSizeExecutionStrategy"
            | "JavaSortAndSizeExecutionStrategy"
            | "SparkSingleSparkJobExecutionStrategy"
            | "SingleSparkJobExecutionStrategy"
            | "SparkStreamCopyClusteringExecutionStrategy"
            | "SparkBinaryCopyClusteringExecutionStrategy" => false,
            "SparkSingleFileSortExecutionStrategy" => true,
            _ => {
                return Err(Error::unsupported(format!("the clustering execution strategy {class} is not supported"))
                    .remedy("Plan with SparkSortAndSizeExecutionStrategy or SparkSingleFileSortExecutionStrategy"));
            }
        };
        let params = strategy.and_then(|s| s.strategy_params.as_ref());
        let param = |key: &str| params.and_then(|p| p.get(key)).map(String::as_str);
        let target = match param(TARGET_BYTES).map(str::parse) {
            Some(Ok(bytes)) => bytes,
            Some(Err(_)) => {
                return Err(Error::corrupt(format!("{TARGET_BYTES} of a clustering plan is not a number")));
            }
            None => options.target_file_bytes,
        };
        let layout = match param(LAYOUT) {
            Some(name) => Layout::parse(name)?,
            None => options.layout,
        };
        Ok(Self {
            sort_columns: columns(param(SORT_COLUMNS)),
            layout,
            target_bytes: (!one_file_each).then_some(target),
        })
    }

    /// Whether rows are sorted.
    pub(crate) fn sorts(&self) -> bool {
        !self.sort_columns.is_empty()
    }

    /// The columns that the rows of a file are sorted by; empty along a curve.
    pub(crate) fn sorted_by(&self) -> &[String] {
        if self.layout == Layout::Linear || self.sort_columns.len() == 1 { &self.sort_columns } else { &[] }
    }

    /// Returns the sort order.
    ///
    /// # Errors
    /// `InvalidOption` for a column that is missing or whose type a curve does not support.
    pub(crate) fn order(&self, schema: &Schema) -> Result<OrderBy> {
        let empty = RecordBatch::new_empty(Arc::new(schema.clone()));
        let names = self.sort_columns.clone();
        let curve = match self.layout {
            _ if names.len() < 2 => None,
            Layout::Linear => None,
            Layout::ZOrder => Some(Curve::Z),
            Layout::Hilbert => Some(Curve::Hilbert),
        };
        let order = move |batch: &RecordBatch| -> Result<Vec<ArrayRef>> {
            let column = |name: &String| Ok(one_zero(column_at(batch, name)?));
            let columns = names.iter().map(column).collect::<Result<Vec<_>>>()?;
            match curve {
                None => Ok(columns),
                Some(curve) => Ok(vec![curve_values(curve, &columns)?]),
            }
        };
        order(&empty)?;
        Ok(Arc::new(order))
    }
}

/// Makes all zeros and all NaNs equal; NaN is larger than all numbers, as in Spark.
fn one_zero(column: ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one = |v: f32| if v.is_nan() { f32::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float32Type>().unary::<_, Float32Type>(one))
        }
        DataType::Float64 => {
            let one = |v: f64| if v.is_nan() { f64::NAN } else { v + 0.0 };
            Arc::new(column.as_primitive::<Float64Type>().unary::<_, Float64Type>(one))
        }
        _ => column,
    }
}

/// Returns a column, or a nested field such as `a.b`.
fn column_at(batch: &RecordBatch, path: &str) -> Result<ArrayRef> {
    let missing = || {
        Error::invalid_option(format!("a clustering plan sorts by '{path}', but the table has no such column"))
            .remedy("Roll the plan back, and plan again with other columns")
    };
    if let Some(column) = batch.column_by_name(path) {
        return Ok(column.clone());
    }
    let mut parts = path.split('.');
    let mut column = batch.column_by_name(parts.next().unwrap_or_default()).ok_or_else(missing)?.clone();
    for part in parts {
        let parent = column.as_struct_opt().ok_or_else(missing)?;
        let child = parent.column_by_name(part).ok_or_else(missing)?;
        // Fields of a null struct are null.
        let nulls = NullBuffer::union(parent.nulls(), child.nulls());
        column = make_array(child.to_data().into_builder().nulls(nulls).build()?);
    }
    Ok(column)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::avro::metadata::ClusteringStrategy;
    use crate::table::Options;
    use arrow::array::{Float64Array, Int64Array, StructArray};
    use arrow::datatypes::Field;

    fn strategy(class: &str, params: &[(&str, &str)]) -> Result<ExecutionStrategy> {
        let params = params.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let strategy = ClusteringStrategy {
            strategy_class_name: Some(class.to_owned()),
            strategy_params: Some(params),
            ..Default::default()
        };
        let plan = ClusteringPlan { strategy: Some(strategy), ..Default::default() };
        ExecutionStrategy::of(&plan, &ClusteringOptions::from_options(&Options::default()).unwrap())
    }

    #[test]
    fn the_plan_comes_before_the_options() {
        let plain = strategy("a.b.SparkSortAndSizeExecutionStrategy", &[]).unwrap();
        assert_eq!((plain.target_bytes, plain.sorts(), plain.layout), (Some(1 << 30), false, Layout::Linear));
        let sorted = strategy("", &[(SORT_COLUMNS, "a, b"), (TARGET_BYTES, "7"), (LAYOUT, "HILBERT")]).unwrap();
        assert_eq!((sorted.target_bytes, sorted.layout), (Some(7), Layout::Hilbert));
        assert_eq!((sorted.sort_columns.join("+"), sorted.sorted_by()), ("a+b".to_owned(), &[][..]));
        assert_eq!(strategy("x.SparkSingleFileSortExecutionStrategy", &[]).unwrap().target_bytes, None);
        assert!(strategy("x.SparkConsistentBucketClusteringExecutionStrategy", &[]).is_err());
        assert!(strategy("", &[(TARGET_BYTES, "x")]).is_err());
    }

    #[test]
    fn zero_is_one_number() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None]));
        let same = one_zero(floats);
        let same = same.as_primitive::<Float64Type>();
        assert_eq!(same.value(0).to_bits(), 0.0f64.to_bits());
        assert_eq!(same.value(1).to_bits(), same.value(2).to_bits());
        assert!(same.value(1).is_sign_positive() && same.is_null(3));
    }

    #[test]
    fn parts_of_a_null_are_null() {
        let b: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let field = Arc::new(Field::new("b", DataType::Int64, true));
        let a = StructArray::new(vec![field].into(), vec![b], Some(NullBuffer::from(vec![true, false])));
        let batch = RecordBatch::try_from_iter([("a", Arc::new(a) as ArrayRef)]).unwrap();
        let part = column_at(&batch, "a.b").unwrap();
        assert_eq!((part.len(), part.null_count(), part.is_null(1)), (2, 1, true));
        assert!(column_at(&batch, "a.c").is_err() && column_at(&batch, "b").is_err());
    }
}
