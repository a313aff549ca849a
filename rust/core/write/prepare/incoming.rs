//! Rows on their way into the table: brought to its schema, with key, partition, ordering value and delete mark.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::interrupt;
use crate::merge::{KeyedRows, OrderingValues, Records, RowRef};
use crate::storage::{SpillOptions, spill};
use crate::table::keygen::{AutoKeys, KeyGenConfig, KeyGenerator};
use crate::table::{MergeSettings, check_delete_mark, conform_batch};
use crate::write::config::Operation;
use crate::write::prepare::conformer::{Conformer, top_level};

/// Name of the key column of spilled rows; nobody looks for it by name.
const KEYS: &str = "";

/// Rows of one partition.
pub(crate) struct IncomingBatch {
    /// Index in [`Incoming::partitions`].
    pub partition: u32,
    /// The columns of the table; no columns for a delete by key.
    pub data: RecordBatch,
    /// Record keys.
    pub keys: StringArray,
    /// Which rows are deletes.
    pub deleted: Option<BooleanArray>,
    /// Number of the given batch that the rows are from.
    source: u32,
    /// Their row numbers in it; none: all its rows.
    source_rows: Option<UInt32Array>,
}

impl IncomingBatch {
    /// Bytes that the rows take, however much larger the buffers are that they are slices of.
    fn bytes(&self) -> Result<usize> {
        let keys = self.keys.to_data().get_slice_memory_size()?;
        let columns = self.data.columns().iter().map(|c| c.to_data().get_slice_memory_size());
        Ok(keys + columns.sum::<std::result::Result<usize, _>>()?)
    }

    /// The columns, and behind them the keys.
    fn with_keys(&self) -> Result<RecordBatch> {
        let schema = self.data.schema();
        let key = Arc::new(Field::new(KEYS, DataType::Utf8, true));
        let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain([key]).collect();
        let keys: ArrayRef = Arc::new(self.keys.clone());
        let columns = self.data.columns().iter().cloned().chain([keys]).collect();
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// Takes columns and keys from what [`IncomingBatch::with_keys`] made.
    fn replace(&mut self, together: &RecordBatch) -> Result<()> {
        let (keys, columns) =
            together.columns().split_last().ok_or_else(|| Error::internal("spilled rows came back without keys"))?;
        if keys.len() != self.keys.len() {
            let (given, back) = (self.keys.len(), keys.len());
            return Err(Error::internal(format!("of {given} spilled rows {back} came back")));
        }
        self.keys = keys.as_string::<i32>().clone();
        let options = RecordBatchOptions::new().with_row_count(Some(self.keys.len()));
        self.data = RecordBatch::try_new_with_options(self.data.schema(), columns.to_vec(), &options)?;
        Ok(())
    }
}

/// All rows of a write.
#[derive(Default)]
pub(crate) struct Incoming {
    /// Partition paths.
    pub partitions: Vec<String>,
    /// The rows, in the order they came in.
    pub batches: Vec<IncomingBatch>,
}

impl Incoming {
    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.batches.iter().map(|b| b.keys.len()).sum()
    }

    /// The path of a partition index.
    ///
    /// # Errors
    /// `Internal` when there is no such partition.
    pub(crate) fn partition(&self, index: u32) -> Result<&str> {
        let path = self.partitions.get(index as usize).map(String::as_str);
        path.ok_or_else(|| {
            Error::internal(format!("rows are in partition {index} of the {} of a write", self.partitions.len()))
        })
    }

    /// A batch by its number.
    ///
    /// # Errors
    /// `Internal` when there is no such batch.
    pub(in crate::write) fn batch(&self, number: u32) -> Result<&IncomingBatch> {
        let batch = self.batches.get(number as usize);
        batch.ok_or_else(|| {
            Error::internal(format!("a row is in batch {number} of the {} of a write", self.batches.len()))
        })
    }

