//! Hudi's schemas with field ids, for schema on read: a column is known by its id, whatever its name was when a file was
//! written.
//!
//! Commits have the newest one in their metadata (`latest_schema`), and `.hoodie/.schema` has all of them.

mod convert;
mod edit;
mod history;
mod json;
mod names;
mod past_types;

#[cfg(test)]
mod tests;

pub use edit::{ColumnPlace, SchemaEdit, is_promotion};
pub use history::SchemaHistory;
pub use names::ColumnNames;

use hoodoo_runtime::error::{Error, Result};

/// The key of a schema with ids in the metadata of a commit.
pub const LATEST_SCHEMA: &str = "latest_schema";

/// A schema with an id for each field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternalSchema {
    /// The instant that made it; 0 of the schema before the first change.
    pub version: i64,
    /// The largest id that was ever given out.
    pub max_column_id: i32,
    /// The columns, meta columns first.
    pub fields: Vec<InternalField>,
}

impl InternalSchema {
    /// The same schema, made by this instant.
    ///
    /// # Errors
    /// `Internal` for an instant that is no number.
    pub fn of_version(self, instant: &str) -> Result<Self> {
        let version = instant.parse().map_err(|_| Error::internal(format!("the instant '{instant}' is no number")))?;
        Ok(Self { version, ..self })
    }
}

/// A column, or a field of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternalField {
    /// Never given to another field of the table.
    pub id: i32,
    /// Its name now.
    pub name: String,
    /// Whether it may be null.
    pub optional: bool,
    /// What it is for.
    pub doc: Option<String>,
    /// Its type.
    pub data_type: InternalType,
}

/// The type of a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InternalType {
    /// A type without fields, as Hudi spells it: `int`, `decimal(10, 2)`.
    Primitive(String),
    /// Fields.
    Record(Vec<InternalField>),
    /// Elements of one type.
    Array {
        /// Id of the elements.
        element_id: i32,
        /// Their type.
        element: Box<InternalType>,
        /// Whether elements may be null.
        optional: bool,
    },
    /// Values by key.
    Map {
        /// Id of the keys.
        key_id: i32,
        /// Their type.
        key: Box<InternalType>,
        /// Id of the values.
        value_id: i32,
        /// Their type.
        value: Box<InternalType>,
        /// Whether values may be null.
        optional: bool,
    },
}
