//! Tagging: one record for each key of the write, and where that key is stored now.

use std::collections::HashSet;

use arrow::array::{Array, StringArray};

use crate::error::{Error, Result};
use crate::file_group::{BaseFile, FileSlice};
use crate::merge::{KeyedRows, MergeMode, Precombined, RowRef, precombine, precombine_in_order};
use crate::parallel::run_parallel;
use crate::table::{KeyMatch, KeyQuery, lookup_keys};
use crate::write::config::Operation;
use crate::write::locate::buckets::{Buckets, StoredKeys};
use crate::write::locate::key_list::KeyList;
use crate::write::locate::logged::{Found, look_into_logs};
use crate::write::locate::lookup::{FileUpdates, Tagged, Tagging};
use crate::write::locate::moves::{Fate, Leaving, no_record, winners};
use crate::write::prepare::incoming::Incoming;

/// Files of an object store that are looked into at a time.
const REQUESTS: usize = 128;

/// Rows among which a key is unique, with the slices in which it may be stored.
struct Group<'a> {
    batches: Vec<u32>,
    keyed: Vec<KeyedRows<'a>>,
    /// One record for each key.
    records: Precombined,
    /// Rows that are stored besides those, when their key is new: each row is, where keys are not to become one.
    more: Vec<RowRef>,
    /// Its data partition, by number; `None` for the whole table.
    partition: Option<u32>,
    slices: Vec<FileSlice>,
    /// Records whose keys these slices have, as the record index says.
    located: HashSet<u32>,
    /// Of a bucket index: the records of each slice.
    in_buckets: Vec<Vec<u32>>,
}

/// Finds out which rows update what, and which are new. `slices` gives the slices of a partition, or of the table.
pub(crate) fn tag(
    incoming: &Incoming,
    tagging: &Tagging<'_>,
    slices: &dyn Fn(Option<&str>) -> Result<Vec<FileSlice>>,
) -> Result<Tagged> {
    let mut groups = make_groups(incoming, tagging, slices)?;
    let all: Vec<usize> = (0..groups.len()).collect();
    // A log file takes all rows of its bucket: whether their keys are stored, whoever reads finds out.
    let mut found = match tagging.buckets.filter(|_| tagging.context.appends) {
        Some(_) => groups.iter_mut().map(Group::all_in_logs).collect(),
        None => look_into_files(&groups, &all, tagging)?,
    };
    let stray = |g: &usize| groups.get(*g).zip(found.get(*g)).is_some_and(|(group, found)| !group.are_found(found));
    let strays: Vec<usize> = all.into_iter().filter(stray).collect();
    if !strays.is_empty() {
        // Of a record index that is wrong about one key, nothing is believed.
        if let Some(index) = &tagging.index {
            index.distrust(&"a key is not where it says");
        }
        for g in &strays {
            let group = groups.get_mut(*g).ok_or_else(|| no_group(*g))?;
            let partition = group.partition.map(|partition| incoming.partition(partition)).transpose()?;
            group.slices = slices(partition)?;
        }
        for (g, again) in strays.iter().zip(look_into_files(&groups, &strays, tagging)?) {
            *found.get_mut(*g).ok_or_else(|| no_group(*g))? = again;
        }
    }
    let mut tagged = Tagged::default();
    for (group, found) in groups.iter().zip(found) {
        if let Some(buckets) = tagging.buckets {
            group.check_buckets(buckets, &found)?;
        }
        group.resolve(incoming, tagging, found, &mut tagged)?;
    }
    Ok(tagged)
}

