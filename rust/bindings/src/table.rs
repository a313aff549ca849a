//! Tables: reading, writing, timeline.

use std::collections::BTreeMap;

use arrow::array::RecordBatchReader;
use arrow::datatypes::Schema;
use arrow_pyarrow::{IntoPyArrow, PyArrowType, Table, ToPyArrow};
use hoodoo::client;
use hoodoo::format::instant::{Action, Instant, State};
use hoodoo::parallel::BatchStream;
use hoodoo::services::verify::{Repair, verify};
use hoodoo::table::options::KEYS;
use hoodoo::table::scan::ScanRequest;
use hoodoo::table::{HudiTable, Options, QueryRequest, ReadQuery, Use, commit_metadata};
use hoodoo::timeline::history::{HistoryArrow, HistoryEntry, HistoryReader, LoadMode, TimeRange};
use hoodoo::write::{Operation, WriteRequest};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::call::{self, Call};
use crate::error::to_py;
use crate::from_python::StringMap;
use crate::merger::with_mergers;
use crate::to_python;

/// An open table.
#[pyclass(frozen, module = "hoodoo._native")]
pub struct NativeTable {
    pub(crate) table: HudiTable,
}

type InstantRow = (String, Option<String>, &'static str, &'static str);
type SliceRow = (String, String, String, Option<String>, Option<u64>, Vec<String>, Vec<u64>);

#[pymethods]
impl NativeTable {
    #[staticmethod]
    fn open(py: Python<'_>, uri: &str, options: StringMap, storage_options: StringMap) -> PyResult<Self> {
        let table = call::run(py, || HudiTable::open(uri, options, &storage_options))?;
        Ok(Self { table: with_mergers(py, table)? })
    }

    #[staticmethod]
    fn create(
        py: Python<'_>,
        uri: &str,
        schema: PyArrowType<Schema>,
        options: StringMap,
        storage_options: StringMap,
    ) -> PyResult<Self> {
        let made = call::run(py, || client::create_table(uri, &schema.0, options, &storage_options))?;
        Ok(Self { table: with_mergers(py, made)? })
    }

    #[staticmethod]
    fn open_or_create(
        py: Python<'_>,
        uri: &str,
        schema: PyArrowType<Schema>,
        options: StringMap,
        storage_options: StringMap,
    ) -> PyResult<Self> {
        let made = call::run(py, || client::open_or_create(uri, &schema.0, options, &storage_options))?;
        Ok(Self { table: with_mergers(py, made)? })
    }

    fn with_options(&self, py: Python<'_>, options: StringMap) -> PyResult<Self> {
        Ok(Self { table: with_mergers(py, self.table.with_options(&options).map_err(to_py)?)? })
    }