    /// What merging has to know, of the batches with the given numbers.
    pub(crate) fn keyed_rows(&self, batches: &[u32], settings: &MergeSettings) -> Result<Vec<KeyedRows<'_>>> {
        let mut out = Vec::with_capacity(batches.len());
        for number in batches {
            let batch = self.batch(*number)?;
            let by_key_only = batch.data.num_columns() == 0;
            let ordering = if by_key_only { OrderingValues::default() } else { settings.ordering(&batch.data)? };
            out.push(KeyedRows { keys: &batch.keys, ordering, deleted: batch.deleted.clone(), delete_block: None });
        }
        Ok(out)
    }

    /// Numbers of the batches of each partition, or of all of them as one.
    pub(crate) fn by_partition(&self, whole_table: bool) -> BTreeMap<u32, Vec<u32>> {
        let mut lists: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (b, batch) in self.batches.iter().enumerate() {
            lists.entry(if whole_table { 0 } else { batch.partition }).or_default().push(b as u32);
        }
        lists
    }

    /// Puts other rows in the place of those of some batches.
    pub(crate) fn replace_rows(&mut self, partition: u32, batches: &[u32], records: Vec<Records>) -> Result<()> {
        for number in batches {
            self.batch(*number)?;
            if let Some(batch) = self.batches.get_mut(*number as usize) {
                batch.data = batch.data.slice(0, 0);
                batch.keys = batch.keys.slice(0, 0);
                batch.deleted = None;
                batch.source_rows = None;
            }
        }
        let source = self.batches.iter().map(|b| b.source + 1).max().unwrap_or(0);
        for (number, records) in records.into_iter().enumerate() {
            let deleted = (records.deleted.true_count() > 0).then_some(records.deleted);
            let (source, source_rows) = (source + number as u32, None);
            self.batches.push(IncomingBatch {
                partition,
                data: records.data,
                keys: records.keys,
                deleted,
                source,
                source_rows,
            });
        }
        Ok(())
    }

    /// The rows of batches in the order in which they were given, whatever their partitions; `batch` of a row counts
    /// within the list.
    ///
    /// # Errors
    /// `Internal` when there is no such batch.
    pub(crate) fn in_given_order(&self, batches: &[u32]) -> Result<Vec<RowRef>> {
        let mut rows: Vec<(u32, u32, RowRef)> = Vec::with_capacity(self.rows());
        for (b, number) in batches.iter().enumerate() {
            let batch = self.batch(*number)?;
            for row in 0..batch.keys.len() {
                let place = batch.source_rows.as_ref().map_or(row as u32, |rows| rows.value(row));
                rows.push((batch.source, place, RowRef { batch: b as u32, row: row as u32 }));
            }
        }
        rows.sort_unstable();
        Ok(rows.into_iter().map(|(_, _, row)| row).collect())
    }

    /// Where a row was given: number of the batch, among those that had rows, and row number in it.
    pub(in crate::write) fn given_at(&self, at: RowRef) -> Result<(usize, u32)> {
        let batch = self.batch(at.batch)?;
        let row = batch.source_rows.as_ref().map_or(at.row, |rows| rows.value(at.row as usize));
        Ok((batch.source as usize, row))
    }

    /// Gives generated keys to rows of a table without key columns.
    pub(crate) fn generate_keys(&mut self, keys: &mut AutoKeys) -> Result<()> {
        for batch in &mut self.batches {
            batch.keys = keys.next(batch.keys.len())?;
        }
        Ok(())
    }
}

/// Turns batches into [`Incoming`] rows.
pub(crate) struct Preparer {
    operation: Operation,
    /// Brings rows to the columns that are read of them.
    conformer: Conformer,
    keys: KeyGenConfig,
    generator: KeyGenerator,
    /// What makes rows deletes.
    marks: MergeSettings,
    /// Deletes that do not say in which partition the rows are.
    anywhere: bool,
    incoming: Incoming,
    known: HashMap<String, u32>,
    batches_given: u32,
    spill: Option<SpillOptions>,
    /// Bytes of the batches that are in memory.
    resident: usize,
    /// Batches that are on the disk: all before this one.
    spilled: usize,
}

impl Preparer {
    /// Prepares rows for a table with these columns (after the write) and keys.
    pub(crate) fn new(
        operation: Operation,
        schema: SchemaRef,
        keys: KeyGenConfig,
        marks: MergeSettings,
        given: &Schema,
    ) -> Result<Self> {
        let anywhere = is_anywhere(operation, &keys, given);
        let keys = if anywhere { keys.without_partitions() } else { keys };
        // A delete needs no more columns than those of the key.
        let read = if operation == Operation::Delete { key_schema(operation, &keys, &schema, given) } else { schema };
        let generator = KeyGenerator::new(keys.clone(), &read)?;
        let (incoming, known) = (Incoming::default(), HashMap::new());
        Ok(Self {
            operation,
            conformer: Conformer::new(read, keys.clone()),
            keys,
            generator,
            marks,
            anywhere,
            incoming,
            known,
            batches_given: 0,
            spill: None,
            resident: 0,
            spilled: 0,
        })
    }

