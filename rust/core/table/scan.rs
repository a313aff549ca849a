//! Reading rows: snapshots and time travel.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{Schema, SchemaRef};
use chrono::NaiveDateTime;

use super::current::current;
use super::file_group_reader::FileGroupReader;
use super::keygen::KeyGenConfig;
use super::late_filter::LateFilter;
use super::missing_files::MissingFiles;
use super::open_files::open_base;
use super::partition_filter::{columns_of_paths, dropped_row, given, may_match, partition_row, without};
use super::schema::with_meta_columns;
use super::time_travel::complete_view_at;
use super::truncated_logs::SKIP_TRUNCATED;
use super::{HudiTable, ReadQuery, TableSchema, TableView};
use crate::error::{Error, Result};
use crate::file_group::base::{Predicate, ScanOptions};
use crate::file_group::{BaseFile, FileSlice};
use crate::format::field_lookup::FieldLookup;
use crate::format::instant::Layout;
use crate::format::internal_schema::SchemaHistory;
use crate::parallel::BatchStream;
use crate::storage::Storage;
use crate::timeline::{TimeZone, Timeline, format_instant};

/// Rows of a batch that a scan gives out, at most.
pub const BATCH_ROWS: usize = 65_536;

/// What is read.
#[derive(Debug, Clone, Default)]
pub struct ScanRequest {
    /// Columns in the order they are wanted; all of them when `None`.
    pub columns: Option<Vec<String>>,
    /// Only rows for which this holds.
    pub filter: Option<LateFilter>,
    /// The table as it was at this instant (any spelling that Hudi takes).
    pub as_of: Option<String>,
    /// Base files only, without the changes in log files.
    pub read_optimized: bool,
    /// Only rows that were written by these instants.
    pub written_by: Option<Vec<String>>,
}

/// A query that was planned, for several processes: each of them reads some of its slices with
/// [`HudiTable::scan_slices`].
#[derive(Debug, Clone)]
pub struct PlannedQuery {
    /// What is read.
    pub plan: ScanPlan,
    /// Instant of the newest state that is seen, for `as_of`; none of a table without commits.
    pub as_of: Option<String>,
    /// Of an incremental query: the instants whose rows are wanted.
    pub written_by: Option<Vec<String>>,
}

/// A scan that was planned: which files, which columns. Can be cut into parts for several processes.
#[derive(Debug, Clone)]
pub struct ScanPlan {
    /// The columns of the result.
    pub schema: SchemaRef,
    /// What is read, in the order of the result.
    pub slices: Vec<FileSlice>,
    /// What is not read, and why.
    pub skipped: Skipped,
    predicate: Option<Predicate>,
    /// The columns of the result, and behind them those that only the predicate looks at.
    looked_at: SchemaRef,
    /// What reading log files takes, when there are some.
    merge: Option<Arc<FileGroupReader>>,
    /// The state of the table that it is a plan of.
    timeline: Arc<Timeline>,
    /// The names that columns had, where fields have ids.
    history: Option<SchemaHistory>,
}

impl ScanPlan {
    /// The same plan, which says what is not read.
    #[must_use]
    pub(super) fn with_skipped(self, skipped: Skipped) -> Self {
        Self { skipped, ..self }
    }
}

/// File slices that cannot have rows that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Skipped {
    /// By the values of their partition.
    pub by_partition: usize,
    /// By the record index or the bloom filters of the metadata table.
    pub by_keys: usize,
    /// By the statistics of their files in the metadata table.
    pub by_statistics: usize,
}

impl HudiTable {
    /// The table's columns without meta columns; no columns for a table that never had any.
    pub fn schema(&self) -> Result<SchemaRef> {
        let resolved = TableSchema::resolve(self.config(), &self.view(None)?)?;
        Ok(resolved.map_or_else(|| Arc::new(Schema::empty()), |s| s.data))
    }

    /// Streams the rows of a snapshot.
    pub fn scan(&self, request: &ScanRequest) -> Result<BatchStream> {
        let plan = self.plan_scan(request)?;
        self.run_scan(&plan)
    }

    /// Streams the rows of a query, whose own instant and range hold instead of those of the request.
    pub fn read(&self, query: &ReadQuery, request: &ScanRequest) -> Result<BatchStream> {
        if let ReadQuery::ChangeData { since, until } = query {
            return self.run_change_data(&current(|| self.plan_change_data(since, until.as_deref(), request))?);
        }
        self.run_scan(&self.plan_read(query, request)?.plan)
    }

