//! The file group merger: a new base file put together from an older one and newer records, row group by row group and a
//! column at a time.
//!
//! Copy-on-write merges and compactions decide what becomes of the stored records; the rest is done here. A column in which
//! nothing changes is copied as it is. One column of one row group is decoded at a time, besides those that were read to
//! decide.

mod row_group;
mod strings;
mod target;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Schema};

pub(crate) use row_group::MergedRows;
use row_group::RowGroupMerge;
pub(crate) use row_group::{MergedRowGroup, merge_column};
pub(crate) use strings::NewerStrings;
pub(crate) use target::{ColumnValues, Target};

use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileReader, BaseFileWriter, FileKeys, RECORD_KEY_COLUMN, Splice};
use crate::storage::{FileReader, FileWriter};

/// Puts one new base file together.
pub(crate) struct FileGroupMerger<'a> {
    reader: &'a BaseFileReader<FileReader>,
    splice: &'a Splice,
    writer: &'a mut BaseFileWriter<FileWriter>,
    target: &'a Target<'a>,
    /// Whether the footer of the old file and the added keys tell the keys of the new one.
    grows: bool,
    added: Vec<StringArray>,
}

impl<'a> FileGroupMerger<'a> {
    /// `keeps_keys`: no stored record goes, so that the footer of the old file tells all but the new keys.
    ///
    /// # Errors
    /// `Corrupt` when the bloom filter of the old file cannot be decoded.
    pub(crate) fn new(
        reader: &'a BaseFileReader<FileReader>,
        splice: &'a Splice,
        writer: &'a mut BaseFileWriter<FileWriter>,
        target: &'a Target<'a>,
        keeps_keys: bool,
    ) -> Result<Self> {
        let grows = target.populate_meta && keeps_keys && FileKeys::grown(reader, &[], target.options)?.is_some();
        Ok(Self { reader, splice, writer, target, grows, added: Vec::new() })
    }

    /// Writes a row group of the old file with what became of its rows. Returns how many rows came out.
    ///
    /// # Errors
    /// `Corrupt` for columns of different lengths; `Schema` when a required column has no value in some row.
    pub(crate) fn row_group(&mut self, group: &MergedRowGroup<'_>) -> Result<usize> {
        let rows = group.rows_out();
        if rows == 0 {
            return Ok(0);
        }
        let merge = RowGroupMerge::new(self.reader, self.splice, self.target, group);
        if self.grows {
            group.appended.iter().try_for_each(|columns| self.add_keys(columns))?;
        } else if self.target.populate_meta {
            self.tell_keys(&merge, rows)?;
        }
        // Nothing to encode where nothing changes.
        let threads = if group.is_untouched() { 1 } else { self.target.threads };
        let column = |column| merge.column(column);
        self.writer.splice_row_group(self.reader, self.splice, group.index, rows, threads, &column)?;
        Ok(rows)
    }

    /// Writes new records behind the old ones, in row groups of their own.
    ///
    /// # Errors
    /// Those of [`BaseFileWriter::write`].
    pub(crate) fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        if self.grows {
            self.add_keys(batch.columns())?;
        }
        self.writer.write(batch)
    }

    /// Tells the file its record keys.
    ///
    /// # Errors
    /// `Corrupt` when those of the old file cannot be read.
    pub(crate) fn finish(mut self) -> Result<()> {
        if !self.target.populate_meta {
            self.writer.set_keys(FileKeys::default());
        } else if self.grows {
            let keys = match FileKeys::grown(self.reader, &self.added, self.target.options)? {
                Some(keys) => keys,
                None => {
                    for batch in self.reader.key_column()? {
                        self.added.push(strings_of(batch?.1.column(0))?);
                    }
                    FileKeys::of(&self.added, self.target.options)?
                }
            };
            self.writer.set_keys(keys);
        }
        Ok(())
    }

    fn add_keys(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let at = self.target.schema.index_of(RECORD_KEY_COLUMN)?;
        let keys = columns.get(at).ok_or_else(|| Error::corrupt("a data file has no record keys"))?;
        self.added.push(strings_of(keys)?);
        Ok(())
    }

    /// Tells the writer the keys of the rows that come out of a row group.
    fn tell_keys(&mut self, merge: &RowGroupMerge<'_>, rows: usize) -> Result<()> {
        let field: FieldRef = Arc::new(Field::new(RECORD_KEY_COLUMN, DataType::Utf8, true));
        let schema = Arc::new(Schema::new(vec![field.clone()]));
        let mut count = 0;
        for keys in merge.by_itself(self.target.schema.index_of(RECORD_KEY_COLUMN)?, &field)? {
            count += keys.len();
            strings_of(&keys)?;
            self.writer.add_spliced_keys(&RecordBatch::try_new(schema.clone(), vec![keys])?)?;
        }
        match count == rows {
            true => Ok(()),
            false => {
                Err(Error::internal(format!("a row group of a new base file has {rows} rows, but {count} record keys")))
            }
        }
    }
}

fn strings_of(keys: &ArrayRef) -> Result<StringArray> {
    let strings = keys.as_string_opt::<i32>().filter(|keys| keys.null_count() == 0);
    strings.cloned().ok_or_else(|| Error::corrupt("a record of a base file has no record key"))
}
