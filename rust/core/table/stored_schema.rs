//! The schema of a table as its files have it.

use super::config::TableConfig;
use super::schema::{KEEP_SCHEMA, TableSchema, without_meta_columns};
use super::view::TableView;
use crate::error::Result;
use crate::file_group::base::BaseFileReader;

impl TableSchema {
    /// The schema as of a view: from the last commit that may have changed it, else from `CREATE TABLE`, else from a
    /// base file. `None` when the table has never had one.
    pub fn resolve(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        if view.schema.get().is_none() {
            let _ = view.schema.set(Self::stored(config, view)?);
        }
        Ok(view.schema.get().cloned().flatten().map(|schema| schema.with_path_columns(config)))
    }

    fn stored(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        for instant in view.timeline().completed_writes().rev() {
            let metadata = view.write_metadata(instant)?;
            if metadata.operation_type.as_deref().is_some_and(|op| KEEP_SCHEMA.contains(&op)) {
                continue;
            }
            if let Some(json) = metadata.extra_metadata.get("schema").filter(|s| !s.is_empty()) {
                return Self::from_avro(json).map(Some).map_err(|e| e.with("instant", instant));
            }
        }
        if let Some(json) = view.archived_schema() {
            return Self::from_avro(json).map(Some);
        }
        if let Some(json) = config.get("hoodie.table.create.schema") {
            return Self::from_avro(json).map(Some);
        }
        if let Some(base) = view.all_latest_slices()?.into_iter().find_map(|s| s.base) {
            let file = view.storage().reader(&base.path, base.size)?;
            let reader = BaseFileReader::open(file).map_err(|e| e.with("file", &base.path))?;
            return Ok(Some(Self { data: without_meta_columns(reader.schema()) }));
        }
        Ok(None)
    }
}