    /// Puts rows on the disk when they exceed a budget. Hashes of keys and positions of rows stay in memory: some
    /// thirty bytes a row.
    pub(crate) fn spill(&mut self, options: SpillOptions) {
        self.spill = Some(options);
    }

    /// Lets columns take these types when a value needs it. Rows of deletes are but keys.
    pub(crate) fn widen_to(&mut self, wide: SchemaRef) {
        if self.operation != Operation::Delete {
            self.conformer.widen_to(wide);
        }
    }

    /// Columns whose values needed a wider type.
    pub(crate) fn widened(&self) -> &[String] {
        self.conformer.widened()
    }

    /// Whether rows have to be looked for in all partitions.
    pub(crate) fn is_anywhere(&self) -> bool {
        self.anywhere
    }

    /// Adds rows.
    pub(crate) fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        if batch.num_rows() == 0 {
            return Ok(());
        }
        let by_key = self.operation == Operation::Delete;
        interrupt::check()?;
        let (data, became_wider) = self.conformer.conform(batch)?;
        if became_wider {
            self.widen_rows()?;
        }
        let partitions = self.generator.partition_paths(&data)?;
        let keys = if self.keys.generates_keys() {
            StringArray::from(vec![""; data.num_rows()])
        } else {
            self.generator.record_keys(&data)?
        };
        interrupt::check()?;
        let deleted = match self.operation {
            Operation::Delete => Some(BooleanArray::from(vec![true; keys.len()])),
            // Hudi stores rows as they are here, marked ones too.
            Operation::BulkInsert => None,
            _ => {
                check_delete_mark(data.schema_ref())?;
                self.marks.deleted(&data)?
            }
        };
        let data = if by_key { no_columns(data.num_rows())? } else { data };
        let ids: Vec<u32> = partitions.paths.iter().map(|path| self.partition_id(path)).collect();
        let before = self.incoming.batches.len();
        self.scatter(&partitions.ids, &ids, data, keys, deleted)?;
        for batch in self.incoming.batches.iter().skip(before) {
            self.resident += batch.bytes()?;
        }
        self.keep_to_budget()
    }

    /// Brings the rows that are there already to columns that became wider.
    fn widen_rows(&mut self) -> Result<()> {
        let read = self.conformer.schema();
        self.generator = KeyGenerator::new(self.keys.clone(), read)?;
        self.resident = 0;
        self.spilled = 0;
        for batch in &mut self.incoming.batches {
            batch.data = conform_batch(&batch.data, read)?;
            self.resident += batch.bytes()?;
        }
        self.keep_to_budget()
    }

    fn keep_to_budget(&mut self) -> Result<()> {
        let Some(options) = self.spill.as_ref().filter(|o| self.resident > o.budget) else { return Ok(()) };
        let resident = self.incoming.batches.get_mut(self.spilled..).unwrap_or_default();
        let together = resident.iter().map(IncomingBatch::with_keys).collect::<Result<Vec<_>>>()?;
        let mapped = spill(&options.folder, &together)?;
        if mapped.len() != resident.len() {
            let (given, back) = (resident.len(), mapped.len());
            return Err(Error::internal(format!("of {given} spilled batches {back} came back")));
        }
        tracing::debug!("{} bytes of incoming rows went to the disk", self.resident);
        for (batch, mapped) in resident.iter_mut().zip(&mapped) {
            batch.replace(mapped)?;
        }
        self.resident = 0;
        self.spilled = self.incoming.batches.len();
        Ok(())
    }

    /// The rows.
    pub(crate) fn finish(self) -> Incoming {
        self.incoming
    }

    fn partition_id(&mut self, path: &str) -> u32 {
        if let Some(id) = self.known.get(path) {
            return *id;
        }
        let id = self.incoming.partitions.len() as u32;
        self.incoming.partitions.push(path.to_owned());
        self.known.insert(path.to_owned(), id);
        id
    }

    /// Cuts a batch into one for each partition, rows in their order.
    fn scatter(
        &mut self,
        row_partitions: &[u32],
        ids: &[u32],
        data: RecordBatch,
        keys: StringArray,
        deleted: Option<BooleanArray>,
    ) -> Result<()> {
        let source = self.batches_given;
        self.batches_given += 1;
        if let [only] = ids {
            let partition = *only;
            self.incoming.batches.push(IncomingBatch { partition, data, keys, deleted, source, source_rows: None });
            return Ok(());
        }
        if row_partitions.len() != data.num_rows() {
            let (rows, known) = (data.num_rows(), row_partitions.len());
            return Err(Error::internal(format!("{known} partitions for {rows} rows")));
        }
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); ids.len()];
        for (row, local) in row_partitions.iter().enumerate() {
            let Some(list) = rows.get_mut(*local as usize) else {
                return Err(Error::internal(format!("row {row} is in partition {local} of {}", ids.len())));
            };
            list.push(row as u32);
        }
        for (id, rows) in ids.iter().zip(rows).filter(|(_, rows)| !rows.is_empty()) {
            interrupt::check()?;
            let rows = UInt32Array::from(rows);
            let part = if data.num_columns() == 0 { no_columns(rows.len())? } else { take_record_batch(&data, &rows)? };
            let keys = arrow::compute::take(&keys, &rows, None)?;
            let deleted = deleted.as_ref().map(|d| arrow::compute::take(d, &rows, None)).transpose()?;
            self.incoming.batches.push(IncomingBatch {
                partition: *id,
                data: part,
                keys: keys.as_string::<i32>().clone(),
                deleted: deleted.map(|d| d.as_boolean().clone()),
                source,
                source_rows: Some(rows),
            });
        }
        Ok(())
    }
}

