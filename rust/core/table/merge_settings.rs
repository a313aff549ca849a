//! How the records of a table are merged: rule, keys, ordering values, delete marks.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};

use super::keygen::{KeyGenConfig, KeyGenerator};
use super::merge_config::{DeleteMarker, PersistedRule};
use super::{HudiTable, META_COLUMNS};
use crate::error::{Error, Result};
use crate::format::properties::Properties;
use crate::merge::{
    CustomMerge, Fill, MergeContext, MergeRule, OrderingValues, RecordMerger, lies_in, ordering_column,
};

/// Column that marks a record as a delete.
pub(crate) const DELETE_MARK: &str = "_hoodie_is_deleted";
/// Column that says what a record does, in tables that keep it.
pub(super) const OPERATION: &str = "_hoodie_operation";
/// Settings of merging that a table keeps.
const MERGE_PROPERTY: &str = "hoodie.record.merge.property.";
const RECORD_KEY: &str = META_COLUMNS[2];

/// How the records of a table are merged.
#[derive(Debug, Clone)]
pub struct MergeSettings {
    /// The rule.
    pub rule: MergeRule,
    /// Columns that order records, or fields of struct columns; none where the rule does not look at them.
    pub ordering: Vec<String>,
    /// What makes a record a delete, besides Hudi's own columns.
    pub marker: Option<DeleteMarker>,
    /// Where keys come from when the table keeps no meta columns.
    pub keys: Option<KeyGenConfig>,
}

/// What a merger is told of the properties of a table.
pub(crate) fn properties_of_merger(properties: &Properties) -> BTreeMap<String, String> {
    let own = |(k, v): (&str, &str)| Some((k.strip_prefix(MERGE_PROPERTY)?.to_owned(), v.to_owned()));
    properties.iter().filter_map(own).collect()
}

impl HudiTable {
    /// How this table's records are merged.
    ///
    /// # Errors
    /// `Unsupported` and `InvalidOption` for settings that are not known. A merger that was not given is an error only
    /// when it is needed.
    pub fn merge_settings(&self) -> Result<MergeSettings> {
        let config = self.config();
        let persisted = config.persisted_merge()?;
        let properties = properties_of_merger(config.properties());
        let context = MergeContext { ordering: config.ordering_fields(), properties };
        let rule = rule_of(persisted.rule, self.mergers(), context);
        let ordering = if rule.is_ordered() { config.ordering_fields() } else { Vec::new() };
        let keys = if config.populates_meta_fields() { None } else { Some(self.key_config()?.without_partitions()) };
        Ok(MergeSettings { rule, ordering, marker: persisted.marker, keys })
    }

    /// The merger that the table asks for, when the job has to bring it and did not yet.
    ///
    /// # Errors
    /// Those of [`HudiTable::merge_settings`].
    pub fn missing_merger(&self) -> Result<Option<String>> {
        match self.merge_settings()?.rule {
            MergeRule::Missing(id) => Ok(Some(id)),
            _ => Ok(None),
        }
    }
}

/// The rule that a table names, with the first of the mergers that has the table's strategy id.
pub(crate) fn rule_of(persisted: PersistedRule, mergers: &[Arc<dyn RecordMerger>], context: MergeContext) -> MergeRule {
    match persisted {
        PersistedRule::Mode(mode, Fill::Nothing) => MergeRule::Pick(mode),
        PersistedRule::Mode(mode, fill) => MergeRule::Fill(mode, fill),
        PersistedRule::Payload(class) => MergeRule::Payload(class),
        PersistedRule::Brought(id) => match mergers.iter().find(|m| m.strategy_id().eq_ignore_ascii_case(&id)) {
            None => MergeRule::Missing(id),
            Some(merger) => {
                MergeRule::Custom(CustomMerge { merger: merger.clone(), context: Arc::new(context), partial: false })
            }
        },
    }
}

impl MergeSettings {
    /// The columns of a table that have to be read to give back `wanted`: these first.
    pub(super) fn columns(&self, wanted: &Schema, table: &Schema) -> SchemaRef {
        let marker = self.marker.iter().map(|marker| marker.field.as_str());
        let looked_at = self.compared().into_iter().chain(marker);
        let by_rule: Vec<&str> = match self.rule.columns() {
            Some(columns) => columns.to_vec(),
            None => table.fields().iter().map(|f| f.name().as_str()).collect(),
        };
        with_fields(wanted, table, looked_at.chain([DELETE_MARK, OPERATION]).chain(by_rule))
    }

    /// The columns of a table that tell which of two records of a key is kept, where one of them is.
    pub fn compared_columns(&self, table: &Schema) -> SchemaRef {
        with_fields(&Schema::empty(), table, self.compared().into_iter())
    }

    /// Names of the columns with the key and the ordering values.
    fn compared(&self) -> Vec<&str> {
        let keys: Vec<&str> = match &self.keys {
            None => vec![RECORD_KEY],
            Some(config) => config.record_key_fields.iter().map(|f| top_level(f)).collect(),
        };
        keys.into_iter().chain(self.ordering.iter().map(|f| top_level(f))).collect()
    }

