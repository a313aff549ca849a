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

/// New file groups that rows go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::write) struct NewGroup {
    /// Their partition.
    pub(in crate::write) partition: String,
    /// The bucket that the one file group is for; `None`: as many as the target size of files makes.
    bucket: Option<u32>,
}

impl NewGroup {
    /// File groups of a partition.
    pub(in crate::write) fn of_partition(partition: &str) -> Self {
        Self { partition: partition.to_owned(), bucket: None }
    }

    /// The file group of a bucket.
    pub(in crate::write) fn of_bucket(partition: &str, bucket: u32) -> Self {
        Self { partition: partition.to_owned(), bucket: Some(bucket) }
    }
}

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
    /// A creator of new file groups; nothing is written before there are rows.
    ///
    /// # Errors
    /// `Internal` for a write that has no instant.
    pub(in crate::write) fn new(context: &'a WriteContext, group: &NewGroup, task: usize, token: &str) -> Result<Self> {
        let partition = &group.partition;
        let writer = RollingFileWriter::new(RollingFileSettings {
            files: context.files()?,
            partition: partition.clone(),
            bucket: group.bucket,
            is_new_partition: true,
            token: token.to_owned(),
            schema: context.file_schema.clone(),
            options: context.base_file_options(),
            sets_file_name: false,
            size: match group.bucket {
                Some(_) => FileSize::All,
                None => FileSize::AtLeast(context.config.max_file_size),
            },
        });
        Ok(Self { context, partition: partition.clone(), task, writer, made: None })
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

/// Writes rows into the base files of new file groups.
pub(in crate::write) fn create_files(
    context: &WriteContext,
    group: &NewGroup,
    incoming: &Incoming,
    rows: &[RowRef],
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let mut creator = FileCreator::new(context, group, task, token)?;
    creator.append(incoming, rows)?;
    creator.finish()
}
