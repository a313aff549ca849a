//! An index of keys whose shards are written, and what others have changed since.

use std::collections::{HashMap, HashSet};

use arrow::array::StringArray;

use super::changes::Changes;
use super::plan::KeyIndexKind;
use super::planned::PlannedIndex;
use super::task::{KeyReader, KeyReport, is_gone};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::metadata_table::write::KeyChanges;
use crate::metadata_table::write::staged_shards::StagedShard;
use crate::parallel::run_parallel;
use crate::table::{HudiTable, TableSchema, TableView};
use crate::transaction::record_index::added_and_gone;

/// An index whose shards are staged.
pub(crate) struct StagedIndex {
    table: HudiTable,
    planned: PlannedIndex,
    shards: Vec<StagedShard>,
    changes: Changes,
    /// Numbers of slices whose keys are taken out by what the shards say of them, for nobody can read them again.
    lost: HashSet<u32>,
    /// Those of which that is done.
    taken_out: HashSet<u32>,
}

/// A file group that is not as it was: its slice with its number, and its slice now.
struct Changed<'a> {
    before: Option<(u32, &'a FileSlice)>,
    now: Option<FileSlice>,
}

impl StagedIndex {
    /// The index that these tasks wrote.
    ///
    /// # Errors
    /// `InvalidOption` for reports that are not those of all tasks, each once.
    pub(crate) fn new(table: &HudiTable, planned: PlannedIndex, reports: Vec<KeyReport>) -> Result<Self> {
        let changes = Changes::new(table, &planned.plan().shards)?;
        let (mut shards, mut lost) = (HashMap::new(), HashSet::new());
        for report in reports {
            match report {
                KeyReport::Unread(number) => _ = lost.insert(number),
                KeyReport::Shard(shard) => {
                    if shards.insert(shard.shard, shard).is_some() {
                        return Err(Error::invalid_option("two tasks report one shard of an index")
                            .with("table", table.storage().uri())
                            .remedy("Pass the reports of the tasks that counted, each once"));
                    }
                }
            }
        }
        let shards = shards.into_values().collect();
        Ok(Self { table: table.clone(), planned, shards, changes, lost, taken_out: HashSet::new() })
    }

    /// Builds an index of a table as a view shows it, on threads of this process; see [`PlannedIndex::new`].
    ///
    /// # Errors
    /// Those of [`PlannedIndex::new`] and [`PlannedIndex::run`].
    pub(in crate::transaction) fn build(
        table: &HudiTable,
        view: &TableView,
        kind: &KeyIndexKind,
        instant: &str,
    ) -> Result<Self> {
        let planned = PlannedIndex::new(table, view, kind, instant)?;
        let reports = planned.run(table)?;
        Self::new(table, planned, reports)
    }

    /// The index.
    pub(in crate::transaction) fn kind(&self) -> KeyIndexKind {
        self.planned.kind()
    }

    /// See [`PlannedIndex::suits`].
    pub(in crate::transaction) fn suits(&self, columns: &arrow::datatypes::Schema) -> Result<bool> {
        self.planned.suits(columns)
    }