/// What the slices of some groups hold of their keys, for each of these groups.
fn look_into_files(groups: &[Group<'_>], chosen: &[usize], tagging: &Tagging<'_>) -> Result<Vec<Vec<Found>>> {
    let chosen = chosen.iter().map(|g| groups.get(*g).ok_or_else(|| no_group(*g))).collect::<Result<Vec<_>>>()?;
    let mut work: Vec<(usize, FileSlice, BaseFile)> = Vec::new();
    for (g, group) in chosen.iter().enumerate() {
        for slice in &group.slices {
            if let Some(base) = &slice.base {
                work.push((g, slice.clone(), base.clone()));
            }
        }
    }
    let keys: Vec<KeyList<'_>> = chosen.iter().map(|group| group.key_list()).collect();
    let work = leave_out_by_keys(work, &keys, tagging)?;
    // In an object store most of the time goes by waiting for footers.
    let storage = &tagging.context.storage;
    let threads = if storage.is_remote() { tagging.threads.max(REQUESTS) } else { tagging.threads };
    let found = run_parallel(work, threads, |(g, slice, base)| {
        let (group, keys) = chosen.get(g).zip(keys.get(g)).ok_or_else(|| no_group(g))?;
        let find = |stored: &StringArray, found: &mut dyn FnMut(usize, u32)| {
            group.records.find_all(&group.keyed, stored, found);
        };
        let query = KeyQuery { range: keys.range, keys: &keys.all, find: &find };
        let reader = tagging.context.opened.open(storage, &base)?;
        let matches = lookup_keys(storage, &base, &reader, tagging.virtual_keys.as_ref(), &query)?;
        if !matches.is_empty() {
            tagging.context.opened.keep(&base, reader);
        }
        Ok((g, slice, matches))
    })?;
    let mut by_group: Vec<Vec<(FileSlice, Vec<KeyMatch>)>> = chosen.iter().map(|_| Vec::new()).collect();
    for (g, slice, matches) in found {
        if !matches.is_empty() {
            by_group.get_mut(g).ok_or_else(|| no_group(g))?.push((slice, matches));
        }
    }
    let look = |(group, found): (&&Group<'_>, Vec<(FileSlice, Vec<KeyMatch>)>)| {
        let find = |key: &str| group.records.find(&group.keyed, key);
        look_into_logs(tagging, &group.slices, found, group.records.rows.len(), &find)
    };
    chosen.iter().zip(by_group).map(look).collect()
}

/// Leaves out the base files that cannot have the keys of their group, by what is known without opening them.
fn leave_out_by_keys(
    mut work: Vec<(usize, FileSlice, BaseFile)>,
    keys: &[KeyList<'_>],
    tagging: &Tagging<'_>,
) -> Result<Vec<(usize, FileSlice, BaseFile)>> {
    let Some(known) = &tagging.known else { return Ok(work) };
    for is_by_range in [true, false] {
        let files: Vec<(&str, &str)> =
            work.iter().map(|(_, slice, base)| (slice.partition.as_str(), base.path.as_str())).collect();
        let of_file = |file: usize| work.get(file).and_then(|(g, ..)| keys.get(*g));
        let kept = match is_by_range {
            true => known.by_range(&files, of_file, tagging.threads)?,
            false => known.by_bloom_filter(&files, &of_file, tagging.threads)?,
        };
        let mut kept = kept.unwrap_or_default().into_iter();
        work.retain(|_| kept.next().unwrap_or(true));
    }
    Ok(work)
}

fn no_group(number: usize) -> Error {
    Error::internal(format!("a file slice is looked into for group {number} of incoming rows, which is not there"))
}

fn make_groups<'a>(
    incoming: &'a Incoming,
    tagging: &Tagging<'_>,
    slices: &dyn Fn(Option<&str>) -> Result<Vec<FileSlice>>,
) -> Result<Vec<Group<'a>>> {
    let whole_table = tagging.global || tagging.anywhere;
    let waiting: Vec<(u32, Vec<u32>)> = incoming.by_partition(whole_table).into_iter().collect();
    let (mode, combine) = match tagging.operation {
        Operation::Delete => (MergeMode::CommitTime, true),
        _ => (tagging.context.batch_mode(), tagging.context.config.combine_before_upsert),
    };
    let mut groups = run_parallel(waiting, tagging.threads, |(partition, batches)| {
        let keyed = incoming.keyed_rows(&batches, &tagging.context.settings)?;
        // Rows of one key may be for different partitions: which is the later one, only the order given tells.
        // What is stored already is merged with all rows of its key, whether these are to become one or not.
        let records = match whole_table {
            true => precombine_in_order(&keyed, incoming.in_given_order(&batches)?.into_iter(), mode, true)?,
            false => precombine(&keyed, mode, true)?,
        };
        let more = if combine { Vec::new() } else { other_rows(&keyed, &records) };
        let partition = (!whole_table).then_some(partition);
        let mut group = Group {
            batches,
            keyed,
            records,
            more,
            partition,
            slices: Vec::new(),
            located: HashSet::new(),
            in_buckets: Vec::new(),
        };
        if let Some(buckets) = tagging.buckets {
            group.locate_in_buckets(incoming, tagging, buckets)?;
        }
        Ok(group)
    })?;
    if tagging.buckets.is_some() {
        return Ok(groups);
    }
    let index = match &tagging.index {
        Some(lookup) => lookup.open(tagging.global)?.map(|index| (lookup, index)),
        None => None,
    };
    for group in &mut groups {
        let partition = group.partition.map(|partition| incoming.partition(partition)).transpose()?;
        let located = match &index {
            Some((lookup, index)) => lookup.locate(index, &group.keys(), partition, slices, tagging.threads)?,
            None => None,
        };
        (group.slices, group.located) = match located {
            Some(located) => (located.slices, located.keys),
            None => (slices(partition)?, HashSet::new()),
        };
    }
    Ok(groups)
}

