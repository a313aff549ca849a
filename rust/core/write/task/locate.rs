//! Routes for a write that looks its keys up in all partitions, or in the record index: a global index, a record index, or
//! deletes that name no partition.
//!
//! All rows of a key are here, so that they become one record first. What becomes of it is decided as in one process,
//! by [`tag`]: it may replace a stored record where that is, drop it there and go to another partition, or be new.
//! A record that moves leaves in two directions, each with a route of its own. Which stored record a row meets goes
//! along as its position in the base file, so that nobody looks it up again; and so does the fingerprint of all that this
//! task found (see [`super::located`]).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch, StringArray, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{Fields, Int64Type, Schema, SchemaRef};

use super::located::{Fingerprint, StoredRecord, witness};
use super::pack::{Packer, Routed, Unpacker, value_bytes};
use super::{PLACE_COLUMNS, TaskPlan};
use crate::error::{Error, Result};
use crate::merge::{RowRef, hash_key};
use crate::table::{DELETE_MARK, HudiTable};
use crate::write::locate::log_keys::Logs;
use crate::write::locate::lookup::{LoggedRow, MatchedRow, Tagged};
use crate::write::locate::pending_file_groups::PendingFileGroups;
use crate::write::prepare::combine::refuse_combining;
use crate::write::prepare::incoming::{Incoming, key_schema};
use crate::write::rewrite::context::WriteContext;
use crate::write::route::spread::NewRows;
use crate::write::setup::WriteSetup;

/// Routed batches.
pub(crate) type Located = Box<dyn Iterator<Item = Result<RecordBatch>> + Send>;

/// A given row on one of its ways into the table.
struct Placed {
    /// Number of the given batch.
    batch: usize,
    row: u32,
    /// Number among the partitions of [`Ways`].
    partition: u32,
    /// Number among its routes.
    route: u32,
    /// The stored record that it meets.
    stored: Option<StoredRecord>,
}

/// Texts, each kept once.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    known: HashMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(number) = self.known.get(name) {
            return *number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.known.insert(name.to_owned(), number);
        number
    }

    fn get(&self, number: u32) -> Option<&str> {
        self.names.get(number as usize).map(String::as_str)
    }
}

/// Routes packed rows (see [`super::RowKeyer`]), sorted by number; all rows of a key are there. Rows that change nothing are
/// left out.
pub fn locate_rows(
    table: &HudiTable,
    plan: &TaskPlan,
    packed: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Located> {
    let setup = WriteSetup::of_task(table, plan)?;
    let context = setup.task_context(plan)?;
    let deciding = deciding_columns(&setup, &context);
    let columns = plan.columns_on_the_way(false)?;
    let mut unpacker = Unpacker::new(&columns)?;
    let mut preparer = setup.preparer(&deciding, &columns)?;
    let mut sources = Vec::new();
    for packed in packed {
        let unpacked = unpacker.unpack(&packed?)?;
        let batch = concat_batches(&columns, unpacked.iter().map(|unpacked| &unpacked.rows))?;
        preparer.add(&batch).map_err(|e| e.with("table", table.storage().uri()))?;
        if batch.num_rows() > 0 {
            sources.push(batch);
        }
    }
    let anywhere = preparer.is_anywhere();
    let incoming = preparer.finish();
    if setup.combines() {
        // The columns that would be combined are not here.
        refuse_combining(&context, &incoming, anywhere || setup.config.index.is_global())?;
    }
    let logs = Logs::new(table, &setup.view, &context.file_schema, plan.log_writes.clone())?;
    let tagged = setup.tag_in_table(&incoming, &context, logs.as_ref(), (anywhere, 1), None)?;
    let mut placing = Placing { table, plan, setup: &setup, incoming: &incoming, located: Ways::default() };
    placing.place(tagged)?;
    let columns = plan.columns_on_the_way(true)?;
    let witness = witness(&columns, placing.located.fingerprint.value(), placing.located.rows.len())?;
    let routed = placing.located.batches(sources, columns.clone())?.chain(std::iter::once(Ok(witness)));
    Ok(Box::new(Packed { routed, packer: Packer::new(columns, value_bytes(plan.batch_rows))? }))
}

/// The columns of the table that decide what becomes of a row.
fn deciding_columns(setup: &WriteSetup, context: &WriteContext) -> SchemaRef {
    let keys = key_schema(setup.operation, &setup.keys, &setup.schema, &setup.schema);
    let decides = |name: &String| {
        let marks = name == DELETE_MARK || context.settings.marker.as_ref().is_some_and(|m| &m.field == name);
        marks || keys.field_with_name(name).is_ok() || context.settings.orders_by(name)
    };
    Arc::new(Schema::new(setup.schema.fields().iter().filter(|f| decides(f.name())).cloned().collect::<Fields>()))
}

/// Turns what tagging found into routes.
struct Placing<'a> {
    table: &'a HudiTable,
    plan: &'a TaskPlan,
    setup: &'a WriteSetup,
    incoming: &'a Incoming,
    located: Ways,
}

