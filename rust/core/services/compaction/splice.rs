//! Compacting a slice row group by row group, a column at a time: what no log record changes is copied as it is.
//!
//! Where no record of a row group goes and none is added, its record keys stay, and so do all columns of which the log
//! records say what is stored already. Of these only the columns that merging compares are read at all, or such as have
//! to be read to find out; none is encoded again. Where rules make records of two, all columns of a row group are read
//! first. Row groups that are too large for that stream through instead (`unit.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use parquet::basic::LogicalType;

use super::super::task_files::FILE_NAME;
use super::texts::{LogTexts, MergedTexts, with_dictionary};
use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileOptions, BaseFileReader, BaseFileWriter, FileKeys, GroupColumns, RECORD_KEY_COLUMN, Splice, SplicedColumn,
    fills_up, is_all_dictionary, read_bytes, read_column_batches, same_values,
};
use crate::merge::{Chosen, Place};
use crate::storage::{FileReader, FileWriter};
use crate::table::slice_reader::MergedLogs;

/// The part of the budget that texts of log records may take as numbers.
const TEXTS_SHARE: usize = 8;

/// What the new file of a slice is to be.
pub(super) struct Target<'a> {
    pub(super) schema: &'a SchemaRef,
    pub(super) options: &'a BaseFileOptions,
    /// Whether records have meta columns.
    pub(super) populate_meta: bool,
    /// Columns that the record key spells.
    pub(super) key_columns: &'a [String],
    pub(super) file_name: &'a str,
}

/// How row groups of the old file can be taken over; `None` where they are better written anew: they are cut otherwise,
/// or what of one is decoded at a time is more than `budget` bytes.
pub(super) fn can_splice(
    reader: &BaseFileReader<FileReader>,
    logs: &MergedLogs,
    target: &Target<'_>,
    budget: usize,
) -> Result<Option<Splice>> {
    let groups = reader.metadata().row_groups();
    let largest = groups.iter().flat_map(|group| group.columns()).map(read_bytes).max().unwrap_or_default();
    // As it was, as it is to be, and encoded.
    let one_each = largest.saturating_mul(3).saturating_mul(target.options.threads.max(1) as u64);
    let all = match logs.merge.keeps_one() {
        true => 0,
        false => groups.iter().map(|group| group.columns().iter().map(read_bytes).sum()).max().unwrap_or_default(),
    };
    if logs.merge.has_large_records() || one_each.saturating_add(all) > budget as u64 {
        return Ok(None);
    }
    Splice::new(reader, target.schema, target.options)
}

/// Writes the row groups of the old file with the log records put onto them, and new records behind.
pub(super) fn splice(
    reader: &BaseFileReader<FileReader>,
    splice: &Splice,
    writer: &mut BaseFileWriter<FileWriter>,
    logs: &mut MergedLogs,
    target: &Target<'_>,
    budget: usize,
) -> Result<()> {
    let keeps_one = logs.merge.keeps_one();
    let compared = if keeps_one { logs.settings.compared_columns(target.schema) } else { logs.columns.clone() };
    // Where none goes, the footer of the old file tells all but the new keys. A merger may delete what neither record
    // did; the filter then stands for some keys more.
    let grows = target.populate_meta
        && keeps_one
        && !logs.merge.has_deletes()
        && FileKeys::grown(reader, &[], target.options)?.is_some();
    let mut added = Vec::new();
    let known = compared.fields().iter().enumerate().map(|(at, field)| (field.name().as_str(), at)).collect();
    let texts = LogTexts::new(target.schema.fields().len(), budget / TEXTS_SHARE);
    let groups = reader.row_groups();
    for (index, info) in groups.iter().enumerate() {
        let mut pieces = Vec::new();
        for batch in read_column_batches(reader, &compared, index)? {
            let (settings, keys) = (&logs.settings, logs.settings.keys(&batch)?);
            let chosen = logs.merge.choose(&batch, &keys, &|batch| settings.ordering(batch))?;
            pieces.push(Piece { compared: batch, chosen });
        }
        let mut appended = Vec::new();
        if index + 1 == groups.len() && fills_up(info.rows, logs.merge.unmet(), target.options) {
            while let Some(batch) = logs.merge.next_new()? {
                appended.push(batch);
            }
        }
        let old = GroupColumns::new(reader, splice, index, Vec::new());
        let compared = &known;
        let mut group =
            RowGroup { reader, splice, logs, target, index, pieces, appended, texts: &texts, compared, old };
        group.old = GroupColumns::new(reader, splice, index, group.read_columns());
        let rows = group.rows();
        if rows == 0 {
            continue;
        }
        if target.populate_meta && !grows {
            group.each_key(&mut |keys| writer.add_spliced_keys(keys))?;
        } else if target.populate_meta {
            added.extend(group.appended.iter().map(key_column).collect::<Result<Vec<_>>>()?);
        }
        // Nothing to encode where nothing changes.
        let threads = if group.is_untouched() { 1 } else { target.options.threads };
        writer.splice_row_group(reader, splice, index, rows, threads, &|column| group.column(column))?;
    }
    while let Some(batch) = logs.merge.next_new()? {
        if grows {
            added.push(key_column(&batch)?);
        }
        writer.write(&batch)?;
    }
    if grows {
        writer.set_keys(keys_with(reader, added, target)?);
    } else if !target.populate_meta {
        writer.set_keys(FileKeys::default());
    }
    Ok(())
}

