//! Encoding of one row group: a column at a time, columns side by side on several threads when asked.

use std::sync::Mutex;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, FieldRef, Schema};
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;

use crate::error::{Error, Result};

/// One column of the table: a Parquet column for each of its leaves.
struct TopColumn {
    field: FieldRef,
    leaves: Vec<ArrowColumnWriter>,
}

impl TopColumn {
    fn write(&mut self, array: &ArrayRef) -> Result<()> {
        let fail = |e: ParquetError| encode_error(e).with("column", self.field.name());
        for (values, writer) in compute_leaves(&self.field, array).map_err(fail)?.iter().zip(&mut self.leaves) {
            writer.write(values).map_err(fail)?;
        }
        Ok(())
    }

    fn close(self) -> Result<Vec<ArrowColumnChunk>> {
        self.leaves.into_iter().map(|leaf| leaf.close().map_err(encode_error)).collect()
    }
}

/// What an error while encoding was: one of the sink keeps its kind, anything else means that rows do not fit.
pub(super) fn encode_error(error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<std::io::Error>() {
            Ok(io) if io.get_ref().is_some_and(|e| e.is::<Error>()) => match io.into_inner().map(|e| e.downcast()) {
                Some(Ok(own)) => *own,
                _ => Error::storage("writing a base file failed"),
            },
            Ok(io) => Error::storage("writing a base file failed").caused_by(io),
            Err(other) => ParquetError::External(other).into(),
        },
        other => Error::schema("rows could not be encoded for a base file").caused_by(other),
    }
}

/// Number of Parquet columns that a column of this type takes.
pub(super) fn leaf_count(data_type: &DataType) -> usize {
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|f| leaf_count(f.data_type())).sum(),
        DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) | DataType::Map(f, _) => {
            leaf_count(f.data_type())
        }
        _ => 1,
    }
}

/// A row group in the making.
pub(super) struct RowGroupEncoder {
    /// The columns that are encoded, with their places.
    columns: Vec<(usize, TopColumn)>,
    rows: usize,
}

impl RowGroupEncoder {
    /// `left_out` tells of columns, by place, that somebody else makes.
    pub(super) fn new(
        schema: &Schema,
        factory: &ArrowRowGroupWriterFactory,
        index: usize,
        left_out: &dyn Fn(usize) -> bool,
    ) -> Result<Self> {
        let mut writers = factory.create_column_writers(index).map_err(encode_error)?.into_iter();
        let columns = schema.fields().iter().enumerate().map(|(i, field)| {
            let leaves = writers.by_ref().take(leaf_count(field.data_type())).collect();
            (i, TopColumn { field: field.clone(), leaves })
        });
        Ok(Self { columns: columns.filter(|(i, _)| !left_out(*i)).collect(), rows: 0 })
    }

    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes that the rows so far will take, nearly.
    pub(super) fn encoded_bytes(&self) -> usize {
        self.columns.iter().flat_map(|(_, c)| &c.leaves).map(ArrowColumnWriter::get_estimated_total_bytes).sum()
    }

    pub(super) fn encode(&mut self, batches: &[RecordBatch], threads: usize) -> Result<()> {
        self.rows += batches.iter().map(RecordBatch::num_rows).sum::<usize>();
        let work = self.columns.iter_mut().collect();
        in_parallel(work, threads, |(i, column): &mut (usize, TopColumn)| {
            batches.iter().filter_map(|batch| batch.columns().get(*i)).try_for_each(|array| column.write(array))
        })?;
        Ok(())
    }

    /// Encodes pieces of the one column that there is.
    pub(super) fn encode_arrays(&mut self, pieces: &[ArrayRef]) -> Result<()> {
        let [(_, column)] = self.columns.as_mut_slice() else {
            return Err(Error::schema("pieces of one column for a row group of several"));
        };
        self.rows += pieces.iter().map(|piece| piece.len()).sum::<usize>();
        pieces.iter().try_for_each(|piece| column.write(piece))
    }

    /// Ends all columns: their chunks in the order of the file, with the place of the column.
    pub(super) fn close(self, threads: usize) -> Result<Vec<(usize, Vec<ArrowColumnChunk>)>> {
        in_parallel(self.columns, threads, |(i, column)| Ok((i, column.close()?)))
    }
}

/// Does every piece of work, the next free thread taking the next piece; results in the order of the work.
pub(super) fn in_parallel<T: Send, O: Send>(
    work: Vec<T>,
    threads: usize,
    f: impl Fn(T) -> Result<O> + Sync,
) -> Result<Vec<O>> {
    let threads = threads.min(work.len());
    if threads <= 1 {
        return work.into_iter().map(f).collect();
    }
    let size = work.len();
    let queue = Mutex::new(work.into_iter().enumerate());
    let take = || queue.lock().ok().and_then(|mut q| q.next());
    let drain = || {
        let mut done = Vec::new();
        while let Some((i, piece)) = take() {
            done.push((i, f(piece)?));
        }
        Ok::<_, Error>(done)
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(drain)).collect();
        let mut all = drain();
        for other in others {
            let part = other.join().unwrap_or_else(|_| Err(Error::schema("a thread that encoded columns gave up")));
            all = all.and_then(|mut all| {
                all.extend(part?);
                Ok(all)
            });
        }
        all
    })?;
    if done.len() != size {
        return Err(Error::schema("a column was not encoded"));
    }
    done.sort_unstable_by_key(|(i, _)| *i);
    Ok(done.into_iter().map(|(_, o)| o).collect())
}