    /// Does what takes long, and can be done before the table lock is taken: to find the keys of slices that were cleaned,
    /// all keys are read.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(in crate::transaction) fn look_ahead(&mut self, view: &TableView) -> Result<()> {
        let lost = self.find_lost(view, &self.changed(view)?)?;
        self.take_out(lost)
    }

    /// The shards, and what has changed since they were written. In an index by partition the data partitions `also` get
    /// shards too. The caller holds the table lock.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Unsupported` for a table whose merger is missing; `Storage`.
    pub(in crate::transaction) fn finish(
        mut self,
        view: &TableView,
        also: &[String],
    ) -> Result<(Vec<StagedShard>, KeyChanges)> {
        let partitions = view.partitions()?;
        self.changes.add_partitions(partitions.iter().chain(also).map(String::as_str));
        self.look_ahead(view)?;
        let changed = self.changed(view)?;
        if !changed.is_empty() {
            let columns = match TableSchema::resolve(self.table.config(), view)? {
                Some(schema) => schema.data,
                None => self.planned.plan().columns()?,
            };
            let shards = &self.planned.plan().shards;
            let reader = KeyReader::new(&self.table, view.timeline().clone(), &columns, shards)?;
            let apply = |changed: Changed<'_>| self.apply(&reader, changed);
            let lost = run_parallel(changed, self.table.threads()?, apply)?.into_iter().flatten().collect();
            self.take_out(lost)?;
        }
        let Self { shards, changes, .. } = self;
        Ok((shards, changes.finish()?))
    }

    /// Where the shards are staged.
    pub(in crate::transaction) fn folder(&self) -> String {
        self.planned.plan().folder()
    }

    /// The file groups that are not as they were.
    fn changed(&self, view: &TableView) -> Result<Vec<Changed<'_>>> {
        let group = |slice: &FileSlice| (slice.partition.clone(), slice.file_id.clone());
        let mut now: HashMap<_, FileSlice> =
            view.all_latest_slices()?.into_iter().map(|slice| (group(&slice), slice)).collect();
        let mut changed = Vec::new();
        for (number, slice) in (0u32..).zip(&self.planned.slices) {
            match now.remove(&group(slice)) {
                Some(same) if same == *slice && !self.lost.contains(&number) => {}
                now => changed.push(Changed { before: Some((number, slice)), now }),
            }
        }
        changed.extend(now.into_values().map(|slice| Changed { before: None, now: Some(slice) }));
        Ok(changed)
    }

    /// The slices that cannot be read as the tasks read them.
    fn find_lost(&self, view: &TableView, changed: &[Changed<'_>]) -> Result<HashSet<u32>> {
        let storage = self.table.storage();
        let before = changed.iter().filter_map(|changed| changed.before).collect();
        let lost = run_parallel(before, self.table.threads()?, |(number, slice): (u32, &FileSlice)| {
            let bases = slice.base.iter().map(|base| (&base.path, &base.instant));
            for (path, instant) in bases.chain(slice.logs.iter().map(|log| (&log.path, &log.instant))) {
                if !view.timeline().is_committed(instant) || !storage.exists(path)? {
                    return Ok(Some(number));
                }
            }
            Ok(None)
        })?;
        Ok(lost.into_iter().flatten().collect())
    }

    /// Takes the keys of slices out that are in the shards.
    fn take_out(&mut self, lost: HashSet<u32>) -> Result<()> {
        self.lost.extend(lost);
        let slices: HashSet<u32> = self.lost.difference(&self.taken_out).copied().collect();
        if slices.is_empty() {
            return Ok(());
        }
        let (storage, changes) = (self.table.storage(), &self.changes);
        run_parallel(self.shards.iter().collect(), self.table.threads()?, |shard: &StagedShard| {
            shard.keys_of(storage, &slices, &mut |keys| changes.remove_from(shard.shard, keys))
        })?;
        self.taken_out.extend(slices);
        Ok(())
    }

    /// Collects what changed in a file group. Returns the number of its slice if that was cleaned meanwhile.
    fn apply(&self, reader: &KeyReader, changed: Changed<'_>) -> Result<Option<u32>> {
        let Changed { before, now } = changed;
        if let Some((number, before)) = before.filter(|(number, _)| !self.lost.contains(number)) {
            match self.difference(reader, before, now.as_ref()) {
                Err(e) if is_gone(&e) => {
                    self.put_all(reader, now.as_ref())?;
                    return Ok(Some(number));
                }
                done => return done.map(|()| None),
            }
        }
        self.put_all(reader, now.as_ref()).map(|()| None)
    }

    fn difference(&self, reader: &KeyReader, before: &FileSlice, now: Option<&FileSlice>) -> Result<()> {
        let changes = &self.changes;
        let Some(now) = now else {
            return reader.of_slice(before)?.try_for_each(|keys| changes.remove(before, &keys?));
        };
        let number = changes.begin(now)?;
        let mut put = |keys: &StringArray| changes.put(now, keys, number);
        let gone = added_and_gone(reader.of_slice(before)?, || reader.of_slice(now), &mut put)?;
        changes.remove(before, &gone)
    }

    fn put_all(&self, reader: &KeyReader, slice: Option<&FileSlice>) -> Result<()> {
        let Some(slice) = slice else { return Ok(()) };
        let number = self.changes.begin(slice)?;
        reader.of_slice(slice)?.try_for_each(|keys| self.changes.put(slice, &keys?, number))
    }
}
