//! Changes of a table's columns: a commit without files, as Hudi's `ALTER TABLE` makes it.
//!
//! Columns that are added at the end and numbers that are widened need no more than the new schema. For all else fields get
//! ids, and the commit keeps the schema with them; files of before are read by these.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema};

use super::first_ids::first_history;
use super::pending::{CommitOutcome, Committed};
use crate::error::{Error, Result};
use crate::format::avro::metadata::{CommitMetadata, encode};
use crate::format::instant::Action;
use crate::format::internal_schema::{InternalSchema, LATEST_SCHEMA, SchemaEdit, SchemaHistory, is_promotion};
use crate::merge::ordering_type;
use crate::metadata_table::COLUMN_STATS;
use crate::metadata_table::index_definitions::{IndexDefinitions, PATH_PROPERTY};
use crate::metadata_table::write::FileChanges;
use crate::table::{HudiTable, TableSchema, TableType, TableView, held_incoming, store_schemas};
use crate::timeline::Timeline;
use crate::timings::Timings;
use crate::transaction::{Follow, Transaction, commit_metadata};

/// Hudi's name of the operation.
const OPERATION: &str = "ALTER_SCHEMA";

/// Changes the columns of a table and commits. The table lock is held from the first look to the commit, so that no other
/// write comes between them.
///
/// # Errors
/// `Schema` for changes that the columns do not allow; `Unsupported` for columns that keys, partitions, the order of records
/// or an index need, and for types that Hudi cannot read in a schema with field ids; `Conflict`; `Lock`; `Storage`.
pub(crate) fn alter_schema(table: &HudiTable, edits: &[SchemaEdit]) -> Result<Committed> {
    let writer = table.timeline_writer()?;
    let held = writer.lock().acquire()?;
    let timeline = table.timeline()?;
    let view = table.view_of(timeline)?;
    let schema = TableSchema::resolve(table.config(), &view)?
        .ok_or_else(|| Error::schema("the table has no columns yet").remedy("Write to it first"))?;
    let changed = Changed::of(table, &view, &schema, edits)?;
    let mut metadata = commit_metadata(table, OPERATION, &[], &changed.columns)?;
    metadata.extra_metadata.extend(table.options().commit_entries());
    let action = match table.config().table_type() {
        TableType::CopyOnWrite => Action::Commit,
        TableType::MergeOnRead => Action::DeltaCommit,
    };
    let profile = CommitMetadata {
        compacted: Some(false),
        operation_type: Some(OPERATION.to_owned()),
        ..CommitMetadata::default()
    };
    let timeline = view.timeline();
    let nothing = |_: &Timeline| Ok(Vec::new());
    let mut transaction =
        Transaction::begin(table, action, Some((&held, timeline)), false, nothing, encode(&profile)?)?;
    let own = transaction.requested().to_owned();
    let stored = match changed.ids {
        None => None,
        Some((ids, before)) => {
            let latest = ids.of_version(&own)?;
            metadata.extra_metadata.insert(LATEST_SCHEMA.to_owned(), latest.to_text());
            Some(before.text_with(&latest))
        }
    };
    let mut changes = FileChanges::of_writes(&[]);
    if stored.is_none() {
        // Columns that were added get statistics, but not those that were renamed: under their names, older files have none.
        changes = changes.with_columns(Arc::new(changed.columns));
    }
    // A failure is rolled back by the caller, as that of any write: the answer of the store may be lost, and the commit be
    // there.
    let done = transaction.complete(encode(&metadata)?, Follow::Files(&changes), &HashSet::new(), |now| {
        refuse_others(table, timeline, now)?;
        stored.map_or(Ok(()), |all| store_schemas(table.storage(), now, &own, all))
    })?;
    let outcome = CommitOutcome {
        instant: done.instant.requested,
        completed: done.instant.completed.unwrap_or_default(),
        operation: OPERATION,
        stats: Vec::new(),
        replaced: BTreeMap::new(),
        schema_changes: Vec::new(),
        warnings: done.warnings,
        timings: Timings::default(),
    };
    Ok(Committed { outcome, timeline: done.timeline, ending: done.ending })
}

/// Fails when somebody committed all the same, who does not use the table lock.
fn refuse_others(table: &HudiTable, before: &Timeline, now: &Timeline) -> Result<()> {
    let newest = |timeline: &Timeline| timeline.completed_writes().filter_map(|i| i.completed.clone()).max();
    if newest(before) == newest(now) {
        return Ok(());
    }
    Err(Error::conflict("another writer committed while the columns of the table were changed")
        .with("table", table.storage().uri())
        .remedy("Nothing was changed; try again"))
}

/// What becomes of the columns.
struct Changed {
    /// Without meta columns.
    columns: Schema,
    /// With field ids, where it takes them; and what was before.
    ids: Option<(InternalSchema, SchemaHistory)>,
}

impl Changed {
    fn of(table: &HudiTable, view: &TableView, schema: &TableSchema, edits: &[SchemaEdit]) -> Result<Self> {
        let named = |e: Error| e.with("table", table.storage().uri());
        let config = table.config();
        if config.drops_partition_columns() {
            let what = "changing the columns of a table that drops partition columns is not supported";
            return Err(named(Error::unsupported(what)));
        }
        check_columns(table, schema, edits).map_err(named)?;
        let plain = schema.history.is_none() && edits.iter().all(|edit| edit.is_plain(&schema.data));
        if plain {
            let columns = plainly(&schema.data, edits).map_err(named)?;
            return Ok(Self { columns, ids: None });
        }
        let history = match &schema.history {
            Some(history) => history.clone(),
            None => first_history(table, view, schema).map_err(named)?,
        };
        let ids = history.table().edited(edits).map_err(named)?;
        if ids == *history.table() {
            return Err(named(Error::schema("the columns are like that already: nothing is changed")));
        }
        check_statistics(table, &history, &ids).map_err(named)?;
        Ok(Self { columns: ids.columns()?, ids: Some((ids, history)) })
    }
}