    /// Decides which files a query reads.
    pub fn plan_read(&self, query: &ReadQuery, request: &ScanRequest) -> Result<PlannedQuery> {
        let (as_of, read_optimized) = match query {
            ReadQuery::Incremental { since, until } => {
                return current(|| self.plan_changes(since, until.as_deref(), request));
            }
            ReadQuery::ChangeData { .. } => return Err(Error::internal("a query of change data reads no slices")),
            ReadQuery::Snapshot { as_of, read_optimized } => (as_of.clone(), *read_optimized),
        };
        let request = ScanRequest { as_of, read_optimized, ..request.clone() };
        current(|| {
            let view = self.view_for(&request)?;
            let plan = self.plan_view(&view, &request)?;
            Ok(PlannedQuery { plan, as_of: newest_instant(&view), written_by: None })
        })
    }

    /// Decides which files a snapshot reads.
    pub fn plan_scan(&self, request: &ScanRequest) -> Result<ScanPlan> {
        current(|| {
            let view = self.view_for(request)?;
            self.plan_view(&view, request)
        })
    }

    fn plan_view(&self, view: &TableView, request: &ScanRequest) -> Result<ScanPlan> {
        // First, because the commits that are read for the columns name files, which are then looked for.
        let columns = self.scan_columns(view, request)?;
        let (slices, skipped) = self.matching_slices(view, request, &columns)?;
        Ok(self.plan_files(view, slices, request, columns)?.with_skipped(skipped))
    }

    /// The columns of a view, and the request's filter for them.
    pub(super) fn scan_columns(&self, view: &TableView, request: &ScanRequest) -> Result<ScanColumns> {
        let resolved = match TableSchema::resolve(self.config(), view)? {
            // Before the first commit, it had no rows of the columns that it has now.
            None if request.as_of.is_some() => TableSchema::resolve(self.config(), &self.view(None)?)?,
            resolved => resolved,
        };
        let (data, history) = resolved.map_or_else(|| (Arc::new(Schema::empty()), None), |s| (s.data, s.history));
        let all = if self.config().populates_meta_fields() { with_meta_columns(&data) } else { data };
        let filter = request.filter.as_ref().map(|filter| filter.for_columns(&all)).transpose()?;
        Ok(ScanColumns { all, filter, history })
    }

    /// The instant that a request names, in the time zone of the timeline.
    fn as_of(&self, request: &ScanRequest) -> Result<Option<String>> {
        let zone = self.config().timeline().zone;
        request.as_of.as_deref().map(|text| parse_as_of(text, zone)).transpose()
    }

    fn view_for(&self, request: &ScanRequest) -> Result<TableView> {
        match self.as_of(request)? {
            Some(as_of) => {
                let skips = self.options().flag(SKIP_TRUNCATED, false)?;
                Ok(complete_view_at(self, &self.timeline()?, &as_of, None)?.accepting_truncated_logs(skips))
            }
            None => self.view(None),
        }
    }

    /// Streams the rows of a plan.
    pub fn run_scan(&self, plan: &ScanPlan) -> Result<BatchStream> {
        // A reader need not know how partitions are named, unless the files lack the columns.
        let from_path = match self.config().drops_partition_columns() {
            true => FromPath::All(self.key_config()?),
            false => self.key_config().map_or(FromPath::None, FromPath::Known),
        };
        let missing = MissingFiles::since(self, &plan.timeline);
        let storage = self.storage().reading_ahead(plan.slices.iter().flat_map(FileSlice::files));
        let merge = plan.merge.as_ref().map(|merge| Arc::new(merge.on(storage.clone())));
        let parts = plan
            .slices
            .iter()
            .map(|slice| {
                let read = SliceRead {
                    storage: storage.clone(),
                    slice: slice.clone(),
                    merge: merge.clone(),
                    schema: plan.schema.clone(),
                    looked_at: plan.looked_at.clone(),
                    predicate: plan.predicate.clone(),
                    from_path: from_path.clone(),
                    history: plan.history.clone(),
                };
                let missing = missing.clone();
                let part: Box<dyn FnOnce() -> Result<Rows> + Send> = Box::new(move || {
                    let rows = missing.explained(|| read.open())?;
                    Ok(Box::new(rows.map(move |batch| missing.explained(|| batch))))
                });
                part
            })
            .collect();
        Ok(BatchStream::new(plan.schema.clone(), parts, self.threads()?))
    }

