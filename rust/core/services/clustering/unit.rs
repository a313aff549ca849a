//! One group of a plan: its slices are read, merged with their log files, put into order, and written into new files.

use std::collections::{BTreeMap, HashSet};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use serde::{Deserialize, Serialize};

use super::super::planned_files::data_file;
use super::super::schema_of;
use super::super::task_files::FILE_NAME;
use super::codes::CodedColumns;
use super::combine::{Combine, Prepared};
use super::files::{BaseFiles, OpenFile, open};
use super::outputs::{OutputSettings, Outputs, WrittenFile};
use super::portion::{Places, Portion, RangeFilter, divide};
use super::recipe::Recipe;
use crate::error::{Error, Result};
use crate::file_group::base::{BaseFileOptions, BaseFileReader, ScanOptions};
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::format::avro::metadata::{ClusteringGroup, SliceInfo, WriteStat};
use crate::interrupt;
use crate::parallel::{BatchStream, Part, run_parallel};
use crate::sort::{Rows, Sorter, batch_rows};
use crate::storage::{FileMeta, FileReader, SpillOptions};
use crate::table::slice_reader::SliceReader;
use crate::table::{HudiTable, TableView};
use crate::transaction::DataFiles;

/// Rows that are read at once.
const BATCH_ROWS: usize = 32_768;
/// Footers that wait for the copying of files before theirs.
const FOOTERS_AHEAD: usize = 2;
/// Files that take no more than this part of the memory budget are ended beside the writing of those after them.
const ENDED_SHARE: u64 = 8;
/// Sorted inputs that are each read by a thread of their own.
const READ_AHEAD: usize = 8;

/// A file that a clustering wrote.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusteredFile {
    /// What the commit says about it.
    pub stat: WriteStat,
    /// Milliseconds from its first row to its end.
    pub milliseconds: u64,
    /// Least and greatest value of each column as text, null when the column has nulls; columns without such values are
    /// left out.
    pub ranges: BTreeMap<String, (Option<String>, Option<String>)>,
}

/// What all groups of a plan share.
pub(super) struct Unit<'a> {
    table: &'a HudiTable,
    view: &'a TableView,
    instant: &'a str,
    recipe: Recipe,
    reader: Arc<SliceReader>,
    /// Columns of data files.
    schema: SchemaRef,
    /// Those that are read: names of files are made anew.
    read: SchemaRef,
    data: SchemaRef,
    options: BaseFileOptions,
    files: Arc<DataFiles>,
    threads: usize,
    spill: SpillOptions,
}

impl<'a> Unit<'a> {
    /// `files` makes the files of the clustering; `at_once`: groups that are worked on at the same time.
    pub(super) fn new(
        table: &'a HudiTable,
        files: Arc<DataFiles>,
        view: &'a TableView,
        instant: &'a str,
        recipe: Recipe,
        at_once: usize,
    ) -> Result<Self> {
        let data = schema_of(table, view)?.data;
        let (schema, mut options) = table.file_settings(&data)?;
        let kept = |i: &usize| !table.config().populates_meta_fields() || *i != FILE_NAME;
        let kept: Vec<usize> = (0..schema.fields().len()).filter(kept).collect();
        let read = Arc::new(schema.project(&kept)?);
        let at_once = at_once.max(1);
        let threads = (table.threads()? / at_once).max(1);
        options.threads = threads;
        options.sorted_by = recipe.sorted_by().to_vec();
        let reader = Arc::new(table.slice_reader(Arc::new(view.timeline().clone()), schema.clone())?);
        let spill = table.spill_options()?;
        let spill = SpillOptions { budget: spill.budget / at_once, ..spill };
        Ok(Self { table, view, instant, recipe, reader, schema, read, data, options, files, threads, spill })
    }

