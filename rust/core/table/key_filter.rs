//! Reading only the file groups that have the wanted keys, by the record index or the bloom filters of the metadata table.
//!
//! The index knows one row of each key. Writers with another index may have written rows that share a key, in several
//! partitions for instance, and nothing in the table tells. So reads ask it only if an option says so, as in Hudi. A bloom
//! filter knows all keys of its file.

use std::collections::HashSet;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use arrow_cast::cast;

use super::data_skipping::ENABLE;
use super::file_listing::is_about_content;
use super::{HudiTable, META_COLUMNS, TableView};
use crate::error::Result;
use crate::file_group::FileSlice;
use crate::file_group::base::Predicate;
use crate::format::internal_schema::SchemaHistory;
use crate::metadata_table::{KeyLocation, MetadataTable, RECORD_INDEX, look_up_keys, look_up_values};

/// Option: whether the index is asked.
const BY_INDEX: &str = "hoodie.metadata.global.record.level.index.enable";
/// With more keys than this, most file groups have some of them.
const MOST_KEYS: usize = 10_000;

impl HudiTable {
    /// Leaves out the slices that have none of the keys that a predicate names; returns how many these are.
    ///
    /// # Errors
    /// `Storage`. A damaged index leaves nothing out, with a warning.
    pub(super) fn skip_by_keys(
        &self,
        view: &TableView,
        slices: &mut Vec<FileSlice>,
        predicate: &Predicate,
        history: Option<&SchemaHistory>,
    ) -> Result<usize> {
        if slices.len() < 2 || !self.options().flag(BY_INDEX, false)? || !self.options().flag(ENABLE, true)? {
            return Ok(0);
        }
        let Some(metadata) = view.metadata_table()?.filter(|metadata| metadata.has(RECORD_INDEX)) else { return Ok(0) };
        // A key that moved after the view was made would be looked for where the view does not have it.
        if metadata.is_ahead_of(view.timeline()) {
            return Ok(0);
        }
        let found = match self.locations(&metadata, predicate, history) {
            Err(e) if is_about_content(&e) => {
                self.warn_of_metadata_table(&format!("keys are looked for in all files, because of an index: {e}"));
                return Ok(0);
            }
            found => found?,
        };
        let Some(found) = found else { return Ok(0) };
        let groups: HashSet<(&str, &str)> = found.iter().map(|one| (&*one.partition, &*one.file_id)).collect();
        let before = slices.len();
        slices.retain(|slice| groups.contains(&(slice.partition.as_str(), slice.file_id.as_str())));
        Ok(before - slices.len())
    }

    /// Leaves out the slices whose base file has none of the keys that a predicate names, by its bloom filter, and that have
    /// no log files; returns how many these are.
    ///
    /// # Errors
    /// `Storage`. Damaged filters leave nothing out, with a warning.
    pub(super) fn skip_by_bloom_filters(
        &self,
        view: &TableView,
        slices: &mut Vec<FileSlice>,
        predicate: &Predicate,
    ) -> Result<usize> {
        if !self.options().flag(ENABLE, true)? || !self.config().populates_meta_fields() {
            return Ok(0);
        }
        let Some(keys) = self.wanted_keys(predicate) else { return Ok(0) };
        let keys: Vec<&str> = keys.iter().flatten().collect();
        let files: Vec<(&str, &str)> = slices.iter().map(base_of).collect();
        let asked = |file: usize| match files.get(file) {
            Some((_, path)) if !path.is_empty() => keys.as_slice(),
            _ => &[],
        };
        let kept = self.files_with_keys(view, &files, &asked, self.threads()?)?;
        let before = slices.len();
        let mut kept = kept.unwrap_or_default().into_iter();
        slices.retain(|_| kept.next().unwrap_or(true));
        Ok(before - slices.len())
    }