    /// The ordering values of records.
    ///
    /// # Errors
    /// `Schema` when a column is missing.
    pub fn ordering(&self, batch: &RecordBatch) -> Result<OrderingValues> {
        OrderingValues::try_new(self.ordering_columns(batch)?)
    }

    /// The ordering columns of records, as they are.
    ///
    /// # Errors
    /// `Schema` when a column is missing.
    pub(crate) fn ordering_columns(&self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        self.ordering.iter().map(|name| ordering_column(batch, name)).collect()
    }

    /// Whether the ordering values, or some of them, come from the column of this name.
    pub(crate) fn orders_by(&self, column: &str) -> bool {
        self.ordering.iter().any(|ordering| lies_in(ordering, column))
    }

    /// The keys of records.
    ///
    /// # Errors
    /// `Corrupt` and `Schema` where columns are missing that they come from.
    pub fn keys(&self, batch: &RecordBatch) -> Result<StringArray> {
        match &self.keys {
            Some(config) => KeyGenerator::new(config.clone(), &batch.schema())?.record_keys(batch),
            None => {
                let keys = batch.column_by_name(RECORD_KEY).and_then(|c| c.as_string_opt::<i32>());
                let keys = keys.ok_or_else(|| Error::corrupt("a data file has no record keys"))?;
                // All of them would be merged as records of one key.
                match keys.null_count() {
                    0 => Ok(keys.clone()),
                    nulls => Err(Error::corrupt(format!("{nulls} records of a data file have no record key"))),
                }
            }
        }
    }

    /// Which records are deletes by one of their columns; `None`: none of them.
    ///
    /// # Errors
    /// `Schema` for a marker's column that cannot be read as text.
    pub fn deleted(&self, batch: &RecordBatch) -> Result<Option<BooleanArray>> {
        let mut marks: Vec<BooleanArray> = Vec::new();
        if let Some(flags) = batch.column_by_name(DELETE_MARK).and_then(|c| c.as_boolean_opt()) {
            marks.push(flags.iter().map(|flag| Some(flag == Some(true))).collect());
        }
        let mut strings = |name: &str, is_delete: &dyn Fn(&str) -> bool| -> Result<()> {
            let Some(column) = batch.column_by_name(name) else { return Ok(()) };
            let column = arrow_cast::cast(column, &DataType::Utf8)?;
            marks.push(column.as_string::<i32>().iter().map(|text| Some(text.is_some_and(is_delete))).collect());
            Ok(())
        };
        strings(OPERATION, &|operation| matches!(operation, "D" | "-U"))?;
        if let Some(DeleteMarker { field, text, any_case }) = &self.marker {
            strings(field, &|found| found == text || (*any_case && found.eq_ignore_ascii_case(text)))?;
        }
        let mut marks = marks.into_iter();
        let first = marks.next();
        let all = marks.try_fold(first, |all, more| match all {
            Some(all) => Ok::<_, Error>(Some(arrow::compute::or(&all, &more)?)),
            None => Ok(Some(more)),
        })?;
        Ok(all.filter(|marks| marks.true_count() > 0))
    }
}

/// Refuses a column of rows that would mark deletes and is not boolean.
///
/// # Errors
/// `Schema`.
pub(crate) fn check_delete_mark(rows: &Schema) -> Result<()> {
    match rows.field_with_name(DELETE_MARK) {
        Ok(field) if !matches!(field.data_type(), DataType::Boolean | DataType::Null) => {
            Err(Error::schema(format!("column {DELETE_MARK} is {} and not boolean", field.data_type()))
                .with("column", DELETE_MARK)
                .remedy("Rename the column, or make it boolean: true deletes the row"))
        }
        _ => Ok(()),
    }
}

/// Columns, and behind them others of a table that are not among them.
fn with_fields<'n>(columns: &Schema, table: &Schema, more: impl Iterator<Item = &'n str>) -> SchemaRef {
    let mut fields: Vec<FieldRef> = columns.fields().iter().cloned().collect();
    for name in more {
        if let (Ok(field), None) = (table.field_with_name(name), fields.iter().find(|f| f.name() == name)) {
            fields.push(Arc::new(field.clone()));
        }
    }
    Arc::new(Schema::new(fields))
}

/// The column of a field, which may lie inside of it.
fn top_level(field: &str) -> &str {
    field.split('.').next().unwrap_or(field)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;
    use crate::merge::MergeMode;

    #[test]
    fn records_without_keys_are_not_those_of_one_key() {
        let rule = MergeRule::Pick(MergeMode::CommitTime);
        let settings = MergeSettings { rule, ordering: Vec::new(), marker: None, keys: None };
        let keys = |keys: Vec<Option<&str>>| {
            let keys: ArrayRef = Arc::new(StringArray::from(keys));
            settings.keys(&RecordBatch::try_from_iter([(RECORD_KEY, keys)]).unwrap())
        };
        assert_eq!(keys(vec![Some("a"), Some("")]).unwrap().len(), 2);
        assert_eq!(keys(vec![Some("a"), None]).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}
