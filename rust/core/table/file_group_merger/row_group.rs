//! One row group, while its columns are put together.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{cast, interleave, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use parquet::basic::LogicalType;

use super::strings::{MergedStrings, NewerStrings, with_dictionary};
use super::target::{ColumnValues, Target};
use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileReader, GroupColumns, Splice, SplicedColumn, is_all_dictionary, read_column_batches, same_values,
};
use crate::merge::{Chosen, RowAddress};
use crate::storage::FileReader;

/// A row group of the old file, and what became of its rows.
pub(crate) struct MergedRowGroup<'a> {
    /// Its number.
    pub index: usize,
    /// Its rows, [`COLUMN_BATCH_ROWS`](crate::file_group::base::COLUMN_BATCH_ROWS) at a time.
    pub rows: Vec<MergedRows>,
    /// The newer records, batch after batch: the columns of the new file.
    pub newer: Vec<&'a [ArrayRef]>,
    /// Their strings.
    pub strings: &'a NewerStrings,
    /// New records that come behind, batch after batch.
    pub appended: Vec<&'a [ArrayRef]>,
}

/// Some rows of the old file, and what became of them.
pub(crate) struct MergedRows {
    /// How many they are.
    pub rows: usize,
    /// The columns that were read to decide.
    pub known: Option<RecordBatch>,
    /// `None`: they stay.
    pub chosen: Option<Chosen>,
}

impl MergedRows {
    /// How many rows come out.
    pub(crate) fn rows_out(&self) -> usize {
        self.chosen.as_ref().map_or(self.rows, |chosen| chosen.rows.len())
    }
}

impl MergedRowGroup<'_> {
    /// How many rows come out.
    pub(super) fn rows_out(&self) -> usize {
        let appended = self.appended.iter().filter_map(|columns| columns.first()).map(|column| column.len());
        self.rows.iter().map(MergedRows::rows_out).chain(appended).sum()
    }

    /// Whether every old record keeps its row.
    fn is_intact(&self) -> bool {
        self.appended.is_empty() && self.chosen().all(|chosen| chosen.gone == 0)
    }

    /// Whether every old record is there as it was.
    pub(super) fn is_untouched(&self) -> bool {
        self.is_intact() && self.chosen().all(|chosen| chosen.replaced.is_empty())
    }

    fn chosen(&self) -> impl Iterator<Item = &Chosen> {
        self.rows.iter().filter_map(|rows| rows.chosen.as_ref())
    }

    /// A column of the newer records among which some rows choose.
    fn newer<'c>(&'c self, chosen: &'c Chosen, column: usize) -> Result<Vec<&'c ArrayRef>> {
        let newer = chosen.newer(|number| self.newer.get(number).copied())?;
        newer.into_iter().map(|columns| columns.get(column).ok_or_else(no_column)).collect()
    }
}

/// Rows of a column, given the stored one and those of newer records.
///
/// # Errors
/// `Schema` for columns of different types.
pub(crate) fn merge_column(old: &ArrayRef, newer: &[&ArrayRef], rows: &[RowAddress]) -> Result<ArrayRef> {
    let sides: Vec<&dyn Array> = std::iter::once(&old).chain(newer).map(|side| side.as_ref()).collect();
    Ok(interleave(&sides, rows)?)
}

fn no_column() -> Error {
    Error::internal("a column is wanted that the file does not have")
}

/// Puts the columns of a row group together.
pub(super) struct RowGroupMerge<'a> {
    reader: &'a BaseFileReader<FileReader>,
    splice: &'a Splice,
    target: &'a Target<'a>,
    group: &'a MergedRowGroup<'a>,
    is_intact: bool,
    is_untouched: bool,
    /// The columns that were read to decide, by name.
    known: HashMap<&'a str, usize>,
    /// The columns of the old row group that have to be read besides.
    old: GroupColumns<'a, FileReader>,
}

impl<'a> RowGroupMerge<'a> {
    pub(super) fn new(
        reader: &'a BaseFileReader<FileReader>,
        splice: &'a Splice,
        target: &'a Target<'a>,
        group: &'a MergedRowGroup<'a>,
    ) -> Self {
        let known = group.rows.first().and_then(|rows| rows.known.as_ref());
        let known = known.map_or(&[][..], |known| known.schema_ref().fields()).iter().enumerate();
        let mut merge = Self {
            reader,
            splice,
            target,
            group,
            is_intact: group.is_intact(),
            is_untouched: group.is_untouched(),
            known: known.map(|(at, field)| (field.name().as_str(), at)).collect(),
            old: GroupColumns::new(reader, splice, group.index, Vec::new()),
        };
        merge.old = GroupColumns::new(reader, splice, group.index, merge.read_columns());
        merge
    }