    /// The table's key generator settings. Options fill in what the table does not say, but name no other generator.
    pub fn key_config(&self) -> Result<KeyGenConfig> {
        let config = self.config();
        let known = [KEY_GENERATOR_CLASS, KEY_GENERATOR_TYPE].iter().any(|key| config.get(key).is_some());
        let setting = |key: &str| match key {
            KEY_GENERATOR_CLASS | KEY_GENERATOR_TYPE if known => config.get(key).map(str::to_owned),
            _ => self.setting(key),
        };
        KeyGenConfig::from_properties(&setting, config.version())
    }

    /// Streams some slices of a snapshot that was planned elsewhere.
    pub fn scan_slices(&self, slices: Vec<FileSlice>, request: &ScanRequest) -> Result<BatchStream> {
        let as_of = self.as_of(request)?;
        let view = self.view(as_of.as_deref())?;
        let columns = self.scan_columns(&view, request)?;
        let plan = self.plan_files(&view, slices, request, columns)?;
        self.run_scan(&plan)
    }

    fn matching_slices(
        &self,
        view: &TableView,
        request: &ScanRequest,
        columns: &ScanColumns,
    ) -> Result<(Vec<FileSlice>, Skipped)> {
        let mut slices = view.all_latest_slices()?;
        if request.read_optimized {
            slices.iter_mut().for_each(|slice| slice.logs.clear());
        }
        let mut skipped = Skipped::default();
        let (Some(predicate), history) = (&columns.filter, columns.history.as_ref()) else {
            return Ok((slices, skipped));
        };
        let all = slices.len();
        let schema = TableSchema::resolve(self.config(), view)?;
        let mut of_files = predicate.clone();
        // Without the settings of the generator, no partition is left out.
        if let Some((schema, keys)) = schema.zip(self.key_config().ok()) {
            let partitions: BTreeSet<&str> = slices.iter().map(|s| s.partition.as_str()).collect();
            let mut kept = HashSet::new();
            for partition in partitions {
                if may_match(&keys, &schema.data, partition, predicate)? {
                    kept.insert(partition.to_owned());
                }
            }
            slices.retain(|s| kept.contains(&s.partition));
            of_files = without(predicate, &columns_of_paths(&keys, &schema.data));
        }
        skipped.by_partition = all - slices.len();
        // The index knows the keys of now, with the log files.
        if request.as_of.is_none() && !request.read_optimized {
            skipped.by_keys = self.skip_by_keys(view, &mut slices, predicate, history)?;
        }
        skipped.by_statistics = self.skip_by_statistics(view, &mut slices, &of_files, history)?;
        skipped.by_keys += self.skip_by_bloom_filters(view, &mut slices, predicate)?;
        tracing::debug!(table = self.storage().uri(), read = slices.len(), ?skipped, "planned a scan");
        Ok((slices, skipped))
    }

    pub(super) fn plan_files(
        &self,
        view: &TableView,
        slices: Vec<FileSlice>,
        request: &ScanRequest,
        columns: ScanColumns,
    ) -> Result<ScanPlan> {
        let ScanColumns { all, filter, history } = columns;
        let schema = project(&all, request.columns.as_deref())?;
        let predicate = request.also_written_by(filter);
        let looked_at = predicate.as_ref().map(Predicate::columns).unwrap_or_default();
        let looked_at: BTreeSet<String> = looked_at.into_iter().map(str::to_owned).collect();
        let looked_at = project(&all, Some(&looked_at.into_iter().collect::<Vec<_>>()))?;
        let looked_at = with_more(&schema, looked_at.as_ref());
        let mut kept = Vec::with_capacity(slices.len());
        for mut slice in slices {
            if request.read_optimized {
                slice.logs.clear();
            }
            if let Some(base) = slice.base.as_ref().filter(|base| !base.path.ends_with(".parquet")) {
                return Err(
                    Error::unsupported("base files other than Parquet are not supported").with("file", &base.path)
                );
            }
            if slice.base.is_some() || !slice.logs.is_empty() {
                kept.push(slice);
            }
        }
        // A log file of version 6 may have blocks of later writes, by which rows of these would be passed over.
        let last = request.written_by.as_ref().and_then(|instants| instants.iter().max());
        let read =
            last.filter(|_| view.timeline().config().layout == Layout::V1 || view.timeline().config().was_version_6);
        let timeline = Arc::new(read.map_or_else(|| view.timeline().clone(), |last| view.timeline().as_of(last)));
        let merge = if kept.iter().any(|s| !s.logs.is_empty()) {
            Some(Arc::new(self.file_group_reader(timeline.clone(), all, history.as_ref())?))
        } else {
            None
        };
        Ok(ScanPlan {
            schema,
            slices: kept,
            skipped: Skipped::default(),
            predicate,
            looked_at,
            merge,
            timeline,
            history,
        })
    }
}

