//! `secondary_index_<name>`: which record keys have a value. A key is the value, `$` and the record key, with a backslash
//! before each backslash, `$` and NUL in them; a value that is null is one NUL.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::raw;
use crate::error::{Error, Result};

pub(super) fn flat_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
        Field::new("record_key", DataType::Utf8, false),
        Field::new("is_deleted", DataType::Boolean, false),
    ]))
}

pub(super) fn flatten(stored: &RecordBatch) -> Result<RecordBatch> {
    let records = raw::records(stored, "SecondaryIndexMetadata")?;
    let keys = raw::keys(stored)?;
    let (mut values, mut record_keys) = (StringBuilder::new(), StringBuilder::new());
    for key in keys.iter().flatten() {
        let (value, record_key) = split(key).ok_or_else(|| {
            Error::corrupt("a key of a secondary index does not have the form value$key").with("key", key)
        })?;
        values.append_option(value);
        record_keys.append_value(record_key);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(keys.clone()),
        Arc::new(values.finish()),
        Arc::new(record_keys.finish()),
        Arc::new(raw::flags(records, "isDeleted")?),
    ];
    Ok(RecordBatch::try_new(flat_schema(), columns)?)
}

/// The value and the record key of a key.
fn split(key: &str) -> Option<(Option<String>, String)> {
    let mut parts = [String::new(), String::new()].into_iter();
    let (mut part, mut value) = (parts.next()?, None);
    let mut is_null = false;
    let mut letters = key.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => part.push(letters.next()?),
            '$' if value.is_none() => value = Some(std::mem::replace(&mut part, parts.next()?)),
            '\0' if value.is_none() && part.is_empty() => is_null = true,
            other => part.push(other),
        }
    }
    let value = value?;
    Some(((!(is_null && value.is_empty())).then_some(value), part))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn keys_are_split_where_the_dollar_is_not_escaped() {
        let pair = |value: Option<&str>, key: &str| Some((value.map(str::to_owned), key.to_owned()));
        assert_eq!(split("a$k"), pair(Some("a"), "k"));
        assert_eq!(split(r"a\$b\\$k\$1"), pair(Some(r"a$b\"), "k$1"));
        assert_eq!(split("\0$k"), pair(None, "k"));
        assert_eq!(split("$k"), pair(Some(""), "k"));
        assert_eq!(split("ab"), None);
        assert_eq!(split("a\\"), None);
    }
}
