//! Which columns of a table have ranges.

use arrow::datatypes::{DataType, Field, Fields, Schema};
use serde::{Deserialize, Serialize};

use super::value_types::of_column;
use crate::error::{Error, Result};
use crate::format::column_range::ValueType;

/// Meta columns that always have ranges, where a table fills them; in the order in which Hudi lists them.
const META_COLUMNS: [&str; 3] = ["_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key"];
const LIST_OPTION: &str = "hoodie.metadata.index.column.stats.column.list";
const MAX_OPTION: &str = "hoodie.metadata.index.column.stats.max.columns.to.index";
/// How many columns have ranges unless the options say so.
const DEFAULT_MAX: usize = 32;

const V1_DECIMAL_DIGITS: i32 = 30;
pub(super) const V1_DECIMAL_SCALE: i32 = 15;

/// The version of statistics, which follows from that of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum IndexVersion {
    /// Without types; not of decimals with many digits.
    V1,
    /// With types.
    V2,
}

impl IndexVersion {
    /// The version that a table of this version has.
    pub(crate) fn of_table(version: u32) -> Self {
        if version >= 9 { Self::V2 } else { Self::V1 }
    }

    /// Its name in definitions of indexes.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::V1 => "V1",
            Self::V2 => "V2",
        }
    }

    /// Decimals of the first version have 30 digits, 15 of them behind the point.
    fn supports(self, value_type: ValueType) -> bool {
        match (self, value_type) {
            (Self::V1, ValueType::Decimal(precision, scale)) => {
                let more = V1_DECIMAL_SCALE - i32::from(scale);
                more >= 0 && i32::from(precision) + more <= V1_DECIMAL_DIGITS
            }
            _ => true,
        }
    }
}

/// What the options say about which columns have ranges.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IndexedColumnOptions {
    list: Vec<String>,
    max: usize,
}

impl IndexedColumnOptions {
    /// What a list of columns says.
    pub(crate) fn of_list(list: Vec<String>) -> Self {
        Self { list, max: DEFAULT_MAX }
    }

    /// Reads the options.
    ///
    /// # Errors
    /// `InvalidOption` for a number that is none.
    pub(crate) fn new<'o>(option: impl Fn(&str) -> Option<&'o str>) -> Result<Self> {
        let list = option(LIST_OPTION).unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty());
        let max = option(MAX_OPTION).map(|max| {
            max.trim().parse().map_err(|_| Error::invalid_option(format!("{MAX_OPTION} is no number: '{max}'")))
        });
        Ok(Self { list: list.map(str::to_owned).collect(), max: max.transpose()?.unwrap_or(DEFAULT_MAX) })
    }
}

/// The columns of a table that have ranges: those of the list, or the first ones of types that can have a range. Fields of
/// structs have one only if the list names them, with their path.
///
/// # Errors
/// `InvalidOption` for a column of the list that the table does not have.
pub(crate) fn indexed_columns(
    schema: &Schema,
    populates_meta: bool,
    options: &IndexedColumnOptions,
    version: IndexVersion,
) -> Result<Vec<String>> {
    let meta = META_COLUMNS.iter().filter(|_| populates_meta).map(|name| (*name).to_owned());
    let mut columns: Vec<String> = meta.collect();
    let supported = |data_type: &DataType| of_column(data_type).is_some_and(|known| version.supports(known));
    let is_meta = |name: &str| name.starts_with("_hoodie_");
    if options.list.is_empty() {
        let fields = schema.fields().iter().filter(|field| !is_meta(field.name()) && supported(field.data_type()));
        columns.extend(fields.take(options.max).map(|field| field.name().clone()));
        return Ok(columns);
    }
    for name in &options.list {
        if META_COLUMNS.contains(&name.as_str()) || columns.contains(name) {
            continue;
        }
        let found = field_of(schema.fields(), name).ok_or_else(|| {
            Error::invalid_option(format!("{LIST_OPTION} names '{name}', which is no column of the table"))
                .with("column", name)
        })?;
        if supported(found.data_type()) {
            columns.push(name.clone());
        }
    }
    Ok(columns)
}

/// The type of the statistics of a column in a table of these columns; `None` if it can have none.
pub(crate) fn type_in(schema: &Schema, column: &str) -> Option<ValueType> {
    let meta = column.starts_with("_hoodie_").then_some(ValueType::String);
    meta.or_else(|| of_column(field_of(schema.fields(), column)?.data_type()))
}

/// The field at a path as Parquet spells it: `struct.field`, `list.list.element`, `map.key_value.key`.
pub(super) fn field_of<'f>(fields: &'f Fields, path: &str) -> Option<&'f Field> {
    if let Some(field) = fields.iter().find(|field| field.name() == path) {
        return Some(field);
    }
    let within = fields.iter().find_map(|field| {
        let rest = path.strip_prefix(field.name().as_str())?.strip_prefix('.')?;
        Some((field, rest))
    });
    let (field, rest) = within?;
    within_field(field.data_type(), rest)
}

fn within_field<'f>(data_type: &'f DataType, path: &str) -> Option<&'f Field> {
    let step = |element: &'f Field, rest: Option<&str>| match rest? {
        "" => Some(element),
        rest => within_field(element.data_type(), rest.strip_prefix('.')?),
    };
    match data_type {
        DataType::Struct(fields) => field_of(fields, path),
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            step(element, path.strip_prefix("list.element"))
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(pair) = entries.data_type() else { return None };
            match (path.strip_prefix("key_value.key"), path.strip_prefix("key_value.value")) {
                (Some(rest), _) => step(pair.first()?, Some(rest)),
                (_, rest) => step(pair.get(1)?, rest),
            }
        }
        _ => None,
    }
}
