//! Changing the columns of a table.

use super::{Ready, after_write, ready_to_write, roll_back_failed};
use crate::error::Result;
pub use crate::format::internal_schema::{ColumnPlace, SchemaEdit};
use crate::table::HudiTable;
use crate::write::{CommitOutcome, Committed, alter_schema, held_type};

/// Changes the columns of a table, all changes in one commit: each sees those before it.
///
/// # Errors
/// `Schema` for changes that the columns do not allow; `Unsupported` for columns that keys, partitions, the order of records
/// or an index need; `Conflict`; `Lock`; `Storage`. Then nothing is changed.
pub fn update_schema(table: &HudiTable, edits: Vec<SchemaEdit>) -> Result<CommitOutcome> {
    let edits = edits.into_iter().map(held).collect::<Result<Vec<_>>>()?;
    let Ready { table, _lease: lease, .. } = ready_to_write(table)?;
    let Committed { mut outcome, timeline, ending } =
        alter_schema(&table, &edits).map_err(|e| roll_back_failed(&table, e))?;
    drop(lease);
    after_write(&table, &mut outcome, timeline);
    outcome.warnings.extend(ending.finish());
    Ok(outcome)
}

/// The same change with the type that a table holds.
fn held(edit: SchemaEdit) -> Result<SchemaEdit> {
    Ok(match edit {
        SchemaEdit::Add { name, data_type, doc, place } => {
            let data_type = held_type(&name, &data_type)?;
            SchemaEdit::Add { name, data_type, doc, place }
        }
        SchemaEdit::Change { name, data_type: Some(data_type), nullable, doc } => {
            let data_type = Some(held_type(&name, &data_type)?);
            SchemaEdit::Change { name, data_type, nullable, doc }
        }
        other => other,
    })
}
