//! The files that a group becomes: each is ended when it has the bytes that it is to have.
//!
//! How many rows these are is known from what rows before them took: those of the same file that are on the disk
//! already, those of the file before, or, in the beginning, a part of the first batch that is encoded for trial.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant as Stopwatch;

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};

use super::super::task_files::{FILE_NAME, set_file_name};
use super::overlap::FileRanges;
use super::ranges::of_footer;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileReader, BaseFileWriter};
use crate::file_group::markers::MarkerType;
use crate::file_group::{BaseFile, join, new_file_id};
use crate::format::avro::metadata::{RuntimeStats, WriteStat};
use crate::interrupt;
use crate::parallel::run_parallel;
use crate::storage::FileWriter;
use crate::table::HudiTable;
use crate::transaction::DataFiles;

/// Rows that are encoded for trial, unless they are much more than a file is to have.
const TRIAL_ROWS: usize = 32_768;
const LEAST_TRIAL_ROWS: usize = 64;
/// Rows that are written before the size of the file is looked at again.
const STEP_ROWS: usize = 32_768;

/// How much more goes into a file with this part of its bytes has to be known.
const NEARLY_FULL: f64 = 0.75;
/// Of the first files of a group a row group is ended then: those before tell least of what their rows weigh, for rows without
/// a value to sort by come first.
const MEASURED_FILES: usize = 2;
/// A file with this part of its bytes is full.
const FULL: f64 = 0.97;
/// More than this is too much.
const OVERFULL: f64 = 1.03;

/// What the files of a group have in common.
pub(super) struct OutputSettings<'a> {
    pub(super) table: &'a HudiTable,
    pub(super) files: &'a DataFiles,
    pub(super) instant: &'a str,
    pub(super) partition: &'a str,
    /// Tells this task and attempt from others.
    pub(super) token: &'a str,
    /// Columns of data files.
    pub(super) schema: SchemaRef,
    /// The table's columns, whose ranges are told of each file.
    pub(super) data: SchemaRef,
    pub(super) options: BaseFileOptions,
    /// Bytes after which a file ends.
    pub(super) target_bytes: Option<u64>,
}

impl OutputSettings<'_> {
    /// Publishes a file.
    fn end(&self, file: OpenFile) -> Result<WrittenFile> {
        let (sink, written, footer) = file.writer.finish_with_footer().map_err(|e| e.with("file", &file.path))?;
        let columns: Vec<String> = self.data.fields().iter().map(|f| f.name().clone()).collect();
        let ranges = of_footer(&BaseFileReader::of_footer(footer)?, &columns, &self.data)?;
        let bytes = self.files.publish(&file.path, MarkerType::Create, sink)?;
        let milliseconds = u64::try_from(file.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let count = |n: u64| Some(i64::try_from(n).unwrap_or(i64::MAX));
        let stat = WriteStat {
            file_id: Some(file.file_id),
            path: Some(file.path.clone()),
            partition_path: Some(self.partition.to_owned()),
            prev_commit: Some("null".to_owned()),
            num_writes: count(written.rows),
            num_inserts: count(written.rows),
            num_deletes: Some(0),
            num_update_writes: Some(0),
            total_write_bytes: count(bytes),
            file_size_in_bytes: count(bytes),
            total_write_errors: Some(0),
            total_log_records: Some(0),
            total_log_files: Some(0),
            total_updated_records_compacted: Some(0),
            total_log_blocks: Some(0),
            total_corrupt_log_block: Some(0),
            total_rollback_blocks: Some(0),
            runtime_stats: Some(RuntimeStats {
                total_scan_time: Some(0),
                total_create_time: count(milliseconds),
                total_upsert_time: Some(0),
            }),
            ..Default::default()
        };
        Ok(WrittenFile { stat, milliseconds, ranges })
    }
}

/// A file that is written.
pub(super) struct WrittenFile {
    pub(super) stat: WriteStat,
    pub(super) milliseconds: u64,
    /// Of the columns that the settings name.
    pub(super) ranges: FileRanges,
}

/// What becomes of a file that is ended beside the next ones.
enum Progress {
    /// All rows are on the disk: how many, and the bytes that they take.
    Rows(u64, f64),
    /// The file is written.
    Written(Box<WrittenFile>),
}

