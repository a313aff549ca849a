//! Reading what changed: rows by the commits that wrote them.
//!
//! Tables from version 8 on go by completion times: a commit is seen once it is there, whatever began before it. Older
//! ones go by requested times, and there a commit that is still under way while later ones are complete (a hollow one)
//! would be passed over for good by whoever reads on from the newest. What happens then is
//! `hoodie.read.timeline.holes.resolution.policy` (`TimelineUtils.handleHollowCommitIfNeeded` of Hudi 1.2).

use std::collections::{BTreeSet, HashSet};

use super::commit_metadata::{decode_write_metadata, read_write_metadata};
use super::current::current;
use super::scan::{PlannedQuery, ScanRequest, Skipped, newest_instant};
use super::time_travel::complete_view_at;
use super::{HudiTable, TableView};
use crate::error::{Error, Result};
use crate::format::avro::metadata::{ReplaceCommitMetadata, RequestedReplaceMetadata, decode};
use crate::format::instant::{Action, Instant, State};
use crate::parallel::BatchStream;
use crate::storage::optional;
use crate::timeline::history::{HistoryReader, LoadMode, TimeRange, entries};
use crate::timeline::{TimeZone, Timeline, format_instant, parse_instant_ms};

const HOLES: &str = "hoodie.read.timeline.holes.resolution.policy";

/// By which times an incremental read goes, and where it ends.
struct Order {
    by_requested: bool,
    /// Requested time that the read must not reach.
    before: Option<String>,
}

impl HudiTable {
    /// Streams the rows that were written by instants with `since < completion time <= until`, each key in its last
    /// version of that range. Deleted keys give no row.
    pub fn changes(&self, since: &str, until: Option<&str>, request: &ScanRequest) -> Result<BatchStream> {
        self.run_scan(&current(|| self.plan_changes(since, until, request))?.plan)
    }

    /// Decides which files an incremental query reads.
    pub(super) fn plan_changes(&self, since: &str, until: Option<&str>, request: &ScanRequest) -> Result<PlannedQuery> {
        if !self.config().populates_meta_fields() {
            return Err(Error::unsupported("a table without meta columns keeps no record of when a row was written")
                .with("table", self.storage().uri())
                .remedy("Compare two snapshots instead (scan with as_of)"));
        }
        check_times(since, until)?;
        let view = self.view(None)?;
        let columns = self.scan_columns(&view, request)?;
        let range = self.instants_completed_in(&view, since, until)?;
        let instants: Vec<String> = range.iter().filter(|w| w.changes).map(|w| w.requested.clone()).collect();
        let (mut slices, mut by_statistics) = (Vec::new(), 0);
        if let Some(last) = instants.iter().max() {
            let written: HashSet<(String, String)> = range.into_iter().flat_map(|w| w.groups).collect();
            let last = self.last_with_these_rows(&view, last)?;
            let then = complete_view_at(self, view.timeline(), &last, Some(&written))?;
            let partitions: BTreeSet<&String> = written.iter().map(|(partition, _)| partition).collect();
            for partition in partitions {
                slices.extend(then.latest_slices_of(partition, &written)?);
            }
            if let Some(predicate) = &columns.filter {
                by_statistics = self.skip_by_statistics(&then, &mut slices, predicate, columns.history.as_ref())?;
            }
        }
        let request = ScanRequest { written_by: Some(instants), ..request.clone() };
        let skipped = Skipped { by_statistics, ..Skipped::default() };
        let plan = self.plan_files(&view, slices, &request, columns)?.with_skipped(skipped);
        Ok(PlannedQuery { plan, as_of: newest_instant(&view), written_by: request.written_by })
    }

    /// The last instant whose files hold the same rows as those of a write: a compaction or clustering that follows, before
    /// any write. The files of the write itself may have been cleaned since.
    fn last_with_these_rows(&self, view: &TableView, last: &str) -> Result<String> {
        let mut same = last.to_owned();
        if view.timeline().first_active().is_none_or(|first| last < first) && self.was_followed(view, last)? {
            return Ok(same);
        }
        for instant in view.timeline().completed_writes().filter(|i| i.requested.as_str() > last) {
            match view.write_metadata(instant)?.operation_type.as_deref() {
                Some("COMPACT" | "LOG_COMPACT" | "CLUSTER") => same.clone_from(&instant.requested),
                _ => break,
            }
        }
        Ok(same)
    }

