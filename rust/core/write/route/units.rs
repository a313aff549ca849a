//! What each file group gets, where all rows of a write are known.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use crate::error::Result;
use crate::file_group::FileSlice;
use crate::format::avro::metadata::WriteStat;
use crate::merge::RowRef;
use crate::transaction::empty_stat;
use crate::write::commit::commit_statistics::RecentCommits;
use crate::write::config::Operation;
use crate::write::locate::buckets::Buckets;
use crate::write::locate::lookup::{FileUpdates, Tagged};
use crate::write::locate::new_rows::meet_stored;
use crate::write::locate::pending_file_groups::PendingFileGroups;
use crate::write::prepare::incoming::Incoming;
use crate::write::prepare::sort::sort_rows;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::create_file::NewGroup;
use crate::write::route::assignment::{Assignment, assign_inserts, small_files};
use crate::write::setup::WriteSetup;

/// Work on one file group, or on new ones.
pub(in crate::write) enum Unit {
    /// Rows that meet its records, and new rows.
    Group(Box<FileUpdates>, Vec<RowRef>),
    /// New rows for new file groups.
    New(NewGroup, Vec<RowRef>),
}

/// All work of a write.
#[derive(Default)]
pub(in crate::write) struct Units {
    groups: Vec<(FileUpdates, Vec<RowRef>)>,
    new: Vec<(NewGroup, Vec<RowRef>)>,
}

type Groups = HashMap<(String, String), (FileUpdates, Vec<RowRef>)>;