/// A file in the making.
pub(super) struct OpenFile {
    file_id: String,
    pub(super) name: String,
    path: String,
    pub(super) writer: BaseFileWriter<FileWriter>,
    started: Stopwatch,
}

/// Bytes of a file with so many rows.
#[derive(Debug, Clone, Copy)]
struct SizeModel {
    fixed: f64,
    per_row: f64,
}

impl SizeModel {
    fn bytes(&self, rows: u64) -> f64 {
        self.fixed + self.per_row * rows as f64
    }
}

/// Writes the rows of a group into one file after the other.
pub(super) struct Outputs<'a> {
    settings: &'a OutputSettings<'a>,
    model: Option<SizeModel>,
    open: Option<OpenFile>,
    /// Files begun so far.
    begun: usize,
    done: Vec<WrittenFile>,
    /// What the last file has besides rows: bloom filter and footer.
    end_bytes: Option<f64>,
    beside: Option<Beside>,
}

/// A thread that ends files while the next ones are written.
struct Beside {
    files: Sender<OpenFile>,
    progress: Receiver<Result<Progress>>,
    /// Whether the rows of the file that it got last are still to be weighed.
    busy: bool,
    /// Bytes of the rows of the file that is ended now.
    row_bytes: f64,
    /// Files that are not written yet.
    under_way: usize,
}

impl Beside {
    /// Ends files as they come.
    fn work(settings: &OutputSettings<'_>, files: &Receiver<OpenFile>, progress: &Sender<Result<Progress>>) {
        let end = |mut file: OpenFile| {
            file.writer.end_row_group().map_err(|e| e.with("file", &file.path))?;
            // How many rows the file after it has waits for this alone.
            let rows = Progress::Rows(file.writer.rows(), file.writer.flushed_bytes() as f64);
            let _ = progress.send(Ok(rows));
            Ok(Progress::Written(Box::new(settings.end(file)?)))
        };
        for file in files {
            let ended = end(file);
            // Nobody waits any more after an error.
            if ended.is_err() | progress.send(ended).is_err() {
                return;
            }
        }
    }
}

impl<'a> Outputs<'a> {
    pub(super) fn new(settings: &'a OutputSettings<'a>) -> Self {
        Self { settings, model: None, open: None, begun: 0, done: Vec::new(), end_bytes: None, beside: None }
    }

