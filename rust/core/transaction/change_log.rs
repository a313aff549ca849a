//! The change data log of a new base file: what became of the rows of the old one, for a table with change data capture.
//!
//! A merge hands over what it decided ([`Chosen`]) with the stored rows and the newer ones, columns at a time. Rows that stay
//! as they are, and newer ones that lose, give no record. `format::change_data` tells what records hold.

use std::collections::BTreeMap;
use std::iter::repeat_n;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray, StructArray, UInt32Array, new_null_array};
use arrow::compute::take;
use arrow::datatypes::{FieldRef, Schema, SchemaRef};

use super::data_files::DataFiles;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, read_column_batches};
use crate::file_group::markers::MarkerType;
use crate::file_group::{FileSlice, change_log_name, join};
use crate::format::change_data::{AFTER, BEFORE, ChangeKind, LoggingMode, OP, RECORD_KEY, TS_MS, change_schema};
use crate::format::field_lookup::FieldLookup;
use crate::format::log::{AvroContent, BlockKind, HeaderKey, write_block};
use crate::merge::{Chosen, RowAddress, nullable};
use crate::storage::{FileReader, FileWriter};
use crate::table::file_group_merger::{MergedRows, merge_column};
use crate::table::{HudiTable, META_COLUMNS, MergeSettings};

/// Bytes of a block, however large log blocks may be: it is in memory until it ends.
const BLOCK_BYTES: usize = 8 << 20;

/// What the change data logs of a table hold.
#[derive(Debug, Clone)]
pub(crate) struct ChangeLogSettings {
    mode: LoggingMode,
    /// The columns of base files, and those of them that are rows of the table.
    file: SchemaRef,
    rows: SchemaRef,
    /// The columns of base files that are read of stored rows that change.
    stored: SchemaRef,
    /// The columns of records, and their Avro schema.
    records: SchemaRef,
    avro: String,
    merge: MergeSettings,
    block_bytes: usize,
    file_bytes: u64,
}

impl ChangeLogSettings {
    /// Those of a table whose base files have these columns; `None` if it captures no changes.
    ///
    /// # Errors
    /// `InvalidOption` for a mode that does not exist, or a size that is no number.
    pub(crate) fn new(table: &HudiTable, file: &SchemaRef) -> Result<Option<Self>> {
        let Some(mode) = table.config().change_capture()? else { return Ok(None) };
        let rows = Schema::new(file.fields().iter().skip(META_COLUMNS.len()).cloned().collect::<Vec<_>>());
        let avro = change_schema(mode, &rows, table.config().name())?;
        let (file, rows) = (nullable(file), nullable(&rows));
        let merge = table.merge_settings()?;
        let mut stored: Vec<FieldRef> = Vec::new();
        if mode.has(BEFORE) {
            stored.extend(rows.fields().iter().cloned());
        }
        if mode.has(RECORD_KEY) {
            let keys = merge.compared_columns(&file);
            let known = FieldLookup::new(rows.fields());
            stored.extend(keys.fields().iter().filter(|f| !(mode.has(BEFORE) && known.has(f.name()))).cloned());
        }
        let options = table.options();
        Ok(Some(Self {
            mode,
            records: mode.columns(&rows),
            rows,
            stored: Arc::new(Schema::new(stored)),
            avro,
            merge,
            file,
            block_bytes: options.number("hoodie.logfile.data.block.max.size", BLOCK_BYTES)?.clamp(1, BLOCK_BYTES),
            file_bytes: options.number("hoodie.logfile.max.size", 1u64 << 30)?,
        }))
    }
}

/// The change data log of one new base file, while that is written.
pub(crate) struct ChangeLog<'a> {
    settings: &'a ChangeLogSettings,
    files: &'a DataFiles,
    slice: &'a FileSlice,
    token: &'a str,
    /// Columns in which an updated row keeps what was stored.
    kept: &'a [String],
    block: AvroContent,
    open: Option<OpenLog>,
    /// Bytes of the files that are written, by path.
    written: BTreeMap<String, i64>,
}

struct OpenLog {
    path: String,
    sink: FileWriter,
    bytes: u64,
}

/// Some rows before and after a change.
#[derive(Default)]
struct Images {
    keys: Option<ArrayRef>,
    before: Option<ArrayRef>,
    after: Option<ArrayRef>,
}

