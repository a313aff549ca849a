//! The rolling file writer: writes rows to one base file after the other; each ends at a target size.
//!
//! Where files have to meet the target size closely, the number of rows of a file is estimated from the encoded size of
//! earlier rows: those of the same file that are flushed already, those of the file before, or, in the beginning, a
//! sample of the first batch.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use arrow::array::{RecordBatch, new_null_array};
use arrow::datatypes::{Schema, SchemaRef};

use super::data_files::DataFiles;
use super::new_file::{NewFile, WrittenFile};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::file_group::{new_bucket_file_id, new_file_id};
use crate::merge::MergeCounts;
use crate::parallel;
use crate::storage::FileWriter;
use crate::table::META_COLUMNS;

/// Index of the file name among the meta columns.
pub(crate) const FILE_NAME: usize = META_COLUMNS.len() - 1;

/// Rows of the first batch that are encoded as a sample, unless they exceed the target size of a file by much.
const TRIAL_ROWS: usize = 32_768;
const LEAST_TRIAL_ROWS: usize = 64;
/// Rows that are written before the size of the file is checked again.
const STEP_ROWS: usize = 32_768;

/// From this fraction of the target size on, the size of the file must be known exactly.
const NEARLY_FULL: f64 = 0.75;
/// In the first files of a group the row group is flushed at that point: estimates from earlier rows are poor there,
/// because rows with null sort keys come first.
const MEASURED_FILES: usize = 2;
/// A file with this fraction of the target size is full.
const FULL: f64 = 0.97;
/// Maximum fraction of the target size.
const OVERFULL: f64 = 1.03;

/// When a file ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FileSize {
    /// After all rows.
    All,
    /// As close to this number of bytes as possible, whatever the batches are.
    Target(u64),
    /// After the batch with which it reaches this number of bytes.
    AtLeast(u64),
}

/// Settings of the files.
pub(crate) struct RollingFileSettings<'a> {
    /// Creates them.
    pub files: &'a DataFiles,
    /// Their partition.
    pub partition: String,
    /// The bucket that their file groups are for, in a bucket index.
    pub bucket: Option<u32>,
    /// Whether the partition may have no metadata file yet.
    pub is_new_partition: bool,
    /// The write token, which is unique to this task and attempt.
    pub token: String,
    /// Their columns.
    pub schema: SchemaRef,
    /// How they are written.
    pub options: BaseFileOptions,
    /// Whether the writer sets the column of the file name; then batches may come without it.
    pub sets_file_name: bool,
    /// When a file ends.
    pub size: FileSize,
}

impl RollingFileSettings<'_> {
    fn target_bytes(&self) -> Option<u64> {
        if let FileSize::Target(bytes) = self.size { Some(bytes) } else { None }
    }

    fn writer<W: Write + Send>(&self, sink: W, options: BaseFileOptions, name: &str) -> Result<BaseFileWriter<W>> {
        let mut writer = BaseFileWriter::try_new(sink, self.schema.clone(), options)?;
        if self.sets_file_name {
            writer.set_constant(FILE_NAME, name.to_owned());
        }
        Ok(writer)
    }

    /// Encodes a sample of rows and half of it, to estimate the bytes of a row and of an empty file.
    fn try_out(&self, batch: &RecordBatch) -> Result<SizeModel> {
        let threads = self.options.threads;
        let size = |rows: usize| -> Result<f64> {
            let options = BaseFileOptions { threads: 1, ..self.options.clone() };
            let mut writer = self.writer(std::io::sink(), options, "trial")?;
            writer.write(&batch.slice(0, rows))?;
            Ok(writer.finish()?.1.bytes as f64)
        };
        let sizes = |all: usize| -> Result<(f64, f64)> {
            let sizes = parallel::run_parallel(vec![all, all / 2], threads, size)?;
            Ok((sizes.first().copied().unwrap_or_default(), sizes.last().copied().unwrap_or_default()))
        };
        let mut all = batch.num_rows().min(TRIAL_ROWS);
        let (mut more, mut less) = sizes(all)?;
        // Rows of a small file take more bytes than those of a large one.
        let enough = self.target_bytes().map_or(f64::MAX, |target| target as f64 * 2.0);
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

    fn begin(&self) -> Result<OpenFile> {
        let file_id = self.bucket.map_or_else(|| new_file_id(0), new_bucket_file_id);
        let file = NewFile::first(self.files, &self.partition, &file_id, &self.token);
        let sink = file.create(self.files, self.is_new_partition)?;
        let writer = self.writer(sink, self.options.clone(), &file.name).map_err(|e| e.with("file", &file.path))?;
        Ok(OpenFile { file, writer })
    }

    /// Publishes a file.
    fn end(&self, open: OpenFile) -> Result<WrittenFile> {
        let OpenFile { file, writer } = open;
        file.finish(self.files, writer, |inserted| MergeCounts { inserted, ..Default::default() })
    }
}

/// Progress of the thread that finishes files.
enum Progress {
    /// All rows of the file are flushed: their number and bytes.
    Rows(u64, f64),
    /// The file is published.
    Written(Box<WrittenFile>),
}

