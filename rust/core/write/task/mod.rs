//! Writes whose middle steps run in tasks of several processes (Spark).
//!
//! | step | where |
//! |---|---|
//! | [`DistributedWrite::begin`]: instant, schema | driver |
//! | [`Router`]: partition and route of each row | tasks, rows as they come |
//! | shuffle by partition and route, sort within by number | Spark, which moves packed rows (`pack.rs`) |
//! | [`apply_routes`]: merge each route's rows into its file group, or make new files | tasks |
//! | [`DistributedWrite::commit`] | driver |
//!
//! Where keys are looked for in all partitions, or in the record index ([`TaskPlan::whole_table`]), the rows of a key have to
//! meet before it can be said where they go. Two steps stand in place of the router:
//!
//! | step | where |
//! |---|---|
//! | [`RowKeyer`]: bucket of each row by its key | tasks, rows as they come |
//! | shuffle by bucket, sort within by number | Spark |
//! | [`locate_rows`]: one record for each key, its routes, and which stored records it meets | tasks |
//!
//! A route is the id of a file group, or `+n`: bucket n of the partition's new rows; in a bucket index, bucket n of that.
//! Equal keys have equal routes, so the rows of a key meet in one task; sorted by the row number that routing gives them,
//! they meet in the order in which they came, however the shuffle delivers them. An engine may run a task again whose result it
//! lost, with rows in another order, while others have read the first result: what was located is therefore counted
//! (`located.rs`), and a commit in which rows of two results met is refused. A bloom filter may send a new key to a file group that does not
//! hold it; there it is found to be new and is added, which is as good a place as any.
//!
//! What a task does with rows is what `in_process.rs` does with all of them: the same steps, from [`WriteSetup`] on.

mod append;
mod apply;
mod keyer;
mod locate;
mod located;
mod pack;
mod plan;
mod router;

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;

use crate::error::Result;
use crate::format::avro::schema::avro_to_arrow_schema;
use crate::table::keygen::AutoKeys;
use crate::table::{BucketIndex, HudiTable};
use crate::transaction::{Concurrency, DataFiles};
use crate::write::commit::delete_partition::partitions_of_rows;
use crate::write::config::{Operation, WriteConfig};
use crate::write::prepare::key_encoding::encoding_of_keys;
use crate::write::rewrite::context::WriteContext;
use crate::write::setup::WriteSetup;

pub use append::write_rows;
pub use apply::apply_routes;
pub use keyer::RowKeyer;
pub use locate::locate_rows;
pub use pack::packed_schema;
pub(crate) use plan::DistributedWrite;
pub use plan::{TaskPlan, TaskReport};
pub use router::Router;

/// Columns that tasks add to those of the rows, or that rows read from a table have.
const ADDED_COLUMNS: [&str; 7] = [
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_route",
    "_hoodie_row",
    "_hoodie_position",
    "_hoodie_moved",
    "_hoodie_located",
];

/// Columns that [`locate_rows`] adds.
const PLACE_COLUMNS: [&str; 3] = ["_hoodie_position", "_hoodie_moved", "_hoodie_located"];

impl WriteSetup {
    /// The setup of a task.
    fn of_task(table: &HudiTable, plan: &TaskPlan) -> Result<Self> {
        Ok(Self {
            table: table.clone(),
            operation: Operation::parse(&plan.operation)?,
            config: WriteConfig::of_table(table)?,
            keys: encoding_of_keys(table)?,
            bucket_index: plan.bucket_index.clone().map(BucketIndex::new).transpose()?,
            settings: table.merge_settings()?,
            view: table.view(Some(&plan.instant))?,
            old_schema: None,
            schema: Arc::new(avro_to_arrow_schema(&plan.schema)?),
            given: plan.given.clone(),
            non_blocking: Concurrency::from_options(table.options())?.non_blocking,
        })
    }

    /// What the files of one task have in common. Fails when the write is over.
    fn task_context(&self, plan: &TaskPlan) -> Result<WriteContext> {
        self.context(&plan.instant, Some(DataFiles::of_task(&self.table, &plan.instant)?.arc()))
    }
}

/// Keys for rows of a table without key columns: unique in the write by task and row.
fn generated_keys(plan: &TaskPlan, task: usize) -> AutoKeys {
    AutoKeys::new(plan.instant.as_str(), u32::try_from(task).unwrap_or(u32::MAX))
}

/// The partitions of rows: all that `delete_partition` wants to know of them.
pub fn partitions_of(
    table: &HudiTable,
    plan: &TaskPlan,
    given: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Vec<TaskReport>> {
    let columns = avro_to_arrow_schema(&plan.schema)?;
    let partitions: BTreeSet<String> = partitions_of_rows(&table.key_config()?, &columns, given, batches)?;
    Ok(partitions.into_iter().map(TaskReport::Partition).collect())
}