    /// Rewrites a group or a part of it; `token` tells this attempt from others.
    pub(super) fn run(&self, portion: &Portion, token: &str) -> Result<Vec<ClusteredFile>> {
        let infos = portion.group.slices.iter().flatten();
        let slices = infos.map(|info| self.slice(info)).collect::<Result<Vec<_>>>()?;
        let partition = slices.first().map_or("", |s| s.partition.as_str());
        if slices.iter().any(|s| s.partition != partition) {
            return Err(Error::corrupt("a clustering group has slices of several partitions")
                .with("table", self.table.storage().uri())
                .with("instant", self.instant));
        }
        let settings = OutputSettings {
            table: self.table,
            files: &self.files,
            instant: self.instant,
            partition,
            token,
            schema: self.schema.clone(),
            data: self.data.clone(),
            options: self.options.clone(),
            target_bytes: self.recipe.target_bytes,
        };
        let written = if self.recipe.sorts() {
            self.sort(portion, &slices, &settings)
        } else {
            let mut outputs = Outputs::new(&settings);
            self.combine(&slices, &mut outputs).and_then(|()| outputs.finish())
        };
        Ok(written?.into_iter().map(|file| self.told(file)).collect())
    }

    /// All slices in one order.
    fn sort(&self, portion: &Portion, slices: &[FileSlice], settings: &OutputSettings<'_>) -> Result<Vec<WrittenFile>> {
        let files = BaseFiles::of(self.table.storage(), slices);
        let (read, sorted_by) = (&self.read, &self.recipe.sort_columns);
        let coded = Arc::new(CodedColumns::choose(read, sorted_by, &files, self.spill.budget, self.threads)?);
        let read = &coded.schema;
        let filter = portion.filter(self.recipe.order(read)?, read)?.map(Arc::new);
        let rows = self.sorted(slices, &files, &coded, filter)?;
        // A file that is being ended is in memory beside the one after it.
        let small = settings.target_bytes.is_some_and(|target| target <= self.spill.budget as u64 / ENDED_SHARE);
        std::thread::scope(|scope| {
            let several = self.threads > 1;
            let mut outputs =
                if several && small { Outputs::with_thread(settings, scope) } else { Outputs::new(settings) };
            // Put into their order beside the encoding of those before them: neither keeps all threads busy by itself.
            for batch in if several { ahead(read.clone(), rows) } else { rows } {
                outputs.write(&coded.spell(&batch?)?)?;
            }
            outputs.finish()
        })
    }