    /// Whether a write came after an archived one, and was archived too. A service that is active does not have the same rows then.
    fn was_followed(&self, view: &TableView, last: &str) -> Result<bool> {
        let history = HistoryReader::new(self.storage(), view.timeline().config()).with_threads(self.threads()?);
        let later = history.read(Some(last), None, LoadMode::Action)?;
        Ok(later.iter().any(|entry| entry.action.is_write() && entry.requested.as_str() > last))
    }

    /// Write instants completed in `(since, until]` by requested time, each with the file groups it wrote; and all later
    /// clusterings, into whose files rows of the others may have gone.
    fn instants_completed_in(&self, view: &TableView, since: &str, until: Option<&str>) -> Result<Vec<Written>> {
        let Order { by_requested, before } = self.order_of_changes(view.timeline())?;
        let after = |write: &WriteTime| write.time(by_requested) > since;
        let inside = |write: &WriteTime| {
            let time = write.time(by_requested);
            let seen = before.as_deref().is_none_or(|before| write.requested.as_str() < before);
            time > since && until.is_none_or(|until| time <= until) && seen
        };
        let wanted = |write: &WriteTime| inside(write) || (write.action == Action::ReplaceCommit && after(write));
        let mut out = Vec::new();
        self.each_write(view, since, by_requested, &wanted, &mut |write, metadata| {
            out.extend(written_by(&write.requested, metadata, inside(&write)));
            Ok(())
        })?;
        out.sort();
        Ok(out)
    }

    /// Gives the completed writes that are `wanted` to `each`, with their metadata: first those of the active timeline, then
    /// archived ones, of which none is looked for that completed before `since`.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`; and those of `each`.
    pub(super) fn each_write(
        &self,
        view: &TableView,
        since: &str,
        by_requested: bool,
        wanted: &dyn Fn(&WriteTime) -> bool,
        each: &mut dyn FnMut(WriteTime, ReplaceCommitMetadata) -> Result<()>,
    ) -> Result<()> {
        let mut active: HashSet<String> = HashSet::new();
        for instant in view.timeline().completed_writes() {
            let completed = instant.completed.clone().unwrap_or_default();
            let write = WriteTime { requested: instant.requested.clone(), completed, action: instant.action };
            if wanted(&write) {
                active.insert(write.requested.clone());
                each(write, read_write_metadata(self.storage(), view.timeline(), instant)?)?;
            }
        }
        let first = view.timeline().first_active();
        let is_after_first = first.is_some_and(|first| since >= first);
        if is_after_first && by_requested {
            return Ok(());
        }
        let zone = self.config().timeline().zone;
        let from = if by_requested { Some(since.to_owned()) } else { longest_before(since, zone) };
        let range = TimeRange::closed(from.as_deref(), first);
        let history = HistoryReader::new(self.storage(), self.config().timeline()).with_threads(self.threads()?);
        let is_new = |write: &WriteTime| write.action.is_write() && wanted(write) && !active.contains(&write.requested);
        // A write that took long may have been archived as soon as it was complete. There seldom is one, so the metadata of
        // the others is not read to find it.
        if is_after_first && !any_archived(&history, &range, &is_new)? {
            return Ok(());
        }
        for batch in history.scan(range, LoadMode::Metadata)? {
            for entry in entries(&batch?)? {
                let (requested, completed, action) = (entry.requested, entry.completed, entry.action);
                let write = WriteTime { requested, completed, action };
                if is_new(&write) {
                    each(write, decode_write_metadata(&entry.metadata.unwrap_or_default(), action)?)?;
                }
            }
        }
        Ok(())
    }

    /// By which times this table's changes are read, and up to where.
    ///
    /// # Errors
    /// `InvalidOption`; `Conflict` when a write is under way that began before a complete one, and nothing else is said.
    fn order_of_changes(&self, timeline: &Timeline) -> Result<Order> {
        if self.config().version() >= 8 {
            return Ok(Order { by_requested: false, before: None });
        }
        let policy = self.options().get(HOLES).unwrap_or("FAIL").to_uppercase();
        match policy.as_str() {
            "USE_TRANSITION_TIME" => return Ok(Order { by_requested: false, before: None }),
            "FAIL" | "BLOCK" => {}
            other => {
                return Err(Error::invalid_option(format!("{HOLES} cannot be '{other}'"))
                    .remedy("Use FAIL, BLOCK or USE_TRANSITION_TIME"));
            }
        }
        match self.first_hollow(timeline)? {
            Some(hollow) if policy == "FAIL" => Err(Error::conflict(
                "a write that began before completed ones is pending: an incremental read would miss its rows",
            )
            .with("table", self.storage().uri())
            .with("instant", hollow)
            .remedy(format!(
                "Wait until it completes or is rolled back; or set {HOLES} to BLOCK, to read only what is before it, or \
                 to USE_TRANSITION_TIME, to go by the times at which commits completed"
            ))),
            hollow => Ok(Order { by_requested: true, before: hollow.map(|i| i.requested.clone()) }),
        }
    }