    /// The columns of the old row group that have to be read, with the types in which they are: strings that are dictionary
    /// keys in the file stay so.
    fn read_columns(&self) -> Vec<(usize, FieldRef)> {
        let fields = self.target.schema.fields().iter().enumerate();
        let read = fields.filter(|(column, field)| self.unread(*column, field).is_none() && !self.is_known(field));
        let typed = |(column, field): (usize, &FieldRef)| match self.has_dictionary_keys(column, field) {
            true => (column, Arc::new(with_dictionary(field))),
            false => (column, field.clone()),
        };
        read.map(typed).collect()
    }

    /// What a column holds.
    pub(super) fn column(&self, column: usize) -> Result<SplicedColumn> {
        let field = self.target.schema.fields().get(column).ok_or_else(no_column)?;
        if let Some(unread) = self.unread(column, field) {
            return Ok(unread);
        }
        let old = self.decoded(column, field)?;
        let can_copy = self.can_copy(column);
        if self.has_dictionary_keys(column, field)
            && let Some(MergedStrings { same, columns }) = self.merged_strings(&old, column)?
        {
            return Ok(if can_copy && same { SplicedColumn::Same } else { SplicedColumn::Values(columns) });
        }
        let old = old.iter().map(|old| without_dictionary(old, field)).collect::<Result<Vec<_>>>()?;
        if can_copy && self.nothing_new(&old, column)? {
            return Ok(SplicedColumn::Same);
        }
        Ok(SplicedColumn::Values(self.merged(&old, column)?))
    }

    /// A column, read by itself.
    pub(super) fn by_itself(&self, column: usize, field: &FieldRef) -> Result<Vec<ArrayRef>> {
        let old = match self.known(field) {
            Some(known) => known,
            None => {
                let schema = Arc::new(Schema::new(vec![field.clone()]));
                let batches = read_column_batches(self.reader, &schema, self.group.index)?;
                batches.iter().map(|batch| batch.column(0).clone()).collect()
            }
        };
        self.check_lengths(&old, field)?;
        self.merged(&old, column)
    }

    fn values(&self, column: usize) -> Option<&ColumnValues> {
        self.target.columns.get(column)
    }

    /// Whether a column can stay as it is in the old file.
    fn can_copy(&self, column: usize) -> bool {
        self.is_intact && self.splice.can_copy(column)
    }

    /// What a column holds, where that is known without reading the old one.
    fn unread(&self, column: usize, field: &Field) -> Option<SplicedColumn> {
        let stays = match self.values(column)? {
            ColumnValues::Constant(value) => return Some(SplicedColumn::Constant(value.clone())),
            ColumnValues::Null | ColumnValues::OfKey | ColumnValues::Stored => true,
            ColumnValues::Merged => self.is_untouched,
        };
        if stays && self.can_copy(column) {
            return Some(SplicedColumn::Same);
        }
        let is_null = self.values(column) == Some(&ColumnValues::Null);
        is_null.then(|| SplicedColumn::Values(vec![new_null_array(field.data_type(), self.group.rows_out())]))
    }

    fn is_known(&self, field: &Field) -> bool {
        self.known.contains_key(field.name().as_str())
    }

    /// A column that was read to decide, batch after batch.
    fn known(&self, field: &Field) -> Option<Vec<ArrayRef>> {
        let at = *self.known.get(field.name().as_str())?;
        self.group.rows.iter().map(|rows| rows.known.as_ref()?.columns().get(at).cloned()).collect()
    }

    /// A column of the old row group, batch after batch.
    fn decoded(&self, column: usize, field: &Field) -> Result<Vec<ArrayRef>> {
        let old = match self.known(field) {
            Some(known) => known,
            None => self.old.take(column)?.ok_or_else(|| {
                Error::internal(format!("the column '{}' of a base file was not announced", field.name()))
            })?,
        };
        self.check_lengths(&old, field)?;
        Ok(old)
    }

