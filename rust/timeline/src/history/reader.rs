//! Reading the history: only the files whose times are wanted, of these only the row groups and pages, and only the
//! wanted columns. Instants come by requested time, each once, in bounded memory.

use std::ops::Bound;

use arrow::array::{Array, RecordBatch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::archive_v1;
use super::entry::{HistoryEntry, INSTANT_TIME, LoadMode, TimeRange, entries, string_column, to_batch};
use super::file::OpenFile;
use super::manifest::{HistoryFile, HistoryFolder, Snapshot};
use super::overlap::{Order, OrderedTimes};
use crate::TimelineConfig;
use hoodoo_format::instant::Layout;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::parallel::{BatchStream, Part, run_parallel};
use hoodoo_storage::Storage;

/// Times the history is looked up again when a file vanished under the reader.
const ATTEMPTS: usize = 5;
/// Rows of a file whose times are kept in memory while its order is checked; those of a larger one are read twice.
const KEPT_ROWS: usize = 1 << 20;
/// Times are digits.
const BEHIND_ALL_TIMES: &str = "~";

/// Reads the history of one table.
#[derive(Clone)]
pub struct HistoryReader {
    folder: HistoryFolder,
    layout: Layout,
    threads: usize,
    names_are_times: bool,
}

impl HistoryReader {
    /// A reader; nothing is read yet.
    pub fn new(storage: &Storage, config: &TimelineConfig) -> Self {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let names_are_times = !config.was_version_6;
        Self { folder: HistoryFolder::new(storage, config), layout: config.layout, threads, names_are_times }
    }

    /// A file with times between which all its rows are. Hudi's upgrade from version 6 names files by their first and last
    /// row, which need not be the oldest and the newest (`SixToEightUpgradeHandler`, through `LSMTimelineWriter`).
    fn bounded(&self, file: HistoryFile) -> HistoryFile {
        if self.names_are_times {
            return file;
        }
        HistoryFile { min: String::new(), max: BEHIND_ALL_TIMES.to_owned(), ..file }
    }

    /// The same reader with a number of threads.
    #[must_use]
    pub fn with_threads(self, threads: usize) -> Self {
        Self { threads: threads.max(1), ..self }
    }

    /// Archived instants of a range as a stream of batches, by requested time, each once. The columns are those of
    /// the mode.
    ///
    /// # Errors
    /// `Corrupt` for files that are damaged or not what they should be; `Storage`. While streaming too.
    pub fn scan(&self, range: TimeRange, mode: LoadMode) -> Result<HistoryStream> {
        let batches = match self.layout {
            Layout::V1 => {
                let entries = archive_v1::read(self.folder.storage(), self.folder.folder(), &range, mode)?;
                BatchStream::of_batches(mode.schema(), vec![to_batch(&entries)?.project(&mode.columns_of_file())?])
            }
            Layout::V2 => retrying(|| self.open(&range, mode))?,
        };
        Ok(HistoryStream { reader: self.clone(), schema: mode.schema(), mode, range, batches, attempts: 0 })
    }

    /// The same as rows, for ranges that fit into memory.
    pub fn read(&self, since: Option<&str>, until: Option<&str>, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        self.rows(TimeRange::closed(since, until), mode)
    }

    /// The newest `count` archived instants, oldest of them first.
    pub fn newest(&self, count: usize, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.layout == Layout::V1 {
            let mut all = self.rows(TimeRange::all(), mode)?;
            return Ok(all.split_off(all.len().saturating_sub(count)));
        }
        let since = retrying(|| self.time_of_newest(count))?;
        let mut found = self.rows(TimeRange::closed(since.as_deref(), None), mode)?;
        Ok(found.split_off(found.len().saturating_sub(count)))
    }

    /// The archived instants of a range that a version has, for a caller who holds the table lock: no file of the version
    /// is removed meanwhile.
    pub(super) fn read_from(
        &self,
        snapshot: &Snapshot,
        since: Option<&str>,
        until: Option<&str>,
        mode: LoadMode,
    ) -> Result<Vec<HistoryEntry>> {
        let mut found = Vec::new();
        for batch in self.open_files(snapshot.files.clone(), &TimeRange::closed(since, until), mode)? {
            found.extend(entries(&batch?)?);
        }
        Ok(found)
    }

    fn rows(&self, range: TimeRange, mode: LoadMode) -> Result<Vec<HistoryEntry>> {
        let mode = if mode == LoadMode::Time { LoadMode::Action } else { mode };
        let mut found = Vec::new();
        for batch in self.scan(range, mode)? {
            found.extend(entries(&batch?)?);
        }
        Ok(found)
    }

    /// The current version, with what it is made of.
    pub fn snapshot(&self) -> Result<Snapshot> {
        self.folder.load()
    }

    fn open(&self, range: &TimeRange, mode: LoadMode) -> Result<BatchStream> {
        self.open_files(self.folder.load()?.files, range, mode)
    }

    /// The rows of some files, by requested time, each instant once.
    pub(super) fn open_files(&self, files: Vec<HistoryFile>, range: &TimeRange, mode: LoadMode) -> Result<BatchStream> {
        let wanted = files.into_iter().map(|f| self.bounded(f)).filter(|f| range.overlaps(&f.min, &f.max)).collect();
        let open = |file: HistoryFile| OpenFile::open(&self.folder, file, range);
        let files: Vec<OpenFile> = run_parallel(wanted, self.threads, open)?;
        self.stream(files, range, mode)
    }

    fn stream(&self, files: Vec<OpenFile>, range: &TimeRange, mode: LoadMode) -> Result<BatchStream> {
        let checked = run_parallel(files, self.threads, |file| Checked::new(file, range, mode))?;
        let mut parts = Vec::new();
        for group in groups(checked) {
            parts.extend(parts_of(group, range, mode));
        }
        Ok(BatchStream::new(mode.schema(), parts, self.threads))
    }

    /// Some files with their page indexes, by time.
    pub(super) fn open_with_pages(&self, files: Vec<HistoryFile>) -> Result<Vec<OpenFile>> {
        let mut files: Vec<HistoryFile> = files.into_iter().map(|f| self.bounded(f)).collect();
        files.sort_by(|a, b| (&a.min, &a.name).cmp(&(&b.min, &b.name)));
        run_parallel(files, self.threads, |file| OpenFile::open_with_pages(&self.folder, file))
    }

    /// The rows of open files, by requested time, each instant once, with all columns.
    pub(super) fn rows_of(&self, files: Vec<OpenFile>) -> Result<BatchStream> {
        self.stream(files, &TimeRange::all(), LoadMode::Full)
    }

    /// A requested time at or before that of the `count`-th newest instant; `None` when there are fewer.
    fn time_of_newest(&self, count: usize) -> Result<Option<String>> {
        let mut files: Vec<HistoryFile> = self.folder.load()?.files.into_iter().map(|f| self.bounded(f)).collect();
        files.sort_by(|a, b| b.max.cmp(&a.max));
        let mut found: Vec<String> = Vec::new();
        let mut files = files.into_iter().peekable();
        while let Some(file) = files.next() {
            let open = OpenFile::open(&self.folder, file, &TimeRange::all())?;
            // Without the writer's word, any row may be the newest.
            let rows = if open.sorted { count.max(64) } else { usize::MAX };
            let mut seen = 0;
            for split in open.splits_from_end(rows) {
                for batch in open.read(&split, &TimeRange::all(), LoadMode::Time)? {
                    let batch = batch?;
                    found.extend(string_column(&batch, INSTANT_TIME)?.iter().flatten().map(str::to_owned));
                    seen += batch.num_rows();
                }
                if open.sorted && seen >= count {
                    break;
                }
            }
            found.sort_unstable_by(|a, b| b.cmp(a));
            found.dedup();
            found.truncate(count);
            let enough = found.get(count - 1);
            if enough.is_some_and(|oldest| files.peek().is_none_or(|next| next.max < *oldest)) {
                return Ok(enough.cloned());
            }
        }
        Ok(None)
    }
}

/// A compaction of the history may remove files between the look at the manifest and the read.
fn retrying<T>(mut work: impl FnMut() -> Result<T>) -> Result<T> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match work() {
            Err(e) if e.kind() == ErrorKind::NotFound && attempts < ATTEMPTS => {}
            other => return other,
        }
    }
}

