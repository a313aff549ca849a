//! Builds expression indexes of the metadata table.

use super::build_key_index::publish;
use super::function_ranges::RangeReader;
use crate::error::{Error, Result};
use crate::metadata_table::expression_index::{
    EXPRESSION_INDEX, EXPRESSION_OPTION, ExpressionIndex, is_expression_index,
};
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::{FileChanges, FunctionRanges, MadeBy, expression_update, initialize_by_key};
use crate::table::{HudiTable, TableConfig, TableSchema, TableView};

/// Stands for an expression index that is named by its column and its function.
pub(super) const EXPRESSION_KIND: &str = "expression_index";
/// Option: how many shards an index has, for good.
const SHARDS: &str = "hoodie.metadata.index.expression.file.group.count";
const DEFAULT_SHARDS: usize = 2;

/// The function of an expression index that is to be built.
#[derive(Debug, Clone)]
pub struct Expression {
    /// What the index has of the function's values: `column_stats`.
    pub kind: String,
    /// The function's name.
    pub function: String,
    /// What it takes beside the column, by name.
    pub options: Vec<(String, String)>,
}

/// Whether a name stands for an expression index.
pub(super) fn names_expression_index(name: &str) -> bool {
    name == EXPRESSION_KIND || is_expression_index(name)
}

/// The expression index that a caller means. `None` for other partitions.
///
/// # Errors
/// `InvalidOption` if it is not clear which one, and for a column that the table does not have; `Unsupported` for a function
/// that is not computed, or not of such a column; `Corrupt`; `Storage`.
pub(super) fn wanted_expression_index(
    table: &HudiTable,
    config: &TableConfig,
    view: &TableView,
    name: &str,
    (columns, expression): (Option<&[String]>, Option<&Expression>),
) -> Result<Option<ExpressionIndex>> {
    if !names_expression_index(name) {
        return Ok(None);
    }
    let named = |e: Error| e.with("table", table.storage().uri());
    let index = match (columns, expression) {
        (Some([column]), Some(Expression { kind, function, options })) => {
            let partition = match name {
                EXPRESSION_KIND => format!("{EXPRESSION_INDEX}{column}_{function}"),
                name => name.to_owned(),
            };
            let mut all = vec![(EXPRESSION_OPTION.to_owned(), function.clone())];
            all.extend(options.iter().cloned());
            let version = table.index_version();
            ExpressionIndex::new(&partition, kind, column, function, all, version).map_err(named)?
        }
        (None, None) if is_expression_index(name) && config.metadata_partitions().iter().any(|one| one == name) => {
            let definitions = IndexDefinitions::read(table.storage(), config.get(PATH_PROPERTY))?;
            let known = definitions.expression_index(name).map_err(named)?;
            known.with_version(table.index_version())
        }
        _ => {
            return Err(named(Error::invalid_option("an expression index is of one column and one function")).remedy(
                "Name both, as Table.index(\"expression_index\", \"ts\", expression=\"from_unixtime\", format=\"yyyy-MM-dd\")",
            ));
        }
    };
    if let Some(schema) = TableSchema::resolve(config, view)? {
        RangeReader::new(table, &index, &schema.data).map_err(named)?;
    }
    Ok(Some(index))
}

/// Reads the ranges of files that are not `known`.
///
/// # Errors
/// Those of [`RangeReader::new`]; `Storage`.
pub(super) fn read_ranges(
    table: &HudiTable,
    (config, view): (&TableConfig, &TableView),
    index: &ExpressionIndex,
    files: &FileChanges,
    mut known: FunctionRanges,
) -> Result<FunctionRanges> {
    if let Some(schema) = TableSchema::resolve(config, view)? {
        schema.refuse_field_ids("building an expression index")?;
        known.extend(RangeReader::new(table, index, &schema.data)?.ranges(files, &known)?);
    }
    Ok(known)
}

/// Builds an index of these files, whose ranges are given; `instant` is the action that builds it. The table's properties do
/// not name it. Returns those that do. The caller holds the table lock.
///
/// # Errors
/// `InvalidOption`; `Corrupt`; `Storage`; those of `new_time`.
pub(super) fn build_expression_index(
    (table, instant): (&HudiTable, &str),
    config: &TableConfig,
    index: &ExpressionIndex,
    (files, ranges): (&FileChanges, &FunctionRanges),
    new_time: impl Fn(Option<&str>) -> Result<String>,
) -> Result<TableConfig> {
    let storage = table.storage();
    let shards = table.options().number(SHARDS, DEFAULT_SHARDS)?.max(1);
    let update = expression_update(None, index, files, ranges)?;
    let by = MadeBy { table: config.timeline(), instant };
    initialize_by_key(storage, by, &index.partition, index.file_ids(shards), update, new_time)?;
    let mut definitions = IndexDefinitions::read(storage, config.get(PATH_PROPERTY))?;
    definitions.set_expression_index(index);
    publish(table, config, &definitions, &index.partition)
}
