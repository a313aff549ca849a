//! What is read, and where it goes.

use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::file_group::markers::marker_folder;
use crate::format::avro::schema::{avro_to_arrow_schema, table_schema_to_avro};
use crate::metadata_table::key_shards::KeyShards;
use crate::metadata_table::secondary_entries::SecondaryIndex;
use crate::metadata_table::write::record_index::Location;
use crate::timeline::{TimeZone, parse_instant_ms};
use crate::transaction::secondary_index::indexed_column;

/// An index of keys that is built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::transaction) enum KeyIndexKind {
    /// The record index; whether each data partition has shards of its own.
    Records(bool),
    /// A secondary index.
    Values(SecondaryIndex),
}

/// What the tasks of an index of keys have to know, in a form that crosses processes.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeyIndexPlan {
    /// Requested time of the action that builds it.
    pub(super) instant: String,
    pub(super) shards: KeyShards,
    /// The columns of the table, as Avro; `None`: nothing was written to it.
    columns: Option<String>,
    /// The file groups of the slices, by the numbers of these.
    pub(super) groups: Vec<Location>,
}

/// File slices that one task reads, with their numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SliceUnit(pub(super) Vec<(u32, FileSlice)>);

impl KeyIndexPlan {
    /// Of an index that an action with this requested time builds. `columns` are those of the table and its name.
    ///
    /// # Errors
    /// `Unsupported` for columns that Avro does not have.
    pub(super) fn new(
        instant: &str,
        shards: KeyShards,
        columns: Option<(&Schema, &str)>,
        groups: Vec<Location>,
    ) -> Result<Self> {
        let columns = columns.map(|(columns, name)| table_schema_to_avro(columns, name, false)).transpose()?;
        Ok(Self { instant: instant.to_owned(), shards, columns, groups })
    }

    /// The columns of the table.
    ///
    /// # Errors
    /// `Corrupt` for columns that cannot be read.
    pub(super) fn columns(&self) -> Result<SchemaRef> {
        let columns = self.columns.as_deref().map(avro_to_arrow_schema).transpose()?;
        Ok(Arc::new(columns.unwrap_or_else(Schema::empty)))
    }

    /// The partition of the metadata table.
    pub(crate) fn partition(&self) -> &str {
        self.shards.partition()
    }

    /// The folder in which shards are staged.
    pub(super) fn folder(&self) -> String {
        format!("{}/index/{}", marker_folder(&self.instant), self.partition())
    }
}

/// Where the keys of a slice are.
///
/// # Errors
/// `Corrupt` for a slice whose instant is no time.
pub(super) fn location(slice: &FileSlice, zone: TimeZone) -> Result<Location> {
    // A slice does not tell when each of its records was put there.
    let written_ms = parse_instant_ms(&slice.base_instant, zone)
        .ok_or_else(|| Error::corrupt("the instant of a file slice is no time").with("file group", &slice.file_id))?;
    Ok(Location { partition: slice.partition.clone(), file_id: slice.file_id.clone(), written_ms })
}

/// The indexed column of a secondary index; `None` for the record index.
///
/// # Errors
/// Those of [`indexed_column`].
pub(super) fn column_of(shards: &KeyShards, columns: &Schema) -> Result<Option<Field>> {
    match shards {
        KeyShards::Records(_) => Ok(None),
        KeyShards::Values { index, .. } => indexed_column(index, columns).cloned().map(Some),
    }
}
