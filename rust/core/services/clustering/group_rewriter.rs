//! Rewrites one group of a plan: reads its file slices, merges their log files, sorts the rows, and writes new files.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::super::planned_files::{data_file, has_rows};
use super::super::schema_at;
use super::combine::{Combine, Prepared};
use super::dictionary_keys::DictionaryColumns;
use super::execution_strategy::ExecutionStrategy;
use super::files::{BaseFiles, OpenFile};
use super::ranges::of_footer;
use super::task::{ClusteringTask, RangeFilter, SortKeys, divide};
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::format::avro::metadata::{ClusteringGroup, SliceInfo, WriteStat};
use crate::parallel::{self, BatchStream, Part, run_parallel};
use crate::sort::{Rows, Sorter, batch_rows};
use crate::storage::{FileMeta, FileReader, SpillOptions};
use crate::table::file_group_reader::FileGroupReader;
use crate::table::{HudiTable, TableSchema, TableView, open_base};
use crate::transaction::{DataFiles, FILE_NAME, FileSize, RollingFileSettings, RollingFileWriter, WrittenFile};

/// Rows of a batch.
const BATCH_ROWS: usize = 32_768;
/// Footers that are read ahead while earlier files are copied.
const FOOTERS_AHEAD: usize = 2;
/// Files below this fraction of the memory budget are finished by a thread while the next ones are written.
const ENDED_SHARE: u64 = 8;
/// Maximum number of sorted inputs that a separate thread reads ahead.
const READ_AHEAD: usize = 8;

/// A file that a clustering wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusteredFile {
    /// Its write stat.
    pub stat: WriteStat,
    /// Milliseconds from its first row to its publication.
    pub milliseconds: u64,
    /// Minimum and maximum of each column as strings; the minimum is null if the column has nulls. Columns without
    /// statistics are left out.
    pub ranges: BTreeMap<String, (Option<String>, Option<String>)>,
}

/// Rewrites the groups of a plan.
pub(super) struct GroupRewriter<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
    instant: &'a str,
    strategy: ExecutionStrategy,
    reader: Arc<FileGroupReader>,
    /// Columns of data files.
    schema: SchemaRef,
    /// Columns that are read: all but the file name, which is new.
    read: SchemaRef,
    data: SchemaRef,
    options: BaseFileOptions,
    files: Arc<DataFiles>,
    threads: usize,
    spill: SpillOptions,
}

impl<'a> GroupRewriter<'a> {
    /// `files` creates the data files; `at_once`: number of groups that are rewritten at the same time.
    pub(super) fn new(
        table: &'a HudiTable,
        files: Arc<DataFiles>,
        view: &'a TableView,
        instant: &'a str,
        strategy: ExecutionStrategy,
        at_once: usize,
    ) -> Result<Self> {
        let TableSchema { data, history } = schema_at(table, view, instant)?;
        let (schema, mut options) = table.file_settings(&data)?;
        let kept = |i: &usize| !table.config().populates_meta_fields() || *i != FILE_NAME;
        let kept: Vec<usize> = (0..schema.fields().len()).filter(kept).collect();
        let read = Arc::new(schema.project(&kept)?);
        let at_once = at_once.max(1);
        let threads = (table.threads()? / at_once).max(1);
        options.threads = threads;
        options.sorted_by = strategy.sorted_by().to_vec();
        let reader =
            Arc::new(table.file_group_reader(Arc::new(view.timeline().clone()), schema.clone(), history.as_ref())?);
        let spill = table.sort_options()?;
        let spill = SpillOptions { budget: spill.budget / at_once, ..spill };
        Ok(Self { table, view, instant, strategy, reader, schema, read, data, options, files, threads, spill })
    }

    /// Rewrites the rows of a task; `token` is unique to this attempt.
    pub(super) fn run(&self, task: &ClusteringTask, token: &str) -> Result<Vec<ClusteredFile>> {
        let infos = task.group.slices.iter().flatten();
        let slices = infos.map(|info| self.slice(info)).collect::<Result<Vec<_>>>()?;
        let partition = slices.first().map_or("", |s| s.partition.as_str());
        if slices.iter().any(|s| s.partition != partition) {
            return Err(Error::corrupt("a clustering group has slices of several partitions")
                .with("table", self.table.storage().uri())
                .with("instant", self.instant));
        }
        let settings = RollingFileSettings {
            files: &self.files,
            partition: partition.to_owned(),
            bucket: None,
            is_new_partition: false,
            token: token.to_owned(),
            schema: self.schema.clone(),
            options: self.options.clone(),
            sets_file_name: self.table.config().populates_meta_fields(),
            size: self.strategy.target_bytes.map_or(FileSize::All, FileSize::Target),
        };
        let written = if self.strategy.sorts() {
            self.sort(task, &slices, settings)
        } else {
            let mut writer = RollingFileWriter::new(settings);
            self.combine(&slices, &mut writer).and_then(|()| writer.finish())
        };
        written?.into_iter().map(|file| self.report(file)).collect()
    }

