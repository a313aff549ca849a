//! The ranges of a function's values in files.
//!
//! Where min and max of the column say them, those that the writer of the file collected, or its footer; else by one look at
//! the column. A file that cannot be read so, or whose records are merged with others value by value, may have any value.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use super::existing_files::{BATCH_BYTES, ranges_of};
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::base::{BaseFileReader, ScanOptions};
use crate::file_group::log::{LogBatch, LogScan};
use crate::file_group::{BaseFile, LogFile, join};
use crate::format::column_range::{ColumnRange, FileRanges, UnknownRange, ValueType};
use crate::metadata_table::column_ranges::{any_value, empty_range};
use crate::metadata_table::expression_index::{ExpressionIndex, StringRange};
use crate::metadata_table::write::{AddedFile, FileChanges, FunctionRanges};
use crate::parallel::run_parallel;
use crate::storage::FileMeta;
use crate::table::HudiTable;

/// Rows that are read at a time.
const BATCH_ROWS: usize = 65_536;

/// Reads the ranges of files.
pub(crate) struct RangeReader<'a> {
    table: &'a HudiTable,
    index: &'a ExpressionIndex,
    /// The indexed column.
    schema: SchemaRef,
    value_type: ValueType,
}

impl<'a> RangeReader<'a> {
    /// Of an index, in a table of these columns.
    ///
    /// # Errors
    /// `InvalidOption` if the table does not have the column; `Unsupported` if the function is not computed of it, and for a
    /// column that files do not have.
    pub(crate) fn new(table: &'a HudiTable, index: &'a ExpressionIndex, data: &Schema) -> Result<Self> {
        let name = &index.column;
        let column = data.field_with_name(name).map_err(|_| {
            Error::invalid_option(format!("the table has no column '{name}' for an expression index"))
                .remedy("Name a column of the table; fields of structs cannot be indexed")
        })?;
        let config = table.config();
        if config.drops_partition_columns() && config.partition_fields().contains(name) {
            return Err(Error::unsupported(format!("an expression index of '{name}', which data files do not have")));
        }
        let value_type = index.value_type(column.data_type())?;
        let data_type = match column.data_type() {
            DataType::LargeUtf8 => DataType::Utf8,
            other => other.clone(),
        };
        // Files that are older than the column have no values of it.
        let schema = Arc::new(Schema::new(vec![Field::new(name, data_type, true)]));
        Ok(Self { table, index, schema, value_type })
    }