impl<'a> ChangeLog<'a> {
    /// The log of the base file that comes after a slice; `token` is the write token of both. `kept`: columns in which an
    /// updated row keeps what was stored.
    pub(crate) fn new(
        settings: &'a ChangeLogSettings,
        files: &'a DataFiles,
        slice: &'a FileSlice,
        token: &'a str,
        kept: &'a [String],
    ) -> Self {
        let block = AvroContent::new(&settings.avro);
        Self { settings, files, slice, token, kept, block, open: None, written: BTreeMap::new() }
    }

    /// Adds what became of a row group of the old file: it is read anew where some of its rows change. `newer` are the
    /// columns of all newer records, batch after batch.
    ///
    /// # Errors
    /// Those of reading it; `Storage`.
    pub(crate) fn row_group(
        &mut self,
        reader: &BaseFileReader<FileReader>,
        index: usize,
        rows: &[MergedRows],
        newer: &[&[ArrayRef]],
    ) -> Result<()> {
        let changes = |rows: &MergedRows| rows.chosen.as_ref().is_some_and(Chosen::changes);
        if !rows.iter().any(changes) {
            return Ok(());
        }
        let stored = read_column_batches(reader, &self.settings.stored, index)?;
        if stored.len() != rows.len() {
            return Err(Error::corrupt("a column of a base file is shorter than others"));
        }
        for (stored, rows) in stored.iter().zip(rows) {
            if let Some(chosen) = &rows.chosen {
                self.merged(stored, chosen, &chosen.newer(|number| newer.get(number).copied())?)?;
            }
        }
        Ok(())
    }

    /// Adds what became of stored rows. `newer` are the columns of the newer records among which they were chosen.
    ///
    /// # Errors
    /// `Schema` for columns that are not there; `Storage`.
    pub(crate) fn merged(&mut self, stored: &RecordBatch, chosen: &Chosen, newer: &[&[ArrayRef]]) -> Result<()> {
        if !chosen.changes() {
            return Ok(());
        }
        let mode = self.settings.mode;
        let keys: Option<ArrayRef> = match mode.has(RECORD_KEY) {
            true => Some(Arc::new(self.settings.merge.keys(stored)?)),
            false => None,
        };
        let before = |rows: &UInt32Array| -> Result<Images> {
            let keys = keys.as_ref().map(|keys| take(keys, rows, None)).transpose()?;
            let before = mode.has(BEFORE).then(|| self.stored(stored, rows)).transpose()?;
            Ok(Images { keys, before, after: None })
        };
        let replaced: UInt32Array =
            chosen.replaced.iter().map(|replaced| replaced.row as u32).collect::<Vec<_>>().into();
        let mut updated = before(&replaced)?;
        if mode.has(AFTER) {
            updated.after = Some(self.after(stored, &replaced, chosen, newer)?);
        }
        let gone = chosen.gone_rows(stored.num_rows()).into_iter().map(|row| row as u32);
        let gone: UInt32Array = gone.collect::<Vec<_>>().into();
        let deleted = before(&gone)?;
        self.add(ChangeKind::Update, replaced.len(), &updated)?;
        self.add(ChangeKind::Delete, gone.len(), &deleted)
    }

    /// Adds rows that were not there before: the columns of the new file.
    ///
    /// # Errors
    /// `Schema` for columns that are not there; `Storage`.
    pub(crate) fn inserted(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let mode = self.settings.mode;
        let after = mode.has(AFTER).then(|| self.row(|name| self.column(columns, name))).transpose()?;
        let keys: Option<ArrayRef> = match mode.has(RECORD_KEY) {
            true => {
                let wanted = self.settings.merge.compared_columns(&self.settings.file);
                let keys = wanted.fields().iter().map(|field| self.column(columns, field.name()));
                let keys = RecordBatch::try_new(wanted.clone(), keys.collect::<Result<_>>()?)?;
                Some(Arc::new(self.settings.merge.keys(&keys)?))
            }
            false => None,
        };
        let rows = keys.as_ref().or(after.as_ref()).map_or(0, |column| column.len());
        self.add(ChangeKind::Insert, rows, &Images { keys, before: None, after })
    }

    /// Writes what is left, and publishes the file. Returns the bytes of each by its path, for the write stat of the base
    /// file. There is a file even if nothing changed, as in Hudi: its query of changes fails without one.
    ///
    /// # Errors
    /// `Conflict` when the action is over; `Storage`.
    pub(crate) fn finish(mut self) -> Result<BTreeMap<String, i64>> {
        if self.block.records() > 0 || (self.open.is_none() && self.written.is_empty()) {
            self.end_block()?;
        }
        self.end_file()?;
        Ok(self.written)
    }