    /// Sorts the rows of all slices.
    fn sort(
        &self,
        task: &ClusteringTask,
        slices: &[FileSlice],
        settings: RollingFileSettings<'_>,
    ) -> Result<Vec<WrittenFile>> {
        let files = BaseFiles::of(self.table.storage(), slices, self.reader.history());
        let (read, sorted_by) = (&self.read, &self.strategy.sort_columns);
        let dictionaries =
            Arc::new(DictionaryColumns::choose(read, sorted_by, &files, self.spill.budget, self.threads)?);
        let read = &dictionaries.schema;
        let filter = task.filter(self.strategy.order(read)?, read)?.map(Arc::new);
        let rows = self.sorted(slices, &files, &dictionaries, filter)?;
        // A file that is being finished is in memory together with the next one.
        let small = self.strategy.target_bytes.is_some_and(|target| target <= self.spill.budget as u64 / ENDED_SHARE);
        std::thread::scope(|scope| {
            let several = self.threads > 1;
            let mut writer = if several && small {
                RollingFileWriter::with_thread(settings, scope)
            } else {
                RollingFileWriter::new(settings)
            };
            // Sorting and encoding overlap: neither keeps all threads busy.
            for batch in if several { ahead(read.clone(), rows) } else { rows } {
                writer.write(&dictionaries.decode(&batch?)?)?;
            }
            writer.finish()
        })
    }

