//! Which secondary index a caller means.

use crate::error::{Error, Result};
use crate::metadata_table::RECORD_INDEX;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::secondary_entries::{SECONDARY_INDEX, SecondaryIndex, is_secondary_index};
use crate::table::{HudiTable, TableConfig, TableSchema, TableView};
use crate::transaction::secondary_index::indexed_column;

/// Stands for the secondary index of a column.
pub(super) const SECONDARY_KIND: &str = "secondary_index";

/// The secondary index that a caller means: by `secondary_index` and a column, by the name of its partition, or by both.
/// `None` for other partitions.
///
/// # Errors
/// `InvalidOption` if it is not clear which one, and for a column that the table does not have; `Unsupported` for one that can
/// have none; `Corrupt`; `Storage`.
pub(super) fn wanted_index(
    table: &HudiTable,
    config: &TableConfig,
    view: &TableView,
    name: &str,
    columns: Option<&[String]>,
) -> Result<Option<SecondaryIndex>> {
    if name != SECONDARY_KIND && !is_secondary_index(name) {
        return Ok(None);
    }
    let named = |e: Error| e.with("table", table.storage().uri());
    let definitions = IndexDefinitions::read(table.storage(), config.get(PATH_PROPERTY))?;
    let version = table.index_version();
    let index = match columns {
        Some([column]) if name == SECONDARY_KIND => {
            let known = definitions.secondary_indexes(&config.metadata_partitions());
            // Hudi names it by the column where nobody gives a name.
            let partition = known.into_iter().find(|index| index.column == *column).map(|index| index.partition);
            let partition = partition.unwrap_or_else(|| format!("{SECONDARY_INDEX}{column}"));
            SecondaryIndex { partition, column: column.clone(), version }
        }
        Some([column]) => SecondaryIndex { partition: name.to_owned(), column: column.clone(), version },
        None if definitions.secondary_index(name).is_some() => {
            let known = definitions.secondary_index(name).ok_or_else(|| Error::internal("a definition is lost"))?;
            SecondaryIndex { version, ..known }
        }
        _ => {
            return Err(named(Error::invalid_option("a secondary index is of one column")).remedy(
                "Name the column, as Table.index(\"secondary_index\", \"city\"); call it again for each other column",
            ));
        }
    };
    if let Some(schema) = TableSchema::resolve(config, view)? {
        indexed_column(&index, &schema.data).map_err(named)?;
    }
    let has_index = config.metadata_partitions().iter().any(|one| one == RECORD_INDEX);
    if has_index && definitions.has_record_index_by_partition() {
        return Err(named(Error::invalid_option(
            "a secondary index needs a record index of the whole table, and there is one of each data partition",
        ))
        .remedy("Drop that with Table.drop_index(\"record_index\"), or do without the secondary index"));
    }
    Ok(Some(index))
}
