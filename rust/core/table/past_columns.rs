//! The columns that commits of before named.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::Schema;

use super::schema::TableSchema;
use super::{HudiTable, TableView};
use crate::error::Result;

/// The entry of the metadata of a commit with the table's columns.
const SCHEMA: &str = "schema";

impl HudiTable {
    /// The columns that the completed writes since an instant name, without meta columns, by instant; of writes one after
    /// another that name the same, the first. What is there of writes before comes along. Services name the columns of their
    /// files, too.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(crate) fn columns_since(&self, view: &TableView, since: &str) -> Result<Vec<(String, Schema)>> {
        view.timeline().fetch(self.storage(), view.timeline().completed_writes());
        // There may be many commits, and few schemas.
        let mut schemas: HashSet<Arc<str>> = HashSet::new();
        let mut named: BTreeMap<String, Arc<str>> = BTreeMap::new();
        self.each_write(view, since, true, &|_| true, &mut |write, mut metadata| {
            let Some(avro) = metadata.extra_metadata.remove(SCHEMA).filter(|avro| !avro.is_empty()) else {
                return Ok(());
            };
            let avro = schemas.get(avro.as_str()).cloned().unwrap_or_else(|| Arc::from(avro));
            schemas.insert(avro.clone());
            named.insert(write.requested, avro);
            Ok(())
        })?;
        let mut columns = Vec::new();
        let mut last: Option<Arc<str>> = None;
        for (instant, avro) in named {
            if last.as_ref() != Some(&avro) {
                let schema = TableSchema::from_avro(&avro).map_err(|e| e.with("instant", &instant))?;
                columns.push((instant, schema.data.as_ref().clone()));
                last = Some(avro);
            }
        }
        Ok(columns)
    }
}