/// The columns that a scan can give: those of the table, and the meta columns if it has them.
pub(super) struct ScanColumns {
    all: SchemaRef,
    /// The filter, with values of their types.
    pub(super) filter: Option<Predicate>,
    /// The names that columns had, where fields have ids.
    pub(super) history: Option<SchemaHistory>,
}

impl ScanRequest {
    /// What has to hold of rows, by a filter and by when they were written.
    fn also_written_by(&self, filter: Option<Predicate>) -> Option<Predicate> {
        let Some(instants) = &self.written_by else { return filter };
        let instants: ArrayRef = Arc::new(StringArray::from(instants.clone()));
        let in_range = Predicate::In("_hoodie_commit_time".into(), instants);
        Some(match filter {
            Some(also) => Predicate::And(vec![in_range, also]),
            None => in_range,
        })
    }
}

/// Requested time of the newest instant that a view sees completed.
pub(super) fn newest_instant(view: &TableView) -> Option<String> {
    let completed = view.timeline().instants().iter().filter(|i| i.is_completed());
    completed.map(|i| i.requested.clone()).max()
}

fn project(all: &SchemaRef, columns: Option<&[String]>) -> Result<SchemaRef> {
    let Some(columns) = columns else { return Ok(all.clone()) };
    let mut fields = Vec::with_capacity(columns.len());
    let known = FieldLookup::new(all.fields());
    for name in columns {
        let field = known.get(name).ok_or_else(|| {
            let has: Vec<&str> = all.fields().iter().map(|f| f.name().as_str()).collect();
            Error::schema(format!("the table has no column '{name}'")).with("columns", has.join(","))
        })?;
        fields.push(field.clone());
    }
    Ok(Arc::new(Schema::new(fields)))
}

const KEY_GENERATOR_CLASS: &str = "hoodie.table.keygenerator.class";
const KEY_GENERATOR_TYPE: &str = "hoodie.table.keygenerator.type";

/// The columns of a schema, and behind them those of another that it does not have.
fn with_more(schema: &Schema, more: &Schema) -> SchemaRef {
    let known = FieldLookup::new(schema.fields());
    let added = more.fields().iter().filter(|f| !known.has(f.name()));
    Arc::new(Schema::new(schema.fields().iter().chain(added).cloned().collect::<Vec<_>>()))
}

/// Which partition columns have the values of the path.
#[derive(Clone)]
enum FromPath {
    None,
    /// Those that the path tells for sure.
    Known(KeyGenConfig),
    /// All: the files lack them.
    All(KeyGenConfig),
}

/// One slice of a scan.
struct SliceRead {
    storage: Storage,
    slice: FileSlice,
    merge: Option<Arc<FileGroupReader>>,
    schema: SchemaRef,
    looked_at: SchemaRef,
    predicate: Option<Predicate>,
    from_path: FromPath,
    history: Option<SchemaHistory>,
}

type Rows = Box<dyn Iterator<Item = Result<RecordBatch>>>;

impl SliceRead {
    fn open(self) -> Result<Rows> {
        let partition = self.slice.partition.as_str();
        let values = match &self.from_path {
            FromPath::None => None,
            FromPath::Known(keys) => partition_row(keys, &self.looked_at, partition),
            FromPath::All(keys) => {
                dropped_row(keys, &self.looked_at, partition).map_err(|e| e.with("table", self.storage.uri()))?
            }
        };
        match (&self.merge, &self.slice.base) {
            (Some(merge), _) if !self.slice.logs.is_empty() => self.merged(merge, values),
            // Its base file alone would give rows of another time.
            (None, _) if !self.slice.logs.is_empty() => {
                Err(Error::internal("a file slice has log files, and nothing to merge them")
                    .with("file group", &self.slice.file_id))
            }
            (_, Some(base)) => self.base_file(base, values),
            _ => Ok(Box::new(std::iter::empty())),
        }
    }

