//! Rows that have only some columns of the table: what they lack stays as it is stored.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Fields, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::format::field_lookup::FieldLookup;
use crate::table::{HudiTable, TableSchema};
use crate::write::config::Operation;
use crate::write::rewrite::context::WriteContext;

/// Refuses other operations than upserts.
pub(in crate::write) fn check_partial(partial: bool, operation: Operation) -> Result<()> {
    if partial && operation != Operation::Upsert {
        return Err(Error::invalid_option(format!("{} cannot write some columns only", operation.name()))
            .remedy("Pass partial=True to upserts only"));
    }
    Ok(())
}

/// The error of rows with some columns only when there is no table yet of which others could stay.
pub(in crate::write) fn nothing_to_keep() -> Error {
    Error::invalid_option("the table has no columns yet that could stay as they are").remedy("Write whole rows first")
}

/// Refuses rows with some columns only for the log files of a table whose fields have ids. Hudi, which writes no such blocks
/// there, reads null in the columns that they lack, and its compaction keeps that.
///
/// # Errors
/// `Unsupported`.
pub(in crate::write) fn check_without_ids(table: &HudiTable, schema: Option<&TableSchema>) -> Result<()> {
    if schema.is_none_or(|schema| schema.history.is_none()) {
        return Ok(());
    }
    Err(Error::unsupported(
        "rows with some of the columns are not supported in a merge-on-read table with a schema history (hoodie.schema.on.read.enable): Hudi would read null in the other columns",
    )
    .with("table", table.storage().uri())
    .remedy("Use t.update(), MERGE INTO or UPDATE, which write whole rows, or upsert rows with all columns"))
}

/// The columns of rows and, behind them, those of the table that they lack.
pub(in crate::write) fn with_missing(given: &Schema, table: &Schema) -> Schema {
    let has = FieldLookup::new(given.fields());
    let missing = table.fields().iter().filter(|f| !has.has(f.name()));
    Schema::new(given.fields().iter().chain(missing).cloned().collect::<Vec<_>>())
}

/// The columns of a table as such rows are read: those that they lack are null for now.
pub(in crate::write) fn missing_nullable(table: &Schema, given: &[String]) -> SchemaRef {
    let given: HashSet<&str> = given.iter().map(String::as_str).collect();
    let read = |field: &FieldRef| match given.contains(field.name().as_str()) {
        true => field.clone(),
        false => Arc::new(field.as_ref().clone().with_nullable(true)),
    };
    Arc::new(Schema::new(table.fields().iter().map(read).collect::<Fields>()))
}

/// Rows that have only some columns cannot be new without those that are required.
pub(in crate::write) fn check_required(context: &WriteContext) -> Result<()> {
    let Some(given) = &context.given_columns else { return Ok(()) };
    let given: HashSet<&str> = given.iter().map(String::as_str).collect();
    let required = context.data_schema.fields().iter().find(|f| !f.is_nullable() && !given.contains(f.name().as_str()));
    match required {
        Some(field) => Err(Error::schema(format!(
            "a row that may be new in its file lacks the required column '{}'",
            field.name()
        ))
        .with("column", field.name())
        .remedy("Give the rows all required columns")),
        None => Ok(()),
    }
}
