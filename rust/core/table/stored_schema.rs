//! The schema of a table as its files have it.

use super::commit_metadata::decode_write_metadata;
use super::config::TableConfig;
use super::schema::{KEEP_SCHEMA, TableSchema, without_meta_columns};
use super::schema_files::stored_schemas;
use super::view::TableView;
use crate::error::{Error, Result};
use crate::file_group::base::BaseFileReader;
use crate::format::avro::metadata::ReplaceCommitMetadata;
use crate::format::instant::Instant;
use crate::format::internal_schema::{InternalSchema, LATEST_SCHEMA, SchemaHistory};
use crate::timeline::history::{HistoryReader, LoadMode};

/// The entry of the metadata of a commit with the table's columns.
const SCHEMA: &str = "schema";

/// How many archived instants are looked into for the newest schema at first.
const NEWEST: usize = 64;

fn tells_schema(metadata: &ReplaceCommitMetadata) -> bool {
    let keeps_schema = metadata.operation_type.as_deref().is_some_and(|op| KEEP_SCHEMA.contains(&op));
    !keeps_schema && metadata.extra_metadata.get(SCHEMA).is_some_and(|schema| !schema.is_empty())
}

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
            if tells_schema(&metadata) {
                return Ok(Some((instant, metadata)));
            }
        }
        Ok(None)
    }

    /// The metadata of the newest archived write that has a schema, where it is newer than those that are `active`.
    fn newest_archived(view: &TableView, active: Option<&str>) -> Result<Option<ReplaceCommitMetadata>> {
        let timeline = view.timeline();
        if !timeline.ends_in_history() {
            return Ok(None);
        }
        let history = HistoryReader::new(view.storage(), timeline.config());
        let mut count = NEWEST;
        loop {
            let entries = history.newest(count, LoadMode::Metadata)?;
            let is_newer = |requested: &str| active.is_none_or(|active| requested > active);
            let is_all = entries.len() < count || entries.first().is_some_and(|oldest| !is_newer(&oldest.requested));
            let is_wanted = |requested: &str| is_newer(requested) && timeline.is_committed(requested);
            let writes = entries.into_iter().rev().filter(|e| e.action.is_write() && is_wanted(&e.requested));
            for (action, metadata) in writes.filter_map(|entry| Some((entry.action, entry.metadata?))) {
                let metadata = decode_write_metadata(&metadata, action)?;
                if tells_schema(&metadata) {
                    return Ok(Some(metadata));
                }
            }
            if is_all {
                return Ok(None);
            }
            count = count.saturating_mul(NEWEST);
        }
    }

    fn stored(config: &TableConfig, view: &TableView) -> Result<Option<Self>> {
        let newest = Self::newest_commit(view)?;
        if let Some(metadata) = Self::newest_archived(view, newest.as_ref().map(|(i, _)| i.requested.as_str()))? {
            let extra = |name: &str| metadata.extra_metadata.get(name).map(String::as_str);
            return Self::of_commit(view, extra(SCHEMA).unwrap_or_default(), extra(LATEST_SCHEMA)).map(Some);
        }
        if let Some((instant, metadata)) = newest {
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