    fn base_file(&self, base: &BaseFile, values: Option<RecordBatch>) -> Result<Rows> {
        let (uri, path) = (self.storage.uri().to_owned(), base.path.clone());
        let named = move |e: Error| e.with("table", &uri).with("file", &path);
        let reader = open_base(&self.storage, base, self.history.as_ref()).map_err(&named)?;
        // The file cannot decide on columns that the path has.
        let predicate = match (&self.predicate, &values) {
            (Some(predicate), Some(values)) => Some(given(predicate, values).map_err(&named)?),
            (predicate, _) => predicate.clone(),
        };
        let options = ScanOptions::new(self.schema.clone()).with_predicate(predicate);
        let rows = reader.scan(&options.with_batch_size(BATCH_ROWS)).map_err(&named)?;
        let rows = rows.map(move |batch| batch.map_err(&named));
        let has =
            |values: &RecordBatch| values.schema().fields().iter().any(|f| self.schema.index_of(f.name()).is_ok());
        Ok(match values.filter(has) {
            Some(values) => Box::new(rows.map(move |batch| fill(&batch?, &values))),
            None => Box::new(rows),
        })
    }

    /// Rows are filtered when they are merged: before, an older state of a row might be kept for a newer one.
    fn merged(&self, merge: &FileGroupReader, values: Option<RecordBatch>) -> Result<Rows> {
        Ok(self.filtered(merge.read(&self.slice, &self.looked_at)?, values))
    }

    /// The rows for which the predicate holds, what the path tells filled in first.
    fn filtered(&self, rows: impl Iterator<Item = Result<RecordBatch>> + 'static, values: Option<RecordBatch>) -> Rows {
        let (predicate, columns) = (self.predicate.clone(), (0..self.schema.fields().len()).collect::<Vec<_>>());
        Box::new(rows.map(move |batch| {
            let mut batch = batch?;
            if let Some(values) = &values {
                batch = fill(&batch, values)?;
            }
            if let Some(predicate) = &predicate {
                batch = arrow::compute::filter_record_batch(&batch, &predicate.evaluate(&batch)?)?;
            }
            Ok(batch.project(&columns)?)
        }))
    }
}

/// Puts the values of a partition path into its columns, whatever the file has.
fn fill(batch: &RecordBatch, values: &RecordBatch) -> Result<RecordBatch> {
    let first = arrow::array::UInt32Array::from(vec![0u32; batch.num_rows()]);
    let mut columns = batch.columns().to_vec();
    for (field, column) in batch.schema().fields().iter().zip(&mut columns) {
        if let Some(value) = values.column_by_name(field.name()) {
            *column = arrow::compute::take(value, &first, None)?;
        }
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

/// Understands the spellings of an instant that Hudi takes for `as.of.instant`: digits of an instant, a date, a date
/// and time, seconds or milliseconds since 1970. Only the last ones depend on the time zone of the timeline.
pub fn parse_as_of(text: &str, zone: TimeZone) -> Result<String> {
    let text = text.trim();
    let bad = || {
        Error::invalid_option(format!("'{text}' is not an instant"))
            .remedy("Use yyyyMMddHHmmss[SSS], yyyy-MM-dd, yyyy-MM-dd HH:mm:ss[.SSS] or milliseconds since 1970")
    };
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let since_1970 = |ms: i64| format_instant(ms, zone);
        return match text.len() {
            14 | 17 => Ok(text.to_owned()),
            10 => text.parse::<i64>().map(|s| since_1970(s * 1000)).map_err(|_| bad()),
            13 => text.parse::<i64>().map(since_1970).map_err(|_| bad()),
            _ => Err(bad()),
        };
    }
    let instant = |t: NaiveDateTime| t.format("%Y%m%d%H%M%S%3f").to_string();
    if let Ok(date) = chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d") {
        return Ok(instant(date.and_hms_opt(0, 0, 0).unwrap_or_default()));
    }
    for format in ["%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S"] {
        // Whole seconds stand for the end of the second, as Hudi has it.
        if let Ok(t) = NaiveDateTime::parse_from_str(text, format) {
            return Ok(instant(t + chrono::Duration::milliseconds(999)));
        }
        if let Ok(t) = NaiveDateTime::parse_from_str(text, &format!("{format}%.3f")) {
            return Ok(instant(t));
        }
    }
    Err(bad())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn spellings_of_an_instant() {
        let parse = |text| parse_as_of(text, TimeZone::Utc);
        assert_eq!(parse("20260102030405006").unwrap(), "20260102030405006");
        assert_eq!(parse("20260102030405").unwrap(), "20260102030405");
        assert_eq!(parse("2026-01-02").unwrap(), "20260102000000000");
        assert_eq!(parse("2026-01-02 03:04:05").unwrap(), "20260102030405999");
        assert_eq!(parse("2026-01-02T03:04:05.006").unwrap(), "20260102030405006");
        assert_eq!(parse("1767323045").unwrap(), "20260102030405000");
        assert!(parse("yesterday").is_err() && parse("2026-01-02T03:04:05Z").is_err());
    }
}