    /// The same, files ended by a thread of their own: the rows of two of them are in memory at times.
    pub(super) fn with_thread<'s>(settings: &'a OutputSettings<'a>, scope: &'s std::thread::Scope<'s, '_>) -> Self
    where
        'a: 's,
    {
        let (files, to_end) = channel();
        let (sender, progress) = channel();
        scope.spawn(interrupt::carried(move || Beside::work(settings, &to_end, &sender)));
        let beside = Beside { files, progress, busy: false, row_bytes: 0.0, under_way: 0 };
        Self { beside: Some(beside), ..Self::new(settings) }
    }

    /// Adds rows, with or without the column of file names.
    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &self.with_all_columns(batch)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let rest = batch.slice(at, batch.num_rows() - at);
            if self.settings.target_bytes.is_some() && self.model.is_none() {
                self.model = Some(self.try_out(&rest)?);
            }
            let room = self.room()?;
            if room == 0 {
                self.end_file()?;
                continue;
            }
            let to_nearly = self.rows_to_nearly_full(room);
            let mut take = room.min(rest.num_rows()).min(STEP_ROWS);
            if self.beside.as_ref().is_some_and(|beside| beside.busy) {
                if to_nearly == 0 {
                    // What the file before weighs tells best how much goes into this one.
                    self.settle()?;
                    continue;
                }
                take = take.min(to_nearly);
            }
            if self.is_to_be_measured() {
                if to_nearly == 0 && self.open.as_ref().is_some_and(|file| file.writer.rows() > 0) {
                    self.file()?.writer.end_row_group()?;
                    continue;
                }
                take = take.min(to_nearly.max(1));
            }
            self.file()?.writer.write(&rest.slice(0, take))?;
            at += take;
        }
        Ok(())
    }

    fn with_all_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = &self.settings.schema;
        if batch.num_columns() == schema.fields().len() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        // Texts may come with dictionaries.
        let mut fields = batch.schema_ref().fields().to_vec();
        let field = schema.fields().get(FILE_NAME).ok_or_else(|| Error::schema("a file without meta columns"))?;
        columns.insert(FILE_NAME.min(columns.len()), new_null_array(field.data_type(), batch.num_rows()));
        fields.insert(FILE_NAME.min(fields.len()), field.clone());
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// The file in the making; a new one when there is none.
    pub(super) fn file(&mut self) -> Result<&mut OpenFile> {
        let file = match self.open.take() {
            Some(file) => file,
            None => {
                self.begun += 1;
                self.begin_file()?
            }
        };
        Ok(self.open.insert(file))
    }

    fn begin_file(&self) -> Result<OpenFile> {
        let settings = self.settings;
        let file_id = new_file_id(0);
        let name = BaseFile::file_name(&file_id, settings.token, settings.instant);
        let path = join(settings.partition, &name);
        let sink = settings.files.create(&path, MarkerType::Create)?;
        let mut writer = BaseFileWriter::try_new(sink, settings.schema.clone(), settings.options.clone())?;
        set_file_name(settings.table, &mut writer, &name);
        Ok(OpenFile { file_id, name, path, writer, started: Stopwatch::now() })
    }

    /// Bytes that the file in the making would have if it were ended now.
    pub(super) fn bytes(&self) -> f64 {
        let Some(file) = &self.open else { return 0.0 };
        // Row groups that are on the disk tell best what rows weigh.
        match &self.model {
            Some(model) if file.writer.flushed_rows() * 2 < file.writer.rows() => model.bytes(file.writer.rows()),
            _ => file.writer.bytes_written_estimate() as f64,
        }
    }

    /// Rows that still fit into the file in the making; one file takes at least one.
    fn room(&self) -> Result<usize> {
        let Some(target) = self.settings.target_bytes else { return Ok(usize::MAX) };
        let rows = self.open.as_ref().map_or(0, |file| file.writer.rows());
        let model = self.model.unwrap_or(SizeModel { fixed: 0.0, per_row: 1.0 });
        let (bytes, per_row) = match rows {
            0 => (model.fixed, model.per_row),
            rows => (self.bytes(), ((self.bytes() - model.fixed) / rows as f64).max(0.01)),
        };
        let fits = ((target as f64 - bytes) / per_row).floor();
        let fits = if fits >= 1.0 { fits as usize } else { 0 };
        // Where a file weighs more without rows than it may have, half of it is rows.
        let least =
            if target as f64 > 2.0 * model.fixed { 1 } else { (model.fixed / per_row).ceil().max(1.0) as usize };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(if rows < least { fits.max(least - rows) } else { fits })
    }

    /// Rows after which the file in the making is nearly full, when so many more go into it.
    fn rows_to_nearly_full(&self, room: usize) -> usize {
        let rows = self.open.as_ref().map_or(0, |file| file.writer.rows());
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        ((rows.saturating_add(room) as f64 * NEARLY_FULL) as usize).saturating_sub(rows)
    }

    /// Whether a row group of the file in the making has to end before the file does, so that its bytes are known.
    fn is_to_be_measured(&self) -> bool {
        // The file that comes next counts too.
        let number = self.begun + usize::from(self.open.is_none());
        let flushed = self.open.as_ref().map_or(0, |file| file.writer.flushed_rows());
        self.settings.target_bytes.is_some() && number <= MEASURED_FILES && flushed == 0
    }

    /// Whether so many more encoded bytes go into a file: one that is all but full is ended before.
    pub(super) fn has_room(&mut self, more: u64) -> Result<bool> {
        let Some(target) = self.settings.target_bytes else { return Ok(true) };
        let full = target as f64 * FULL;
        if self.open.is_some() && self.bytes() >= full {
            self.end_file()?;
        }
        Ok(self.bytes() + more as f64 <= target as f64 * OVERFULL)
    }

    /// Encodes some rows and half of them: what a row weighs, and what a file weighs without rows.
    fn try_out(&self, batch: &RecordBatch) -> Result<SizeModel> {
        let threads = self.settings.options.threads;
        let size = |rows: usize| -> Result<f64> {
            let options = BaseFileOptions { threads: 1, ..self.settings.options.clone() };
            let mut writer = BaseFileWriter::try_new(std::io::sink(), self.settings.schema.clone(), options)?;
            set_file_name(self.settings.table, &mut writer, "trial");
            writer.write(&batch.slice(0, rows))?;
            Ok(writer.finish()?.1.bytes as f64)
        };
        let sizes = |all: usize| -> Result<(f64, f64)> {
            let sizes = run_parallel(vec![all, all / 2], threads, size)?;
            Ok((sizes.first().copied().unwrap_or_default(), sizes.last().copied().unwrap_or_default()))
        };
        let mut all = batch.num_rows().min(TRIAL_ROWS);
        let (mut more, mut less) = sizes(all)?;
        // Rows of a small file weigh more than those of a large one.
        let enough = self.settings.target_bytes.map_or(f64::MAX, |target| target as f64 * 2.0);
        while more > enough && all > LEAST_TRIAL_ROWS {
            all = ((all as f64 * enough / 2.0 / more) as usize).min(all / 2).max(LEAST_TRIAL_ROWS);
            (more, less) = sizes(all)?;
        }
        let half = all / 2;
        if half == 0 {
            return Ok(SizeModel { fixed: 0.0, per_row: more });
        }
        let per_row = ((more - less) / (all - half) as f64).max(0.01);
        Ok(SizeModel { fixed: (more - per_row * all as f64).max(0.0), per_row })
    }

    /// Publishes the file in the making; a thread of its own may do so, which [`Outputs::settle`] waits for.
    pub(super) fn end_file(&mut self) -> Result<()> {
        self.settle()?;
        let Some(file) = self.open.take() else { return Ok(()) };
        match &mut self.beside {
            None => {
                let written = self.settings.end(file)?;
                let number = |n: Option<i64>| n.unwrap_or_default().max(0).cast_unsigned();
                self.weigh(number(written.stat.num_writes), number(written.stat.file_size_in_bytes) as f64);
                self.done.push(written);
            }
            Some(beside) => {
                beside.files.send(file).map_err(|_| died())?;
                beside.busy = true;
                beside.under_way += 1;
            }
        }
        Ok(())
    }

    /// Waits until it is known what the rows of the last file weigh.
    fn settle(&mut self) -> Result<()> {
        while self.beside.as_ref().is_some_and(|beside| beside.busy) {
            self.follow()?;
        }
        Ok(())
    }

    /// Waits for what the thread that ends files tells next.
    fn follow(&mut self) -> Result<()> {
        let Some(beside) = &mut self.beside else { return Ok(()) };
        match interrupt::receive(&beside.progress)?.ok_or_else(died)?? {
            Progress::Written(file) => {
                beside.under_way -= 1;
                let bytes = file.stat.file_size_in_bytes.unwrap_or_default() as f64;
                self.end_bytes = Some((bytes - beside.row_bytes).max(0.0));
                self.done.push(*file);
            }
            Progress::Rows(rows, bytes) => {
                beside.row_bytes = bytes;
                match self.end_bytes {
                    Some(more) => {
                        beside.busy = false;
                        self.weigh(rows, bytes + more);
                    }
                    // What the first file weighs is known when it is written.
                    None => {
                        self.follow()?;
                        self.weigh(rows, bytes + self.end_bytes.unwrap_or_default());
                        self.beside.iter_mut().for_each(|beside| beside.busy = false);
                    }
                }
            }
        }
        Ok(())
    }

    /// Learns from a file.
    fn weigh(&mut self, rows: u64, bytes: f64) {
        if let Some(model) = &mut self.model
            && rows > 0
        {
            // What a file weighs without rows was found by trial: no more than half of one that has some.
            model.fixed = model.fixed.min(bytes / 2.0);
            model.per_row = ((bytes - model.fixed) / rows as f64).max(0.01);
        }
    }

    /// Publishes the last file.
    pub(super) fn finish(mut self) -> Result<Vec<WrittenFile>> {
        self.end_file()?;
        while self.beside.as_ref().is_some_and(|beside| beside.under_way > 0) {
            self.follow()?;
        }
        Ok(self.done)
    }
}

fn died() -> Error {
    Error::storage("a thread that ended files died").remedy("Run the operation again and report this")
}