/// Rows that are not among the records.
fn other_rows(keyed: &[KeyedRows<'_>], records: &Precombined) -> Vec<RowRef> {
    let known: HashSet<RowRef> = records.rows.iter().copied().collect();
    let rows_of = |(b, batch): (usize, &KeyedRows<'_>)| {
        (0..batch.keys.len()).map(move |row| RowRef { batch: b as u32, row: row as u32 })
    };
    keyed.iter().enumerate().flat_map(rows_of).filter(|row| !known.contains(row)).collect()
}

impl Group<'_> {
    /// The key of one of the rows; merging them looked at each.
    fn key(&self, at: RowRef) -> &str {
        self.keyed.get(at.batch as usize).map_or("", |b| b.keys.value(at.row as usize))
    }

    /// The keys of the records.
    fn keys(&self) -> StringArray {
        self.records.rows.iter().map(|at| Some(self.key(*at))).collect()
    }

    fn locate_in_buckets(&mut self, incoming: &Incoming, tagging: &Tagging<'_>, buckets: &Buckets<'_>) -> Result<()> {
        let Some(partition) = self.partition.map(|partition| incoming.partition(partition)).transpose()? else {
            return Err(Error::internal("the rows of a bucket index do not say in which partition they are"));
        };
        let stored = StoredKeys {
            storage: &tagging.context.storage,
            opened: &tagging.context.opened,
            virtual_keys: tagging.virtual_keys.as_ref(),
            logs: tagging.logs,
        };
        let located = buckets.locate(partition, &self.keyed, &self.records.rows, &stored)?;
        (self.slices, self.in_buckets) = located.into_iter().unzip();
        Ok(())
    }

    /// The records of each slice, for its log files.
    fn all_in_logs(&mut self) -> Vec<Found> {
        let records = self.slices.drain(..).zip(self.in_buckets.drain(..));
        records.map(|(slice, logged)| Found { slice, matches: Vec::new(), logged, stored: None }).collect()
    }

    /// Fails for a key that was found in the file group of another bucket than its own.
    fn check_buckets(&self, buckets: &Buckets<'_>, found: &[Found]) -> Result<()> {
        for Found { slice, matches, .. } in found {
            for at in matches.iter().filter_map(|found| self.records.rows.get(found.entry as usize)) {
                buckets.check_found(slice, self.key(*at))?;
            }
        }
        Ok(())
    }

    /// Whether each key was found that the record index knows.
    fn are_found(&self, found: &[Found]) -> bool {
        if self.located.is_empty() {
            return true;
        }
        let entries = |f: &Found| f.matches.iter().map(|m| m.entry).chain(f.logged.iter().copied()).collect::<Vec<_>>();
        let met: HashSet<u32> = found.iter().flat_map(entries).collect();
        self.located.is_subset(&met)
    }

    fn key_list(&self) -> KeyList<'_> {
        KeyList::new(self.records.rows.len(), self.records.rows.iter().map(|at| self.key(*at)))
    }

    /// The same row, counted among all batches of the write.
    fn in_write(&self, at: RowRef) -> Result<RowRef> {
        let batch = self.batches.get(at.batch as usize).copied();
        let batch = batch.ok_or_else(|| {
            Error::internal(format!("a row is in batch {} of the {} of its group", at.batch, self.batches.len()))
        })?;
        Ok(RowRef { batch, row: at.row })
    }

    fn is_deleted(&self, at: RowRef) -> bool {
        let batch = self.keyed.get(at.batch as usize);
        batch.and_then(|b| b.deleted.as_ref()).is_some_and(|d| d.value(at.row as usize))
    }

    /// Whether a row goes to another partition than the one where its key is stored.
    fn leaves(&self, incoming: &Incoming, tagging: &Tagging<'_>, slice: &FileSlice, at: RowRef) -> Result<bool> {
        if !tagging.global || tagging.anywhere || !tagging.context.config.update_partition_path || self.is_deleted(at) {
            return Ok(false);
        }
        let batch = incoming.batch(self.in_write(at)?.batch)?;
        Ok(incoming.partition(batch.partition)? != slice.partition)
    }

    fn resolve(
        &self,
        incoming: &Incoming,
        tagging: &Tagging<'_>,
        found: Vec<Found>,
        tagged: &mut Tagged,
    ) -> Result<()> {
        let records = self.records.rows.len();
        let mut fates = vec![Fate::New; records];
        // The number of the slice in which a record was met last.
        let mut met = vec![0; records];
        for (number, Found { slice, matches, logged, stored }) in (1u32..).zip(found) {
            let mut updates = FileUpdates { slice, rows: Vec::with_capacity(matches.len()), logged: Vec::new() };
            let mut leaving = Vec::new();
            let logged = logged.into_iter().map(|entry| (None, entry));
            for (position, entry) in matches.into_iter().map(|m| (Some(m.position), m.entry)).chain(logged) {
                // Of several stored records of a key in one base file, Hudi changes the first and copies the others.
                // In a log file it says something of each.
                let seen = met.get_mut(entry as usize).ok_or_else(|| no_record(entry, records))?;
                if std::mem::replace(seen, number) == number && !tagging.all_copies {
                    continue;
                }
                let at = self.records.rows.get(entry as usize).copied().ok_or_else(|| no_record(entry, records))?;
                if self.leaves(incoming, tagging, &updates.slice, at)? {
                    leaving.push(Leaving { position, entry, at });
                } else {
                    updates.push(position, self.in_write(at)?, false);
                    *fates.get_mut(entry as usize).ok_or_else(|| no_record(entry, records))? = Fate::Stays;
                }
            }
            for Leaving { position, at, .. } in
                winners(&self.keyed, tagging.context, &updates.slice, stored, leaving, &mut fates)?
            {
                updates.push(position, self.in_write(at)?, true);
            }
            updates.rows.sort_by_key(|r| (r.position, r.row));
            if !updates.is_empty() {
                tagged.updates.push(updates);
            }
        }
        let of_more = |at: &RowRef| {
            let key = self.key(*at);
            let entry = self.records.find(&self.keyed, key);
            let fate = entry.and_then(|entry| fates.get(entry as usize));
            let fate = fate.ok_or_else(|| Error::internal("an incoming row has a key of no record"))?;
            Ok::<_, Error>((*at, *fate))
        };
        let of_records = self.records.rows.iter().zip(&fates).map(|(at, fate)| Ok((*at, *fate)));
        for known in of_records.chain(self.more.iter().map(of_more)) {
            let (at, fate) = known?;
            // A delete of a key that is not stored leaves nothing behind.
            if matches!(fate, Fate::New | Fate::Moves) && !self.is_deleted(at) {
                let row = self.in_write(at)?;
                let partition = incoming.batch(row.batch)?.partition;
                tagged.inserts.entry(partition).or_default().push(row);
            }
        }
        Ok(())
    }
}
