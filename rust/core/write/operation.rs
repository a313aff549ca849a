//! Writes in one process.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant as Stopwatch};

use arrow::array::{Array, RecordBatch, RecordBatchReader};
use arrow::datatypes::{Schema, SchemaRef};

use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::format::avro::metadata::WriteStat;
use crate::interrupt;
use crate::merge::{MergeRule, RowRef, missing, precombine};
use crate::parallel::run_parallel;
use crate::table::keygen::{AutoKeys, KeyGenConfig};
use crate::table::{Evolution, HudiTable, SchemaChange, TableSchema, TableType, TableView, schema_changes};
use crate::timeline::{LockGuard, Timeline};
use crate::timings::Timings;
use crate::write::commit::delete_partition::{delete_partitions, partitions_named, partitions_of_data};
use crate::write::commit::pending::{Committed, PendingCommit, PlannedFrom};
use crate::write::commit::recent_commits::RecentCommits;
use crate::write::commit::retry::planned_anew;
use crate::write::config::{Operation, WriteConfig};
use crate::write::locate::busy_groups::BusyGroups;
use crate::write::locate::log_keys::{LogWrites, Logs};
use crate::write::locate::tagging::{FileUpdates, MatchedRow, Tagged, Tagging, tag};
use crate::write::prepare::incoming::{Incoming, Preparer};
use crate::write::prepare::partial_rows::{
    check_partial, check_required, missing_nullable, nothing_to_keep, with_missing,
};
use crate::write::rewrite::append_log::{AppendRows, append_log};
use crate::write::rewrite::column_merge::combine_rows;
use crate::write::rewrite::context::{WriteContext, empty_stat};
use crate::write::rewrite::create_file::create_files;
use crate::write::rewrite::merge_file::{MergeRows, first_copies, merge_file};
use crate::write::route::assignment::{SmallFile, assign_inserts};

/// Rows that take longer to come are planned from the table as it is then.
const LONG_INPUT: Duration = Duration::from_secs(1);

/// A write.
pub struct WriteRequest {
    /// What is done.
    pub operation: Operation,
    /// The rows; of [`Operation::DeletePartition`]: rows of the partitions to delete, when those are not named.
    pub data: Option<Box<dyn RecordBatchReader + Send>>,
    /// Partitions of [`Operation::DeletePartition`].
    pub partitions: Vec<String>,
    /// Whether the rows of an upsert have only some columns: what they lack stays as it is stored.
    pub partial: bool,
}

/// Writes and commits, from a timeline that was loaded just now. The caller has rolled failed writes back.
pub fn run_write(table: &HudiTable, timeline: Timeline, request: WriteRequest) -> Result<Committed> {
    let config = WriteConfig::new(table.options())?;
    let view = table.view_of(timeline)?;
    let resolved = TableSchema::resolve(table.config(), &view)?;
    let old_schema = resolved.map(|s| s.data);
    let WriteRequest { operation, data, partitions, partial } = request;
    check_partial(partial, operation)?;
    match data {
        Some(data) if operation == Operation::DeletePartition => {
            let chosen = partitions_of_data(&encoding_of_keys(table)?, data)?;
            planned_anew(table, |anew, held| {
                delete_partitions(table, anew.as_ref().unwrap_or(&view), old_schema.clone(), chosen.clone(), held)
            })
        }
        Some(data) => {
            let keys = encoding_of_keys(table)?;
            let timings = Mutex::default();
            Write { table, config, view, old_schema, operation, partial, keys, timings }.run(data)
        }
        None if operation == Operation::DeletePartition => planned_anew(table, |anew, held| {
            let view = anew.as_ref().unwrap_or(&view);
            let chosen = partitions_named(view, &partitions)?;
            delete_partitions(table, view, old_schema.clone(), chosen, held)
        }),
        None => Err(Error::invalid_option("there are no data to write")),
    }
}

struct Write<'a> {
    table: &'a HudiTable,
    config: WriteConfig,
    view: TableView,
    old_schema: Option<SchemaRef>,
    operation: Operation,
    partial: bool,
    keys: KeyGenConfig,
    timings: Mutex<Timings>,
}