    /// Where the rows are for which a predicate can hold, if it names their keys or values that have an index.
    fn locations(
        &self,
        metadata: &MetadataTable,
        predicate: &Predicate,
        history: Option<&SchemaHistory>,
    ) -> Result<Option<Vec<KeyLocation>>> {
        let threads = self.threads()?;
        if let Some(keys) = self.wanted_keys(predicate) {
            return look_up_keys(metadata, &keys, threads).map(Some);
        }
        for conjunct in conjuncts(predicate) {
            let (Predicate::Eq(column, values) | Predicate::In(column, values)) = conjunct else { continue };
            // An index goes by the name that the column had when it was written.
            if history.is_some_and(|history| !history.is_unchanged(column)) {
                continue;
            }
            let (Some(strings), Some(index)) = (strings(values), metadata.secondary_index_on(column)?) else {
                continue;
            };
            let keys = look_up_values(metadata, index, &strings, threads)?;
            if keys.len() <= MOST_KEYS {
                let keys: StringArray = keys.into_iter().map(Some).collect();
                return look_up_keys(metadata, &keys, threads).map(Some);
            }
        }
        Ok(None)
    }

    /// The record keys of all rows for which a predicate can hold, if it names them.
    fn wanted_keys(&self, predicate: &Predicate) -> Option<StringArray> {
        let config = self.key_config().ok()?;
        let field = match config.record_key_fields.as_slice() {
            [field] => Some(field.as_str()),
            _ => None,
        };
        conjuncts(predicate).iter().find_map(|conjunct| match conjunct {
            Predicate::Eq(column, values) | Predicate::In(column, values) if column == META_COLUMNS[2] => {
                stored_keys(values, None)
            }
            Predicate::Eq(column, values) | Predicate::In(column, values) if Some(column.as_str()) == field => {
                stored_keys(values, field)
            }
            _ => None,
        })
    }
}

/// The partition of a slice and its base file, `""` where log files may have other keys.
fn base_of(slice: &FileSlice) -> (&str, &str) {
    let base = slice.base.as_ref().filter(|_| slice.logs.is_empty());
    (&slice.partition, base.map_or("", |base| base.path.as_str()))
}

/// What has to hold at the same time.
fn conjuncts(predicate: &Predicate) -> &[Predicate] {
    match predicate {
        Predicate::And(parts) => parts,
        one => std::slice::from_ref(one),
    }
}

/// The keys of records with these values. A table with one key column has the value as key, or the column's name before it,
/// which some versions of Hudi do: both are looked up.
fn stored_keys(values: &ArrayRef, field: Option<&str>) -> Option<StringArray> {
    let strings = strings(values)?;
    let named: Vec<String> =
        field.map(|field| strings.iter().map(|string| format!("{field}:{string}")).collect()).unwrap_or_default();
    Some(strings.into_iter().chain(named).map(Some).collect())
}

/// Values as strings, of types whose equal values have one form. Strings that stand for keys that are empty or null do not.
fn strings(values: &ArrayRef) -> Option<Vec<String>> {
    let is_exact = matches!(values.data_type(), DataType::Utf8 | DataType::Int32 | DataType::Int64);
    if !is_exact || values.null_count() > 0 || values.len() > MOST_KEYS {
        return None;
    }
    let strings = cast(values, &DataType::Utf8).ok()?;
    let strings: Vec<String> = strings.as_string_opt::<i32>()?.iter().flatten().map(str::to_owned).collect();
    (!strings.iter().any(String::is_empty)).then_some(strings)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use arrow::array::{Float64Array, Int64Array};

    use super::*;

    #[test]
    fn keys_are_looked_up_in_all_forms_that_they_have() {
        let keys = |values: ArrayRef, field| {
            stored_keys(&values, field).map(|keys| keys.iter().flatten().map(str::to_owned).collect::<Vec<_>>())
        };
        let found = keys(Arc::new(Int64Array::from(vec![1, -2])), Some("id"));
        assert_eq!(found.unwrap(), ["1", "-2", "id:1", "id:-2"]);
        let string: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(keys(string, None).unwrap(), ["a"]);
        // Equal numbers may have several forms; null and empty keys have none of their own.
        assert_eq!(keys(Arc::new(Float64Array::from(vec![0.0])), Some("id")), None);
        assert_eq!(keys(Arc::new(StringArray::from(vec![""])), Some("id")), None);
        assert_eq!(keys(Arc::new(Int64Array::from(vec![None, Some(1)])), Some("id")), None);
    }
}
