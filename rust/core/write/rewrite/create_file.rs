//! Base files of new file groups.

use std::time::Instant as Stopwatch;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::file_group::base::BaseFileWriter;
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, join, new_file_id};
use crate::format::avro::metadata::WriteStat;
use crate::merge::RowRef;
use crate::storage::FileWriter;
use crate::write::prepare::incoming::Incoming;
use crate::write::rewrite::context::{WriteContext, empty_stat};
use crate::write::rewrite::file_rows::{MadeColumns, file_columns, gather};

/// Rows written between two looks at the size of the file.
const CHUNK_ROWS: usize = 16_384;

struct OpenFile {
    file_id: String,
    made: MadeColumns,
    path: String,
    writer: BaseFileWriter<FileWriter>,
    rows: usize,
    started: Stopwatch,
}

/// Writes rows of one partition into new base files; a file that reaches the target size is followed by another.
pub struct FileCreator<'a> {
    context: &'a WriteContext,
    partition: String,
    task: usize,
    token: String,
    open: Option<OpenFile>,
    stats: Vec<WriteStat>,
}

impl<'a> FileCreator<'a> {
    /// A creator for a partition; nothing is written before there are rows.
    pub fn new(context: &'a WriteContext, partition: &str, task: usize, token: &str) -> Self {
        Self { context, partition: partition.to_owned(), task, token: token.to_owned(), open: None, stats: Vec::new() }
    }

    /// Adds rows.
    pub fn append(&mut self, incoming: &Incoming, rows: &[RowRef]) -> Result<()> {
        let context = self.context;
        for chunk in rows.chunks(CHUNK_ROWS) {
            let mut file = match self.open.take() {
                Some(file) => file,
                None => start(context, &self.partition, &self.token)?,
            };
            let new = gather(incoming, chunk, context)?;
            let positions: Vec<usize> = (file.rows..file.rows + chunk.len()).collect();
            let mut columns = file_columns(context, &new, self.task, &positions)?;
            file.made.put_into(&mut columns, chunk.len());
            file.writer.write(&RecordBatch::try_new(context.file_schema.clone(), columns)?)?;
            file.rows += chunk.len();
            if file.writer.bytes_written_estimate() >= context.config.max_file_size {
                self.stats.push(finish(context, &self.partition, file)?);
            } else {
                self.open = Some(file);
            }
        }
        Ok(())
    }

    /// Publishes the last file; returns what was written.
    pub fn finish(mut self) -> Result<Vec<WriteStat>> {
        if let Some(file) = self.open.take() {
            self.stats.push(finish(self.context, &self.partition, file)?);
        }
        Ok(self.stats)
    }
}

/// Writes rows into new base files of a partition.
pub fn create_files(
    context: &WriteContext,
    partition: &str,
    incoming: &Incoming,
    rows: &[RowRef],
    task: usize,
    token: &str,
) -> Result<Vec<WriteStat>> {
    let mut creator = FileCreator::new(context, partition, task, token);
    creator.append(incoming, rows)?;
    creator.finish()
}

fn start(context: &WriteContext, partition: &str, token: &str) -> Result<OpenFile> {
    let file_id = new_file_id(0);
    let name = BaseFile::file_name(&file_id, token, &context.instant);
    let path = join(partition, &name);
    let writer = context.start_file(&path, Some(partition))?;
    Ok(OpenFile {
        file_id,
        made: MadeColumns::new(context, partition, &name),
        path,
        writer,
        rows: 0,
        started: Stopwatch::now(),
    })
}

fn finish(context: &WriteContext, partition: &str, file: OpenFile) -> Result<WriteStat> {
    let (rows, bytes) = context.finish_file(&file.path, MarkerType::Create, file.writer)?;
    let mut stat = empty_stat(partition, &file.file_id);
    let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
    stat.path = Some(file.path);
    stat.num_writes = count(rows);
    stat.num_inserts = count(rows);
    stat.total_write_bytes = count(bytes);
    stat.file_size_in_bytes = count(bytes);
    if let Some(runtime) = &mut stat.runtime_stats {
        runtime.total_create_time = i64::try_from(file.started.elapsed().as_millis()).ok();
    }
    Ok(stat)
}
