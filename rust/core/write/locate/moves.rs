//! Rows whose key is stored in another partition than theirs (global indexes).

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::merge::{KeyedRows, RecordComparator, RowRef, Side, Step};
use crate::write::locate::stored_records::{StoredRecords, base_file_ordering};
use crate::write::rewrite::context::WriteContext;

/// Of the rows whose key is stored in another partition, those that win over what is stored there.
pub(super) fn winners(
    keyed: &[KeyedRows<'_>],
    context: &WriteContext,
    slice: &FileSlice,
    stored: Option<StoredRecords>,
    leaving: Vec<Leaving>,
    fates: &mut [Fate],
) -> Result<Vec<Leaving>> {
    if leaving.is_empty() {
        return Ok(leaving);
    }
    if context.settings.rule.picks().is_none() {
        return Err(Error::unsupported(
            "moving a record to another partition in a table whose records are merged column by column",
        )
        .with("partition", &slice.partition)
        .remedy("Set hoodie.bloom.index.update.partition.path, hoodie.simple.index.update.partition.path or hoodie.record.index.update.partition.path (of your index type) to false, or keep the rows in their partition"));
    }
    let stored = match (stored, &slice.base) {
        (Some(stored), _) => stored.ordering(leaving.iter().map(|row| row.entry))?,
        (None, Some(base)) => {
            // One that were left out would give its place to the next.
            let positions: Option<Vec<u32>> = leaving.iter().map(|row| row.position).collect();
            base_file_ordering(context, base, positions.ok_or_else(not_stored)?.into_iter())?
        }
        (None, None) => return Err(not_stored()),
    };
    let stored = context.ordering(&stored)?;
    let records = fates.len();
    let mut comparators: HashMap<u32, RecordComparator<'_>> = HashMap::new();
    let mut winners = Vec::new();
    for (i, row) in leaving.into_iter().enumerate() {
        let at = row.at;
        let comparator = match comparators.entry(at.batch) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(slot) => {
                let batch = keyed.get(at.batch as usize).ok_or_else(|| {
                    Error::internal(format!("a row is in batch {} of the {} of its group", at.batch, keyed.len()))
                })?;
                let (old, new) = (Side::new(&stored, None), Side::new(&batch.ordering, batch.deleted.as_ref()));
                slot.insert(RecordComparator::new(context.batch_mode(), Step::Final, old, new)?)
            }
        };
        let wins = comparator.new_wins(i, at.row as usize);
        let fate = fates.get_mut(row.entry as usize).ok_or_else(|| no_record(row.entry, records))?;
        *fate = match (*fate, wins) {
            (Fate::Stays, _) => Fate::Stays,
            (_, true) => Fate::Moves,
            (Fate::Moves, false) => Fate::Moves,
            (_, false) => Fate::Loses,
        };
        if wins {
            winners.push(row);
        }
    }
    Ok(winners)
}

fn not_stored() -> Error {
    Error::internal("a record that is to move to another partition is not stored")
}

/// A row whose key is stored in another partition.
pub(super) struct Leaving {
    /// Row number in the base file, if the stored record is there.
    pub(super) position: Option<u32>,
    pub(super) entry: u32,
    pub(super) at: RowRef,
}

/// What becomes of an incoming record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its key is not stored.
    New,
    /// It is merged where its key is stored.
    Stays,
    /// Its key is stored in another partition, and it wins.
    Moves,
    /// Its key is stored in another partition, and the stored record wins.
    Loses,
}

pub(super) fn no_record(entry: u32, records: usize) -> Error {
    Error::internal(format!("a stored key is that of record {entry} of {records} incoming ones"))
}
