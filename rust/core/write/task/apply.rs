//! Routed rows on their way into files.

use arrow::array::{Array, RecordBatch};

use super::locate::Places;
use super::located::LocatedRows;
use super::pack::{Unpacked, Unpacker};
use super::{TaskPlan, TaskReport, generated_keys};
use crate::error::{Error, Result};
use crate::file_group::FileSlice;
use crate::merge::RowRef;
use crate::table::HudiTable;
use crate::table::keygen::AutoKeys;
use crate::write::config::Operation;
use crate::write::locate::buckets::Buckets;
use crate::write::locate::log_keys::Logs;
use crate::write::locate::lookup::{FileUpdates, LoggedRow, MatchedRow};
use crate::write::locate::new_rows::{meet_stored, rows_to_insert};
use crate::write::prepare::combine::combine_rows;
use crate::write::prepare::incoming::Incoming;
use crate::write::prepare::partial_rows::check_required;
use crate::write::prepare::sort::sort_rows;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::create_file::{FileCreator, NewGroup};
use crate::write::rewrite::group::rewrite_group;
use crate::write::route::assignment::room_in_file;
use crate::write::setup::WriteSetup;

/// What rows of a route are.
#[derive(Default)]
struct Records {
    /// Those that meet a record of the base file.
    updates: Vec<MatchedRow>,
    /// Those that meet a record of log files only.
    logged: Vec<LoggedRow>,
    /// Those that are new.
    inserts: Vec<RowRef>,
}

/// Merges packed rows, which come sorted by partition, route and number; a report for each file.
pub fn apply_routes(
    table: &HudiTable,
    plan: &TaskPlan,
    packed: impl Iterator<Item = Result<RecordBatch>>,
    task: usize,
    token: &str,
) -> Result<Vec<TaskReport>> {
    let setup = WriteSetup::of_task(table, plan)?;
    let context = setup.task_context(plan)?;
    let mut unpacker = Unpacker::new(&plan.columns_on_the_way(plan.whole_table)?)?;
    let generated = generated_keys(plan, task);
    let logs = Logs::new(table, &setup.view, &context.file_schema, plan.log_writes.clone())?;
    let mut apply = Apply {
        table,
        plan,
        setup: &setup,
        context: &context,
        task,
        token,
        logs,
        reports: Vec::new(),
        overwritten: None,
        generated,
        creator: None,
        located: LocatedRows::default(),
    };
    let mut current: Option<((String, String), Vec<RecordBatch>)> = None;
    for packed in packed {
        for Unpacked { partition, route, rows } in unpacker.unpack(&packed?)? {
            if plan.whole_table && apply.located.count(&route, &rows)? {
                continue;
            }
            let group = (partition, route);
            match &mut current {
                Some((known, list)) if *known == group => list.push(rows),
                _ => {
                    if let Some((known, list)) = current.replace((group, vec![rows])) {
                        apply.group(&known, list)?;
                    }
                }
            }
        }
    }
    if let Some((known, list)) = current {
        apply.group(&known, list)?;
    }
    let reports = apply.finish()?;
    // The commit is made by another process, which does not know what is still to be synced here.
    table.storage().sync()?;
    Ok(reports)
}

struct Apply<'a> {
    table: &'a HudiTable,
    plan: &'a TaskPlan,
    setup: &'a WriteSetup,
    context: &'a WriteContext,
    task: usize,
    token: &'a str,
    /// Of a table that has log files.
    logs: Option<Logs>,
    reports: Vec<TaskReport>,
    /// The partition last reported as overwritten.
    overwritten: Option<String>,
    /// Keys for rows of a table without key columns: unique in the write by task and row.
    generated: AutoKeys,
    /// The new file groups whose rows are being written: those of a partition, or of a bucket of a bucket index.
    creator: Option<(NewGroup, FileCreator<'a>)>,
    /// Of rows that were located first.
    located: LocatedRows,
}

impl<'a> Apply<'a> {
    fn group(&mut self, (partition, route): &(String, String), batches: Vec<RecordBatch>) -> Result<()> {
        let given = batches.first().map(RecordBatch::schema).ok_or_else(|| Error::schema("a route without rows"))?;
        let mut preparer = self.setup.preparer(&self.setup.schema, &given)?;
        for batch in &batches {
            preparer.add(batch).map_err(|e| e.with("table", self.table.storage().uri()))?;
        }
        let mut incoming = preparer.finish();
        if self.setup.keys.generates_keys() {
            incoming.generate_keys(&mut self.generated)?;
        }
        if self.setup.operation == Operation::InsertOverwrite && self.overwritten.as_ref() != Some(partition) {
            // Also where all the rows are deletes, so that no file is written.
            self.reports.push(TaskReport::Partition(partition.clone()));
            self.overwritten = Some(partition.clone());
        }
        // Rows of a key that is looked up in the whole table became one when they were located.
        if self.setup.combines() && !self.plan.whole_table {
            combine_rows(self.context, &mut incoming, false)?;
        }
        let slice = match route.starts_with('+') {
            true => None,
            false => Some(self.slice(partition, route)?),
        };
        let records = match self.plan.whole_table {
            true => placed(&incoming, &batches)?,
            false => self.records(&incoming, slice.as_ref())?,
        };
        match slice {
            None => self.append(self.new_group(partition, route)?, &incoming, &records.inserts),
            Some(slice) => self.merge(slice, &incoming, records),
        }
    }

