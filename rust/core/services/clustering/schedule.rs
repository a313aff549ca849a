//! Schedules clusterings: whether one is due, the plan, and which are pending.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use arrow::datatypes::SchemaRef;

use super::buckets::refuse_buckets;
use super::group::PartitionSlices;
use super::input::{Clustering, PlanInput, range_columns};
use super::options::ClusteringOptions;
use super::overlap::Ranges;
use super::partitions::{Chosen, choose};
use super::plan::{Planned, plan_clustering};
use super::ranges::read_ranges;
use crate::error::{Error, Result};
use crate::file_group::BaseFile;
use crate::format::avro::metadata::{ClusteringPlan, RequestedReplaceMetadata, decode, encode};
use crate::format::instant::{Action, Instant, State};
use crate::services::planned_files::data_file;
use crate::storage::optional;
use crate::table::commit_metadata::{read_plan, read_write_metadata};
use crate::table::{HudiTable, META_COLUMNS, TableSchema, TableType, TableView, planned_groups};
use crate::timeline::history::{HistoryReader, LoadMode};
use crate::timeline::{Timeline, format_instant};

/// Actions whose pending plans exclude a file group from clustering.
const PLANS: [Action; 4] = [Action::Compaction, Action::LogCompaction, Action::Clustering, Action::ReplaceCommit];

/// A pending clustering.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingClustering {
    /// Requested time.
    pub instant: String,
    /// Whether it is inflight.
    pub is_inflight: bool,
    /// Groups of its plan.
    pub groups: usize,
    /// File slices in them.
    pub slices: usize,
    /// Bytes of their files that still exist.
    pub bytes: u64,
    /// Number of file groups that it will write.
    pub outputs: u64,
    /// Sort columns.
    pub sort_columns: Vec<String>,
}

/// Requested times of pending clusterings, oldest first.
///
/// # Errors
/// `Corrupt` for a plan that cannot be read; `Storage`.
pub fn planned(table: &HudiTable, timeline: &Timeline) -> Result<Vec<String>> {
    let mut planned = Vec::new();
    for instant in timeline.pending().filter(|i| i.action.completed_as() == Action::ReplaceCommit) {
        if plan_of(table, timeline, instant)?.is_some() {
            planned.push(instant.requested.clone());
        }
    }
    Ok(planned)
}

/// Pending clusterings, oldest first.
///
/// # Errors
/// `Corrupt` for a plan that cannot be read; `Storage`.
pub fn pending(table: &HudiTable) -> Result<Vec<PendingClustering>> {
    let timeline = table.timeline()?;
    let mut found = Vec::new();
    for instant in timeline.pending().filter(|i| i.action.completed_as() == Action::ReplaceCommit) {
        let Some(plan) = plan_of(table, &timeline, instant)? else { continue };
        let groups = plan.input_groups.unwrap_or_default();
        let mut bytes = 0u64;
        for slice in groups.iter().flat_map(|g| g.slices.iter().flatten()) {
            let files = slice.data_file_path.iter().chain(slice.delta_file_paths.iter().flatten());
            for file in files.filter(|file| !file.is_empty()) {
                let path = data_file(slice.partition_path.as_deref().unwrap_or(""), file)?;
                bytes = bytes.saturating_add(table.storage().head(&path)?.map_or(0, |f| f.size));
            }
        }
        let outputs = |n: Option<i32>| u64::try_from(n.unwrap_or(1)).unwrap_or(0);
        let params = plan.strategy.and_then(|s| s.strategy_params).unwrap_or_default();
        found.push(PendingClustering {
            instant: instant.requested.clone(),
            is_inflight: instant.state == State::Inflight,
            groups: groups.len(),
            slices: groups.iter().map(|g| g.slices.as_ref().map_or(0, Vec::len)).sum(),
            bytes,
            outputs: groups.iter().map(|g| outputs(g.num_output_file_groups)).sum(),
            sort_columns: super::options::columns(params.get(super::plan::SORT_COLUMNS).map(String::as_str)),
        });
    }
    Ok(found)
}

/// Whether a clustering is due by the enabled triggers.
///
/// # Errors
/// `InvalidOption`; `Corrupt`; `Storage`.
pub fn due(table: &HudiTable, timeline: &Timeline) -> Result<bool> {
    let options = ClusteringOptions::from_options(table.options())?;
    Ok(options.is_due(commits_since(table, timeline)?))
}

