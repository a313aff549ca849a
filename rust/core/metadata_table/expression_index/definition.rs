//! An index: its column, its function, and how the values of the function follow from those of the column.

use arrow::datatypes::DataType;

use super::super::column_ranges::{IndexVersion, column_type};
use crate::error::{Error, Result};
use crate::format::column_range::{ColumnRange, ValueType};

use super::options::Options;
use super::strings::{self, StringFunction, StringRange};
use super::times::{self, TimeFunction};

/// Begin of the names of the partitions.
pub(crate) const EXPRESSION_INDEX: &str = "expr_index_";
/// The kind of index that has min and max.
pub(crate) const COLUMN_STATS_KIND: &str = "column_stats";

/// Whether a partition of the metadata table is an expression index.
pub(crate) fn is_expression_index(partition: &str) -> bool {
    partition.len() > EXPRESSION_INDEX.len() && partition.starts_with(EXPRESSION_INDEX)
}

/// An index of a function's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExpressionIndex {
    /// Its partition of the metadata table.
    pub(crate) partition: String,
    /// The column whose values the function takes.
    pub(crate) column: String,
    /// The name of the function.
    pub(crate) expression: String,
    /// What the function takes beside the column, by name.
    pub(crate) options: Vec<(String, String)>,
    /// How values are stored.
    pub(crate) version: IndexVersion,
    function: Function,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Function {
    OfStrings(StringFunction),
    OfTimes(TimeFunction),
}

impl ExpressionIndex {
    /// An index of a partition. `kind` is that of index.json.
    ///
    /// # Errors
    /// `Unsupported` for functions that are not computed, and for other kinds; `InvalidOption` for options that the function
    /// does not take.
    pub(crate) fn new(
        partition: &str,
        kind: &str,
        column: &str,
        expression: &str,
        options: Vec<(String, String)>,
        version: IndexVersion,
    ) -> Result<Self> {
        let named = |e: Error| e.with("index", partition);
        if kind != COLUMN_STATS_KIND {
            return Err(named(
                Error::unsupported(format!("an expression index with {kind}")).remedy("Use column_stats"),
            ));
        }
        let function =
            Function::new(expression, &Options { function: expression, options: &options }).map_err(named)?;
        let (partition, column) = (partition.to_owned(), column.to_owned());
        Ok(Self { partition, column, expression: expression.to_owned(), options, version, function })
    }

    /// The same index, with values that are stored so.
    pub(crate) fn with_version(self, version: IndexVersion) -> Self {
        Self { version, ..self }
    }

    /// The file ids of so many shards.
    pub(crate) fn file_ids(&self, shards: usize) -> Vec<String> {
        let name = self.partition.replace('_', "-");
        (0..shards).map(|shard| format!("{name}-{shard:04}-0")).collect()
    }

    /// The type of the function's values, for a column of this type.
    ///
    /// # Errors
    /// `Unsupported` for a column that the function does not take.
    pub(crate) fn value_type(&self, column: &DataType) -> Result<ValueType> {
        let value_type = match &self.function {
            Function::OfStrings(function) => {
                matches!(column, DataType::Utf8 | DataType::LargeUtf8).then(|| function.value_type())
            }
            Function::OfTimes(function) => column_type(column).and_then(|known| function.value_type(known)),
        };
        value_type.ok_or_else(|| {
            Error::unsupported(format!(
                "{} of column '{}', which is of type {column}, is not computed",
                self.expression, self.column
            ))
        })
    }

    /// Whether the ranges of a column of this type are those of the values, and no wider: Spark's own cannot be narrower.
    pub(crate) fn is_exact(&self, column: &DataType) -> bool {
        match &self.function {
            Function::OfStrings(_) => true,
            Function::OfTimes(function) => function.is_exact_of_dates() && *column == DataType::Date32,
        }
    }

    /// Collects the range of the function's values, if that takes the values of each row; `None` if min and max of the
    /// column say it: see [`ExpressionIndex::of_range`].
    pub(crate) fn of_rows(&self) -> Option<StringRange> {
        match &self.function {
            Function::OfStrings(function) => Some(StringRange::new(function.clone(), &self.column)),
            Function::OfTimes(_) => None,
        }
    }

    /// The range of the function's values, by that of the column; `None` if they may be anything.
    pub(crate) fn of_range(&self, column: &ColumnRange) -> Option<ColumnRange> {
        let Function::OfTimes(function) = &self.function else { return None };
        let values = column.value_count.saturating_sub(column.null_count);
        let counts = ColumnRange { value_count: values, ..column.clone() };
        let (Some(min), Some(max)) = (&column.min, &column.max) else {
            let value_type = function.value_type(column.value_type).unwrap_or(ValueType::Null);
            return (values == 0).then_some(ColumnRange { min: None, max: None, value_type, ..counts });
        };
        let value_type = function.value_type(column.value_type)?;
        let (min, max) = function.bounds(min, max, column.value_type)?;
        Some(ColumnRange { min: Some(min), max: Some(max), value_type, ..counts })
    }
}

impl Function {
    fn new(name: &str, options: &Options<'_>) -> Result<Self> {
        if let Some(function) = StringFunction::new(name, options)? {
            return Ok(Self::OfStrings(function));
        }
        if let Some(function) = TimeFunction::new(name, options)? {
            return Ok(Self::OfTimes(function));
        }
        Err(Error::unsupported(format!("an expression index of the function '{name}'")).remedy(format!(
            "hoodoo computes {}",
            strings::NAMES.iter().chain(times::NAMES).copied().collect::<Vec<_>>().join(", ")
        )))
    }
}
