//! Change data logs: what a write changed in the rows of a base file (`.<fileId>_<instant>.log.1_<token>.cdc`).
//!
//! An ordinary log file of blocks of the kind [`BlockKind::CdcData`](crate::log::BlockKind::CdcData), whose records are in
//! Avro's binary form. What they hold is the choice of the table (`hoodie.table.cdc.supplemental.logging.mode`):
//!
//! | mode | record | fields |
//! |---|---|---|
//! | `OP_KEY_ONLY` | `Record` | `op`, `record_key`; null comes second in their unions |
//! | `DATA_BEFORE` | `CDC` | `op`, `record_key`, `before` |
//! | `DATA_BEFORE_AFTER` | `CDC` | `op`, `ts_ms`, `before`, `after` |
//!
//! `op` is `i`, `u` or `d`, `ts_ms` the requested time of the commit; `before` and `after` are rows without meta columns.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use serde_json::{Value, json};

use crate::avro::schema::{record_name, record_namespace, table_schema_to_avro};
use hoodoo_runtime::error::{Error, Result};

/// The kind of change: `i`, `u` or `d`.
pub const OP: &str = "op";
/// The requested time of the commit.
pub const TS_MS: &str = "ts_ms";
/// The record key.
pub const RECORD_KEY: &str = "record_key";
/// The row before the change.
pub const BEFORE: &str = "before";
/// The row after the change.
pub const AFTER: &str = "after";

/// The property of a table that names its mode.
pub const LOGGING_MODE: &str = "hoodie.table.cdc.supplemental.logging.mode";

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// It was not there before.
    Insert,
    /// It has other values.
    Update,
    /// It is gone.
    Delete,
}

impl ChangeKind {
    /// As Hudi spells it.
    pub fn letter(self) -> &'static str {
        match self {
            Self::Insert => "i",
            Self::Update => "u",
            Self::Delete => "d",
        }
    }
}

/// What the records of a change data log hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LoggingMode {
    /// The kind of change and the key.
    OpKeyOnly,
    /// The row before the change too.
    DataBefore,
    /// The rows before and after the change.
    #[default]
    DataBeforeAfter,
}

impl LoggingMode {
    /// Parses the value of [`LOGGING_MODE`].
    ///
    /// # Errors
    /// `InvalidOption` for another name.
    pub fn parse(name: &str) -> Result<Self> {
        match name.trim().to_ascii_uppercase().as_str() {
            "OP_KEY_ONLY" => Ok(Self::OpKeyOnly),
            "DATA_BEFORE" => Ok(Self::DataBefore),
            "DATA_BEFORE_AFTER" => Ok(Self::DataBeforeAfter),
            _ => Err(Error::invalid_value(LOGGING_MODE, name, "DATA_BEFORE_AFTER, DATA_BEFORE or OP_KEY_ONLY")),
        }
    }

    /// As Hudi spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::OpKeyOnly => "OP_KEY_ONLY",
            Self::DataBefore => "DATA_BEFORE",
            Self::DataBeforeAfter => "DATA_BEFORE_AFTER",
        }
    }

    /// The fields of a record, in their order.
    pub fn fields(self) -> &'static [&'static str] {
        match self {
            Self::OpKeyOnly => &[OP, RECORD_KEY],
            Self::DataBefore => &[OP, RECORD_KEY, BEFORE],
            Self::DataBeforeAfter => &[OP, TS_MS, BEFORE, AFTER],
        }
    }

    /// Whether records have this field.
    pub fn has(self, field: &str) -> bool {
        self.fields().contains(&field)
    }

    /// The columns of records about rows of these columns.
    pub fn columns(self, rows: &Schema) -> SchemaRef {
        let column = |name: &&str| match *name {
            BEFORE | AFTER => Field::new(*name, DataType::Struct(rows.fields().clone()), true),
            name => Field::new(name, DataType::Utf8, true),
        };
        Arc::new(Schema::new(self.fields().iter().map(column).collect::<Vec<_>>()))
    }
}

/// The Avro schema of records about rows of a table with these columns, as Hudi writes it; meta columns are left out.
///
/// # Errors
/// Those of [`table_schema_to_avro`].
pub fn change_schema(mode: LoggingMode, columns: &Schema, table_name: &str) -> Result<String> {
    if mode == LoggingMode::OpKeyOnly {
        let field = |name: &&str| json!({"name": name, "type": ["string", "null"]});
        let fields: Vec<Value> = mode.fields().iter().map(field).collect();
        return Ok(json!({"type": "record", "name": "Record", "fields": fields}).to_string());
    }
    let table = table_schema_to_avro(columns, table_name, false)?;
    let table: Value = crate::json::parse(table.as_bytes(), "the schema of a table is not JSON")?;
    let fields = table.get("fields").cloned().unwrap_or_default();
    let name = record_name(table_name);
    // Its namespace is that of the record around it.
    let row = json!({"type": "record", "name": name, "fields": fields});
    let field = |field: &&str| {
        let inner = match *field {
            BEFORE => row.clone(),
            AFTER => json!(name),
            _ => json!("string"),
        };
        json!({"name": field, "type": ["null", inner], "doc": "", "default": null})
    };
    let fields: Vec<Value> = mode.fields().iter().map(field).collect();
    let namespace = record_namespace(table_name);
    Ok(json!({"type": "record", "name": "CDC", "namespace": namespace, "doc": "", "fields": fields}).to_string())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::log::{BlockKind, HeaderKey, LogFile};
    use bytes::Bytes;

    fn fixture() -> Bytes {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/logs/v9_cdc.hudi_log");
        Bytes::from(std::fs::read(path).unwrap())
    }

    #[test]
    fn the_schema_is_that_of_hudi() {
        let file = LogFile::new(fixture());
        let block = file.blocks().next().unwrap().unwrap();
        assert_eq!(block.kind, BlockKind::CdcData);
        let columns = Schema::new(vec![
            Field::new("id", DataType::Utf8, true),
            Field::new("v", DataType::Utf8, true),
            Field::new("ts", DataType::Int64, true),
        ]);
        let made = change_schema(LoggingMode::DataBeforeAfter, &columns, "cdc").unwrap();
        assert_eq!(block.header(HeaderKey::Schema), Some(made.as_str()));
    }

    #[test]
    fn modes_have_the_names_of_hudi() {
        for mode in [LoggingMode::OpKeyOnly, LoggingMode::DataBefore, LoggingMode::DataBeforeAfter] {
            assert_eq!(LoggingMode::parse(mode.name()).unwrap(), mode);
        }
        assert!(LoggingMode::parse("op_key").is_err());
    }
}