    /// The operation of a write where the options name none.
    #[getter]
    fn default_operation(&self) -> &'static str {
        client::default_operation(&self.table).name()
    }

    #[getter]
    fn uri(&self) -> &str {
        self.table.storage().uri()
    }

    #[getter]
    fn version(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(call::run(py, || self.table.reload())?.config().version())
    }

    /// What `hoodie.properties` says now.
    fn properties<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let table = call::run(py, || self.table.reload())?;
        let dict = PyDict::new(py);
        for (key, value) in table.config().properties().iter() {
            dict.set_item(key, value)?;
        }
        Ok(dict)
    }

    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let schema = call::run(py, || self.table.schema())?;
        schema.as_ref().to_pyarrow(py)
    }

    #[pyo3(signature = (columns=None, filters=None, as_of=None, query=None))]
    fn scan<'py>(
        &self,
        py: Python<'py>,
        columns: Option<Vec<String>>,
        filters: Option<Bound<'py, PyAny>>,
        as_of: Option<String>,
        query: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call::default();
        let request = ScanRequest { columns, filter: call.filter(filters), ..Default::default() };
        let stream = call.run(py, || {
            let query = self.query(QueryRequest { query, as_of, ..Default::default() })?;
            self.table.reload()?.read(&query, &request)
        })?;
        reader(py, stream)
    }

    /// All rows of a scan. Unlike a stream, which crosses the border as C structures, it keeps the kind of an error.
    #[pyo3(signature = (columns=None, filters=None, as_of=None, query=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        columns: Option<Vec<String>>,
        filters: Option<Bound<'py, PyAny>>,
        as_of: Option<String>,
        query: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call::default();
        let request = ScanRequest { columns, filter: call.filter(filters), ..Default::default() };
        let rows = call.run(py, || {
            let query = self.query(QueryRequest { query, as_of, ..Default::default() })?;
            let stream = self.table.reload()?.read(&query, &request)?;
            let schema = stream.schema();
            let batches = stream.collect::<Result<Vec<_>, _>>().map_err(hoodoo::Error::from)?;
            Ok(Table::try_new(batches, schema)?)
        });
        rows?.into_pyarrow(py)
    }

    #[pyo3(signature = (since, until=None, columns=None, filters=None, mode=None))]
    fn changes<'py>(
        &self,
        py: Python<'py>,
        since: &str,
        until: Option<&str>,
        columns: Option<Vec<String>>,
        filters: Option<Bound<'py, PyAny>>,
        mode: Option<String>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let call = Call::default();
        let request = ScanRequest { columns, filter: call.filter(filters), ..Default::default() };
        let stream = call.run(py, || {
            let (since, until) = (Some(since.to_owned()), until.map(str::to_owned));
            let query = self.query(QueryRequest { since, until, mode, ..Default::default() })?;
            self.table.reload()?.read(&query, &request)
        })?;
        reader(py, stream)
    }

    #[pyo3(signature = (operation, data=None, partitions=Vec::new(), partial=false))]
    fn write<'py>(
        &self,
        py: Python<'py>,
        operation: &str,
        data: Option<Bound<'py, PyAny>>,
        partitions: Vec<String>,
        partial: bool,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let operation = Operation::parse(operation).map_err(to_py)?;
        let call = Call::default();
        let data = data.map(|data| call.rows(data)).transpose()?;
        let request = WriteRequest { operation, data, partitions, partial };
        call.commit(py, || client::write(&self.table, request).map(Some))
    }

    #[pyo3(signature = (partition=None))]
    fn file_slices(&self, py: Python<'_>, partition: Option<&str>) -> PyResult<Vec<SliceRow>> {
        let slices = call::run(py, || self.table.file_slices(partition))?;
        Ok(slices.iter().map(to_python::file_slice).collect())
    }

    fn instants(&self, py: Python<'_>) -> PyResult<Vec<InstantRow>> {
        let timeline = call::run(py, || self.table.timeline())?;
        Ok(timeline.instants().iter().map(to_python::instant).collect())
    }

    /// Archived instants as (requested, completed, action, state).
    #[pyo3(signature = (since=None, until=None))]
    fn history(&self, py: Python<'_>, since: Option<&str>, until: Option<&str>) -> PyResult<Vec<InstantRow>> {
        let reader = self.history_reader()?;
        let entries = call::run(py, || reader.read(since, until, LoadMode::Action))?;
        Ok(entries.into_iter().map(archived_row).collect())
    }

    /// The newest archived instants, oldest of them first.
    fn newest_history(&self, py: Python<'_>, count: usize) -> PyResult<Vec<InstantRow>> {
        let reader = self.history_reader()?;
        let entries = call::run(py, || reader.newest(count, LoadMode::Action))?;
        Ok(entries.into_iter().map(archived_row).collect())
    }

    /// Archived instants as a stream of Arrow batches with the columns of a mode: time, action, metadata, plan or full.
    #[pyo3(signature = (mode, since=None, until=None))]
    fn scan_history<'py>(
        &self,
        py: Python<'py>,
        mode: &str,
        since: Option<&str>,
        until: Option<&str>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mode = match mode {
            "time" => LoadMode::Time,
            "action" => LoadMode::Action,
            "metadata" => LoadMode::Metadata,
            "plan" => LoadMode::Plan,
            "full" => LoadMode::Full,
            other => {
                let error = hoodoo::Error::invalid_option(format!("invalid value '{other}' for the set of columns"));
                return Err(to_py(error.remedy("Use time, action, metadata, plan or full")));
            }
        };
        let reader = self.history_reader()?;
        let stream = call::run(py, || reader.scan(TimeRange::closed(since, until), mode))?;
        call::stream(py, Box::new(HistoryArrow(stream)))
    }

    /// Files of the history as (name, bytes, smallest time, largest time, level), and the number of its version.
    #[allow(clippy::type_complexity)]
    fn history_files(&self, py: Python<'_>) -> PyResult<(u64, Vec<(String, u64, String, String, u32)>)> {
        let reader = self.history_reader()?;
        let snapshot = call::run(py, || reader.snapshot())?;
        Ok((snapshot.version, snapshot.files.into_iter().map(|f| (f.name, f.size, f.min, f.max, f.level)).collect()))
    }

    /// Plans a compaction; its requested time, or nothing when there is nothing to compact.
    fn schedule_compaction(&self, py: Python<'_>) -> PyResult<Option<String>> {
        call::run(py, || client::schedule_compaction(&self.table))
    }

    /// Carries out planned compactions; nothing when there is nothing to compact.
    #[pyo3(signature = (instant=None))]
    fn compact<'py>(&self, py: Python<'py>, instant: Option<String>) -> PyResult<Option<Bound<'py, PyDict>>> {
        call::commit(py, || client::compact(&self.table, instant.as_deref()))
    }

    /// Merges log files with each other; `None` if there is nothing to merge.
    fn log_compact<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        call::commit(py, || client::log_compact(&self.table))
    }

    /// Builds an index of the metadata table: (requested time, completion time, partitions, warnings).
    /// `expression` is that of an expression index: its kind, the function, and what that takes beside the column.
    #[pyo3(signature = (partition, columns=None, expression=None))]
    fn index(
        &self,
        py: Python<'_>,
        partition: &str,
        columns: Option<Vec<String>>,
        expression: Option<ExpressionArgument>,
    ) -> PyResult<IndexRow> {
        let expression = expression.map(|(kind, function, options)| client::Expression { kind, function, options });
        call::run(py, || client::index(&self.table, partition, columns, expression)).map(index_row)
    }

    /// Drops an index; the partitions of the metadata table that are gone.
    fn drop_index(&self, py: Python<'_>, partition: &str) -> PyResult<Vec<String>> {
        call::run(py, || client::drop_index(&self.table, partition))
    }

    /// Makes the metadata table anew: as `index`.
    fn rebuild_metadata_table(&self, py: Python<'_>) -> PyResult<IndexRow> {
        call::run(py, || client::rebuild_metadata_table(&self.table)).map(index_row)
    }

    /// Drops the metadata table; whether there was one.
    fn drop_metadata_table(&self, py: Python<'_>) -> PyResult<bool> {
        call::run(py, || client::drop_metadata_table(&self.table))
    }

    /// Archives, or returns what would be archived: ((instants), (blockers as since, reason, remedy, writes), (writes,
    /// keep min, keep max), files written, files compacted).
    #[allow(clippy::type_complexity)]
    fn archive(
        &self,
        py: Python<'_>,
        dry_run: bool,
    ) -> PyResult<(Vec<InstantRow>, Vec<(String, String, &'static str, usize)>, (usize, usize, usize), usize, usize)>
    {
        use hoodoo::services::archive;
        let outcome = call::run(py, || {
            let table = self.table.reload()?;
            if dry_run {
                let plan = archive::planned(&table)?;
                return Ok(archive::ArchiveOutcome { plan, ..Default::default() });
            }
            archive::archive(&table)
        })?;
        let plan = outcome.plan;
        let blockers = plan.blockers.into_iter().map(|h| (h.from, h.reason.to_string(), h.reason.remedy(), h.writes));
        Ok((
            plan.instants.iter().map(to_python::instant).collect(),
            blockers.collect(),
            (plan.writes, plan.keep_min, plan.keep_max),
            outcome.files,
            outcome.compacted.files,
        ))
    }

    /// Compacts the history; answers (levels, files merged, files removed).
    fn compact_history(&self, py: Python<'_>) -> PyResult<(usize, usize, usize)> {
        let done = call::run(py, || hoodoo::services::archive::compact_history(&self.table.reload()?))?;
        Ok((done.levels, done.files, done.removed))
    }

    /// Problems as (severity, subject, message, remedy), and how many things of each kind were looked at.
    #[allow(clippy::type_complexity)]
    fn verify(&self, py: Python<'_>) -> PyResult<(Vec<(&'static str, String, String, String)>, BTreeMap<String, u64>)> {
        let report = call::run(py, || verify(&self.table.reload()?))?;
        let row = |p: hoodoo::services::verify::Problem| (p.severity.name(), p.subject, p.message, p.remedy);
        Ok((report.problems.into_iter().map(row).collect(), report.checked))
    }

    /// What was repaired, or would be, with how: (severity, subject, message, remedy, repair); then what the check says now.
    #[allow(clippy::type_complexity)]
    fn repair(
        &self,
        py: Python<'_>,
        dry_run: bool,
    ) -> PyResult<(
        Vec<(&'static str, String, String, String, &'static str)>,
        Vec<(&'static str, String, String, String)>,
        BTreeMap<String, u64>,
    )> {
        let done = call::run(py, || client::repair(&self.table, dry_run))?;
        let repaired = done.repaired.into_iter().map(|p| {
            let repair = p.repair.map_or("", Repair::name);
            (p.severity.name(), p.subject, p.message, p.remedy, repair)
        });
        let left = done.left.problems.into_iter().map(|p| (p.severity.name(), p.subject, p.message, p.remedy));
        Ok((repaired.collect(), left.collect(), done.left.checked))
    }

    /// The body of an instant as JSON text; of a completed one also when it is archived.
    fn metadata(
        &self,
        py: Python<'_>,
        requested: &str,
        action: &str,
        state: &str,
        completed: Option<String>,
    ) -> PyResult<String> {
        let instant = instant_of(requested, action, state, completed)?;
        let json = call::run(py, || {
            let (storage, timeline) = (self.table.storage(), self.table.timeline()?);
            let wanted = instant.action.completed_as();
            let is_it = |i: &Instant| i.requested == instant.requested && i.action.completed_as() == wanted;
            if instant.is_completed() && !timeline.instants().iter().any(is_it) {
                return commit_metadata::read_archived_as_json(storage, timeline.config(), &instant);
            }
            commit_metadata::read_as_json(storage, &timeline, &instant)
        });
        Ok(json?.to_string())
    }

    /// The bytes of an instant's file, of a completed one also when it is archived; None when it is empty.
    fn instant_file<'py>(
        &self,
        py: Python<'py>,
        requested: &str,
        action: &str,
        state: &str,
        completed: Option<String>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let instant = instant_of(requested, action, state, completed)?;
        let bytes = call::run(py, || {
            let timeline = self.table.timeline()?;
            commit_metadata::read_body(self.table.storage(), &timeline, &instant)
        });
        let bytes = bytes?;
        Ok((!bytes.is_empty()).then(|| PyBytes::new(py, &bytes)))
    }

    /// The bytes of the plan of an action; None when it has none.
    fn plan_file<'py>(&self, py: Python<'py>, requested: &str, action: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let instant = instant_of(requested, action, State::Requested.name(), None)?;
        let bytes = call::run(py, || {
            let timeline = self.table.timeline()?;
            commit_metadata::read_plan(self.table.storage(), &timeline, &instant)
        });
        Ok(bytes?.map(|bytes| PyBytes::new(py, &bytes)))
    }

    /// The plan of an action as JSON text, also when it is archived.
    fn plan(&self, py: Python<'_>, requested: &str, action: &str) -> PyResult<String> {
        let instant = instant_of(requested, action, State::Requested.name(), None)?;
        let json = call::run(py, || {
            let timeline = self.table.timeline()?;
            commit_metadata::read_plan_as_json(self.table.storage(), &timeline, &instant)
        });
        Ok(json?.to_string())
    }
}