/// The keys of the old file and some more.
fn keys_with(reader: &BaseFileReader<FileReader>, mut added: Vec<ArrayRef>, target: &Target<'_>) -> Result<FileKeys> {
    let texts = |keys: &ArrayRef| {
        let texts = keys.as_any().downcast_ref::<arrow::array::StringArray>().filter(|keys| keys.null_count() == 0);
        texts.cloned().ok_or_else(|| Error::corrupt("a record of a base file has no record key"))
    };
    let more = added.iter().map(texts).collect::<Result<Vec<_>>>()?;
    if let Some(keys) = FileKeys::grown(reader, &more, target.options)? {
        return Ok(keys);
    }
    for part in reader.key_column()? {
        added.push(part?.1.column(0).clone());
    }
    FileKeys::of(&added.iter().map(texts).collect::<Result<Vec<_>>>()?, target.options)
}

fn key_column(batch: &RecordBatch) -> Result<ArrayRef> {
    let keys = batch.column_by_name(RECORD_KEY_COLUMN).cloned();
    keys.ok_or_else(|| Error::corrupt("a data file has no record keys"))
}

/// Rows of the old row group, and what becomes of them.
struct Piece {
    /// What was read to find out.
    compared: RecordBatch,
    /// `None`: they stay.
    chosen: Option<Chosen>,
}

impl Piece {
    fn rows(&self) -> usize {
        self.chosen.as_ref().map_or(self.compared.num_rows(), |chosen| chosen.rows.len())
    }

    /// Rows that another record replaces, and these, where none goes.
    fn replaced(&self) -> (UInt32Array, Vec<Place>) {
        let rows = self.chosen.iter().flat_map(|chosen| chosen.rows.iter().enumerate());
        let replaced = rows.filter(|(_, (side, _))| *side > 0);
        let (old, new): (Vec<u32>, Vec<Place>) =
            replaced.map(|(row, (side, place))| (row as u32, (side - 1, *place))).unzip();
        (UInt32Array::from(old), new)
    }
}

fn without_dictionary(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => Ok(cast(array, field.data_type())?),
        _ => Ok(array.clone()),
    }
}

/// One row group while its columns are put together.
struct RowGroup<'a> {
    reader: &'a BaseFileReader<FileReader>,
    splice: &'a Splice,
    logs: &'a MergedLogs,
    target: &'a Target<'a>,
    index: usize,
    pieces: Vec<Piece>,
    /// New records that come behind.
    appended: Vec<RecordBatch>,
    texts: &'a LogTexts,
    /// The columns that were read to find out, by name.
    compared: &'a HashMap<&'a str, usize>,
    /// The columns of the old row group that have to be read besides.
    old: GroupColumns<'a, FileReader>,
}