/// Number of completed commits since the last planned clustering.
fn commits_since(table: &HudiTable, timeline: &Timeline) -> Result<usize> {
    let last = last_clustering(table, timeline, false)?.map(|(instant, _)| instant.requested);
    let counts = |i: &&Instant| {
        matches!(i.action, Action::Commit | Action::DeltaCommit | Action::ReplaceCommit)
            && last.as_ref().is_none_or(|last| i.requested > *last)
    };
    Ok(timeline.completed_writes().filter(counts).count())
}

/// Plans a clustering from a newly loaded timeline, and puts the plan on the timeline. `None` if there is nothing to
/// cluster, or no enabled trigger is due.
///
/// # Errors
/// `InvalidOption`; `Unsupported`; `Corrupt`; `Storage`.
pub(crate) fn schedule(table: &HudiTable, timeline: Timeline) -> Result<Option<String>> {
    if due(table, &timeline)? { schedule_now(table, timeline) } else { Ok(None) }
}

/// The same, whatever the triggers say.
///
/// # Errors
/// Those of [`schedule`].
pub(crate) fn schedule_now(table: &HudiTable, timeline: Timeline) -> Result<Option<String>> {
    let options = ClusteringOptions::from_options(table.options())?;
    let writer = table.timeline_writer()?;
    // Planned without the lock first, for which others wait: mostly the timeline does not change meanwhile, or there is
    // nothing to cluster.
    let mut footers = Footers::default();
    let Some(plan) = plan_now(table, timeline.clone(), &options, &mut footers, None)? else { return Ok(None) };
    let mut nothing_left = false;
    let requested = writer.request_on(Action::Clustering, |now, time| {
        if now.is_same(&timeline) {
            return encode(&plan.metadata);
        }
        // Footers were read before, so that the lock is not held during their requests.
        let plan = plan_now(table, now.clone(), &options, &mut footers, Some(time))?;
        nothing_left = plan.is_none();
        let plan = plan.ok_or_else(|| {
            Error::conflict("another process clustered the file slices meanwhile").with("instant", time)
        })?;
        encode(&plan.metadata)
    });
    match requested {
        Err(_) if nothing_left => Ok(None),
        other => other.map(|instant| Some(instant.requested)),
    }
}

/// Returns the plan that [`schedule`] would make. Writes nothing.
///
/// # Errors
/// Those of [`schedule`].
pub fn plan(table: &HudiTable) -> Result<Option<Planned>> {
    let options = ClusteringOptions::from_options(table.options())?;
    plan_now(table, table.timeline()?, &options, &mut Footers::default(), None)
}

/// The same, with the overlap of files before and after where the options have sort columns.
///
/// # Errors
/// Those of [`schedule`].
pub(crate) fn explain(table: &HudiTable) -> Result<Option<Planned>> {
    let options = ClusteringOptions::from_options(table.options())?;
    let mut footers = Footers { of_all: true, ..Footers::default() };
    plan_now(table, table.timeline()?, &options, &mut footers, None)
}

fn plan_now(
    table: &HudiTable,
    timeline: Timeline,
    options: &ClusteringOptions,
    footers: &mut Footers,
    time: Option<&str>,
) -> Result<Option<Planned>> {
    let storage = table.storage();
    let view = table.new_view(timeline)?;
    let timeline = view.timeline();
    let (chosen, listed) = partitions(table, &view, options, time)?;
    let slices = slices_of(&view, &chosen, listed)?;
    if slices.values().all(|p| p.slices.is_empty()) {
        return Ok(None);
    }
    refuse_buckets(table, slices.values())?;
    let pending_groups = planned_groups(storage, timeline, &PLANS)?;
    let schema = TableSchema::resolve(table.config(), &view)?;
    let schema = schema.ok_or_else(|| {
        Error::corrupt("the table has data files, but no commit with its schema").with("table", storage.uri())
    })?;
    check_columns(table, &schema, options)?;
    let bases = slices.values().flat_map(|p| &p.slices).filter_map(|s| s.base.as_ref());
    footers.read(table, options, bases, &schema)?;
    let (clusterings, replacing) = clusterings(table, timeline, &slices)?;
    let input = PlanInput {
        partitions: slices,
        left: chosen.left,
        pending_groups,
        clusterings,
        replacing,
        ranges: footers.ranges.clone(),
        key_columns: table.config().record_key_fields(),
        absolute: &|path| storage.absolute(path),
    };
    plan_clustering(&input, options).map_err(|e| e.with("table", storage.uri()))
}

