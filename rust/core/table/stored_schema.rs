//! The schema of a table as its files have it.

use super::config::TableConfig;
use super::schema::{KEEP_SCHEMA, TableSchema, without_meta_columns};
use super::schema_files::stored_schemas;
use super::view::TableView;
use crate::error::{Error, Result};
use crate::file_group::base::BaseFileReader;
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::instant::Instant;
use crate::format::internal_schema::{InternalSchema, LATEST_SCHEMA, SchemaHistory};

/// The entry of the metadata of a commit with the table's columns.
const SCHEMA: &str = "schema";

impl TableSchema {
    /// The schema as of a view: from the last commit that may have changed it, else from `CREATE TABLE`, else from a
    /// base file. `None` when the table has never had one.
    pub fn resolve(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        if view.schema.get().is_none() {
            let _ = view.schema.set(Self::stored(config, view)?);
        }
        Ok(view.schema.get().cloned().flatten().map(|schema| schema.with_path_columns(config)))
    }

    /// The requested time of the commit whose schema is the table's; `None` where no commit of the active timeline has one.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(crate) fn told_by(view: &TableView) -> Result<Option<String>> {
        Ok(Self::newest_commit(view)?.map(|(instant, _)| instant.requested.clone()))
    }

    /// The completed commit with the largest requested time that has a schema and may have changed it, as Hudi's readers
    /// look for it.
    fn newest_commit(view: &TableView) -> Result<Option<(&Instant, ReplaceCommitMetadata)>> {
        for instant in view.timeline().completed_writes().rev() {
            let metadata = view.write_metadata(instant)?;
            let keeps_schema = metadata.operation_type.as_deref().is_some_and(|op| KEEP_SCHEMA.contains(&op));
            if !keeps_schema && metadata.extra_metadata.get(SCHEMA).is_some_and(|schema| !schema.is_empty()) {
                return Ok(Some((instant, metadata)));
            }
        }
        Ok(None)
    }

    fn stored(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        if let Some((instant, metadata)) = Self::newest_commit(view)? {
            let extra = &metadata.extra_metadata;
            let json = extra.get(SCHEMA).map_or("", String::as_str);
            let ids = extra.get(LATEST_SCHEMA).map(String::as_str);
            return Self::of_commit(view, json, ids).map(Some).map_err(|e| e.with("instant", instant));
        }
        if let Some(archived) = view.archived_schema() {
            return Self::of_commit(view, &archived.avro, archived.ids.as_deref()).map(Some);
        }
        if let Some(json) = config.get("hoodie.table.create.schema") {
            return Self::from_avro(json).map(Some);
        }
        if let Some(base) = view.all_latest_slices()?.into_iter().find_map(|s| s.base) {
            let file = view.storage().reader(&base.path, base.size)?;
            let reader = BaseFileReader::open(file).map_err(|e| e.with("file", &base.path))?;
            return Ok(Some(Self { data: without_meta_columns(reader.schema()), history: None }));
        }
        Ok(None)
    }

    /// The entry of the metadata of a commit that keeps this schema, where fields have ids.
    pub(crate) fn field_ids(&self) -> Option<(String, String)> {
        let history = self.history.as_ref()?;
        Some((LATEST_SCHEMA.to_owned(), history.table().to_text()))
    }

    /// Refuses what does not keep the ids of fields.
    ///
    /// # Errors
    /// `Unsupported` where fields have ids.
    pub(crate) fn refuse_field_ids(&self, what: &str) -> Result<()> {
        if self.history.is_none() {
            return Ok(());
        }
        Err(Error::unsupported(format!(
            "{what} of a table with a schema history (hoodie.schema.on.read.enable) is not supported"
        )))
    }

    /// The schema of a commit, which has field ids or not.
    fn of_commit(view: &TableView, avro: &str, ids: Option<&str>) -> Result<Self> {
        let schema = Self::from_avro(avro)?;
        let Some(ids) = ids.filter(|ids| !ids.is_empty()) else { return Ok(schema) };
        let history = SchemaHistory::new(InternalSchema::parse(ids)?, stored_schemas(view)?);
        Ok(Self { history: Some(history), ..schema })
    }
}
