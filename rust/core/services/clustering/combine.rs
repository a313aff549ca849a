//! Rows of a base file that go into another as they are: whole column chunks are copied, and only the column with the
//! name of the file is made anew.
//!
//! The keys of a file that goes whole into another are not looked at either: their range and their bloom filter are in its
//! footer, and filters can be joined.
//!
//! Row groups that are too small to stand for themselves are decoded, and become a part of larger ones; so is one that
//! goes beyond the end of a file.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use super::super::task_files::FILE_NAME;
use super::outputs::Outputs;
use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileOptions, BaseFileReader, FileKeys, GroupColumns, RECORD_KEY_COLUMN, RowGroupInfo, ScanOptions, Splice,
    SplicedColumn, TakenKeys,
};
use crate::storage::FileReader;

/// Rows that are decoded at once.
const BATCH_ROWS: usize = 32_768;
/// Row groups with less than this part of the rows and the bytes of a full one are joined with others.
const SMALLER: usize = 4;

/// What has to be known of a base file before it is copied.
pub(super) struct Prepared {
    reader: BaseFileReader<FileReader>,
    /// How its columns stand to those that are wanted; `None` when no row group can be copied.
    splice: Option<Splice>,
    /// What its footer says of the keys, for a file that can go whole into another.
    keys: Option<TakenKeys>,
}

/// Puts base files into the outputs.
pub(super) struct Combine<'a> {
    pub(super) schema: &'a SchemaRef,
    /// Those columns of it that are read.
    pub(super) read: &'a SchemaRef,
    pub(super) options: &'a BaseFileOptions,
    /// Whether meta columns have values.
    pub(super) populated: bool,
}

impl Combine<'_> {
    /// Reads the footer of a file.
    pub(super) fn prepare(&self, reader: BaseFileReader<FileReader>) -> Result<Prepared> {
        let splice = Splice::new(&reader, self.schema, self.options)?;
        let groups = reader.row_groups();
        let whole = self.populated && !groups.is_empty() && groups.iter().all(|g| self.stands_alone(g));
        let keys = if whole && splice.is_some() { TakenKeys::of(&reader, self.options)? } else { None };
        Ok(Prepared { reader, splice, keys })
    }

    /// Puts a file into the outputs.
    pub(super) fn run(&self, file: Prepared, outputs: &mut Outputs<'_>) -> Result<()> {
        let Prepared { reader, splice, keys } = file;
        let Some(splice) = splice else {
            return (0..reader.row_groups().len()).try_for_each(|index| self.decode_group(&reader, index, outputs));
        };
        if let Some(keys) = keys
            && self.copy_whole(&reader, &splice, keys, outputs)?
        {
            return Ok(());
        }
        for (index, group) in reader.row_groups().into_iter().enumerate() {
            if self.stands_alone(&group) && outputs.has_room(group.compressed_bytes)? {
                self.copy(&reader, &splice, index, &group, outputs)?;
                self.tell_keys(&reader, index, outputs)?;
            } else {
                self.decode_group(&reader, index, outputs)?;
            }
        }
        Ok(())
    }

    fn decode_group(&self, reader: &BaseFileReader<FileReader>, index: usize, outputs: &mut Outputs<'_>) -> Result<()> {
        decode(reader, self.read.clone(), index)?.try_for_each(|batch| outputs.write(&batch?))
    }

    /// Copies all row groups into one file, with what the footer says of the keys: none of them is looked at. Returns
    /// whether that could be done.
    fn copy_whole(
        &self,
        reader: &BaseFileReader<FileReader>,
        splice: &Splice,
        keys: TakenKeys,
        outputs: &mut Outputs<'_>,
    ) -> Result<bool> {
        let groups = reader.row_groups();
        let bytes = groups.iter().map(|g| g.compressed_bytes).sum();
        if !outputs.has_room(bytes)? || !outputs.file()?.writer.take_keys(keys) {
            return Ok(false);
        }
        for (index, group) in groups.iter().enumerate() {
            self.copy(reader, splice, index, group, outputs)?;
        }
        Ok(true)
    }

    fn stands_alone(&self, group: &RowGroupInfo) -> bool {
        let bytes = usize::try_from(group.compressed_bytes).unwrap_or(usize::MAX);
        let rows = usize::try_from(group.rows).unwrap_or(usize::MAX);
        rows > 0 && (rows >= self.options.row_group_rows / SMALLER || bytes >= self.options.row_group_bytes / SMALLER)
    }

    fn copy(
        &self,
        reader: &BaseFileReader<FileReader>,
        splice: &Splice,
        index: usize,
        group: &RowGroupInfo,
        outputs: &mut Outputs<'_>,
    ) -> Result<()> {
        let rows = usize::try_from(group.rows).map_err(|_| Error::corrupt("a row group has too many rows"))?;
        let file = outputs.file()?;
        let name = file.name.clone();
        let fields = self.schema.fields().iter().cloned().enumerate();
        let made: Vec<_> =
            fields.filter(|(at, _)| !(*at == FILE_NAME && self.populated || splice.can_copy(*at))).collect();
        let threads = self.options.threads.min(made.len().max(1));
        let old = GroupColumns::new(reader, splice, index, made);
        let column = |at: usize| -> Result<SplicedColumn> {
            if at == FILE_NAME && self.populated {
                return Ok(SplicedColumn::Constant(name.clone()));
            }
            if splice.can_copy(at) {
                return Ok(SplicedColumn::Same);
            }
            Ok(SplicedColumn::Values(
                old.take(at)?.ok_or_else(|| Error::internal("a column of a base file was not announced"))?,
            ))
        };
        file.writer.splice_row_group(reader, splice, index, rows, threads, &column)
    }

    fn tell_keys(&self, reader: &BaseFileReader<FileReader>, index: usize, outputs: &mut Outputs<'_>) -> Result<()> {
        let file = outputs.file()?;
        if !self.populated {
            file.writer.set_keys(FileKeys::default());
            return Ok(());
        }
        let keys = self.schema.field_with_name(RECORD_KEY_COLUMN).map_err(|_| Error::schema("no record keys"))?;
        for batch in decode(reader, Arc::new(Schema::new(vec![keys.clone()])), index)? {
            file.writer.add_spliced_keys(&batch?)?;
        }
        Ok(())
    }
}

fn decode(
    reader: &BaseFileReader<FileReader>,
    schema: SchemaRef,
    group: usize,
) -> Result<impl Iterator<Item = Result<RecordBatch>>> {
    reader.scan(&ScanOptions::new(schema).with_batch_size(BATCH_ROWS).with_row_groups(vec![group]))
}