    /// A column of the new file.
    fn column(&self, columns: &[ArrayRef], name: &str) -> Result<ArrayRef> {
        let column = self.settings.file.index_of(name).ok().and_then(|at| columns.get(at)).cloned();
        column.ok_or_else(|| Error::internal(format!("the column '{name}' of a new base file is missing")))
    }

    /// Rows of the table as one column.
    fn row(&self, column: impl Fn(&str) -> Result<ArrayRef>) -> Result<ArrayRef> {
        let fields = self.settings.rows.fields();
        let columns = fields.iter().map(|field| column(field.name())).collect::<Result<Vec<_>>>()?;
        Ok(Arc::new(StructArray::try_new(fields.clone(), columns, None)?))
    }

    fn stored(&self, stored: &RecordBatch, rows: &UInt32Array) -> Result<ArrayRef> {
        self.row(|name| Ok(take(stored_column(stored, name)?, rows, None)?))
    }

    /// The rows that came in the place of `replaced` ones.
    fn after(
        &self,
        stored: &RecordBatch,
        replaced: &UInt32Array,
        chosen: &Chosen,
        newer: &[&[ArrayRef]],
    ) -> Result<ArrayRef> {
        let by: Option<Vec<RowAddress>> = chosen.replaced.iter().map(|r| chosen.rows.get(r.at).copied()).collect();
        let by = by.ok_or_else(|| Error::internal("a stored record was replaced by none"))?;
        self.row(|name| {
            let old = stored_column(stored, name)?;
            if self.kept.iter().any(|kept| kept == name) {
                return Ok(take(old, replaced, None)?);
            }
            let sides = newer.iter().map(|columns| self.column(columns, name)).collect::<Result<Vec<_>>>()?;
            merge_column(old, &sides.iter().collect::<Vec<_>>(), &by)
        })
    }

    fn add(&mut self, kind: ChangeKind, rows: usize, images: &Images) -> Result<()> {
        if rows == 0 {
            return Ok(());
        }
        let same = |text: &str| -> ArrayRef { Arc::new(StringArray::from_iter_values(repeat_n(text, rows))) };
        let column = |field: &FieldRef| {
            let given = match field.name().as_str() {
                OP => return same(kind.letter()),
                TS_MS => return same(self.files.instant()),
                RECORD_KEY => &images.keys,
                BEFORE => &images.before,
                _ => &images.after,
            };
            given.clone().unwrap_or_else(|| new_null_array(field.data_type(), rows))
        };
        let columns = self.settings.records.fields().iter().map(column).collect();
        self.block.append(&RecordBatch::try_new(self.settings.records.clone(), columns)?)?;
        if self.block.bytes().len() < self.settings.block_bytes {
            return Ok(());
        }
        self.end_block()?;
        match &self.open {
            Some(open) if open.bytes >= self.settings.file_bytes => self.end_file(),
            _ => Ok(()),
        }
    }

    fn end_block(&mut self) -> Result<()> {
        let instant = self.files.instant();
        let mut open = match self.open.take() {
            Some(open) => open,
            None => {
                let version = u32::try_from(self.written.len() + 1).unwrap_or(u32::MAX);
                let name = change_log_name(&self.slice.file_id, instant, version, self.token);
                let path = join(&self.slice.partition, &name);
                let sink = self.files.create(&path, MarkerType::Create)?;
                OpenLog { path, sink, bytes: 0 }
            }
        };
        let header = [(HeaderKey::InstantTime, instant), (HeaderKey::Schema, self.settings.avro.as_str())];
        open.bytes += write_block(&mut open.sink, BlockKind::CdcData, &header, self.block.bytes())?;
        self.block.clear();
        self.open = Some(open);
        Ok(())
    }

    fn end_file(&mut self) -> Result<()> {
        if let Some(OpenLog { path, sink, .. }) = self.open.take() {
            let bytes = self.files.publish(&path, MarkerType::Create, sink)?;
            self.written.insert(path, i64::try_from(bytes).unwrap_or(i64::MAX));
        }
        Ok(())
    }
}

fn stored_column<'b>(stored: &'b RecordBatch, name: &str) -> Result<&'b ArrayRef> {
    let column = stored.column_by_name(name);
    column.ok_or_else(|| Error::internal(format!("the column '{name}' of a base file was not read")))
}
