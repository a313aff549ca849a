//! Base files of new file groups.

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::format::avro::metadata::WriteStat;
use crate::merge::RowRef;
use crate::transaction::{FileSize, RollingFileSettings, RollingFileWriter};
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::WriteContext;
use crate::write::rewrite::file_rows::{MadeColumns, file_columns, gather};

/// Rows written between two looks at the size of the file.
const CHUNK_ROWS: usize = 16_384;

/// Writes rows of one partition into new base files; a file that reaches the target size is followed by another.
pub(crate) struct FileCreator<'a> {
    context: &'a WriteContext,
    partition: String,
    task: usize,
    writer: RollingFileWriter<'a>,
    /// The meta columns of the current file, with its name.
    made: Option<(String, MadeColumns)>,
}

impl<'a> FileCreator<'a> {
    /// A creator for a partition; nothing is written before there are rows.
    ///
    /// # Errors
    /// `Internal` for a write that has no instant.
    pub(crate) fn new(context: &'a WriteContext, partition: &str, task: usize, token: &str) -> Result<Self> {
        let writer = RollingFileWriter::new(RollingFileSettings {
            files: context.files()?,
            partition: partition.to_owned(),
            is_new_partition: true,
            token: token.to_owned(),
            schema: context.file_schema.clone(),
            options: context.base_file_options(),
            sets_file_name: false,
            size: FileSize::AtLeast(context.config.max_file_size),
        });
        Ok(Self { context, partition: partition.to_owned(), task, writer, made: None })
    }

    /// Adds rows.
    pub(crate) fn append(&mut self, incoming: &Incoming, rows: &[RowRef]) -> Result<()> {
        let context = self.context;
        for chunk in rows.chunks(CHUNK_ROWS) {
            let open = self.writer.file()?;
            let (name, first) = (&open.file.name, usize::try_from(open.writer.rows()).unwrap_or(usize::MAX));
            let made = match self.made.take().filter(|(known, _)| known == name) {
                Some(made) => made,
                None => (name.clone(), MadeColumns::new(context, &self.partition, name)),
            };
            let new = gather(incoming, chunk, context)?;
            let positions: Vec<usize> = (first..first + chunk.len()).collect();
            let mut columns = file_columns(context, &new, self.task, &positions)?;
            self.made.insert(made).1.put_into(&mut columns, chunk.len());
            self.writer.write(&RecordBatch::try_new(context.file_schema.clone(), columns)?)?;
        }
        Ok(())
    }

    /// Publishes the last file; returns what was written.
    pub(crate) fn finish(self) -> Result<Vec<WriteStat>> {
        Ok(self.writer.finish()?.into_iter().map(|file| file.stat).collect())
    }
}

/// Writes rows into new base files of a partition.
pub(crate) fn create_files(
    context: &WriteContext,
    partition: &str,
    incoming: &Incoming,
    rows: &[RowRef],
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let mut creator = FileCreator::new(context, partition, task, token)?;
    creator.append(incoming, rows)?;
    creator.finish()
}