/// The function of an expression index: its kind, the function's name, and what that takes beside the column.
type ExpressionArgument = (String, String, Vec<(String, String)>);

/// An index that was built: requested time, completion time, partitions of the metadata table, warnings.
pub(crate) type IndexRow = (String, String, Vec<String>, Vec<String>);

pub(crate) fn index_row(done: hoodoo::services::indexing::Indexed) -> IndexRow {
    (done.instant, done.completed, done.partitions, done.warnings)
}

fn archived_row(e: HistoryEntry) -> InstantRow {
    (e.requested, Some(e.completed), e.action.name(), State::Completed.name())
}

impl NativeTable {
    /// The query that is asked for; what is left open follows from the table's options.
    pub(crate) fn query(&self, asked: QueryRequest) -> hoodoo::Result<ReadQuery> {
        ReadQuery::resolve(self.table.options(), asked).map_err(|e| e.with("table", self.table.storage().uri()))
    }

    fn history_reader(&self) -> PyResult<HistoryReader> {
        let threads = self.table.threads().map_err(to_py)?;
        Ok(HistoryReader::new(self.table.storage(), self.table.config().timeline()).with_threads(threads))
    }
}

fn instant_of(requested: &str, action: &str, state: &str, completed: Option<String>) -> PyResult<Instant> {
    let parsed = Action::parse(action).zip(state_of(state));
    let (action, state) = parsed.ok_or_else(|| to_py(hoodoo::Error::invalid_option("no such action or state")))?;
    Ok(Instant { requested: requested.to_owned(), action, state, completed })
}