    /// The ranges of the files that an action added, apart from those that are `known`.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn ranges(&self, changes: &FileChanges, known: &FunctionRanges) -> Result<FunctionRanges> {
        let mut work: Vec<(String, &AddedFile)> = Vec::new();
        for (partition, changes) in &changes.partitions {
            let files = changes.added.iter().map(|file| (join(partition, &file.name), file));
            work.extend(files.filter(|(path, _)| !known.contains_key(path)));
        }
        let read = run_parallel(work, self.table.threads()?, |(path, file)| {
            let meta = FileMeta { path, size: file.size, modified_ms: 0 };
            Ok(self.of_file(&meta, file)?.map(|range| (meta.path, range)))
        })?;
        Ok(read.into_iter().flatten().collect())
    }

    /// The range of the values in a base file; `None` if it has none, or if they are not known exactly.
    ///
    /// # Errors
    /// `Corrupt`, with the file; `Storage`.
    pub(crate) fn exact(&self, base: &BaseFile) -> Result<Option<ColumnRange>> {
        let column = self.schema.fields().first().map(|field| field.data_type());
        if !column.is_some_and(|column| self.index.is_exact(column)) {
            return Ok(None);
        }
        let meta = FileMeta { path: base.path.clone(), size: base.size, modified_ms: 0 };
        let file = AddedFile { name: base.name().to_owned(), size: base.size, ranges: None, bloom: None };
        match self.try_file(&meta, &file)? {
            Found::Range(range) => Ok(Some(range)),
            Found::NoRows | Found::Anything => Ok(None),
        }
    }

    /// The range of a file; `None` for files without rows of the table, such as logs of changes.
    #[allow(clippy::option_option)]
    fn of_file(&self, meta: &FileMeta, file: &AddedFile) -> Result<Option<Option<ColumnRange>>> {
        if BaseFile::parse(meta).is_none() && LogFile::parse(meta).is_none() {
            return Ok(None);
        }
        let size = i64::try_from(file.size).unwrap_or(i64::MAX);
        let sized = |range: ColumnRange| ColumnRange {
            total_size: size,
            // What Hudi takes it for.
            total_uncompressed_size: size.saturating_mul(2),
            ..range
        };
        let found = match self.try_file(meta, file) {
            Err(e) if !matches!(e.kind(), ErrorKind::Storage | ErrorKind::Interrupted) => {
                let uri = self.table.storage().uri();
                tracing::warn!(table = uri, file = meta.path, "nothing is known of '{}': {e}", self.index.column);
                Found::Anything
            }
            found => found?,
        };
        Ok(Some(match found {
            Found::NoRows => None,
            Found::Range(range) => Some(sized(range)),
            Found::Anything => {
                let column = self.index.column.clone();
                Some(sized(any_value(&UnknownRange { column, value_count: 0, value_type: Some(self.value_type) })))
            }
        }))
    }

    fn try_file(&self, meta: &FileMeta, file: &AddedFile) -> Result<Found> {
        if let Some(range) = self.index.of_rows() {
            return self.of_rows(meta, range);
        }
        if let Some(found) = file.ranges.as_ref().and_then(|ranges| self.mapped(ranges.get())) {
            return Ok(found);
        }
        let columns = [self.index.column.clone()];
        let read = ranges_of(self.table, meta, &columns, &self.schema)?;
        match read {
            Some((ranges, rows)) => Ok(self.mapped(&ranges).unwrap_or_else(|| self.without_column(rows))),
            None => Ok(Found::Anything),
        }
    }

    /// What the ranges of a file say; `None` if they say nothing of the column.
    fn mapped(&self, ranges: &FileRanges) -> Option<Found> {
        if ranges.is_partial {
            return Some(Found::Anything);
        }
        let is_it = |column: &String| *column == self.index.column;
        match ranges.ranges.iter().find(|range| is_it(&range.column)) {
            Some(range) if range.value_count == 0 => Some(Found::NoRows),
            Some(range) => Some(self.index.of_range(range).map_or(Found::Anything, Found::Range)),
            None => ranges.unknown.iter().any(|unknown| is_it(&unknown.column)).then_some(Found::Anything),
        }
    }

    /// All rows of a file that is older than the column are null.
    fn without_column(&self, rows: u64) -> Found {
        let rows = i64::try_from(rows).unwrap_or(i64::MAX);
        match rows {
            0 => Found::NoRows,
            rows => Found::Range(ColumnRange { null_count: rows, ..empty_range(&self.index.column, self.value_type) }),
        }
    }

    /// The range by the values of all rows.
    fn of_rows(&self, meta: &FileMeta, mut range: StringRange) -> Result<Found> {
        let storage = self.table.storage();
        let lost = || Error::internal("rows lack a column that was asked for");
        if BaseFile::parse(meta).is_some() {
            let reader = BaseFileReader::open(storage.reader(&meta.path, meta.size)?)?;
            for batch in reader.scan(&ScanOptions::new(self.schema.clone()).with_batch_size(BATCH_ROWS))? {
                range.add(batch?.columns().first().ok_or_else(lost)?)?;
            }
        } else if let Some(log) = LogFile::parse(meta) {
            let scan = LogScan::open(storage, std::slice::from_ref(&log), |_| true)?;
            if scan.is_partial() || scan.truncated_files().next().is_some() {
                return Ok(Found::Anything);
            }
            for block in 0..scan.blocks() {
                scan.read(block, &self.schema, BATCH_BYTES, &mut |content| match content {
                    LogBatch::Records(records) => range.add(records.columns().first().ok_or_else(lost)?),
                    LogBatch::Deletes(_) => Ok(()),
                })?;
            }
        }
        Ok(match range.rows() {
            0 => Found::NoRows,
            _ => range.finish().map_or(Found::Anything, Found::Range),
        })
    }
}

/// What is found out about a file.
enum Found {
    /// It has no rows.
    NoRows,
    /// The values are in this range.
    Range(ColumnRange),
    /// They may be any.
    Anything,
}
