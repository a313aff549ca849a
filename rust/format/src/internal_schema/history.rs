//! All schemas that a table had, to read files of any time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{ColumnNames, InternalSchema};
use hoodoo_runtime::error::{Error, Result};

/// The schemas of a table, as the state that is read sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaHistory {
    table: Arc<InternalSchema>,
    /// By version.
    all: Arc<BTreeMap<i64, InternalSchema>>,
    /// For each version what is different in its files.
    names: Arc<BTreeMap<i64, Arc<ColumnNames>>>,
    /// Whether the file with all of them was there.
    is_whole: bool,
}

/// What is no number is older than the first instant of Hudi with field ids.
fn version_of(instant: &str) -> i64 {
    instant.parse().unwrap_or(0)
}

impl SchemaHistory {
    /// The history of a table that is read with one of its schemas. `stored`: all of them, if they are there.
    pub fn new(table: InternalSchema, stored: Option<Vec<InternalSchema>>) -> Self {
        let is_whole = stored.is_some();
        let mut all: BTreeMap<i64, InternalSchema> =
            stored.into_iter().flatten().map(|schema| (schema.version, schema)).collect();
        all.insert(table.version, table.clone());
        Self::of(table, all, is_whole)
    }

    fn of(table: InternalSchema, all: BTreeMap<i64, InternalSchema>, is_whole: bool) -> Self {
        let differs =
            |(version, file): (&i64, &InternalSchema)| Some((*version, Arc::new(ColumnNames::between(file, &table)?)));
        let names = all.iter().filter_map(differs).collect();
        Self { table: Arc::new(table), all: Arc::new(all), names: Arc::new(names), is_whole }
    }

    /// The schema that the table is read with.
    pub fn table(&self) -> &InternalSchema {
        &self.table
    }

    /// All schemas, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &InternalSchema> {
        self.all.values().rev()
    }

    /// The schema that files of an instant have; `None` if fields had no ids yet.
    pub fn at(&self, instant: &str) -> Option<&InternalSchema> {
        self.all.range(..=version_of(instant)).next_back().map(|(_, schema)| schema)
    }

    /// The same history, for reading files with another of its schemas.
    #[must_use]
    pub fn read_as(&self, schema: &InternalSchema) -> Self {
        Self::of(schema.clone(), self.all.as_ref().clone(), self.is_whole)
    }

    /// The text of all schemas behind a new one.
    pub fn text_with(&self, newest: &InternalSchema) -> String {
        let older = self.newest_first().filter(|schema| schema.version != newest.version);
        InternalSchema::history_text(&std::iter::once(newest).chain(older).cloned().collect::<Vec<_>>())
    }

    /// The names in files that an instant wrote, where they differ from those of the table.
    ///
    /// # Errors
    /// `Corrupt` where the schema of that time is not known.
    pub fn names_at(&self, instant: &str) -> Result<Option<&Arc<ColumnNames>>> {
        match self.all.range(..=version_of(instant)).next_back() {
            Some((version, _)) => Ok(self.names.get(version)),
            // The first schema with ids came with a write, not with a change: before, nothing was renamed.
            None if self.is_whole => Ok(None),
            None => Err(Error::corrupt(
                "the table's earlier schemas are gone from .hoodie/.schema, so that its older files cannot be read",
            )
            .with("instant", instant)
            .remedy("Restore the files in .hoodie/.schema from a copy")),
        }
    }

    /// Whether statistics, indexes and literals that go by the name of a column are about this column in all files.
    pub fn is_unchanged(&self, column: &str) -> bool {
        let mut of_table = self.table.fields.iter().filter(|field| field.name == column);
        let Some(field) = of_table.next() else { return true };
        self.all.values().all(|schema| {
            let mut related = schema.fields.iter().filter(|f| f.id == field.id || f.name == field.name);
            related.all(|f| f.id == field.id && f.name == field.name && f.data_type == field.data_type)
        })
    }
}