impl Units {
    /// Sends each row to its file group: new rows to small files first, then to new ones.
    ///
    /// # Errors
    /// `Conflict` for updates of a group that a clustering is about to replace; those of reading slices.
    pub(in crate::write) fn route(
        setup: &WriteSetup,
        context: &WriteContext,
        incoming: &Incoming,
        tagged: Tagged,
        (commits, pending_groups): (&RecentCommits<'_>, &PendingFileGroups),
        buckets: Option<&Buckets<'_>>,
    ) -> Result<Self> {
        let fills = setup.fills_small_files();
        let mut units = Self::default();
        let mut groups = Groups::new();
        for update in tagged.updates {
            pending_groups.check_update(&setup.table, &update.slice)?;
            groups.insert(group_of(&update.slice), (update, Vec::new()));
        }
        let record_size = if fills && !tagged.inserts.is_empty() { commits.record_size(&setup.config)? } else { 0 };
        for (partition, mut rows) in tagged.inserts {
            let path = incoming.partition(partition)?;
            if setup.operation == Operation::BulkInsert {
                rows = sort_rows(incoming, rows, &setup.config.sort)?;
            }
            if let Some(buckets) = buckets {
                units.fill_buckets(path, incoming, &rows, buckets, &mut groups)?;
                continue;
            }
            if !fills {
                units.new.push((NewGroup::of_partition(path), rows));
                continue;
            }
            let slices = setup.view.latest_slices(path)?;
            setup.refuse_without_buckets(path, &slices)?;
            let assignment =
                assign_inserts(&setup.config, rows.len(), &small_files(&slices, pending_groups), record_size);
            units.fill(path, &rows, &slices, assignment, &mut groups);
        }
        units.groups = groups.into_values().collect();
        // Largest first, so that no thread is left with a large file at the end; ties in a fixed order.
        let size = |slice: &FileSlice| Reverse(slice.base.as_ref().map(|base| base.size));
        units.groups.sort_by_key(|(met, _)| (size(&met.slice), group_of(&met.slice)));
        for (met, inserts) in &mut units.groups {
            if buckets.is_some() {
                pending_groups.check_update(&setup.table, &met.slice)?;
            }
            met.rows.extend(meet_stored(setup, context, incoming, &met.slice, inserts)?);
        }
        Ok(units)
    }

    fn fill(
        &mut self,
        partition: &str,
        rows: &[RowRef],
        slices: &[FileSlice],
        assignment: Assignment,
        groups: &mut Groups,
    ) {
        let mut rest = rows;
        let by_id: HashMap<&str, &FileSlice> = slices.iter().map(|slice| (slice.file_id.as_str(), slice)).collect();
        for (file_id, count) in assignment.existing {
            let Some(slice) = by_id.get(file_id.as_str()).copied() else { continue };
            let (here, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            inserts_into(groups, slice).extend_from_slice(here);
        }
        for count in assignment.new {
            let (here, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            self.new.push((NewGroup::of_partition(partition), here.to_vec()));
        }
        if !rest.is_empty() {
            self.new.push((NewGroup::of_partition(partition), rest.to_vec()));
        }
    }

    /// Sends new rows of a partition to the file groups of their buckets.
    fn fill_buckets(
        &mut self,
        partition: &str,
        incoming: &Incoming,
        rows: &[RowRef],
        buckets: &Buckets<'_>,
        groups: &mut Groups,
    ) -> Result<()> {
        let known = buckets.of_partition(partition)?;
        let keys = |batch| incoming.batch(batch).map(|batch| &batch.keys);
        for (bucket, numbers) in buckets.split(partition, keys, rows)? {
            let here = numbers.iter().filter_map(|number| rows.get(*number as usize).copied());
            match known.slice(bucket) {
                Some(slice) => inserts_into(groups, slice).extend(here),
                None => self.new.push((NewGroup::of_bucket(partition, bucket), here.collect())),
            }
        }
        Ok(())
    }

    /// Whether rows come to stand alone.
    pub(in crate::write) fn have_new_rows(&self) -> bool {
        !self.new.is_empty() || self.groups.iter().any(|(_, inserts)| !inserts.is_empty())
    }

    /// What the write will touch, by partition: how many rows are new, how many meet records of each file group.
    pub(in crate::write) fn profile(&self) -> BTreeMap<String, Vec<WriteStat>> {
        let mut profile: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
        let mut new_rows: BTreeMap<&str, usize> = BTreeMap::new();
        for (group, rows) in &self.new {
            *new_rows.entry(&group.partition).or_default() += rows.len();
        }
        for (met, inserts) in &self.groups {
            *new_rows.entry(&met.slice.partition).or_default() += inserts.len();
        }
        let planned = |partition: &str, file_id: &str| WriteStat {
            partition_path: None,
            runtime_stats: None,
            ..empty_stat(partition, file_id)
        };
        for (partition, rows) in new_rows {
            let stat = WriteStat { num_inserts: i64::try_from(rows).ok(), ..planned(partition, "") };
            profile.entry(partition.to_owned()).or_default().push(stat);
        }
        for (met, _) in self.groups.iter().filter(|(met, _)| !met.is_empty()) {
            let slice = &met.slice;
            let stat = WriteStat {
                prev_commit: Some(slice.base_instant.clone()).filter(|instant| !instant.is_empty()),
                num_update_writes: i64::try_from(met.len()).ok(),
                ..planned(&slice.partition, &slice.file_id)
            };
            profile.entry(slice.partition.clone()).or_default().push(stat);
        }
        profile
    }

    /// One after the other, file groups first.
    pub(in crate::write) fn into_list(self) -> Vec<Unit> {
        let groups = self.groups.into_iter().map(|(met, inserts)| Unit::Group(Box::new(met), inserts));
        groups.chain(self.new.into_iter().map(|(group, rows)| Unit::New(group, rows))).collect()
    }
}

/// The new rows of a slice's group.
fn inserts_into<'g>(groups: &'g mut Groups, slice: &FileSlice) -> &'g mut Vec<RowRef> {
    let none = || (FileUpdates { slice: slice.clone(), rows: Vec::new(), logged: Vec::new() }, Vec::new());
    &mut groups.entry(group_of(slice)).or_insert_with(none).1
}

fn group_of(slice: &FileSlice) -> (String, String) {
    (slice.partition.clone(), slice.file_id.clone())
}