impl Placing<'_> {
    fn place(&mut self, tagged: Tagged) -> Result<()> {
        let pending_groups = PendingFileGroups::of(self.table, &self.setup.view)?;
        for update in &tagged.updates {
            pending_groups.check_update(self.table, &update.slice)?;
            let partition = self.located.partitions.number(&update.slice.partition);
            let route = self.located.routes.number(&update.slice.file_id);
            for MatchedRow { position, row, moved } in &update.rows {
                self.push(*row, partition, route, Some((Some(*position), *moved)))?;
            }
            for LoggedRow { row, moved } in &update.logged {
                self.push(*row, partition, route, Some((None, *moved)))?;
            }
        }
        for (home, rows) in tagged.inserts {
            self.place_new(home, rows, &pending_groups)?;
        }
        Ok(())
    }

    fn place_new(&mut self, home: u32, rows: Vec<RowRef>, pending_groups: &PendingFileGroups) -> Result<()> {
        let path = self.incoming.partition(home)?;
        let slices = self.setup.view.latest_slices(path)?;
        self.setup.refuse_without_buckets(path, &slices)?;
        let new_rows = NewRows::new(self.setup, self.plan.new_rows(), &slices, pending_groups);
        let partition = self.located.partitions.number(path);
        for row in rows {
            let hash = hash_key(self.incoming.batch(row.batch)?.keys.value(row.row as usize));
            let route = self.located.routes.number(&new_rows.route(hash));
            self.push(row, partition, route, None)?;
        }
        Ok(())
    }

    fn push(&mut self, at: RowRef, partition: u32, route: u32, stored: Option<StoredRecord>) -> Result<()> {
        let (batch, row) = self.incoming.given_at(at)?;
        let names = (self.located.partitions.get(partition), self.located.routes.get(route));
        let key = self.incoming.batch(at.batch)?.keys.value(at.row as usize);
        self.located.fingerprint.add(key, names, stored);
        self.located.rows.push(Placed { batch, row, partition, route, stored });
        Ok(())
    }
}

/// Where each row goes.
#[derive(Default)]
struct Ways {
    rows: Vec<Placed>,
    partitions: Names,
    routes: Names,
    fingerprint: Fingerprint,
}

impl Ways {
    /// The routed rows in these columns, a batch for each given one.
    ///
    /// # Errors
    /// `Internal` for a row of a batch that was not given.
    fn batches(
        mut self,
        sources: Vec<RecordBatch>,
        columns: SchemaRef,
    ) -> Result<impl Iterator<Item = Result<Routed>> + Send> {
        self.rows.sort_unstable_by_key(|p| (p.batch, p.row));
        if let Some(last) = self.rows.last().filter(|last| last.batch >= sources.len()) {
            let batches = sources.len();
            return Err(Error::internal(format!("a located row is in batch {} of {batches}", last.batch)));
        }
        let mut done = 0;
        Ok(sources.into_iter().enumerate().map(move |(number, source)| {
            let rest = self.rows.get(done..).unwrap_or_default();
            let here = rest.get(..rest.partition_point(|p| p.batch == number)).unwrap_or_default();
            done += here.len();
            self.routed(&source, here, &columns)
        }))
    }

    fn routed(&self, source: &RecordBatch, placed: &[Placed], columns: &SchemaRef) -> Result<Routed> {
        let rows = UInt32Array::from_iter_values(placed.iter().map(|p| p.row));
        let partitions: StringArray = placed.iter().map(|p| self.partitions.get(p.partition)).collect();
        let routes: StringArray = placed.iter().map(|p| self.routes.get(p.route)).collect();
        let positions = placed.iter().map(|p| p.stored.and_then(|(position, _)| position).map(i64::from));
        let moved = placed.iter().map(|p| p.stored.map(|(_, moved)| moved));
        let mut taken = take_record_batch(source, &rows)?.columns().to_vec();
        taken.push(Arc::new(positions.collect::<Int64Array>()));
        taken.push(Arc::new(moved.collect::<BooleanArray>()));
        taken.push(Arc::new(Int64Array::from_value(self.fingerprint.value(), placed.len())));
        Ok(Routed { rows: RecordBatch::try_new(columns.clone(), taken)?, partitions, routes })
    }
}

/// Packs routed rows as they are asked for.
struct Packed<I> {
    routed: I,
    packer: Packer,
}

impl<I: Iterator<Item = Result<Routed>>> Iterator for Packed<I> {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        for routed in self.routed.by_ref() {
            match routed.and_then(|routed| self.packer.add(routed)) {
                Ok(None) => {}
                other => return other.transpose(),
            }
        }
        self.packer.flush().transpose()
    }
}

fn given_column<'b>(batch: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    batch.column_by_name(name).ok_or_else(|| Error::schema(format!("the located rows lack the column {name}")))
}

/// Which stored record each row of a located batch meets: one of log files only has no position, but it is said whether
/// it moves away. Where neither is said, the row is new.
pub(super) struct Places<'b> {
    positions: &'b Int64Array,
    moved: &'b BooleanArray,
}

impl<'b> Places<'b> {
    /// The places of a batch of [`locate_rows`].
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Self> {
        let [position, moved, _] = PLACE_COLUMNS.map(|name| given_column(batch, name));
        let places = position?.as_primitive_opt::<Int64Type>().zip(moved?.as_boolean_opt());
        let (positions, moved) = places.ok_or_else(|| Error::schema("the columns of located rows have other types"))?;
        Ok(Self { positions, moved })
    }

    /// The stored record that a row meets.
    pub(super) fn stored(&self, row: usize) -> Result<Option<StoredRecord>> {
        if self.moved.is_null(row) {
            return Ok(None);
        }
        let position = self.positions.is_valid(row).then(|| u32::try_from(self.positions.value(row))).transpose();
        let position = position.map_err(|e| Error::corrupt("a located row has no valid position").caused_by(e))?;
        Ok(Some((position, self.moved.value(row))))
    }
}