/// A file of which is known whether its wanted rows ascend.
struct Checked {
    file: OpenFile,
    ascending: bool,
    /// Its rows, when the mode wants no bodies and they were read for the check.
    kept: Option<Vec<RecordBatch>>,
}

impl Checked {
    fn new(file: OpenFile, range: &TimeRange, mode: LoadMode) -> Result<Self> {
        if file.sorted {
            return Ok(Self { file, ascending: true, kept: None });
        }
        let keep = !mode.has_bodies() && file.rows() <= KEPT_ROWS;
        let light_mode = if mode.has_bodies() { LoadMode::Time } else { mode };
        let mut kept = Vec::new();
        let mut ascending = true;
        let mut order = Order::default();
        for split in file.splits(range, light_mode) {
            for batch in file.read(&split, range, light_mode)? {
                let batch = batch?;
                ascending = order.goes_on(&batch)? && ascending;
                if keep {
                    kept.push(batch);
                }
            }
        }
        Ok(Self { file, ascending, kept: keep.then_some(kept) })
    }
}

/// Puts files together whose times overlap; groups by time.
fn groups(mut files: Vec<Checked>) -> Vec<Vec<Checked>> {
    files.sort_by(|a, b| (&a.file.file.min, &a.file.file.name).cmp(&(&b.file.file.min, &b.file.file.name)));
    let mut groups: Vec<(String, Vec<Checked>)> = Vec::new();
    for checked in files {
        let max = checked.file.file.max.clone();
        match groups.last_mut() {
            Some((end, group)) if checked.file.file.min <= *end => {
                if max > *end {
                    *end = max;
                }
                group.push(checked);
            }
            _ => groups.push((max, vec![checked])),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

fn parts_of(mut group: Vec<Checked>, range: &TimeRange, mode: LoadMode) -> Vec<Part> {
    if group.len() == 1
        && let Some(only) = group.pop_if(|only| only.ascending)
    {
        if let Some(kept) = only.kept {
            return vec![Box::new(move || Ok(Box::new(kept.into_iter().map(Ok))))];
        }
        let part = |split| -> Part {
            let (file, range) = (only.file.clone(), range.clone());
            Box::new(move || Ok(Box::new(file.read(&split, &range, mode)?)))
        };
        return only.file.splits(range, mode).into_iter().map(part).collect();
    }
    let files: Vec<OpenFile> = group.into_iter().map(|c| c.file).collect();
    let range = range.clone();
    vec![Box::new(move || {
        let times = OrderedTimes::load(&files, &range, mode)?;
        Ok(Box::new(times.batches(files, mode)))
    })]
}

/// Archived instants, batch by batch.
pub struct HistoryStream {
    reader: HistoryReader,
    schema: SchemaRef,
    mode: LoadMode,
    range: TimeRange,
    batches: BatchStream,
    attempts: usize,
}

impl HistoryStream {
    /// The columns.
    pub(crate) fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Goes on behind the last instant with the files of the newest version: those of the one that was being read are
    /// gone. What was archived since is read too when it is in the range.
    fn reopen(&mut self) -> Result<()> {
        self.batches = retrying(|| self.reader.open(&self.range, self.mode))?;
        Ok(())
    }
}

impl Iterator for HistoryStream {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.batches.next()? {
                Ok(batch) => {
                    let times = string_column(&batch, INSTANT_TIME);
                    if let Ok(times) = times
                        && !times.is_empty()
                    {
                        self.range.start = Bound::Excluded(times.value(times.len() - 1).to_owned());
                        self.attempts = 0;
                    }
                    return Some(Ok(batch));
                }
                Err(e) => {
                    let e = Error::from(e);
                    self.attempts += 1;
                    if e.kind() != ErrorKind::NotFound || self.attempts >= ATTEMPTS {
                        return Some(Err(e));
                    }
                    if let Err(e) = self.reopen() {
                        return Some(Err(e));
                    }
                }
            }
        }
    }
}

/// For consumers that take Arrow readers.
impl arrow::array::RecordBatchReader for HistoryArrow {
    fn schema(&self) -> SchemaRef {
        self.0.schema()
    }
}

/// A [`HistoryStream`] as an Arrow reader.
pub struct HistoryArrow(pub HistoryStream);

impl Iterator for HistoryArrow {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|batch| batch.map_err(ArrowError::from))
    }
}