    /// One slice after the other; row groups are copied where nothing in them changes. Footers, with all their filters,
    /// are read and decoded beside the copying.
    fn combine(&self, slices: &[FileSlice], outputs: &mut Outputs<'_>) -> Result<()> {
        let populated = self.table.config().populates_meta_fields();
        let combine = Combine { schema: &self.schema, read: &self.read, options: &self.options, populated };
        let prepare = |slice: &FileSlice| match &slice.base {
            Some(base) if slice.logs.is_empty() => {
                let prepared = self.open(base).and_then(|reader| combine.prepare(reader));
                prepared.map(Some).map_err(|e| e.with("file", &base.path))
            }
            _ => Ok(None),
        };
        let put = |slice: &FileSlice, prepared: Result<Option<Prepared>>, outputs: &mut Outputs<'_>| {
            let done = prepared.and_then(|prepared| match prepared {
                Some(file) => combine.run(file, outputs).map_err(|e| match &slice.base {
                    Some(base) => e.with("file", &base.path),
                    None => e,
                }),
                None => self.reader.read(slice, &self.read)?.try_for_each(|batch| outputs.write(&batch?)),
            });
            done.map_err(|e| e.with("table", self.table.storage().uri()).with("file group", &slice.file_id))
        };
        if self.threads < 2 {
            return slices.iter().try_for_each(|slice| put(slice, prepare(slice), outputs));
        }
        std::thread::scope(|scope| {
            let (sender, receiver) = sync_channel(FOOTERS_AHEAD);
            // Nobody waits any more after an error.
            let prepare = move || slices.iter().try_for_each(|slice| sender.send(prepare(slice)).ok());
            scope.spawn(interrupt::carried(prepare));
            let died = || Error::storage("a thread that read footers died");
            slices.iter().try_for_each(|slice| put(slice, interrupt::receive(&receiver)?.ok_or_else(died)?, outputs))
        })
    }

    /// All rows in the order of the recipe, some columns as numbers.
    fn sorted(
        &self,
        slices: &[FileSlice],
        files: &BaseFiles<'_>,
        coded: &Arc<CodedColumns>,
        filter: Option<Arc<RangeFilter>>,
    ) -> Result<Rows> {
        let order = self.recipe.order(&coded.schema)?;
        let sorter = Sorter::new(coded.schema.clone(), order, self.spill.clone(), self.threads)?;
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
                // By slice, row group and batch, whichever thread comes first.
                let place = (number as u64) << 40 | (group.unwrap_or(0) as u64) << 20 | i as u64;
                sorter.lock().unwrap_or_else(PoisonError::into_inner).push_keyed(place, keyed)
            };
            let named = |e: Error| e.with("file group", &slice.file_id);
            let Some(group) = group else {
                return self.reader.read(slice, &self.read)?.enumerate().try_for_each(put).map_err(named);
            };
            let file = files.open(number)?;
            let rows = self.batch_rows(&file, self.spill.budget / self.threads);
            coded.scan(number, &file, group, rows).and_then(|rows| rows.enumerate().try_for_each(put)).map_err(named)
        })?;
        let mut sorter = sorter.into_inner().unwrap_or_else(PoisonError::into_inner);
        let inputs = sorted.len();
        for (number, file) in sorted {
            let (rows, filter) = (self.sorted_input(files, number, file, inputs, coded), filter.clone());
            sorter.add_sorted(Box::new(rows.map(move |batch| kept(filter.as_deref(), batch?))))?;
        }
        sorter.finish()
    }

    /// Divides a group into portions of about so many bytes of base files, one for each task.
    pub(super) fn divide(&self, group: ClusteringGroup, most_bytes: u64) -> Result<Vec<Portion>> {
        let slices = group.slices.iter().flatten().map(|info| self.slice(info)).collect::<Result<Vec<_>>>()?;
        let bytes: u64 = slices.iter().flat_map(|s| s.base.iter().map(|b| b.size)).sum::<u64>()
            + slices.iter().flat_map(|s| s.logs.iter().map(|l| l.size)).sum::<u64>();
        // Each portion ends with a file that is not full.
        let least = self.recipe.target_bytes.unwrap_or(u64::MAX).max(most_bytes).max(1);
        let parts = usize::try_from(bytes.div_ceil(least)).unwrap_or(usize::MAX);
        if parts < 2 || self.recipe.target_bytes.is_none() {
            return Ok(vec![Portion::whole(group)]);
        }
        if !self.recipe.sorts() {
            return Ok(by_slices(&group, &slices, least));
        }
        let tops: HashSet<&str> =
            self.recipe.sort_columns.iter().map(|c| c.split('.').next().unwrap_or(c.as_str())).collect();
        let fields = self.schema.fields().iter().filter(|f| tops.contains(f.name().as_str())).cloned();
        let only: SchemaRef = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let order = Places::new(self.recipe.order(&only)?, &only)?;
        let samples = run_parallel(slices, self.threads, |slice| {
            let mut places = Vec::new();
            let rows: Box<dyn Iterator<Item = Result<RecordBatch>>> = match &slice.base {
                Some(base) if slice.logs.is_empty() => {
                    let options = ScanOptions::new(only.clone()).with_batch_size(BATCH_ROWS);
                    Box::new(self.open(base)?.scan(&options)?)
                }
                _ => Box::new(self.reader.read(&slice, &only)?),
            };
            for batch in rows {
                order.sample(&batch?, &mut places)?;
            }
            Ok(places)
        })?;
        Ok(divide(&group, samples.into_iter().flatten().collect(), parts))
    }

    /// The rows of a file that is sorted already. All such files are read at once, so that each may hold less the more
    /// there are.
    fn sorted_input(
        &self,
        files: &BaseFiles<'_>,
        number: usize,
        file: OpenFile,
        inputs: usize,
        coded: &Arc<CodedColumns>,
    ) -> Rows {
        // A batch of each is in the merge, one is made, and two wait.
        let rows = self.batch_rows(&file, self.spill.budget / inputs.max(1) * 4);
        let (uri, path) = (self.table.storage().uri().to_owned(), files.get(number).map(|base| base.path.clone()));
        let named = move |e: Error| e.with("table", &uri).with("file", path.as_deref().unwrap_or_default());
        let groups = file.row_groups().len();
        let schema = coded.schema.clone();
        let coded = coded.clone();
        let scan = (0..groups).flat_map(move |group| {
            let (batches, failed) = match coded.scan(number, &file, group, rows) {
                Ok(batches) => (Some(batches), None),
                Err(e) => (None, Some(Err(e))),
            };
            batches.into_iter().flatten().chain(failed)
        });
        let scan: Rows = Box::new(scan.map(move |batch| batch.map_err(&named)));
        if inputs > READ_AHEAD { scan } else { ahead(schema, scan) }
    }

    /// Rows of a file that may be read at once.
    fn batch_rows(&self, reader: &BaseFileReader<FileReader>, budget: usize) -> usize {
        let bytes: i64 = reader.metadata().row_groups().iter().map(|g| g.total_byte_size()).sum();
        let count = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        batch_rows(budget, count(bytes.max(0).cast_unsigned()), count(reader.rows()))
    }

    fn open(&self, base: &BaseFile) -> Result<BaseFileReader<FileReader>> {
        open(self.table.storage(), base)
    }

    /// Whether a file's rows are in the wanted order, with values of the types that they have now.
    fn is_sorted(&self, reader: &BaseFileReader<FileReader>) -> bool {
        let same_type = |name: &String| {
            let now = self.schema.field_with_name(name).map(|f| f.data_type());
            matches!((now, reader.schema().field_with_name(name)), (Ok(now), Ok(then)) if now == then.data_type())
        };
        reader.is_sorted_by(self.recipe.sorted_by()) && self.recipe.sorted_by().iter().all(same_type)
    }

    /// The files that a plan names, as they are now. Plans have whole paths, of before a table was moved perhaps.
    fn slice(&self, info: &SliceInfo) -> Result<FileSlice> {
        let partition = info.partition_path.clone().unwrap_or_default();
        let file = |name: &str| -> Result<FileMeta> {
            let path = data_file(&partition, name)?;
            self.view.file(&path)?.ok_or_else(|| self.missing(&path))
        };
        let base = info.data_file_path.as_deref().filter(|path| !path.is_empty());
        let base = base.map(|path| BaseFile::parse(&file(path)?).ok_or_else(|| self.missing(path))).transpose()?;
        if info.bootstrap_file_path.as_deref().is_some_and(|path| !path.is_empty()) {
            return Err(Error::unsupported("clustering file groups of a bootstrapped table"));
        }
        let logs = info.delta_file_paths.iter().flatten();
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
        Error::corrupt("a planned clustering names a file that is not there")
            .with("table", self.table.storage().uri())
            .with("instant", self.instant)
            .with("file", path)
            .remedy("The plan cannot be carried out any more: roll it back, and plan anew")
    }

    /// What is told about a file.
    fn told(&self, file: WrittenFile) -> ClusteredFile {
        let named = self.data.fields().iter().map(|f| f.name().clone()).zip(file.ranges.columns);
        let ranges = named.filter_map(|(name, range)| Some((name, range.map(|r| (r.least_text, r.greatest_text))?)));
        ClusteredFile { ranges: ranges.collect(), stat: file.stat, milliseconds: file.milliseconds }
    }
}

/// The same rows, made by a thread of their own.
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

/// Without an order, any slices make a portion.
fn by_slices(group: &ClusteringGroup, slices: &[FileSlice], most_bytes: u64) -> Vec<Portion> {
    let mut portions: Vec<(u64, Vec<SliceInfo>)> = Vec::new();
    for (info, slice) in group.slices.iter().flatten().zip(slices) {
        let bytes = slice.base.as_ref().map_or(0, |b| b.size) + slice.logs.iter().map(|l| l.size).sum::<u64>();
        match portions.last_mut() {
            Some((so_far, infos)) if *so_far + bytes <= most_bytes => {
                *so_far += bytes;
                infos.push(info.clone());
            }
            _ => portions.push((bytes, vec![info.clone()])),
        }
    }
    let portion = |(_, infos)| Portion::whole(ClusteringGroup { slices: Some(infos), ..group.clone() });
    portions.into_iter().map(portion).collect()
}