/// The file that is being written.
pub(crate) struct OpenFile {
    /// Its name and path.
    pub file: NewFile,
    /// Encodes it.
    pub writer: BaseFileWriter<FileWriter>,
}

/// Estimates the bytes of a file by its rows.
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

/// Writes rows to one file after the other.
pub(crate) struct RollingFileWriter<'a> {
    settings: Arc<RollingFileSettings<'a>>,
    model: Option<SizeModel>,
    open: Option<OpenFile>,
    /// Files begun so far.
    begun: usize,
    done: Vec<WrittenFile>,
    /// Bytes of bloom filter and footer of the last file.
    end_bytes: Option<f64>,
    finisher: Option<Finisher>,
}

/// A thread that finishes files while the next ones are written.
struct Finisher {
    files: Sender<OpenFile>,
    progress: Receiver<Result<Progress>>,
    /// Whether the size of the rows of its last file is not known yet.
    busy: bool,
    /// Bytes of the rows of the file that is being finished.
    row_bytes: f64,
    /// Files that are not published yet.
    under_way: usize,
}

impl Finisher {
    /// Finishes the files that it receives.
    fn work(settings: &RollingFileSettings<'_>, files: &Receiver<OpenFile>, progress: &Sender<Result<Progress>>) {
        let end = |mut file: OpenFile| {
            file.writer.end_row_group().map_err(|e| e.with("file", &file.file.path))?;
            // Sent first, because the size of the next file depends on it.
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

impl<'a> RollingFileWriter<'a> {
    /// Begins no file before there are rows.
    pub(crate) fn new(settings: RollingFileSettings<'a>) -> Self {
        let settings = Arc::new(settings);
        Self { settings, model: None, open: None, begun: 0, done: Vec::new(), end_bytes: None, finisher: None }
    }

    /// The same with a thread that finishes files: the rows of two files may be in memory at a time.
    pub(crate) fn with_thread<'s>(settings: RollingFileSettings<'a>, scope: &'s std::thread::Scope<'s, '_>) -> Self
    where
        'a: 's,
    {
        let mut writer = Self::new(settings);
        let (files, to_end) = channel();
        let (sender, progress) = channel();
        let settings = writer.settings.clone();
        parallel::spawn(scope, move || Finisher::work(&settings, &to_end, &sender));
        writer.finisher = Some(Finisher { files, progress, busy: false, row_bytes: 0.0, under_way: 0 });
        writer
    }

    /// Adds rows, with or without the column of file names.
    ///
    /// # Errors
    /// Those of [`BaseFileWriter::write`] and [`DataFiles::create`].
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &self.with_all_columns(batch)?;
        let mut at = 0;
        while at < batch.num_rows() {
            let rest = batch.slice(at, batch.num_rows() - at);
            if self.settings.target_bytes().is_some() && self.model.is_none() {
                self.model = Some(self.settings.try_out(&rest)?);
            }
            let room = self.remaining_rows()?;
            if room == 0 {
                self.end_file()?;
                continue;
            }
            let to_nearly = self.rows_to_nearly_full(room);
            let mut take = room.min(rest.num_rows()).min(STEP_ROWS);
            if self.finisher.as_ref().is_some_and(|finisher| finisher.busy) {
                if to_nearly == 0 {
                    // The size of the previous file gives the best estimate for this one.
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
        match (self.settings.size, &self.open) {
            (FileSize::AtLeast(bytes), Some(open)) if open.writer.bytes_written_estimate() >= bytes => self.end_file(),
            _ => Ok(()),
        }
    }

    fn with_all_columns(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let schema = &self.settings.schema;
        if batch.num_columns() == schema.fields().len() {
            return Ok(batch.clone());
        }
        let mut columns = batch.columns().to_vec();
        // String columns may be dictionary arrays.
        let mut fields = batch.schema_ref().fields().to_vec();
        let field = schema.fields().get(FILE_NAME).ok_or_else(|| Error::schema("a file without meta columns"))?;
        columns.insert(FILE_NAME.min(columns.len()), new_null_array(field.data_type(), batch.num_rows()));
        fields.insert(FILE_NAME.min(fields.len()), field.clone());
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    }

    /// Returns the current file; begins one if there is none.
    ///
    /// # Errors
    /// Those of [`DataFiles::create`].
    pub(crate) fn file(&mut self) -> Result<&mut OpenFile> {
        let file = match self.open.take() {
            Some(file) => file,
            None => {
                self.begun += 1;
                self.settings.begin()?
            }
        };
        Ok(self.open.insert(file))
    }

    /// Estimated bytes of the current file if it ended now.
    fn bytes(&self) -> f64 {
        let Some(file) = &self.open else { return 0.0 };
        // Flushed row groups give the best estimate.
        match &self.model {
            Some(model) if file.writer.flushed_rows() * 2 < file.writer.rows() => model.bytes(file.writer.rows()),
            _ => file.writer.bytes_written_estimate() as f64,
        }
    }

    /// Number of rows that still fit into the current file; at least one for an empty file.
    fn remaining_rows(&self) -> Result<usize> {
        let Some(target) = self.settings.target_bytes() else { return Ok(usize::MAX) };
        let rows = self.open.as_ref().map_or(0, |file| file.writer.rows());
        let model = self.model.unwrap_or(SizeModel { fixed: 0.0, per_row: 1.0 });
        let (bytes, per_row) = match rows {
            0 => (model.fixed, model.per_row),
            rows => (self.bytes(), ((self.bytes() - model.fixed) / rows as f64).max(0.01)),
        };
        let fits = ((target as f64 - bytes) / per_row).floor();
        let fits = if fits >= 1.0 { fits as usize } else { 0 };
        // If footer and bloom filter exceed the target size, half of the file is rows.
        let least =
            if target as f64 > 2.0 * model.fixed { 1 } else { (model.fixed / per_row).ceil().max(1.0) as usize };
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        Ok(if rows < least { fits.max(least - rows) } else { fits })
    }

    /// Number of rows until the current file is nearly full.
    fn rows_to_nearly_full(&self, room: usize) -> usize {
        let rows = self.open.as_ref().map_or(0, |file| file.writer.rows());
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        ((rows.saturating_add(room) as f64 * NEARLY_FULL) as usize).saturating_sub(rows)
    }

    /// Whether a row group of the current file has to be flushed before the file ends, so that its size is known.
    fn is_to_be_measured(&self) -> bool {
        // Counts the file that is begun next too.
        let number = self.begun + usize::from(self.open.is_none());
        let flushed = self.open.as_ref().map_or(0, |file| file.writer.flushed_rows());
        self.settings.target_bytes().is_some() && number <= MEASURED_FILES && flushed == 0
    }

    /// Whether `more` encoded bytes fit into the current file; a file that is nearly full is finished first.
    ///
    /// # Errors
    /// Those of [`DataFiles::publish`].
    pub(crate) fn has_room(&mut self, more: u64) -> Result<bool> {
        let Some(target) = self.settings.target_bytes() else { return Ok(true) };
        let full = target as f64 * FULL;
        if self.open.is_some() && self.bytes() >= full {
            self.end_file()?;
        }
        Ok(self.bytes() + more as f64 <= target as f64 * OVERFULL)
    }

    /// Finishes the current file, possibly on a thread, which [`RollingFileWriter::settle`] waits for.
    fn end_file(&mut self) -> Result<()> {
        self.settle()?;
        let Some(file) = self.open.take() else { return Ok(()) };
        match &mut self.finisher {
            None => {
                let written = self.settings.end(file)?;
                let number = |n: Option<i64>| n.unwrap_or_default().max(0).cast_unsigned();
                self.weigh(number(written.stat.num_writes), number(written.stat.file_size_in_bytes) as f64);
                self.done.push(written);
            }
            Some(finisher) => {
                finisher.files.send(file).map_err(|_| parallel::panicked())?;
                finisher.busy = true;
                finisher.under_way += 1;
            }
        }
        Ok(())
    }

    /// Waits until the size of the rows of the last file is known.
    fn settle(&mut self) -> Result<()> {
        while self.finisher.as_ref().is_some_and(|finisher| finisher.busy) {
            self.follow()?;
        }
        Ok(())
    }

    /// Waits for the next message of the thread that finishes files.
    fn follow(&mut self) -> Result<()> {
        let Some(finisher) = &mut self.finisher else { return Ok(()) };
        match parallel::receive(&finisher.progress)?? {
            Progress::Written(file) => {
                finisher.under_way -= 1;
                let bytes = file.stat.file_size_in_bytes.unwrap_or_default() as f64;
                self.end_bytes = Some((bytes - finisher.row_bytes).max(0.0));
                self.done.push(*file);
            }
            Progress::Rows(rows, bytes) => {
                finisher.row_bytes = bytes;
                match self.end_bytes {
                    Some(more) => {
                        finisher.busy = false;
                        self.weigh(rows, bytes + more);
                    }
                    // The size of the first file is known when it is published.
                    None => {
                        self.follow()?;
                        self.weigh(rows, bytes + self.end_bytes.unwrap_or_default());
                        self.finisher.iter_mut().for_each(|finisher| finisher.busy = false);
                    }
                }
            }
        }
        Ok(())
    }

    /// Updates the estimate with the size of a file.
    fn weigh(&mut self, rows: u64, bytes: f64) {
        if let Some(model) = &mut self.model
            && rows > 0
        {
            // The size of an empty file was estimated from a sample: it cannot be more than half of a file with rows.
            model.fixed = model.fixed.min(bytes / 2.0);
            model.per_row = ((bytes - model.fixed) / rows as f64).max(0.01);
        }
    }

    /// Finishes the last file. Returns all files.
    ///
    /// # Errors
    /// Those of [`DataFiles::publish`].
    pub(crate) fn finish(mut self) -> Result<Vec<WrittenFile>> {
        self.end_file()?;
        while self.finisher.as_ref().is_some_and(|finisher| finisher.under_way > 0) {
            self.follow()?;
        }
        Ok(self.done)
    }
}