    /// The first pending write, if a later one is complete. A pending clustering changes no rows.
    fn first_hollow<'a>(&self, timeline: &'a Timeline) -> Result<Option<&'a Instant>> {
        for instant in timeline.pending().filter(|i| i.action.is_write()) {
            if !self.is_clustering(timeline, instant)? {
                let newer = |newest: &Instant| newest.requested > instant.requested;
                return Ok(timeline.completed_writes().next_back().is_some_and(newer).then_some(instant));
            }
        }
        Ok(None)
    }

    fn is_clustering(&self, timeline: &Timeline, instant: &Instant) -> Result<bool> {
        match instant.action {
            Action::Clustering => return Ok(true),
            Action::ReplaceCommit => {}
            _ => return Ok(false),
        }
        let requested = Instant { state: State::Requested, ..instant.clone() };
        let body = optional(timeline.read(self.storage(), &requested))?.filter(|body| !body.is_empty());
        let plan = body.map(|body| decode::<RequestedReplaceMetadata>(&body)).transpose()?;
        Ok(plan.is_some_and(|plan| plan.operation_type.as_deref() == Some("CLUSTER")))
    }
}

/// Whether the history has a write that a function picks by its times and its action.
fn any_archived(history: &HistoryReader, range: &TimeRange, picks: &dyn Fn(&WriteTime) -> bool) -> Result<bool> {
    for batch in history.scan(range.clone(), LoadMode::Action)? {
        let entries = entries(&batch?)?;
        let mut writes = entries.into_iter().map(|entry| WriteTime {
            requested: entry.requested,
            completed: entry.completed,
            action: entry.action,
        });
        if writes.any(|write| picks(&write)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Refuses what cannot be a completion time.
pub(super) fn check_times(since: &str, until: Option<&str>) -> Result<()> {
    match [Some(since), until].into_iter().flatten().find(|time| !time.bytes().all(|b| b.is_ascii_digit())) {
        None => Ok(()),
        Some(time) => Err(Error::invalid_option(format!("'{time}' is not a completion time"))
            .remedy("Give digits, such as a Commit's `completed`")),
    }
}

/// The earliest requested time of an action that completed after `completed`: Hudi takes it that none lasts more than a
/// day. `None` when that is no time of a calendar.
fn longest_before(completed: &str, zone: TimeZone) -> Option<String> {
    const DAY_MS: i64 = 24 * 60 * 60 * 1_000;
    let whole = format!("{completed:0<17}");
    Some(format_instant(parse_instant_ms(&whole, zone)?.checked_sub(DAY_MS)?, zone))
}

/// When a completed write was requested and completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WriteTime {
    pub(super) requested: String,
    pub(super) completed: String,
    pub(super) action: Action,
}

impl WriteTime {
    /// The time by which it is read.
    fn time(&self, by_requested: bool) -> &str {
        if by_requested { &self.requested } else { &self.completed }
    }
}

/// A write, and what it wrote to.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Written {
    requested: String,
    /// Whether it changed rows; else it moved them.
    changes: bool,
    /// File groups (partition, id).
    groups: Vec<(String, String)>,
}

/// The file groups of a write. A compaction leaves rows in their file group and is no change; a clustering is none
/// either, but its files hold rows of earlier commits under their own commit times.
fn written_by(requested: &str, metadata: ReplaceCommitMetadata, is_inside: bool) -> Option<Written> {
    let changes = match metadata.operation_type.as_deref() {
        Some("COMPACT" | "LOG_COMPACT") => return None,
        Some("CLUSTER") => false,
        _ if is_inside => true,
        _ => return None,
    };
    let groups = metadata.partition_to_write_stats.into_iter().flat_map(|(partition, stats)| {
        stats.into_iter().filter_map(move |s| Some((partition.clone(), s.file_id.filter(|id| !id.is_empty())?)))
    });
    Some(Written { requested: requested.to_owned(), changes, groups: groups.collect() })
}
