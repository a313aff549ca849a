//! Copies rows of base files to another file: column chunks are copied as bytes, and only the column of the file name
//! is encoded.
//!
//! The keys of a file that is copied as a whole are not read: its footer has their range and bloom filter, and bloom
//! filters can be merged.
//!
//! Small row groups are decoded and merged into larger ones; so is a row group that does not fit into the current file.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};

use crate::error::{Error, Result};
use crate::file_group::base::{
    BaseFileOptions, BaseFileReader, FileKeys, GroupColumns, RECORD_KEY_COLUMN, RowGroupInfo, ScanOptions, Splice,
    SplicedColumn, TakenKeys,
};
use crate::storage::FileReader;
use crate::transaction::{FILE_NAME, RollingFileWriter};

/// Rows of a batch.
const BATCH_ROWS: usize = 32_768;
/// Row groups below this fraction of the rows and bytes of a full one are merged with others.
const SMALLER: usize = 4;

/// A base file that is ready to be copied.
pub(super) struct Prepared {
    reader: BaseFileReader<FileReader>,
    /// How its columns map to those of the new file; `None` if no row group can be copied.
    splice: Option<Splice>,
    /// Range and bloom filter of its keys, if the file can be copied as a whole.
    keys: Option<TakenKeys>,
}

/// Copies base files to the writer.
pub(super) struct Combine<'a> {
    pub(super) schema: &'a SchemaRef,
    /// The columns that are read.
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

    /// Copies a file.
    pub(super) fn run(&self, file: Prepared, writer: &mut RollingFileWriter<'_>) -> Result<()> {
        let Prepared { reader, splice, keys } = file;
        let Some(splice) = splice else {
            return (0..reader.row_groups().len()).try_for_each(|index| self.decode_group(&reader, index, writer));
        };
        if let Some(keys) = keys
            && self.copy_whole(&reader, &splice, keys, writer)?
        {
            return Ok(());
        }
        for (index, group) in reader.row_groups().into_iter().enumerate() {
            if self.stands_alone(&group) && writer.has_room(group.compressed_bytes)? {
                self.copy(&reader, &splice, index, &group, writer)?;
                self.tell_keys(&reader, index, writer)?;
            } else {
                self.decode_group(&reader, index, writer)?;
            }
        }
        Ok(())
    }

    fn decode_group(
        &self,
        reader: &BaseFileReader<FileReader>,
        index: usize,
        writer: &mut RollingFileWriter<'_>,
    ) -> Result<()> {
        decode(reader, self.read.clone(), index)?.try_for_each(|batch| writer.write(&batch?))
    }

    /// Copies all row groups to one file, with the key range and bloom filter of the footer. Returns whether that was
    /// possible.
    fn copy_whole(
        &self,
        reader: &BaseFileReader<FileReader>,
        splice: &Splice,
        keys: TakenKeys,
        writer: &mut RollingFileWriter<'_>,
    ) -> Result<bool> {
        let groups = reader.row_groups();
        let bytes = groups.iter().map(|g| g.compressed_bytes).sum();
        if !writer.has_room(bytes)? || !writer.file()?.writer.take_keys(keys) {
            return Ok(false);
        }
        for (index, group) in groups.iter().enumerate() {
            self.copy(reader, splice, index, group, writer)?;
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
        writer: &mut RollingFileWriter<'_>,
    ) -> Result<()> {
        let rows = usize::try_from(group.rows).map_err(|_| Error::corrupt("a row group has too many rows"))?;
        let file = writer.file()?;
        let name = file.file.name.clone();
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

    fn tell_keys(
        &self,
        reader: &BaseFileReader<FileReader>,
        index: usize,
        writer: &mut RollingFileWriter<'_>,
    ) -> Result<()> {
        let file = writer.file()?;
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