/// What the units of the write will do.
#[derive(Default)]
struct Units {
    merges: Vec<(FileUpdates, Vec<RowRef>)>,
    creates: Vec<(u32, Vec<RowRef>)>,
}

impl Write<'_> {
    fn run(mut self, data: Box<dyn RecordBatchReader + Send>) -> Result<Committed> {
        let given = data.schema();
        let evolution = self.evolution(&given)?;
        let begun = Stopwatch::now();
        let (mut incoming, anywhere, widened) = self.timed("rows", || self.prepare(data, &evolution))?;
        if begun.elapsed() > LONG_INPUT {
            // What happened meanwhile need not be found out only when all is written.
            self.view = self.table.view(None)?;
            self.check_same_columns()?;
        }
        let schema = evolution.widened(&widened);
        // Nothing is on the timeline yet: whatever was wrong with the data has been found by now.
        let mut context = WriteContext::new(self.table, self.config.clone(), "", schema.clone())?;
        if self.config.index.is_global() && !self.config.update_partition_path {
            context.kept_partition_columns = self.table.config().partition_fields();
        }
        if self.partial {
            context.take_partial_rows(&given, self.table.config().name())?;
        }
        if self.combines() {
            let everywhere = anywhere || self.config.index.is_global();
            self.timed("rows", || combine_rows(&context, &mut incoming, everywhere))?;
        }
        let mut done = planned_anew(self.table, |anew, held| {
            if let Some(view) = anew {
                self.view = view;
                self.check_same_columns()?;
            }
            self.attempt(&mut incoming, &mut context, anywhere, held)
        })?;
        done.outcome.schema_changes = schema_changes(self.old_schema.as_ref(), &schema);
        done.outcome.warnings.extend(evolution.notes);
        done.outcome.timings = self.timings.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(done)
    }

    /// Runs a stage of the write.
    fn timed<T>(&self, stage: &'static str, work: impl FnOnce() -> T) -> T {
        let begun = Stopwatch::now();
        let done = work();
        self.timings.lock().unwrap_or_else(PoisonError::into_inner).add(stage, begun.elapsed());
        done
    }

    /// The rows were read as rows of these columns.
    fn check_same_columns(&self) -> Result<()> {
        if TableSchema::resolve(self.table.config(), &self.view)?.map(|s| s.data) == self.old_schema {
            return Ok(());
        }
        Err(Error::conflict("another writer changed the columns of the table while the rows were read")
            .with("table", self.table.storage().uri())
            .remedy("Nothing was written; write again"))
    }

    /// Plans the write from the view as it is, carries it out and commits it.
    fn attempt(
        &self,
        incoming: &mut Incoming,
        context: &mut WriteContext,
        anywhere: bool,
        held: Option<&LockGuard>,
    ) -> Result<Committed> {
        let busy = BusyGroups::of(self.table, &self.view)?;
        let units = self.timed("locate", || self.plan(incoming, context, anywhere, &busy)).map_err(gone)?;
        if let MergeRule::Missing(id) = &context.settings.rule
            && self.operation != Operation::Delete
            && units.merges.iter().any(|(update, _)| !update.is_empty())
        {
            // A log file would take the rows, and nobody here could read them.
            return Err(missing(id).with("table", self.table.storage().uri()));
        }
        if self.partial {
            // A record of a log file may come to stand alone: when what it was merged with is deleted and compacted away.
            let alone = self.table.config().table_type() == TableType::MergeOnRead;
            check_new_rows(context, &units, alone)?;
        }
        let planned_from = PlannedFrom { timeline: self.view.timeline().clone(), columns: self.old_schema.clone() };
        let profile = self.profile(incoming, &units)?;
        let begin = || PendingCommit::begin(self.table, self.operation, planned_from, profile, held, false);
        let pending = self.timed("begin", begin)?;
        context.instant = pending.instant().to_owned();
        context.files = Some(pending.files().clone());
        if self.keys.generates_keys() {
            incoming.generate_keys(&mut AutoKeys::new(pending.instant(), 0))?;
        }
        let executed = self
            .timed("files", || self.execute(incoming, context, units))
            .and_then(|stats| Ok((stats, self.replaced(incoming)?)));
        let (stats, replaced) = match executed.map_err(gone) {
            Err(e) if e.is_outdated_plan() => {
                pending.take_back()?;
                return Err(e);
            }
            other => other?,
        };
        self.timed("publish", || pending.commit(stats, replaced, &context.data_schema))
    }

    fn evolution(&self, given: &Schema) -> Result<Evolution> {
        let evolution = evolution(&self.config, self.operation, self.old_schema.as_ref(), given, self.partial);
        evolution.map_err(|e| e.with("table", self.table.storage().uri()))
    }

    /// Whether rows of one key are to become one.
    fn combines(&self) -> bool {
        let config = &self.config;
        let wanted = match self.operation {
            Operation::Upsert => true,
            Operation::Insert => config.combine_before_insert || !config.allow_duplicates_on_insert,
            Operation::Delete | Operation::DeletePartition => false,
            _ => config.combine_before_insert,
        };
        wanted && !self.keys.generates_keys()
    }

    /// The rows, whether they have to be looked for in all partitions, and the columns whose values need wider types.
    fn prepare(
        &self,
        data: Box<dyn RecordBatchReader + Send>,
        evolution: &Evolution,
    ) -> Result<(Incoming, bool, Vec<String>)> {
        if self.operation == Operation::Delete && self.keys.generates_keys() {
            return Err(Error::unsupported("a table with generated keys has no columns to delete by")
                .with("table", self.table.storage().uri())
                .remedy("Upsert rows with _hoodie_is_deleted into a table with key columns instead"));
        }
        // Columns that the rows lack are null for now.
        let given = data.schema();
        let as_read = |schema: &SchemaRef| if self.partial { missing_nullable(schema, &given) } else { schema.clone() };
        let (narrow, wide) = (as_read(&evolution.narrow), as_read(&evolution.wide));
        let mut preparer =
            Preparer::new(self.operation, narrow, self.keys.clone(), self.table.merge_settings()?, &given)?;
        preparer.widen_to(wide);
        preparer.spill(self.table.spill_options()?);
        for batch in data {
            interrupt::check()?;
            let batch: RecordBatch = batch.map_err(Error::from)?;
            preparer.add(&batch).map_err(|e| e.with("table", self.table.storage().uri()))?;
        }
        let (anywhere, widened) = (preparer.is_anywhere(), preparer.widened().to_vec());
        Ok((preparer.finish(), anywhere, widened))
    }

    fn plan(&self, incoming: &Incoming, context: &WriteContext, anywhere: bool, busy: &BusyGroups) -> Result<Units> {
        let commits = RecentCommits::new(&self.view);
        let tagged = match self.operation {
            Operation::Upsert if !self.keys.generates_keys() => self.tag(incoming, context, anywhere, &commits)?,
            Operation::Delete => self.tag(incoming, context, anywhere, &commits)?,
            _ => self.all_new(incoming, context)?,
        };
        tagged.updates.iter().try_for_each(|update| busy.check_update(self.table, &update.slice))?;
        let fills = matches!(self.operation, Operation::Insert | Operation::Upsert);
        let mut units = Units::default();
        let mut merges: HashMap<(String, String), (FileUpdates, Vec<RowRef>)> = HashMap::new();
        for update in tagged.updates {
            merges.insert(group_of(&update.slice), (update, Vec::new()));
        }
        let record_size = if fills && !tagged.inserts.is_empty() { commits.record_size(&self.config)? } else { 0 };
        for (partition, rows) in tagged.inserts {
            let rows = self.sorted(incoming, rows)?;
            if !fills {
                units.creates.push((partition, rows));
                continue;
            }
            let path = incoming.partition(partition)?;
            let slices = self.view.latest_slices(path)?;
            // A slice with log files takes no inserts: they would have to go to its base file.
            let takes = |s: &FileSlice| s.base.is_some() && s.logs.is_empty() && !busy.contains(s);
            let free = slices.into_iter().filter(takes);
            let free: Vec<FileSlice> = free.collect();
            self.fill(partition, rows, free, record_size, &mut merges, &mut units);
        }
        units.merges = merges.into_values().collect();
        // Largest first, so that no thread is left with a large file at the end; ties in a fixed order.
        units
            .merges
            .sort_by_key(|(u, _)| (std::cmp::Reverse(u.slice.base.as_ref().map(|b| b.size)), group_of(&u.slice)));
        self.merge_duplicates(incoming, context, &mut units)?;
        Ok(units)
    }

    fn tag(
        &self,
        incoming: &Incoming,
        context: &WriteContext,
        anywhere: bool,
        commits: &RecentCommits<'_>,
    ) -> Result<Tagged> {
        // An upsert asks these commits for the size of a record anyway.
        let known = match self.operation {
            Operation::Upsert => commits.log_writes(&self.config)?.clone(),
            _ => LogWrites::default(),
        };
        let logs = Logs::new(self.table, &self.view, &context.file_schema, known)?;
        if !(anywhere || self.config.index.is_global()) {
            self.view.list_ahead(&incoming.partitions)?;
        }
        let tagging = Tagging {
            context,
            operation: self.operation,
            global: self.config.index.is_global(),
            anywhere,
            all_copies: self.table.config().table_type() == TableType::MergeOnRead,
            logs: logs.as_ref(),
            virtual_keys: (!self.table.config().populates_meta_fields()).then(|| self.keys.clone()),
            threads: self.table.threads()?,
        };
        tag(incoming, &tagging, &|partition| match partition {
            Some(partition) => self.view.latest_slices(partition),
            None => self.view.all_latest_slices(),
        })
    }

    fn all_new(&self, incoming: &Incoming, context: &WriteContext) -> Result<Tagged> {
        Ok(Tagged { updates: Vec::new(), inserts: rows_to_insert(incoming, context, self.combines())? })
    }

    fn fill(
        &self,
        partition: u32,
        rows: Vec<RowRef>,
        slices: Vec<FileSlice>,
        record_size: u64,
        merges: &mut HashMap<(String, String), (FileUpdates, Vec<RowRef>)>,
        units: &mut Units,
    ) {
        let small: Vec<SmallFile> = slices
            .iter()
            .filter_map(|s| Some(SmallFile { file_id: s.file_id.clone(), size: s.base.as_ref()?.size }))
            .collect();
        let assignment = assign_inserts(&self.config, rows.len(), &small, record_size);
        let mut rest = rows.as_slice();
        let by_id: HashMap<&str, &FileSlice> = slices.iter().map(|slice| (slice.file_id.as_str(), slice)).collect();
        for (file_id, count) in assignment.existing {
            let Some(slice) = by_id.get(file_id.as_str()).copied() else { continue };
            let (here, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            let entry = merges.entry(group_of(slice));
            let none = || (FileUpdates { slice: slice.clone(), rows: Vec::new(), logged: Vec::new() }, Vec::new());
            entry.or_insert_with(none).1.extend_from_slice(here);
        }
        for count in assignment.new {
            let (here, after) = rest.split_at(count.min(rest.len()));
            rest = after;
            units.creates.push((partition, here.to_vec()));
        }
        if !rest.is_empty() {
            units.creates.push((partition, rest.to_vec()));
        }
    }

    /// `hoodie.merge.allow.duplicate.on.inserts=false`: inserts whose key is in the small file they go to are merged.
    fn merge_duplicates(&self, incoming: &Incoming, context: &WriteContext, units: &mut Units) -> Result<()> {
        if self.operation != Operation::Insert || self.config.allow_duplicates_on_insert || self.keys.generates_keys() {
            return Ok(());
        }
        let virtual_keys = (!self.table.config().populates_meta_fields()).then(|| self.keys.clone());
        for (update, inserts) in &mut units.merges {
            let Some(base) = &update.slice.base else { continue };
            let mut wanted: HashMap<&str, u32> = HashMap::with_capacity(inserts.len());
            for (row, i) in inserts.iter().zip(0u32..) {
                wanted.insert(incoming.batch(row.batch)?.keys.value(row.row as usize), i);
            }
            let find = |_: u64, key: &str, out: &mut Vec<u32>| out.extend(wanted.get(key));
            let query = crate::table::KeyQuery { range: None, keys: &[], find: &find };
            let reader = context.opened.open(&context.storage, base)?;
            let found = crate::table::lookup_keys(&context.storage, base, &reader, virtual_keys.as_ref(), &query)?;
            context.opened.keep(base, reader);
            let mut met = HashSet::new();
            for m in found {
                let row = inserts.get(m.entry as usize).ok_or_else(|| {
                    Error::internal(format!("a stored key is that of row {} of {} inserts", m.entry, inserts.len()))
                })?;
                met.insert(*row);
                update.rows.push(MatchedRow { position: m.position, row: *row, moved: false });
            }
            update.rows.sort_by_key(|r| (r.position, r.row));
            inserts.retain(|r| !met.contains(r));
        }
        Ok(())
    }

    /// Rows of a partition in the order in which they are written.
    fn sorted(&self, incoming: &Incoming, rows: Vec<RowRef>) -> Result<Vec<RowRef>> {
        if self.operation != Operation::BulkInsert {
            return Ok(rows);
        }
        crate::write::prepare::sort::sort_rows(incoming, rows, &self.config.sort)
    }

    fn profile(&self, incoming: &Incoming, units: &Units) -> Result<BTreeMap<String, Vec<WriteStat>>> {
        let mut profile: BTreeMap<String, Vec<WriteStat>> = BTreeMap::new();
        let mut new_rows: BTreeMap<String, usize> = BTreeMap::new();
        for (partition, rows) in &units.creates {
            *new_rows.entry(incoming.partition(*partition)?.to_owned()).or_default() += rows.len();
        }
        for (update, inserts) in &units.merges {
            *new_rows.entry(update.slice.partition.clone()).or_default() += inserts.len();
        }
        for (partition, rows) in new_rows {
            let mut stat = empty_stat(&partition, "");
            stat.partition_path = None;
            stat.num_inserts = i64::try_from(rows).ok();
            stat.runtime_stats = None;
            profile.entry(partition).or_default().push(stat);
        }
        for (update, _) in units.merges.iter().filter(|(u, _)| !u.is_empty()) {
            let mut stat = empty_stat(&update.slice.partition, &update.slice.file_id);
            stat.partition_path = None;
            stat.prev_commit = Some(update.slice.base_instant.clone());
            stat.num_update_writes = i64::try_from(update.len()).ok();
            stat.runtime_stats = None;
            profile.entry(update.slice.partition.clone()).or_default().push(stat);
        }
        Ok(profile)
    }

    fn execute(&self, incoming: &Incoming, context: &mut WriteContext, units: Units) -> Result<Vec<WriteStat>> {
        enum Unit {
            Merge(Box<FileUpdates>, Vec<RowRef>),
            Append(Box<FileUpdates>),
            Create(u32, Vec<RowRef>),
        }
        let appends = self.table.config().table_type() == TableType::MergeOnRead;
        let merge = |(update, inserts): (FileUpdates, Vec<RowRef>)| match inserts.is_empty() && appends {
            true => Unit::Append(Box::new(update)),
            false => Unit::Merge(Box::new(update), inserts),
        };
        let merges = units.merges.into_iter().map(merge);
        let creates = units.creates.into_iter().map(|(partition, rows)| Unit::Create(partition, rows));
        let all: Vec<(usize, Unit)> = merges.chain(creates).enumerate().collect();
        let threads = self.table.threads()?;
        context.file_threads = (threads / all.len().max(1)).max(1);
        let context = &*context;
        let stats = run_parallel(all, threads, |(task, unit)| {
            let token = format!("{task}-0-0");
            match unit {
                Unit::Merge(update, inserts) => {
                    let updates = if appends { first_copies(&update.rows) } else { update.rows };
                    let rows = MergeRows {
                        incoming,
                        updates: &updates,
                        inserts: &inserts,
                        delete_by_key: self.operation == Operation::Delete,
                    };
                    merge_file(context, &update.slice, &rows, task, &token).map(|stat| vec![stat])
                }
                Unit::Append(update) => {
                    let delete_by_key = self.operation == Operation::Delete;
                    let rows = AppendRows { incoming, updates: &update.rows, logged: &update.logged, delete_by_key };
                    append_log(context, &update.slice, &rows, task, &token)
                }
                Unit::Create(partition, rows) => {
                    create_files(context, incoming.partition(partition)?, incoming, &rows, task, &token)
                }
            }
        })?;
        Ok(stats.into_iter().flatten().collect())
    }

    /// File groups that the write replaces.
    fn replaced(&self, incoming: &Incoming) -> Result<BTreeMap<String, Vec<String>>> {
        let partitions: BTreeSet<String> = match self.operation {
            Operation::InsertOverwrite => incoming.partitions.iter().cloned().collect(),
            Operation::InsertOverwriteTable => self.view.partitions()?.into_iter().collect(),
            _ => return Ok(BTreeMap::new()),
        };
        replaced_groups(&self.view, partitions)
    }
}