    /// Writes one slice after the other; copies row groups that do not change. Another thread reads and decodes the
    /// footers ahead.
    fn combine(&self, slices: &[FileSlice], writer: &mut RollingFileWriter<'_>) -> Result<()> {
        let populated = self.table.config().populates_meta_fields();
        let combine = Combine { schema: &self.schema, read: &self.read, options: &self.options, populated };
        let prepare = |slice: &FileSlice| match &slice.base {
            Some(base) if slice.logs.is_empty() => {
                let prepared = self.open(base).and_then(|reader| combine.prepare(reader));
                prepared.map(Some).map_err(|e| e.with("file", &base.path))
            }
            _ => Ok(None),
        };
        let put = |slice: &FileSlice, prepared: Result<Option<Prepared>>, writer: &mut RollingFileWriter<'_>| {
            let done = prepared.and_then(|prepared| match prepared {
                Some(file) => combine.run(file, writer).map_err(|e| match &slice.base {
                    Some(base) => e.with("file", &base.path),
                    None => e,
                }),
                None => self.reader.read(slice, &self.read)?.try_for_each(|batch| writer.write(&batch?)),
            });
            done.map_err(|e| e.with("table", self.table.storage().uri()).with("file group", &slice.file_id))
        };
        if self.threads < 2 {
            return slices.iter().try_for_each(|slice| put(slice, prepare(slice), writer));
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(FOOTERS_AHEAD);
            // After an error the receiver is gone.
            let prepare = move || slices.iter().try_for_each(|slice| sender.send(prepare(slice)).ok());
            parallel::spawn(scope, move || _ = prepare());
            slices.iter().try_for_each(|slice| put(slice, parallel::receive(&receiver)?, writer))
        })
    }

    /// Returns all rows in the order of the strategy, low-cardinality columns as dictionary keys.
    fn sorted(
        &self,
        slices: &[FileSlice],
        files: &BaseFiles<'_>,
        dictionaries: &Arc<DictionaryColumns>,
        filter: Option<Arc<RangeFilter>>,
    ) -> Result<Rows> {
        let order = self.strategy.order(&dictionaries.schema)?;
        let sorter = Sorter::new(dictionaries.schema.clone(), order, self.spill.clone(), self.threads)?;
        let keyer = sorter.keyer();
        let mut work = Vec::new();
        let mut sorted = Vec::new();
        for (number, slice) in slices.iter().enumerate() {
            if files.get(number).is_none() {
                work.push((number, slice, None));
                continue;
            }
            let file = files.open(number)?;
            if self.is_sorted(&file) {
                sorted.push((number, file));
            } else {
                work.extend((0..file.row_groups().len()).map(|group| (number, slice, Some(group))));
            }
        }
        let sorter = Mutex::new(sorter);
        run_parallel(work, self.threads, |(number, slice, group)| {
            let put = |(i, batch): (usize, Result<RecordBatch>)| {
                let keyed = keyer.keyed(kept(filter.as_deref(), batch?)?)?;
                // Sequence number by slice, row group and batch, so that the order does not depend on the threads.
                let sequence = (number as u64) << 40 | (group.unwrap_or(0) as u64) << 20 | i as u64;
                sorter.lock().unwrap_or_else(PoisonError::into_inner).push_keyed(sequence, keyed)
            };
            let named = |e: Error| e.with("file group", &slice.file_id);
            let Some(group) = group else {
                return self.reader.read(slice, &self.read)?.enumerate().try_for_each(put).map_err(named);
            };
            let file = files.open(number)?;
            let rows = self.batch_rows(&file, self.spill.budget / self.threads);
            dictionaries
                .scan(number, &file, group, rows)
                .and_then(|rows| rows.enumerate().try_for_each(put))
                .map_err(named)
        })?;
        let mut sorter = sorter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let inputs = sorted.len();
        for (number, file) in sorted {
            let (rows, filter) = (self.sorted_input(files, number, file, inputs, dictionaries), filter.clone());
            sorter.add_sorted(Box::new(rows.map(move |batch| kept(filter.as_deref(), batch?))))?;
        }
        sorter.finish()
    }

    /// Divides a group into tasks of about `most_bytes` bytes of base files.
    pub(super) fn divide(&self, group: ClusteringGroup, most_bytes: u64) -> Result<Vec<ClusteringTask>> {
        let slices = group.slices.iter().flatten().map(|info| self.slice(info)).collect::<Result<Vec<_>>>()?;
        let bytes: u64 = slices.iter().flat_map(|s| s.base.iter().map(|b| b.size)).sum::<u64>()
            + slices.iter().flat_map(|s| s.logs.iter().map(|l| l.size)).sum::<u64>();
        // The last file of each task is not full.
        let least = self.strategy.target_bytes.unwrap_or(u64::MAX).max(most_bytes).max(1);
        let parts = usize::try_from(bytes.div_ceil(least)).unwrap_or(usize::MAX);
        if parts < 2 || self.strategy.target_bytes.is_none() {
            return Ok(vec![ClusteringTask::whole(group)]);
        }
        if !self.strategy.sorts() {
            return Ok(by_slices(&group, &slices, least));
        }
        let tops: HashSet<&str> =
            self.strategy.sort_columns.iter().map(|c| c.split('.').next().unwrap_or(c.as_str())).collect();
        let fields = self.schema.fields().iter().filter(|f| tops.contains(f.name().as_str())).cloned();
        let only: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let order = SortKeys::new(self.strategy.order(&only)?, &only)?;
        let samples = run_parallel(slices, self.threads, |slice| {
            let mut samples = Vec::new();
            let rows: Box<dyn Iterator<Item = Result<RecordBatch>>> = match &slice.base {
                Some(base) if slice.logs.is_empty() => {
                    let options = ScanOptions::new(only.clone()).with_batch_size(BATCH_ROWS);
                    Box::new(self.open(base)?.scan(&options)?)
                }
                _ => Box::new(self.reader.read(&slice, &only)?),
            };
            for batch in rows {
                order.sample(&batch?, &mut samples)?;
            }
            Ok(samples)
        })?;
        Ok(divide(&group, samples.into_iter().flatten().collect(), parts))
    }

    /// Reads the rows of a file that is sorted already. All such files are read at the same time and share the memory
    /// budget.
    fn sorted_input(
        &self,
        files: &BaseFiles<'_>,
        number: usize,
        file: OpenFile,
        inputs: usize,
        dictionaries: &Arc<DictionaryColumns>,
    ) -> Rows {
        // Each input has one batch in the merge, one being read, and two read ahead.
        let rows = self.batch_rows(&file, self.spill.budget / inputs.max(1) * 4);
        let (uri, path) = (self.table.storage().uri().to_owned(), files.get(number).map(|base| base.path.clone()));
        let named = move |e: Error| e.with("table", &uri).with("file", path.as_deref().unwrap_or_default());
        let groups = file.row_groups().len();
        let schema = dictionaries.schema.clone();
        let dictionaries = dictionaries.clone();
        let scan = (0..groups).flat_map(move |group| {
            let (batches, failed) = match dictionaries.scan(number, &file, group, rows) {
                Ok(batches) => (Some(batches), None),
                Err(e) => (None, Some(Err(e))),
            };
            batches.into_iter().flatten().chain(failed)
        });
        let scan: Rows = Box::new(scan.map(move |batch| batch.map_err(&named)));
        if inputs > READ_AHEAD { scan } else { ahead(schema, scan) }
    }

    /// Number of rows of a batch that fits the budget.
    fn batch_rows(&self, reader: &BaseFileReader<FileReader>, budget: usize) -> usize {
        let bytes: i64 = reader.metadata().row_groups().iter().map(|g| g.total_byte_size()).sum();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        batch_rows(budget, count(bytes.max(0).cast_unsigned()), count(reader.rows()))
    }

    fn open(&self, base: &BaseFile) -> Result<BaseFileReader<FileReader>> {
        open_base(self.table.storage(), base, self.reader.history())
    }

    /// Whether a file is sorted in the order of the strategy and its sort columns have the table's types.
    fn is_sorted(&self, reader: &BaseFileReader<FileReader>) -> bool {
        let same_type = |name: &String| {
            let now = self.schema.field_with_name(name).map(|f| f.data_type());
            matches!((now, reader.schema().field_with_name(name)), (Ok(now), Ok(then)) if now == then.data_type())
        };
        reader.is_sorted_by(self.strategy.sorted_by()) && self.strategy.sorted_by().iter().all(same_type)
    }

    /// Finds the files that a plan names. Plans have full paths, perhaps from before the table was moved.
    fn slice(&self, info: &SliceInfo) -> Result<FileSlice> {
        let partition = info.partition_path.clone().unwrap_or_default();
        let file = |name: &str| -> Result<FileMeta> {
            let path = data_file(&partition, name)?;
            self.view.file(&path)?.ok_or_else(|| self.missing(&path))
        };
        let base = info.data_file_path.as_deref().filter(|path| !path.is_empty());
        let base = base.map(|path| BaseFile::parse(&file(path)?).ok_or_else(|| self.missing(path))).transpose()?;
        if info.bootstrap_file_path.as_deref().is_some_and(|path| !path.is_empty()) {
            return Err(Error::unsupported("clustering of bootstrapped tables is not supported"));
        }
        let logs = info.delta_file_paths.iter().flatten().filter(|path| has_rows(path));
        let mut logs = logs
            .map(|path| LogFile::parse(&file(path)?).ok_or_else(|| self.missing(path)))
            .collect::<Result<Vec<_>>>()?;
        LogFile::sort(&mut logs);
        let first_log = || logs.first().map(|log| log.instant.clone());
        Ok(FileSlice {
            file_id: info.file_id.clone().unwrap_or_default(),
            base_instant: base.as_ref().map(|b| b.instant.clone()).or_else(first_log).unwrap_or_default(),
            base,
            logs,
            partition,
        })
    }

    fn missing(&self, path: &str) -> Error {
        Error::corrupt("a file of a planned clustering is missing")
            .with("table", self.table.storage().uri())
            .with("instant", self.instant)
            .with("file", path)
            .remedy("The plan can no longer be executed: roll it back and plan a new one")
    }

    /// Reports a written file.
    fn report(&self, file: WrittenFile) -> Result<ClusteredFile> {
        let WrittenFile { stat, footer } = file;
        let columns: Vec<String> = self.data.fields().iter().map(|f| f.name().clone()).collect();
        let ranges = of_footer(&BaseFileReader::of_footer(footer)?, &columns, &self.data)?.columns;
        let named = columns.into_iter().zip(ranges);
        let ranges = named.filter_map(|(name, range)| Some((name, range.map(|r| (r.min_string, r.max_string))?)));
        let milliseconds = stat.runtime_stats.as_ref().and_then(|runtime| runtime.total_create_time);
        let milliseconds = milliseconds.unwrap_or_default().max(0).cast_unsigned();
        Ok(ClusteredFile { ranges: ranges.collect(), stat, milliseconds })
    }
}