/// Column ranges that were read already: when the plan is made again under the lock, only new files are opened.
#[derive(Default)]
struct Footers {
    /// Whether files that are too large for a group are read too, for the overlap of whole partitions.
    of_all: bool,
    schema: Option<SchemaRef>,
    ranges: Ranges,
}

impl Footers {
    fn read<'a>(
        &mut self,
        table: &HudiTable,
        options: &ClusteringOptions,
        files: impl Iterator<Item = &'a BaseFile>,
        schema: &TableSchema,
    ) -> Result<()> {
        if !options.grouping.needs_ranges() && (!self.of_all || options.sort_columns.is_empty()) {
            return Ok(());
        }
        // Ranges of other types cannot be compared.
        if self.schema.as_ref() != Some(&schema.data) {
            self.ranges.clear();
            self.schema = Some(schema.data.clone());
        }
        let wanted = |b: &&BaseFile| self.of_all || b.size < options.small_file_limit;
        let new = files.filter(wanted).filter(|b| !self.ranges.contains_key(&b.path)).cloned().collect();
        let read = read_ranges(table.storage(), new, &range_columns(options), schema, table.threads()?)?;
        self.ranges.extend(read);
        Ok(())
    }
}

fn check_columns(table: &HudiTable, schema: &TableSchema, options: &ClusteringOptions) -> Result<()> {
    options.sort_columns.iter().try_for_each(|column| check_column(table, schema, column))
}

/// Fails for a column that the table does not have.
pub(super) fn check_column(table: &HudiTable, schema: &TableSchema, column: &str) -> Result<()> {
    let top = column.split('.').next().unwrap_or(column);
    if schema.data.field_with_name(top).is_err() && !META_COLUMNS.contains(&top) {
        let names: Vec<&str> = schema.data.fields().iter().map(|f| f.name().as_str()).collect();
        return Err(Error::invalid_option(format!("the table has no column '{column}' to sort by"))
            .with("table", table.storage().uri())
            .remedy(format!("Sort by some of {}", names.join(", "))));
    }
    Ok(())
}

type Listed = BTreeMap<String, Vec<crate::storage::FileMeta>>;

/// The partitions of a plan, and the files of all partitions where they had to be listed.
fn partitions(
    table: &HudiTable,
    view: &TableView,
    options: &ClusteringOptions,
    time: Option<&str>,
) -> Result<(Chosen, Option<Listed>)> {
    let last = match options.incremental {
        true => last_clustering(table, view.timeline(), true)?,
        false => None,
    };
    let mut left = Vec::new();
    let mut listed = None;
    let changed = match last {
        _ if options.selected.is_some() => {
            left.extend(last.and_then(|(_, plan)| plan.missing_schedule_partitions).into_iter().flatten());
            Vec::new()
        }
        Some((instant, plan)) => {
            let mut changed = changed_since(table, view.timeline(), &instant, time)?;
            changed.extend(plan.missing_schedule_partitions.into_iter().flatten());
            changed.into_iter().collect()
        }
        None => {
            let files = view.partition_files()?;
            let names = files.keys().cloned().collect();
            listed = Some(files);
            names
        }
    };
    let hour = hour_of_day(table);
    Ok((choose(changed, left, options, hour)?, listed))
}

/// The hour in the table's time zone.
fn hour_of_day(table: &HudiTable) -> usize {
    let now = format_instant(table.clock().now_ms(), table.config().timeline().zone);
    now.get(8..10).and_then(|hour| hour.parse().ok()).unwrap_or(0)
}

/// Partitions that were written after a clustering was planned, and before `time`.
fn changed_since(
    table: &HudiTable,
    timeline: &Timeline,
    clustering: &Instant,
    time: Option<&str>,
) -> Result<BTreeSet<String>> {
    let writes = match table.config().table_type() {
        TableType::CopyOnWrite => Action::Commit,
        TableType::MergeOnRead => Action::DeltaCommit,
    };
    let mut changed = BTreeSet::new();
    for instant in timeline.completed_writes().filter(|i| i.action == writes || i.action == Action::ReplaceCommit) {
        let completed = instant.completed.as_deref().unwrap_or(&instant.requested);
        let in_window = completed >= clustering.requested.as_str() && time.is_none_or(|time| completed < time);
        if in_window && instant.requested != clustering.requested {
            let metadata = read_write_metadata(table.storage(), timeline, instant)?;
            changed.extend(metadata.partition_to_write_stats.into_values().flatten().filter_map(|s| s.partition_path));
        }
    }
    Ok(changed)
}