impl RowGroup<'_> {
    fn rows(&self) -> usize {
        let appended = self.appended.iter().map(RecordBatch::num_rows).sum::<usize>();
        self.pieces.iter().map(Piece::rows).sum::<usize>() + appended
    }

    /// Whether every old record keeps its place.
    fn is_intact(&self) -> bool {
        let none_goes = |piece: &Piece| piece.chosen.as_ref().is_none_or(|chosen| chosen.gone == 0);
        self.appended.is_empty() && self.pieces.iter().all(none_goes)
    }

    /// Whether no log record meets any.
    fn is_untouched(&self) -> bool {
        self.appended.is_empty() && self.pieces.iter().all(|piece| piece.chosen.is_none())
    }

    /// Gives the record keys that come out to `each`.
    fn each_key(&self, each: &mut dyn FnMut(&RecordBatch) -> Result<()>) -> Result<()> {
        let field = Arc::new(Field::new(RECORD_KEY_COLUMN, DataType::Utf8, true));
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let column = self.target.schema.index_of(RECORD_KEY_COLUMN)?;
        let old = self.key_pieces(&field)?;
        for keys in self.merged(&old, column)? {
            each(&RecordBatch::try_new(schema.clone(), vec![keys])?)?;
        }
        Ok(())
    }

    /// What a column holds, where that is known without reading the old one.
    fn unread(&self, column: usize, field: &Field) -> Option<SplicedColumn> {
        if self.target.populate_meta && column == FILE_NAME {
            return Some(SplicedColumn::Constant(self.target.file_name.to_owned()));
        }
        let is_key = || {
            let name = field.name();
            // What is made of two records may say anything.
            self.logs.merge.keeps_one()
                && (self.target.populate_meta && name == RECORD_KEY_COLUMN || self.target.key_columns.contains(name))
        };
        (self.can_copy(column) && (self.is_untouched() || is_key())).then_some(SplicedColumn::Same)
    }

    /// The columns that have to be read, with the types in which they are: texts that are numbers stay numbers.
    fn read_columns(&self) -> Vec<(usize, FieldRef)> {
        let fields = self.target.schema.fields().iter().enumerate();
        let read =
            fields.filter(|(column, field)| self.unread(*column, field).is_none() && self.known(field).is_none());
        let typed = |(column, field): (usize, &FieldRef)| match self.may_stay_numbers(field, column) {
            true => (column, Arc::new(with_dictionary(field))),
            false => (column, field.clone()),
        };
        read.map(typed).collect()
    }

    fn can_copy(&self, column: usize) -> bool {
        self.is_intact() && self.splice.can_copy(column)
    }

    fn column(&self, column: usize) -> Result<SplicedColumn> {
        let field = self.target.schema.fields().get(column);
        let field = field.ok_or_else(|| Error::schema("a column that the file does not have"))?;
        if let Some(known) = self.unread(column, field) {
            return Ok(known);
        }
        let can_copy = self.can_copy(column);
        let old = self.decoded(column, field)?;
        if let Some(texts) = self.texts(field, column, &old)? {
            let same = can_copy && texts.same;
            return Ok(if same { SplicedColumn::Same } else { SplicedColumn::Values(texts.pieces) });
        }
        let old = old.iter().map(|piece| without_dictionary(piece, field)).collect::<Result<Vec<_>>>()?;
        if can_copy && self.nothing_new(&old, column)? {
            return Ok(SplicedColumn::Same);
        }
        Ok(SplicedColumn::Values(self.merged(&old, column)?))
    }

    /// A column of texts that are stored as numbers, as they are in the old row group and among the log records. `None`
    /// for other columns.
    fn texts(&self, field: &Field, column: usize, old: &[ArrayRef]) -> Result<Option<MergedTexts>> {
        if !self.may_stay_numbers(field, column) {
            return Ok(None);
        }
        let Some(texts) = self.texts.column(column, self.logs.merge.parts()) else { return Ok(None) };
        texts.put_onto(old.iter().zip(self.pieces.iter().map(|piece| piece.chosen.as_ref()))).map(Some)
    }

    /// Whether a column of the old row group is read as numbers of its texts.
    fn may_stay_numbers(&self, field: &Field, column: usize) -> bool {
        let [chunk] = self.splice.stored_chunks(column, self.index) else { return false };
        let is_utf8 = chunk.column_descr().logical_type_ref() == Some(&LogicalType::String);
        let are_numbers = is_utf8 && chunk.column_path().parts().len() == 1 && is_all_dictionary(chunk);
        let is_text = field.data_type() == &DataType::Utf8 && self.logs.merge.keeps_one();
        // What was read already has its texts.
        is_text && are_numbers && self.appended.is_empty() && self.known(field).is_none()
    }

    fn check_lengths(&self, pieces: &[ArrayRef], field: &Field) -> Result<()> {
        if pieces.iter().map(|p| p.len()).ne(self.pieces.iter().map(|p| p.compared.num_rows())) {
            return Err(Error::corrupt("a column of a base file is shorter than others").with("column", field.name()));
        }
        Ok(())
    }

    /// A column that was read to find out what becomes of the rows, in pieces.
    fn known(&self, field: &Field) -> Option<Vec<ArrayRef>> {
        let at = *self.compared.get(field.name().as_str())?;
        self.pieces.iter().map(|piece| piece.compared.columns().get(at).cloned()).collect()
    }

    fn key_pieces(&self, field: &FieldRef) -> Result<Vec<ArrayRef>> {
        if let Some(known) = self.known(field) {
            return Ok(known);
        }
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let batches = read_column_batches(self.reader, &schema, self.index)?;
        let pieces: Vec<ArrayRef> = batches.iter().map(|batch| batch.column(0).clone()).collect();
        self.check_lengths(&pieces, field)?;
        Ok(pieces)
    }

    /// A column of the old row group, in pieces.
    fn decoded(&self, column: usize, field: &FieldRef) -> Result<Vec<ArrayRef>> {
        let pieces = match self.known(field) {
            Some(pieces) => pieces,
            None => self.old.take(column)?.ok_or_else(|| {
                Error::internal(format!("the column '{}' of a base file was not announced", field.name()))
            })?,
        };
        self.check_lengths(&pieces, field)?;
        Ok(pieces)
    }

    /// A column of the log records that were chosen for a piece, part by part.
    fn newer(&self, chosen: &Chosen, column: usize) -> Result<Vec<ArrayRef>> {
        let of_part = |part: &'_ RecordBatch| {
            let column = part.columns().get(column).cloned();
            column.ok_or_else(|| Error::schema("a column that log records do not have"))
        };
        self.logs.merge.newer(chosen)?.into_iter().map(of_part).collect()
    }

    /// Whether all records that replace old ones say of a column what these said.
    fn nothing_new(&self, old: &[ArrayRef], column: usize) -> Result<bool> {
        for (piece, old) in self.pieces.iter().zip(old) {
            let (at, by) = piece.replaced();
            let Some(chosen) = piece.chosen.as_ref().filter(|_| !by.is_empty()) else { continue };
            let newer = self.newer(chosen, column)?;
            let newer: Vec<&dyn Array> = newer.iter().map(AsRef::as_ref).collect();
            if !same_values(&take(old, &at, None)?, &interleave(&newer, &by)?)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn merged(&self, old: &[ArrayRef], column: usize) -> Result<Vec<ArrayRef>> {
        let lacking = || Error::schema("a column that log records do not have");
        let mut out = Vec::with_capacity(old.len() + self.appended.len());
        for (piece, old) in self.pieces.iter().zip(old) {
            match &piece.chosen {
                None => out.push(old.clone()),
                Some(chosen) if chosen.rows.is_empty() => {}
                Some(chosen) => {
                    let newer = self.newer(chosen, column)?;
                    let sides: Vec<&dyn Array> = std::iter::once(old).chain(&newer).map(AsRef::as_ref).collect();
                    out.push(interleave(&sides, &chosen.rows)?);
                }
            }
        }
        for batch in &self.appended {
            out.push(batch.columns().get(column).cloned().ok_or_else(lacking)?);
        }
        let field = self.target.schema.fields().get(column).ok_or_else(lacking)?;
        if !field.is_nullable() && out.iter().any(|piece| piece.null_count() > 0) {
            let what = format!("a record has no value in the column '{}', which asks for one", field.name());
            return Err(Error::schema(what).with("column", field.name()));
        }
        Ok(out)
    }
}