fn state_of(name: &str) -> Option<State> {
    [State::Requested, State::Inflight, State::Completed].into_iter().find(|s| s.name() == name)
}

pub(crate) fn reader(py: Python<'_>, stream: BatchStream) -> PyResult<Bound<'_, PyAny>> {
    call::stream(py, Box::new(stream))
}

/// Every option that is known: (name, other spellings, support).
#[pyfunction]
pub fn option_keys() -> Vec<(&'static str, Vec<&'static str>, &'static str)> {
    use hoodoo::table::options::Support;
    KEYS.iter()
        .map(|k| {
            let support = match k.support {
                Support::Yes => "yes",
                Support::Harmless if k.absent.is_some() => "warned",
                Support::Harmless => "no effect",
                Support::Only(_) => "refused",
            };
            (k.name, k.aliases.to_vec(), support)
        })
        .collect()
}

/// Checks options of a `table`, a `read` or a `write`; what they ask for and do not get.
#[pyfunction]
pub fn option_warnings(options: StringMap, used: &str) -> PyResult<Vec<String>> {
    let used = match used {
        "read" => Use::Read,
        "write" => Use::Write,
        _ => Use::Table,
    };
    Ok(Options::new(options).map_err(to_py)?.warnings(used))
}

/// The operation that the options of a job name.
#[pyfunction]
pub fn stated_operation(options: StringMap) -> PyResult<Option<&'static str>> {
    let options = Options::new(options).map_err(to_py)?;
    Ok(client::stated_operation(&options).map_err(to_py)?.map(Operation::name))
}
