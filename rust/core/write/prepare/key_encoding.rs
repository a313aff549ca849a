//! How the table writes its record keys, where its properties do not say.

use std::sync::Arc;

use crate::error::Result;
use crate::file_group::FileSlice;
use crate::table::keygen::{KeyGenConfig, KeyGeneratorType};
use crate::table::{HudiTable, TableSchema, key_arrays};

/// The table's key generator. Tables of version 8 do not say how a complex key of one column is written, so a stored
/// key tells.
pub(in crate::write) fn encoding_of_keys(table: &HudiTable) -> Result<KeyGenConfig> {
    let mut keys = table.key_config()?;
    let in_doubt = table.config().version() < 9
        && keys.kind == KeyGeneratorType::Complex
        && keys.record_key_fields.len() == 1
        && table.config().populates_meta_fields();
    if !in_doubt {
        return Ok(keys);
    }
    let Some(field) = keys.record_key_fields.first() else { return Ok(keys) };
    let prefix = format!("{field}:");
    let slices = table.file_slices(None)?;
    for base in slices.iter().filter_map(|s| s.base.as_ref()) {
        for batch in key_arrays(table.storage(), base, None)? {
            if let Some(key) = batch?.iter().flatten().next() {
                keys.complex_single_key_with_name = key.starts_with(&prefix);
                return Ok(keys);
            }
        }
    }
    let logs = slices.iter().filter(|s| s.base.is_none());
    if let Some(key) = first_logged_key(table, logs)? {
        keys.complex_single_key_with_name = key.starts_with(&prefix);
    }
    Ok(keys)
}

/// A key of slices that have log files only.
fn first_logged_key<'s>(table: &HudiTable, mut slices: impl Iterator<Item = &'s FileSlice>) -> Result<Option<String>> {
    let Some(slice) = slices.next() else { return Ok(None) };
    let view = table.view(None)?;
    let Some(schema) = TableSchema::resolve(table.config(), &view)? else { return Ok(None) };
    let (columns, _) = table.file_settings(&schema.data)?;
    let reader = table.file_group_reader(Arc::new(view.timeline().clone()), columns, schema.history.as_ref())?;
    let mut first = None;
    for slice in std::iter::once(slice).chain(slices) {
        reader.each_key_in_logs(slice, &mut |key, _| _ = first.get_or_insert_with(|| key.to_owned()))?;
        if first.is_some() {
            break;
        }
    }
    Ok(first)
}