/// The same rows, read ahead by a separate thread.
fn ahead(schema: SchemaRef, rows: Rows) -> Rows {
    let part: Part = Box::new(move || Ok(rows as Box<dyn Iterator<Item = Result<RecordBatch>>>));
    Box::new(BatchStream::new(schema, vec![part], 1).map(|batch| batch.map_err(Error::from)))
}

fn kept(filter: Option<&RangeFilter>, batch: RecordBatch) -> Result<RecordBatch> {
    match filter {
        Some(filter) => filter.apply(&batch),
        None => Ok(batch),
    }
}

/// Without a sort order, any slices can form a task.
fn by_slices(group: &ClusteringGroup, slices: &[FileSlice], most_bytes: u64) -> Vec<ClusteringTask> {
    let mut tasks: Vec<(u64, Vec<SliceInfo>)> = Vec::new();
    for (info, slice) in group.slices.iter().flatten().zip(slices) {
        let bytes = slice.base.as_ref().map_or(0, |b| b.size) + slice.logs.iter().map(|l| l.size).sum::<u64>();
        match tasks.last_mut() {
            Some((so_far, infos)) if *so_far + bytes <= most_bytes => {
                *so_far += bytes;
                infos.push(info.clone());
            }
            _ => tasks.push((bytes, vec![info.clone()])),
        }
    }
    let task = |(_, infos)| ClusteringTask::whole(ClusteringGroup { slices: Some(infos), ..group.clone() });
    tasks.into_iter().map(task).collect()
}