/// The columns after changes that take no field ids.
fn plainly(columns: &Schema, edits: &[SchemaEdit]) -> Result<Schema> {
    let ids = InternalSchema::of_columns(columns)?;
    let edited = ids.edited(edits)?;
    if edited == ids {
        return Err(Error::schema("the columns are like that already: nothing is changed"));
    }
    edited.columns()
}

/// Refuses changes of columns that something in the table goes by.
fn check_columns(table: &HudiTable, schema: &TableSchema, edits: &[SchemaEdit]) -> Result<()> {
    let config = table.config();
    let settings = table.merge_settings()?;
    let needed = [
        ("the record key", config.record_key_fields()),
        (
            "partitions",
            config
                .partition_fields()
                .iter()
                .map(|field| field.split(':').next().unwrap_or_default().to_owned())
                .collect(),
        ),
        ("the order of records", config.ordering_fields()),
        ("deletes", settings.marker.iter().map(|marker| marker.field.clone()).collect()),
    ];
    let indexes = indexed_columns(table)?;
    for edit in edits {
        let column = edit.column();
        let touches =
            |field: &String| field == column || field.strip_prefix(column).is_some_and(|rest| rest.starts_with('.'));
        let index = indexes.iter().find(|(_, field)| touches(field));
        let need = needed.iter().find(|(_, fields)| fields.iter().any(touches));
        let refused = match edit {
            SchemaEdit::Rename { .. } | SchemaEdit::Drop { .. } => true,
            SchemaEdit::Change { data_type: Some(to), .. } => {
                // It may be a field of a struct, whatever goes by it.
                let from = ordering_type(&schema.data, column).cloned();
                // Their text, their order and their hashes stay.
                from.is_some_and(|from| from != *to && !matches!((&from, to), (DataType::Int32, DataType::Int64)))
            }
            _ => false,
        };
        match (refused, need, index) {
            (true, Some((what, _)), _) => {
                return Err(Error::unsupported(format!(
                    "column '{column}' cannot be changed like that: {what} goes by it"
                ))
                .with("column", column)
                .remedy("Write the rows to a new table"));
            }
            (true, None, Some((index, _))) => {
                return Err(Error::unsupported(format!(
                    "column '{column}' cannot be changed like that: the index {index} goes by it"
                ))
                .with("column", column)
                .remedy(format!("Drop the index first: t.drop_index({index:?})")));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Refuses columns that had a type under their name which statistics of the metadata table cannot be compared with: Hudi
/// fails to write to such a partition.
fn check_statistics(table: &HudiTable, history: &SchemaHistory, after: &InternalSchema) -> Result<()> {
    if !table.config().metadata_partitions().iter().any(|name| name == COLUMN_STATS) {
        return Ok(());
    }
    let (columns, table_columns) = (after.columns()?, history.table().columns()?);
    for before in history.newest_first() {
        for field in before.columns()?.fields() {
            let Ok(now) = columns.field_with_name(field.name()) else { continue };
            // What a write has made of it before is there already.
            if table_columns.field_with_name(field.name()).is_ok_and(|field| field.data_type() == now.data_type()) {
                continue;
            }
            let (from, to) = (field.data_type(), now.data_type());
            if from.is_nested() || to.is_nested() || from == to || keeps_statistics(from, to) {
                continue;
            }
            let column = field.name();
            return Err(Error::unsupported(format!(
                "column '{column}' was {from} and cannot become {to}: the index {COLUMN_STATS} has its values, and Hudi cannot compare them"
            ))
            .with("column", column)
            .remedy(format!("Use another name, or drop the index first, t.drop_index('{COLUMN_STATS}'), and have writers of Hudi set hoodie.metadata.index.column.stats.enable=false")));
        }
    }
    Ok(())
}

/// Whether values of both types compare as numbers.
fn keeps_statistics(from: &DataType, to: &DataType) -> bool {
    is_promotion(from, to) || matches!((from, to), (DataType::Decimal128(..), DataType::Decimal128(..)))
}

/// The secondary and expression indexes, with their columns.
fn indexed_columns(table: &HudiTable) -> Result<Vec<(String, String)>> {
    let partitions = table.config().metadata_partitions();
    let is_of_column =
        |partition: &&String| partition.starts_with("secondary_index_") || partition.starts_with("expr_index_");
    let mut indexes = Vec::new();
    let mut partitions = partitions.iter().filter(is_of_column).peekable();
    if partitions.peek().is_none() {
        return Ok(indexes);
    }
    let definitions = IndexDefinitions::read(table.storage(), table.config().get(PATH_PROPERTY))?;
    for partition in partitions {
        let fields = definitions.source_fields(partition).unwrap_or_default();
        indexes.extend(fields.into_iter().map(|field| (partition.clone(), field)));
    }
    Ok(indexes)
}

/// The types of new columns, as a table holds them.
///
/// # Errors
/// Those of a write of such columns.
pub(crate) fn held_type(name: &str, data_type: &DataType) -> Result<DataType> {
    let leaf = name.rsplit('.').next().unwrap_or(name);
    let field = Field::new(leaf, data_type.clone(), true);
    let held = held_incoming(&Schema::new(vec![Arc::new(field)])).map_err(|e| e.with("column", name))?;
    held.fields().first().map(|field| field.data_type().clone()).ok_or_else(|| Error::schema("a column has no type"))
}