/// How rows of these columns may change the schema of a table.
pub(super) fn evolution(
    config: &WriteConfig,
    operation: Operation,
    old: Option<&SchemaRef>,
    given: &Schema,
    partial: bool,
) -> Result<Evolution> {
    match (operation, old) {
        (Operation::Delete | Operation::DeletePartition, old) => {
            Ok(Evolution::none(old.cloned().unwrap_or_else(|| Arc::new(Schema::empty()))))
        }
        (_, None) if partial => Err(nothing_to_keep()),
        (_, old) => {
            let null_for_missing = config.null_for_missing && !partial;
            let whole = old.filter(|_| partial).map(|old| with_missing(given, old));
            let given = whole.as_ref().unwrap_or(given);
            Evolution::of(SchemaChange { null_for_missing }, old, given, config.refuse_schema_changes)
        }
    }
}

/// A file that is not there any more was cleaned or archived since the view was taken, if the table is whole.
fn gone(error: Error) -> Error {
    if error.kind() == ErrorKind::NotFound { error.outdated_plan() } else { error }
}

/// Rows that are new in the table need every required column.
fn check_new_rows(context: &WriteContext, units: &Units, alone: bool) -> Result<()> {
    let is_new = alone || !units.creates.is_empty() || units.merges.iter().any(|(_, inserts)| !inserts.is_empty());
    if is_new { check_required(context) } else { Ok(()) }
}

