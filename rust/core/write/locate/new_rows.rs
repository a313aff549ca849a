//! Rows that are not looked up, and inserts that meet a stored record after all.

use std::collections::{BTreeMap, HashMap, HashSet};

use arrow::array::{Array, StringArray};

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::merge::{RowRef, precombine};
use crate::table::{KeyQuery, lookup_keys};
use crate::write::locate::lookup::MatchedRow;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;
use crate::write::setup::WriteSetup;

/// Rows of which none is looked for, by partition: deletes among them delete nothing and are not stored.
pub(in crate::write) fn rows_to_insert(
    incoming: &Incoming,
    context: &WriteContext,
    combine: bool,
) -> Result<BTreeMap<u32, Vec<RowRef>>> {
    let is_deleted = |row: &RowRef| {
        let batch = incoming.batches.get(row.batch as usize);
        batch.and_then(|b| b.deleted.as_ref()).is_some_and(|d| d.value(row.row as usize))
    };
    let mut out = BTreeMap::new();
    for (partition, batches) in incoming.by_partition(false) {
        let rows: Vec<RowRef> = if combine {
            let keyed = incoming.keyed_rows(&batches, &context.settings)?;
            let records = precombine(&keyed, context.batch_mode(), true)?;
            let in_write = |r: &RowRef| Some(RowRef { batch: *batches.get(r.batch as usize)?, row: r.row });
            let rows: Option<Vec<RowRef>> = records.rows.iter().map(in_write).collect();
            rows.ok_or_else(|| Error::internal("merging the rows of a partition named another batch than theirs"))?
        } else {
            let mut rows = Vec::new();
            for batch in batches {
                let count = incoming.batch(batch)?.keys.len() as u32;
                rows.extend((0..count).map(|row| RowRef { batch, row }));
            }
            rows
        };
        let kept: Vec<RowRef> = rows.into_iter().filter(|r| !is_deleted(r)).collect();
        if !kept.is_empty() {
            out.insert(partition, kept);
        }
    }
    Ok(out)
}

/// `hoodie.merge.allow.duplicate.on.inserts=false`: inserts whose key is in the base file that they go to are merged.
/// These leave `inserts`.
pub(in crate::write) fn meet_stored(
    setup: &WriteSetup,
    context: &WriteContext,
    incoming: &Incoming,
    slice: &FileSlice,
    inserts: &mut Vec<RowRef>,
) -> Result<Vec<MatchedRow>> {
    let Some(base) = slice.base.as_ref().filter(|_| setup.merges_inserts() && !inserts.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut wanted: HashMap<&str, u32> = HashMap::with_capacity(inserts.len());
    for (row, i) in inserts.iter().zip(0u32..) {
        wanted.insert(incoming.batch(row.batch)?.keys.value(row.row as usize), i);
    }
    let find = |stored: &StringArray, found: &mut dyn FnMut(usize, u32)| {
        for (row, key) in stored.iter().enumerate() {
            if let Some(entry) = key.and_then(|key| wanted.get(key)) {
                found(row, *entry);
            }
        }
    };
    let query = KeyQuery { range: None, keys: &[], find: &find };
    let reader = context.opened.open(&context.storage, base)?;
    let found = lookup_keys(&context.storage, base, &reader, setup.virtual_keys().as_ref(), &query)?;
    context.opened.keep(base, reader);
    if !found.is_empty() {
        setup.check_merger()?;
    }
    let (mut met, mut rows) = (Vec::with_capacity(found.len()), HashSet::new());
    for m in found {
        let row = inserts.get(m.entry as usize).copied().ok_or_else(|| {
            Error::internal(format!("a stored key is that of row {} of {} inserts", m.entry, inserts.len()))
        })?;
        rows.insert(row);
        met.push(MatchedRow { position: m.position, row, moved: false });
    }
    met.sort_by_key(|m| (m.position, m.row));
    inserts.retain(|r| !rows.contains(r));
    Ok(met)
}