    /// Where the new rows of a route go.
    fn new_group(&self, partition: &str, route: &str) -> Result<NewGroup> {
        if self.setup.bucket_index.is_none() {
            return Ok(NewGroup::of_partition(partition));
        }
        let bucket = route.strip_prefix('+').and_then(|bucket| bucket.parse().ok());
        let bucket = bucket.ok_or_else(|| Error::internal(format!("the route '{route}' names no bucket")))?;
        Ok(NewGroup::of_bucket(partition, bucket))
    }

    fn slice(&self, partition: &str, file_id: &str) -> Result<FileSlice> {
        let slices = self.setup.slices_of(partition)?;
        slices.into_iter().find(|s| s.file_id == file_id).ok_or_else(|| {
            Error::conflict("a file group went away while rows were on their way to it")
                .with("partition", partition)
                .with("file group", file_id)
        })
    }

    fn append(&mut self, group: NewGroup, incoming: &Incoming, rows: &[RowRef]) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        check_required(self.context)?;
        if self.creator.as_ref().is_none_or(|(known, _)| *known != group) {
            self.flush()?;
            let creator = FileCreator::new(self.context, &group, self.task, self.token)?;
            self.creator = Some((group, creator));
        }
        match &mut self.creator {
            Some((_, creator)) => creator.append(incoming, rows),
            None => Err(Error::internal("new rows of a partition have no file to go to")),
        }
    }

    fn merge(&mut self, slice: FileSlice, incoming: &Incoming, records: Records) -> Result<()> {
        let Records { updates, logged, mut inserts } = records;
        if !inserts.is_empty() {
            self.setup.refuse_without_buckets(&slice.partition, std::slice::from_ref(&slice))?;
        }
        // New rows that a filter took for stored ones go to new files, if the slice has log files already; so do more new
        // rows than the file has room for.
        let size = slice.base.as_ref().map_or(0, |b| b.size);
        let room = match slice.logs.is_empty() {
            true if self.setup.bucket_index.is_some() => inserts.len(),
            true => room_in_file(&self.setup.config, size, inserts.len(), self.plan.record_size),
            false => 0,
        };
        let elsewhere = inserts.split_off(room);
        if !inserts.is_empty() {
            check_required(self.context)?;
        }
        let met = FileUpdates { slice, rows: updates, logged };
        if !met.is_empty() || !inserts.is_empty() {
            let files = rewrite_group(self.context, incoming, &met, &inserts, self.task, self.token)?;
            self.reports.extend(files.into_iter().map(TaskReport::file));
        }
        self.append(NewGroup::of_partition(&met.slice.partition), incoming, &elsewhere)
    }

    /// One record for each key: those that meet one of the slice that they are routed to, and the new ones.
    fn records(&self, incoming: &Incoming, slice: Option<&FileSlice>) -> Result<Records> {
        if !self.setup.looks_up() {
            let rows = rows_to_insert(incoming, self.context, self.setup.combines())?;
            let mut inserts: Vec<RowRef> = rows.into_values().flatten().collect();
            if self.setup.operation == Operation::BulkInsert {
                inserts = sort_rows(incoming, inserts, &self.setup.config.sort)?;
            }
            let updates = match slice {
                Some(slice) => meet_stored(self.setup, self.context, incoming, slice, &mut inserts)?,
                None => Vec::new(),
            };
            return Ok(Records { updates, inserts, ..Records::default() });
        }
        let slices: Vec<FileSlice> = slice.into_iter().cloned().collect();
        let buckets = self.setup.buckets_of(&incoming.partitions, false, &|_| Ok(slices.clone()))?;
        // The router has compared keys of the partition with their groups.
        let buckets = buckets.map(Buckets::checked);
        let here = |_: Option<&str>| Ok(slices.clone());
        let logs = self.logs.as_ref();
        let tagged = self.setup.tag(incoming, self.context, logs, (false, 1), &here, buckets.as_ref())?;
        let mut inserts: Vec<RowRef> = tagged.inserts.into_values().flatten().collect();
        if self.setup.operation == Operation::BulkInsert {
            inserts = sort_rows(incoming, inserts, &self.setup.config.sort)?;
        }
        if tagged.updates.len() > 1 {
            let slices = tagged.updates.len();
            return Err(Error::internal(format!("the rows of one route meet records of {slices} file slices")));
        }
        let met = tagged.updates.into_iter().next().map(|u| (u.rows, u.logged)).unwrap_or_default();
        Ok(Records { updates: met.0, logged: met.1, inserts })
    }

    fn flush(&mut self) -> Result<()> {
        if let Some((_, creator)) = self.creator.take() {
            self.reports.extend(creator.finish()?.into_iter().map(TaskReport::file));
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<TaskReport>> {
        self.flush()?;
        if self.plan.whole_table {
            self.reports.push(TaskReport::Located(self.located));
        }
        Ok(self.reports)
    }
}

/// Rows of which it was found out before what they meet.
fn placed(incoming: &Incoming, given: &[RecordBatch]) -> Result<Records> {
    let places = given.iter().map(Places::of).collect::<Result<Vec<_>>>()?;
    let mut records = Records::default();
    for (b, batch) in incoming.batches.iter().enumerate() {
        for row in 0..batch.keys.len() {
            let row = RowRef { batch: b as u32, row: row as u32 };
            let (number, at) = incoming.given_at(row)?;
            let places = places
                .get(number)
                .ok_or_else(|| Error::internal(format!("a located row is in batch {number} of {}", places.len())))?;
            let stored = places.stored(at as usize)?;
            match stored {
                Some((Some(position), moved)) => records.updates.push(MatchedRow { position, row, moved }),
                Some((None, moved)) => records.logged.push(LoggedRow { row, moved }),
                None => records.inserts.push(row),
            }
        }
    }
    records.updates.sort_by_key(|m| (m.position, m.row));
    Ok(records)
}
