//! Writes whose middle steps run in tasks of several processes (Spark).
//!
//! | step | where |
//! |---|---|
//! | [`DistributedWrite::begin`]: instant, schema | driver |
//! | [`Router`]: key, partition and route of each row | tasks, rows as they come |
//! | shuffle by partition and route, sort within | Spark |
//! | [`apply_routes`]: merge each route's rows into its file group, or make new files | tasks |
//! | [`DistributedWrite::commit`] | driver |
//!
//! Where keys are looked for in all partitions ([`TaskPlan::whole_table`]), the rows of a key have to meet before it
//! can be said where they go. Two steps stand in place of the router:
//!
//! | step | where |
//! |---|---|
//! | [`RowKeyer`]: key of each row | tasks, rows as they come |
//! | shuffle by key, sort within by number | Spark |
//! | [`locate_rows`]: one record for each key, its routes, and which stored records it meets | tasks |
//!
//! A route is the id of a file group, or `+n`: bucket n of the partition's new rows. Equal keys have equal routes, so
//! the rows of a key meet in one task; sorted by the row number that routing gives them, they meet in the order in
//! which they came, however the shuffle delivers them. A bloom filter may send a new key to a file group that does not
//! hold it; there it is found to be new and is added, which is as good a place as any.

mod append;
mod apply;
mod keyer;
mod locate;
mod new_rows;
mod plan;
mod router;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};

use crate::error::Result;
use crate::format::avro::schema::avro_to_arrow_schema;
use crate::table::keygen::{AutoKeys, KeyGenConfig};
use crate::table::{HudiTable, MergeSettings, TableView};
use crate::transaction::DataFiles;
use crate::write::commit::delete_partition::partitions_of_rows;
use crate::write::config::{Operation, WriteConfig};
use crate::write::operation::encoding_of_keys;
use crate::write::prepare::incoming::{Preparer, is_anywhere};
use crate::write::prepare::partial_rows::missing_nullable;
use crate::write::rewrite::context::WriteContext;

pub use append::write_rows;
pub use apply::apply_routes;
pub use keyer::RowKeyer;
pub use locate::{Located, locate_rows, located_schema};
pub use plan::{DistributedWrite, TaskPlan, TaskReport};
pub use router::Router;

/// Columns that a [`RowKeyer`] adds.
pub const KEY_COLUMNS: [&str; 2] = ["_hoodie_record_key", "_hoodie_row"];

/// Columns that a [`Router`] adds.
pub const ROUTE_COLUMNS: [&str; 4] = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_route", "_hoodie_row"];

/// Columns that [`locate_rows`] adds to those of routes.
pub const PLACE_COLUMNS: [&str; 2] = ["_hoodie_position", "_hoodie_moved"];

/// What tasks of one write have in common.
struct TaskSetup {
    operation: Operation,
    config: WriteConfig,
    keys: KeyGenConfig,
    view: TableView,
    schema: SchemaRef,
    /// Columns of rows as they are read: those that they lack are null for now.
    read: SchemaRef,
    settings: MergeSettings,
}

impl TaskSetup {
    fn new(table: &HudiTable, plan: &TaskPlan) -> Result<Self> {
        let schema: SchemaRef = Arc::new(avro_to_arrow_schema(&plan.schema)?);
        Ok(Self {
            operation: Operation::parse(&plan.operation)?,
            config: WriteConfig::new(table.options())?,
            keys: encoding_of_keys(table)?,
            view: table.view(Some(&plan.instant))?,
            read: match &plan.given {
                Some(given) => {
                    let has = |f: &&FieldRef| given.contains(f.name());
                    missing_nullable(
                        &schema,
                        &Schema::new(schema.fields().iter().filter(has).cloned().collect::<Fields>()),
                    )
                }
                None => schema.clone(),
            },
            schema,
            settings: table.merge_settings()?,
        })
    }

    /// Whether rows of these columns are deletes that do not say in which partition they are.
    fn is_anywhere(&self, given: &Schema) -> bool {
        is_anywhere(self.operation, &self.keys, given)
    }

    /// Set when record keys are computed from columns.
    fn virtual_keys(&self, table: &HudiTable) -> Option<KeyGenConfig> {
        (!table.config().populates_meta_fields()).then(|| self.keys.clone())
    }

    fn looks_up(&self) -> bool {
        matches!(self.operation, Operation::Upsert | Operation::Delete) && !self.keys.generates_keys()
    }

    /// `insert` merges keys that the small file they go to holds already, if asked.
    fn merges_inserts(&self) -> bool {
        self.operation == Operation::Insert && !self.config.allow_duplicates_on_insert && !self.keys.generates_keys()
    }

    /// Whether equal keys among new rows become one.
    fn combines_inserts(&self) -> bool {
        (self.config.combine_before_insert || self.merges_inserts()) && !self.keys.generates_keys()
    }

    /// The context of one task's files. Fails when the write is over.
    fn context(&self, table: &HudiTable, plan: &TaskPlan) -> Result<WriteContext> {
        let mut context = WriteContext::new(table, self.config.clone(), &plan.instant, self.schema.clone())?;
        context.files = Some(DataFiles::of_task(table, &plan.instant)?.arc());
        if self.config.index.is_global() && !self.config.update_partition_path {
            context.kept_partition_columns = table.config().partition_fields();
        }
        if let Some(given) = &plan.given {
            let fields = self.schema.fields().iter().filter(|f| given.contains(f.name())).cloned();
            context.take_partial_rows(&Schema::new(fields.collect::<Vec<_>>()), table.config().name())?;
        }
        Ok(context)
    }

    /// Turns rows into incoming ones.
    fn preparer(&self, schema: &SchemaRef, given: &Schema) -> Result<Preparer> {
        Preparer::new(self.operation, schema.clone(), self.keys.clone(), self.settings.clone(), given)
    }

    fn fills_small_files(&self) -> bool {
        matches!(self.operation, Operation::Insert | Operation::Upsert)
    }
}

/// Keys for rows of a table without key columns: unique in the write by task and row.
fn generated_keys(plan: &TaskPlan, task: usize) -> AutoKeys {
    AutoKeys::new(plan.instant.as_str(), u32::try_from(task).unwrap_or(u32::MAX))
}

/// The partitions of rows: all that `delete_partition` wants to know of them.
pub fn partitions_of(
    table: &HudiTable,
    given: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Vec<TaskReport>> {
    let partitions: BTreeSet<String> = partitions_of_rows(&table.key_config()?, given, batches)?;
    Ok(partitions.into_iter().map(TaskReport::Partition).collect())
}
