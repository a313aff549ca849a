//! What the log files of slices hold of wanted keys, beside what was found in base files.

use std::collections::{HashMap, HashSet};

use crate::error::Result;
use crate::file_group::FileSlice;
use crate::parallel::run_parallel;
use crate::table::KeyMatch;
use crate::table::file_group_reader::FileGroupReader;
use crate::write::config::Operation;
use crate::write::locate::log_keys::{LogKeys, Logs};
use crate::write::locate::lookup::Tagging;
use crate::write::locate::stored_records::StoredRecords;

/// What a slice holds of the wanted keys.
pub(in crate::write) struct Found {
    pub(in crate::write) slice: FileSlice,
    /// Those in its base file.
    pub(in crate::write) matches: Vec<KeyMatch>,
    /// Entries of those that are in its log files only.
    pub(in crate::write) logged: Vec<u32>,
    /// What its log files leave of all of them, where that was looked at.
    pub(in crate::write) stored: Option<StoredRecords>,
}

/// Says of a key which entry of the caller's it is, if it is wanted.
type Find<'f> = dyn Fn(&str) -> Option<u32> + Sync + 'f;

/// Looks for wanted keys, of which there are `count`, in log files that may hold more keys than their base file. With a
/// global index it leaves out records that a log file deleted: one that moved to another partition is still in the base
/// file where it was; its key is new there, as it is for Hudi.
pub(in crate::write) fn look_into_logs(
    tagging: &Tagging<'_>,
    slices: &[FileSlice],
    found: Vec<(FileSlice, Vec<KeyMatch>)>,
    count: usize,
    find: &Find<'_>,
) -> Result<Vec<Found>> {
    let of_base = |(slice, matches)| Found { slice, matches, logged: Vec::new(), stored: None };
    let mut found: Vec<Found> = found.into_iter().map(of_base).collect();
    let Some(Logs { reader, keys }) = tagging.logs else { return Ok(found) };
    let suspects: HashSet<String> = suspects(tagging, keys, slices, &found, count)?.into_iter().collect();
    let met: HashSet<String> = found.iter().map(|f| group(&f.slice)).collect();
    let more = slices.iter().filter(|s| suspects.contains(&group(s)) && !met.contains(&group(s)));
    found.extend(more.map(|slice| of_base((slice.clone(), Vec::new()))));
    if tagging.global && !tagging.anywhere {
        return run_parallel(found, tagging.threads, |found| merged(tagging, reader, found, find));
    }
    if suspects.is_empty() {
        return Ok(found);
    }
    let (looked_at, rest) = found.into_iter().partition(|f: &Found| suspects.contains(&group(&f.slice)));
    let looked_at = run_parallel(looked_at, tagging.threads, |found| with_logs(reader, found, find))?;
    Ok(choose(rest, looked_at))
}

fn group(slice: &FileSlice) -> String {
    format!("{}/{}", slice.partition, slice.file_id)
}

/// The file groups whose log files have to be looked into.
fn suspects(
    tagging: &Tagging<'_>,
    keys: &LogKeys,
    slices: &[FileSlice],
    found: &[Found],
    count: usize,
) -> Result<Vec<String>> {
    let met: HashSet<u32> = found.iter().flat_map(|f| f.matches.iter().map(|m| m.entry)).collect();
    // Where each key is in a base file, no other place is looked for; only deletes want all of them.
    if met.len() < count || tagging.anywhere {
        return Ok(keys.of(slices.iter())?.into_iter().map(group).collect());
    }
    let wanted = |slice: &&FileSlice| tagging.operation == Operation::Delete && keys.by_name(slice);
    Ok(slices.iter().filter(wanted).map(group).collect())
}

/// Merges a slice that has log files: what is left of the keys.
fn merged(tagging: &Tagging<'_>, reader: &FileGroupReader, mut found: Found, find: &Find<'_>) -> Result<Found> {
    if found.slice.logs.is_empty() {
        return Ok(found);
    }
    let stored = StoredRecords::read(tagging.context, reader, &found.slice, find)?;
    found.matches.retain(|m| stored.holds(m.entry));
    let in_base: HashSet<u32> = found.matches.iter().map(|m| m.entry).collect();
    found.logged = stored.entries().filter(|entry| !in_base.contains(entry)).collect();
    found.logged.sort_unstable();
    Ok(Found { stored: Some(stored), ..found })
}

/// What was found in a base file, with the keys that only the log files of its slice have, and those that these delete.
fn with_logs(reader: &FileGroupReader, mut found: Found, find: &Find<'_>) -> Result<(Found, Vec<u32>)> {
    let in_base: HashSet<u32> = found.matches.iter().map(|m| m.entry).collect();
    let mut deleted = Vec::new();
    reader.each_key_in_logs(&found.slice, &mut |key, is_deleted| {
        if let Some(entry) = find(key).filter(|entry| !in_base.contains(entry)) {
            if is_deleted { &mut deleted } else { &mut found.logged }.push(entry);
        }
    })?;
    found.logged.sort_unstable();
    Ok((found, deleted))
}

/// A key that log files delete still belongs where it was, as one of a base file does, unless it is elsewhere by now.
fn choose(rest: Vec<Found>, looked_at: Vec<(Found, Vec<u32>)>) -> Vec<Found> {
    let all = rest.iter().chain(looked_at.iter().map(|(found, _)| found));
    let mut known: HashSet<u32> =
        all.flat_map(|f| f.matches.iter().map(|m| m.entry).chain(f.logged.iter().copied())).collect();
    let mut back: HashMap<usize, Vec<u32>> = HashMap::new();
    for (number, (_, deleted)) in looked_at.iter().enumerate() {
        let here = deleted.iter().copied().filter(|entry| known.insert(*entry));
        back.entry(number).or_default().extend(here);
    }
    let with_deleted = |(number, (mut found, _)): (usize, (Found, Vec<u32>))| {
        found.logged.extend(back.remove(&number).unwrap_or_default());
        found
    };
    rest.into_iter().chain(looked_at.into_iter().enumerate().map(with_deleted)).collect()
}