/// Rows of which none is looked for, by partition: deletes among them delete nothing and are not stored.
pub(super) fn rows_to_insert(
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

pub(super) fn replaced_groups(view: &TableView, partitions: BTreeSet<String>) -> Result<BTreeMap<String, Vec<String>>> {
    let mut replaced = BTreeMap::new();
    for partition in partitions {
        let ids: Vec<String> = view.latest_slices(&partition)?.into_iter().map(|s| s.file_id).collect();
        if !ids.is_empty() {
            replaced.insert(partition, ids);
        }
    }
    Ok(replaced)
}

pub(super) fn group_of(slice: &FileSlice) -> (String, String) {
    (slice.partition.clone(), slice.file_id.clone())
}

/// The table's key generator. Tables of version 8 do not say how a complex key of one column is written, so a stored
/// key is asked.
pub(super) fn encoding_of_keys(table: &HudiTable) -> Result<KeyGenConfig> {
    let mut keys = table.key_config()?;
    let in_doubt = table.config().version() < 9
        && keys.kind == crate::table::keygen::KeyGeneratorType::Complex
        && keys.record_key_fields.len() == 1
        && table.config().populates_meta_fields();
    if !in_doubt {
        return Ok(keys);
    }
    let Some(field) = keys.record_key_fields.first() else { return Ok(keys) };
    let prefix = format!("{field}:");
    let slices = table.file_slices(None)?;
    for base in slices.iter().filter_map(|s| s.base.as_ref()) {
        for batch in crate::table::key_arrays(table.storage(), base, None)? {
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
    let reader = table.slice_reader(Arc::new(view.timeline().clone()), columns)?;
    let mut first = None;
    for slice in std::iter::once(slice).chain(slices) {
        reader.each_key_in_logs(slice, &mut |key, _| _ = first.get_or_insert_with(|| key.to_owned()))?;
        if first.is_some() {
            break;
        }
    }
    Ok(first)
}
