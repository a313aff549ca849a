//! `index.json`: which indexes a table has, and of which columns.
//!
//! Entries of other indexes, and fields that are not known here, stay as they are. A writer changes the file under the
//! table lock.

use serde_json::{Map, Value, json};

use super::column_ranges::IndexVersion;
use super::expression_index::{COLUMN_STATS_KIND, EXPRESSION_OPTION, ExpressionIndex};
use super::secondary_entries::{SecondaryIndex, is_secondary_index};
use crate::error::{Error, Result};
use crate::format::json;
use crate::storage::Storage;

/// Where the file is, unless the table says so.
pub(crate) const DEFAULT_PATH: &str = ".hoodie/.index_defs/index.json";
/// The property that says where it is.
pub(crate) const PATH_PROPERTY: &str = "hoodie.table.index.defs.path";

const DEFINITIONS: &str = "indexDefinitions";
const SOURCE_FIELDS: &str = "sourceFields";
const COLUMN_STATS: &str = "column_stats";

/// The definitions of a table's indexes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IndexDefinitions {
    path: String,
    content: Map<String, Value>,
}

impl IndexDefinitions {
    /// Reads the definitions; none if the file does not exist. `path` is what the table's properties say.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn read(storage: &Storage, path: Option<&str>) -> Result<Self> {
        let path = path.map(str::trim).filter(|path| !path.is_empty()).unwrap_or(DEFAULT_PATH).to_owned();
        let Some(content) = storage.read_if_exists(&path)? else { return Ok(Self { path, content: Map::new() }) };
        let named = |e: Error| e.with("table", storage.uri()).with("file", &path);
        let content: Map<String, Value> =
            json::parse(&content, "the definitions of indexes are not JSON").map_err(named)?;
        match content.get(DEFINITIONS) {
            None | Some(Value::Object(_)) => Ok(Self { path, content }),
            Some(_) => Err(named(Error::corrupt("the definitions of indexes are not those of Hudi"))),
        }
    }

    /// Where they are, for the table's properties.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The definition of the index in a partition of the metadata table.
    fn definition(&self, partition: &str) -> Option<&Map<String, Value>> {
        self.content.get(DEFINITIONS)?.get(partition)?.as_object()
    }

    /// `indexType` of an index.
    pub(crate) fn index_type(&self, partition: &str) -> Option<&str> {
        self.definition(partition)?.get("indexType")?.as_str()
    }

    /// The columns of an index.
    pub(crate) fn source_fields(&self, partition: &str) -> Option<Vec<String>> {
        let fields = self.definition(partition)?.get(SOURCE_FIELDS)?.as_array()?;
        Some(fields.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Puts the columns that have statistics in. Returns whether this changes anything.
    pub(crate) fn set_column_stats(&mut self, columns: &[String], version: IndexVersion) -> bool {
        let known = self.source_fields(COLUMN_STATS);
        let stored = self.definition(COLUMN_STATS).and_then(|one| one.get("version")).and_then(Value::as_str);
        // Version 8 tables may say nothing, which means the first version.
        if known.as_deref() == Some(columns) && stored.unwrap_or(IndexVersion::V1.name()) == version.name() {
            return false;
        }
        let mut definition =
            self.definition(COLUMN_STATS).cloned().unwrap_or_else(|| empty(COLUMN_STATS, COLUMN_STATS));
        definition.insert(SOURCE_FIELDS.to_owned(), json!(columns));
        definition.insert("version".to_owned(), json!(version.name()));
        self.set(COLUMN_STATS, definition);
        true
    }

    /// Gives the first version to definitions that say none, as Hudi's upgrade to version 9 does. Returns whether there were any.
    pub(crate) fn set_missing_versions(&mut self) -> bool {
        let all = self.content.get_mut(DEFINITIONS).and_then(Value::as_object_mut);
        let mut changed = false;
        for definition in all.into_iter().flat_map(Map::values_mut).filter_map(Value::as_object_mut) {
            if definition.get("version").is_none_or(Value::is_null) {
                definition.insert("version".to_owned(), json!(IndexVersion::V1.name()));
                changed = true;
            }
        }
        changed
    }

    /// Whether there is a record index of each data partition.
    pub(crate) fn has_record_index_by_partition(&self) -> bool {
        let options = self.definition("record_index").and_then(|one| one.get("indexOptions"));
        options.and_then(|options| options.get("isPartitioned")?.as_str()) == Some("true")
    }

    /// Puts the record index in, unless it is there: one of the table, or one of each data partition.
    pub(crate) fn set_record_index(&mut self, is_partitioned: bool) -> bool {
        const RECORD_INDEX: &str = "record_index";
        if self.definition(RECORD_INDEX).is_some() && self.has_record_index_by_partition() == is_partitioned {
            return false;
        }
        let mut definition = empty(RECORD_INDEX, "");
        definition.insert("indexOptions".to_owned(), json!({"isPartitioned": is_partitioned.to_string()}));
        definition.insert("version".to_owned(), json!(IndexVersion::V1.name()));
        self.set(RECORD_INDEX, definition);
        true
    }

    /// The secondary index in a partition, if it is one of one column.
    pub(crate) fn secondary_index(&self, partition: &str) -> Option<SecondaryIndex> {
        let [column] = <[String; 1]>::try_from(self.source_fields(partition)?).ok()?;
        Some(SecondaryIndex { partition: partition.to_owned(), column, version: self.version(partition) })
    }

    /// The version of an index.
    fn version(&self, partition: &str) -> IndexVersion {
        let version = self.definition(partition).and_then(|one| one.get("version")?.as_str());
        // Version 8 tables may say nothing, which means the first version.
        if version == Some(IndexVersion::V2.name()) { IndexVersion::V2 } else { IndexVersion::V1 }
    }

    /// The expression index in a partition.
    ///
    /// # Errors
    /// `Corrupt` if it is not defined, or not of one column; those of [`ExpressionIndex::new`].
    pub(crate) fn expression_index(&self, partition: &str) -> Result<ExpressionIndex> {
        let undefined = || Error::corrupt("it is not defined, or not of one column").with("index", partition);
        let string = |name: &str| self.definition(partition)?.get(name)?.as_str();
        let columns = self.source_fields(partition).and_then(|columns| <[String; 1]>::try_from(columns).ok());
        let (Some([column]), Some(kind), Some(function)) = (columns, string("indexType"), string("indexFunction"))
        else {
            return Err(undefined());
        };
        let options = self.definition(partition).and_then(|one| one.get("indexOptions")?.as_object());
        let option = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
        let options = options.into_iter().flatten().map(option).collect::<Option<_>>().ok_or_else(undefined)?;
        ExpressionIndex::new(partition, kind, &column, function, options, self.version(partition))
    }

    /// Puts an expression index in.
    pub(crate) fn set_expression_index(&mut self, index: &ExpressionIndex) {
        let mut definition = empty(&index.partition, &index.expression);
        definition.insert("indexType".to_owned(), json!(COLUMN_STATS_KIND));
        definition.insert(SOURCE_FIELDS.to_owned(), json!([index.column]));
        let mut options = Map::from_iter([(EXPRESSION_OPTION.to_owned(), json!(index.expression))]);
        options.extend(index.options.iter().map(|(name, value)| (name.clone(), json!(value))));
        definition.insert("indexOptions".to_owned(), Value::Object(options));
        definition.insert("version".to_owned(), json!(index.version.name()));
        self.set(&index.partition, definition);
    }

    /// The secondary indexes among the partitions of a metadata table that are defined.
    pub(crate) fn secondary_indexes(&self, partitions: &[String]) -> Vec<SecondaryIndex> {
        let named = partitions.iter().filter(|name| is_secondary_index(name));
        named.filter_map(|name| self.secondary_index(name)).collect()
    }

    /// Puts a secondary index in.
    pub(crate) fn set_secondary_index(&mut self, index: &SecondaryIndex) {
        let mut definition = empty(&index.partition, "identity");
        definition.insert("indexType".to_owned(), json!("secondary_index"));
        definition.insert(SOURCE_FIELDS.to_owned(), json!([index.column]));
        definition.insert("version".to_owned(), json!(index.version.name()));
        self.set(&index.partition, definition);
    }

    /// Takes the definition of an index out. Returns whether it was there.
    pub(crate) fn remove(&mut self, partition: &str) -> bool {
        let definitions = self.content.get_mut(DEFINITIONS).and_then(Value::as_object_mut);
        definitions.is_some_and(|definitions| definitions.shift_remove(partition).is_some())
    }

    fn set(&mut self, partition: &str, definition: Map<String, Value>) {
        let definitions = self.content.entry(DEFINITIONS).or_insert_with(|| json!({}));
        if let Some(definitions) = definitions.as_object_mut() {
            definitions.insert(partition.to_owned(), Value::Object(definition));
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// `Storage`.
    pub(crate) fn write(&self, storage: &Storage) -> Result<()> {
        let content = serde_json::to_vec_pretty(&self.content)
            .map_err(|e| Error::internal("the definitions of indexes cannot be written").caused_by(e))?;
        storage.replace(&self.path, content)
    }
}

/// The definition of an index of no columns, with its fields in Hudi's order.
fn empty(partition: &str, function: &str) -> Map<String, Value> {
    let definition = json!({
        "indexName": partition,
        "indexType": partition,
        "indexFunction": function,
        SOURCE_FIELDS: [],
        "indexOptions": {},
        "version": "",
    });
    definition.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use super::*;
    use crate::storage::StorageOptions;

    /// What Hudi wrote, with a field and an entry that are not known here.
    const HUDIS: &str = r#"{ "indexDefinitions" : { "column_stats" : { "indexName" : "column_stats",
        "indexType" : "column_stats", "indexFunction" : "column_stats", "sourceFields" : [ "a" ], "indexOptions" : { },
        "version" : "V2", "other" : 1 }, "expr_index_x" : { "indexName" : "expr_index_x",
        "indexType" : "bloom_filters", "more" : [ 1 ] } }, "beside" : true }"#;

    fn columns(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn memory(name: &str) -> Storage {
        Storage::open(&format!("memory://index-{name}/t"), &StorageOptions::new()).unwrap()
    }

    #[test]
    fn what_is_not_known_stays() {
        let storage = memory("unknown");
        storage.replace(DEFAULT_PATH, HUDIS).unwrap();
        let mut definitions = IndexDefinitions::read(&storage, None).unwrap();
        assert_eq!(definitions.index_type("expr_index_x"), Some("bloom_filters"));
        assert!(!definitions.set_column_stats(&columns(&["a"]), IndexVersion::V2));
        assert!(definitions.set_column_stats(&columns(&["a", "b"]), IndexVersion::V2));
        definitions.write(&storage).unwrap();
        let again = IndexDefinitions::read(&storage, Some(DEFAULT_PATH)).unwrap();
        assert_eq!(again, definitions);
        assert_eq!(again.source_fields("column_stats"), Some(columns(&["a", "b"])));
        let content = String::from_utf8(storage.read_if_exists(DEFAULT_PATH).unwrap().unwrap().to_vec()).unwrap();
        for part in ["\"other\": 1", "\"beside\": true", "\"more\": ["] {
            assert!(content.contains(part), "{part} in {content}");
        }
    }

    #[test]
    fn new_definitions_are_those_of_hudi() {
        let storage = memory("new");
        let mut definitions = IndexDefinitions::read(&storage, Some("  ")).unwrap();
        assert_eq!((definitions.path(), definitions.source_fields("column_stats")), (DEFAULT_PATH, None));
        assert!(definitions.set_record_index(false) && !definitions.set_record_index(false));
        assert!(definitions.set_column_stats(&columns(&["_hoodie_record_key", "a"]), IndexVersion::V1));
        let wanted = json!({"indexDefinitions": {
            "record_index": {"indexName": "record_index", "indexType": "record_index", "indexFunction": "",
                "sourceFields": [], "indexOptions": {"isPartitioned": "false"}, "version": "V1"},
            "column_stats": {"indexName": "column_stats", "indexType": "column_stats", "indexFunction": "column_stats",
                "sourceFields": ["_hoodie_record_key", "a"], "indexOptions": {}, "version": "V1"}}});
        assert_eq!(Value::Object(definitions.content.clone()).to_string(), wanted.to_string());
        assert!(definitions.remove("record_index") && !definitions.remove("record_index"));
        let index = SecondaryIndex {
            partition: "secondary_index_idx".to_owned(),
            column: "a".to_owned(),
            version: IndexVersion::V2,
        };
        definitions.set_secondary_index(&index);
        let stored = definitions.content[DEFINITIONS]["secondary_index_idx"].to_string();
        let hudis = r#"{"indexName":"secondary_index_idx","indexType":"secondary_index","indexFunction":"identity","sourceFields":["a"],"indexOptions":{},"version":"V2"}"#;
        assert_eq!(stored, hudis);
        assert_eq!(definitions.secondary_indexes(&[index.partition.clone(), "files".to_owned()]), [index]);
    }

    #[test]
    fn damaged_definitions_name_the_file() {
        let storage = memory("damaged");
        for damaged in ["", "[]", "{\"indexDefinitions\": 1}"] {
            storage.replace(DEFAULT_PATH, damaged.to_owned()).unwrap();
            let error = IndexDefinitions::read(&storage, None).unwrap_err();
            assert!(error.to_string().contains("index.json"), "{error}");
        }
    }
}