/// Whether rows of these columns are deletes that do not say in which partition they are.
pub(in crate::write) fn is_anywhere(operation: Operation, keys: &KeyGenConfig, given: &Schema) -> bool {
    let has = |name: &str| given.field_with_name(top_level(name)).is_ok();
    operation == Operation::Delete && !keys.partition_fields.iter().all(|f| has(&f.name))
}

/// The columns from which keys and partitions of rows are made; `schema` are the table's columns after the write. A delete
/// may name keys as strings. Other values take the type of the column, as those of an upsert do: 1.0 names the integer 1.
pub(in crate::write) fn key_schema(
    operation: Operation,
    keys: &KeyGenConfig,
    schema: &Schema,
    given: &Schema,
) -> SchemaRef {
    let mut names: Vec<&str> = keys.record_key_fields.iter().map(|name| top_level(name)).collect();
    names.extend(keys.partition_fields.iter().map(|f| top_level(&f.name)));
    let field = |name: &str| {
        let (stored, given) = (schema.field_with_name(name).ok(), given.field_with_name(name).ok());
        match (operation, stored, given) {
            (Operation::Delete, Some(stored), Some(given)) if is_number_or_time(stored) && is_number_or_time(given) => {
                Some(stored)
            }
            (Operation::Delete, _, given) => given,
            (_, stored, _) => stored,
        }
    };
    let mut fields: Vec<Field> = Vec::with_capacity(names.len());
    for name in names {
        if let Some(field) = field(name).filter(|_| fields.iter().all(|f| f.name() != name)) {
            fields.push(field.clone());
        }
    }
    Arc::new(Schema::new(fields))
}

fn is_number_or_time(field: &Field) -> bool {
    let kind = field.data_type();
    kind.is_numeric() || kind.is_temporal() || matches!(kind, DataType::Boolean)
}

fn no_columns(rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::<ArrayRef>::new(), &options)?)
}

/// Refuses a column with Hudi's name for deletes that cannot be one.
#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn incoming() -> Incoming {
        let keys = StringArray::from(vec!["a", "b"]);
        let data = no_columns(2).unwrap();
        let batch = IncomingBatch { partition: 1, data, keys, deleted: None, source: 0, source_rows: None };
        Incoming { partitions: vec!["p".to_owned()], batches: vec![batch] }
    }

    #[test]
    fn a_partition_that_is_not_there_is_an_error() {
        let incoming = incoming();
        assert_eq!(incoming.partition(0).unwrap(), "p");
        assert_eq!(incoming.partition(1).unwrap_err().kind(), ErrorKind::Internal);
    }

    #[test]
    fn a_batch_that_is_not_there_is_an_error() {
        let incoming = incoming();
        assert_eq!(incoming.in_given_order(&[0]).unwrap().len(), 2);
        assert_eq!(incoming.in_given_order(&[0, 1]).unwrap_err().kind(), ErrorKind::Internal);
        let at = RowRef { batch: 1, row: 0 };
        assert_eq!(incoming.given_at(at).unwrap_err().kind(), ErrorKind::Internal);
    }
}