    fn check_lengths(&self, old: &[ArrayRef], field: &Field) -> Result<()> {
        if old.iter().map(|old| old.len()).ne(self.group.rows.iter().map(|rows| rows.rows)) {
            return Err(Error::corrupt("a column of a base file is shorter than others").with("column", field.name()));
        }
        Ok(())
    }

    /// Whether a column of the old row group is read as dictionary keys.
    fn has_dictionary_keys(&self, column: usize, field: &Field) -> bool {
        let [chunk] = self.splice.stored_chunks(column, self.group.index) else { return false };
        let is_utf8 = chunk.column_descr().logical_type_ref() == Some(&LogicalType::String);
        let are_keys = is_utf8 && chunk.column_path().parts().len() == 1 && is_all_dictionary(chunk);
        let is_string = field.data_type() == &DataType::Utf8 && self.group.chosen().all(|chosen| chosen.made.is_none());
        // What was read to decide has its strings already.
        is_string && are_keys && !self.is_known(field)
    }

    /// A column of dictionary keys; `None` where the newer records have too many strings for that.
    fn merged_strings(&self, old: &[ArrayRef], column: usize) -> Result<Option<MergedStrings>> {
        let Some(newer) = self.group.strings.column(column, &self.group.newer) else { return Ok(None) };
        let chosen: Vec<_> = self
            .group
            .rows
            .iter()
            .map(|rows| rows.chosen.as_ref().map(|c| (self.rows_of(c, column), &c.batches)))
            .collect();
        let rows =
            chosen.iter().map(|chosen| chosen.as_ref().map(|(rows, batches)| (rows.as_ref(), batches.as_slice())));
        newer.merge(old.iter().zip(rows), &self.appended(column)?)
    }

    /// The rows that come out of some of the old ones, in a column.
    fn rows_of<'c>(&self, chosen: &'c Chosen, column: usize) -> Cow<'c, [RowAddress]> {
        match self.values(column) {
            Some(ColumnValues::Stored) => chosen.as_stored().into(),
            _ => (&chosen.rows).into(),
        }
    }

    fn appended(&self, column: usize) -> Result<Vec<&ArrayRef>> {
        self.group.appended.iter().map(|columns| columns.get(column).ok_or_else(no_column)).collect()
    }

    /// Whether all records that replace stored ones say of a column what these said.
    fn nothing_new(&self, old: &[ArrayRef], column: usize) -> Result<bool> {
        for (rows, old) in self.group.rows.iter().zip(old) {
            let Some(chosen) = rows.chosen.as_ref().filter(|chosen| !chosen.replaced.is_empty()) else { continue };
            let at: UInt32Array = chosen.replaced.iter().map(|replaced| replaced.row as u32).collect::<Vec<_>>().into();
            let by: Option<Vec<RowAddress>> =
                chosen.replaced.iter().map(|replaced| chosen.rows.get(replaced.at).copied()).collect();
            let by = by.ok_or_else(|| Error::internal("a stored record was replaced by none"))?;
            let new = merge_column(old, &self.group.newer(chosen, column)?, &by)?;
            if !same_values(&take(old, &at, None)?, &new)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A column with the newer records in it, and the appended ones behind.
    fn merged(&self, old: &[ArrayRef], column: usize) -> Result<Vec<ArrayRef>> {
        let mut out = Vec::with_capacity(old.len() + self.group.appended.len());
        for (rows, old) in self.group.rows.iter().zip(old) {
            match &rows.chosen {
                None => out.push(old.clone()),
                Some(chosen) if chosen.rows.is_empty() => {}
                Some(chosen) => {
                    out.push(merge_column(old, &self.group.newer(chosen, column)?, &self.rows_of(chosen, column))?);
                }
            }
        }
        out.extend(self.appended(column)?.into_iter().cloned());
        let field = self.target.schema.fields().get(column).ok_or_else(no_column)?;
        if !field.is_nullable() && out.iter().any(|values| values.null_count() > 0) {
            let what = format!("a record has no value in the column '{}', which asks for one", field.name());
            return Err(Error::schema(what).with("column", field.name()));
        }
        Ok(out)
    }
}

fn without_dictionary(array: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(..) => Ok(cast(array, field.data_type())?),
        _ => Ok(array.clone()),
    }
}