fn slices_of(view: &TableView, chosen: &Chosen, listed: Option<Listed>) -> Result<BTreeMap<String, PartitionSlices>> {
    let mut all = BTreeMap::new();
    if listed.is_none() {
        view.list_ahead(&chosen.taken)?;
    }
    for partition in &chosen.taken {
        let groups = match &listed {
            Some(files) => {
                let files = files.get(partition).map_or(&[][..], Vec::as_slice);
                view.group(partition, files)?
            }
            None => optional(view.file_groups(partition))?.unwrap_or_default(),
        };
        let with_base = groups.iter().filter(|g| g.slices.iter().any(|s| s.base.is_some())).count();
        let file_groups = groups.len();
        all.insert(partition.clone(), PartitionSlices { slices: view.latest_of(groups), with_base, file_groups });
    }
    Ok(all)
}

/// The newest clustering with its plan, among completed ones or all.
fn last_clustering(
    table: &HudiTable,
    timeline: &Timeline,
    completed: bool,
) -> Result<Option<(Instant, ClusteringPlan)>> {
    let actions = timeline.instants().iter().rev().filter(|i| i.action.completed_as() == Action::ReplaceCommit);
    for instant in actions.filter(|i| !completed || i.is_completed()) {
        if let Some(plan) = plan_of(table, timeline, instant)? {
            return Ok(Some((instant.clone(), plan)));
        }
    }
    Ok(None)
}

/// The clustering plan of an action that replaces file groups; `None` if it is not a clustering.
pub(super) fn plan_of(table: &HudiTable, timeline: &Timeline, instant: &Instant) -> Result<Option<ClusteringPlan>> {
    let is_request =
        |i: &Instant| i.state == State::Requested && i.action.completed_as() == instant.action.completed_as();
    let Some((request, _)) = timeline.files_of(&instant.requested).iter().find(|(i, _)| is_request(i)) else {
        return Ok(None);
    };
    // The request of a killed writer is empty, and so is that of other writes.
    let body = optional(timeline.read(table.storage(), request))?.filter(|body| !body.is_empty());
    let Some(body) = body else { return Ok(None) };
    let request: RequestedReplaceMetadata =
        decode(&body).map_err(|e| e.with("table", table.storage().uri()).with("instant", instant))?;
    Ok(request.clustering_plan)
}

type Written = (HashMap<String, Clustering>, HashSet<String>);

/// The completed clusterings that wrote base files of these slices, also those in the history, and all instants on the
/// timeline that replaced file groups.
fn clusterings(table: &HudiTable, timeline: &Timeline, slices: &BTreeMap<String, PartitionSlices>) -> Result<Written> {
    let bases = slices.values().flat_map(|p| &p.slices).filter_map(|s| s.base.as_ref());
    let instants: BTreeSet<&str> = bases.map(|b| b.instant.as_str()).collect();
    let mut found = HashMap::new();
    let params =
        |plan: ClusteringPlan| Clustering { params: plan.strategy.and_then(|s| s.strategy_params).unwrap_or_default() };
    let mut replacing = HashSet::new();
    for instant in timeline.completed(Action::ReplaceCommit) {
        replacing.insert(instant.requested.clone());
        if instants.contains(instant.requested.as_str())
            && let Some(plan) = plan_of(table, timeline, instant)?
        {
            found.insert(instant.requested.clone(), params(plan));
        }
    }
    let is_archived =
        |t: &&str| timeline.first_active().is_some_and(|first| *t < first) && timeline.completion_time(t).is_none();
    let archived: BTreeSet<&str> = instants.into_iter().filter(is_archived).collect();
    let (Some(first), Some(last)) = (archived.first(), archived.last()) else { return Ok((found, replacing)) };
    let history = HistoryReader::new(table.storage(), timeline.config());
    for entry in history.read(Some(first), Some(last), LoadMode::Action)? {
        if entry.action == Action::ReplaceCommit && archived.contains(entry.requested.as_str()) {
            let instant = Instant {
                requested: entry.requested,
                action: entry.action,
                state: State::Completed,
                completed: Some(entry.completed),
            };
            replacing.insert(instant.requested.clone());
            let plan = read_plan(table.storage(), timeline, &instant)?;
            // The plan of another write is another record.
            let request = plan.and_then(|bytes| decode::<RequestedReplaceMetadata>(&bytes).ok());
            if let Some(plan) = request.and_then(|r| r.clustering_plan) {
                found.insert(instant.requested, params(plan));
            }
        }
    }
    Ok((found, replacing))
}
