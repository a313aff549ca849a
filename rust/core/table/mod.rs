//! One table: its configuration, options, keys, schema, files and snapshots.

mod archived_commits;
mod bucket_index;
mod change_capture;
pub mod change_data;
mod changes;
mod cleaned_files;
pub mod commit_metadata;
mod committed_files;
mod compared_listings;
mod complete_properties;
mod completion_times;
mod config;
mod create;
mod current;
mod data_skipping;
mod evolution;
pub(crate) mod file_group_merger;
pub(crate) mod file_group_reader;
mod file_listing;
mod file_options;
mod given_options;
mod indexed_columns;
mod key_filter;
pub mod keygen;
mod late_filter;
mod lookup;
mod lossless_cast;
pub(crate) mod merge_config;
mod merge_settings;
pub(crate) mod merge_upgrade;
mod metadata;
mod missing_files;
mod open_files;
mod option_checks;
pub mod options;
mod partition_filter;
mod past_columns;
mod pending_plans;
mod read_query;
mod read_units;
pub mod scan;
mod schema;
mod schema_files;
mod slice_keys;
mod slice_values;
mod stored_schema;
mod time_travel;
mod truncated_logs;
mod view;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use self::cleaned_files::KnownCleans;
use crate::error::{Error, ErrorKind, Result};
use crate::file_group::FileSlice;
use crate::merge::RecordMerger;
use crate::storage::{FileTasks, LocalSettings, SpillOptions, Storage, StorageOptions};
use crate::timeline::{
    Clock, LastLease, LockConfig, LockGuard, LockProviderKind, SystemClock, TableLock, TimeGenerator, Timeline,
    TimelineWriter,
};

pub use bucket_index::BucketSettings;
pub(crate) use bucket_index::{BucketIndex, NUM_BUCKETS, check_bucket_options, has_bucket_index};
pub(crate) use change_capture::CHANGE_CAPTURE;
pub(crate) use committed_files::{CommittedFile, Fault, committed_files, shares_log_files};
pub(crate) use compared_listings::refuse_cleaned;
pub(crate) use config::{TableConfig, TableType};
pub use create::TableSpec;
pub(crate) use current::{current, gone};
pub use evolution::schema_changes;
pub(crate) use evolution::{ColumnChange, Evolution};
pub(crate) use file_listing::{ListedFolders, data_files, is_about_content};
pub(crate) use file_options::base_file_options;
pub use given_options::Options;
pub(crate) use indexed_columns::can_have_ranges;
pub use late_filter::LateFilter;
pub use lookup::{FindKeys, KeyQuery, lookup_keys};
pub(crate) use lookup::{KeyMatch, first_keys, key_arrays};
pub(crate) use lossless_cast::conform_batch;
pub(crate) use lossless_cast::{Cast, cast_column, lossy_cast};
pub(crate) use merge_settings::{DELETE_MARK, MergeSettings, check_delete_mark, properties_of_merger, rule_of};
pub(crate) use metadata::{GLOBAL_RECORD_INDEX, RECORD_INDEX_BY_PARTITION};
pub(crate) use missing_files::MissingFiles;
pub(crate) use open_files::{OpenFiles, open_base};
pub use option_checks::Use;
pub(crate) use pending_plans::planned_groups;
pub use read_query::{QueryRequest, ReadQuery};
pub use read_units::{PlannedRead, ReadUnit};
pub(crate) use schema::{META_COLUMNS, SchemaChange, held_incoming};
pub use schema::{TableSchema, with_meta_columns};
pub(crate) use schema_files::store_schemas;
pub(crate) use slice_keys::{Keys, SliceKeys};
pub(crate) use slice_values::{SliceValues, WantedKeys};
pub(crate) use view::TableView;

/// How often the timeline is looked at when an instant is archived between the listing and the reading of its file.
const LOOKS: u32 = 4;
/// Which lock excludes the writers of other processes.
const LOCK_PROVIDER: &str = "hoodie.write.lock.provider";
/// How far the clocks of the writers may be apart.
const CLOCK_SKEW: &str = "hoodie.time.generator.max_expected_clock_skew_ms";
/// A minute: no clock that is kept right is off by more.
const LONGEST_SKEW_MS: u64 = 60_000;

/// An open table.
#[derive(Clone)]
pub struct HudiTable {
    storage: Storage,
    config: TableConfig,
    options: Options,
    clock: Arc<dyn Clock>,
    /// Record mergers that the job brings.
    mergers: Arc<[Arc<dyn RecordMerger>]>,
    /// How this handle left the lock of a table in an object store.
    last_lease: Arc<LastLease>,
    /// Whether this handle has looked for the folder of a metadata table that was dropped.
    metadata_folder_checked: Arc<AtomicBool>,
    /// The timeline of the metadata table as the last action of this handle left it.
    metadata_timeline: Arc<Mutex<Option<Timeline>>>,
    /// The last look of this handle at the metadata table.
    last_look: Arc<Mutex<metadata::LastLook>>,
    /// Warnings that this handle gave about the metadata table.
    warned: file_listing::Warned,
}

impl HudiTable {
    /// Opens the table at a location.
    pub fn open(uri: &str, options: BTreeMap<String, String>, storage_options: &StorageOptions) -> Result<Self> {
        let storage = Storage::open(uri, storage_options)?;
        Self::open_in(storage, Options::new(options)?, Arc::new(SystemClock))
    }

    /// Opens a table in a given storage with a given clock.
    pub fn open_in(storage: Storage, options: Options, clock: Arc<dyn Clock>) -> Result<Self> {
        let storage = storage.with_local_settings(local_settings(&options)?);
        let config = TableConfig::load(&storage)?;
        let (mergers, last_lease, metadata_folder_checked) = (Arc::new([]), Arc::default(), Arc::default());
        let (warned, metadata_timeline) = (file_listing::Warned::default(), Arc::default());
        Ok(Self {
            storage,
            config,
            options,
            clock,
            mergers,
            last_lease,
            metadata_folder_checked,
            metadata_timeline,
            last_look: Arc::default(),
            warned,
        })
    }

    /// The table's files.
    pub fn storage(&self) -> &Storage {
        &self.storage
    }

    /// The table's configuration as it was when the table was opened.
    pub fn config(&self) -> &TableConfig {
        &self.config
    }

    /// The options the table was opened with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The same table with record mergers of the job's own; the first whose strategy id is the table's is used.
    #[must_use]
    pub fn with_mergers(self, mergers: Vec<Arc<dyn RecordMerger>>) -> Self {
        Self { mergers: mergers.into(), ..self }
    }

    /// The record mergers that the job brings.
    pub fn mergers(&self) -> &[Arc<dyn RecordMerger>] {
        &self.mergers
    }

    /// The clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The same table with more options.
    pub fn with_options(&self, more: &BTreeMap<String, String>) -> Result<Self> {
        let options = self.options.with(more)?;
        let storage = self.storage.with_local_settings(local_settings(&options)?);
        Ok(Self { storage, options, ..self.clone() })
    }

    /// The same table; an engine lists and deletes its files where there is much of it.
    #[must_use]
    pub fn with_file_tasks(&self, tasks: Arc<dyn FileTasks>) -> Self {
        Self { storage: self.storage.with_file_tasks(tasks), ..self.clone() }
    }

    /// The same table, its configuration read anew.
    pub fn reload(&self) -> Result<Self> {
        Ok(Self { config: TableConfig::load(&self.storage)?, ..self.clone() })
    }

    /// The same table, whose storage is not changed any more once this lock is lost.
    #[must_use]
    pub(crate) fn locked(&self, held: &LockGuard) -> Self {
        Self { storage: self.storage.checked(held.watch()), ..self.clone() }
    }

    /// The same table with another configuration: the one that it is about to get.
    #[must_use]
    pub(crate) fn with_config(&self, config: TableConfig) -> Self {
        Self { config, ..self.clone() }
    }

    /// Whether this handle has looked for the folder of a metadata table that was dropped, and a process died before the
    /// folder was deleted.
    pub(crate) fn metadata_folder_checked(&self) -> &AtomicBool {
        &self.metadata_folder_checked
    }

    /// Keeps the timeline of the metadata table as an action of this handle left it.
    pub(crate) fn keep_metadata_timeline(&self, metadata: Timeline) {
        *self.metadata_timeline.lock().unwrap_or_else(PoisonError::into_inner) = Some(metadata);
    }

    /// Takes what the last action of this handle left; `None` if that is taken, or there was none.
    pub(crate) fn take_metadata_timeline(&self) -> Option<Timeline> {
        self.metadata_timeline.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A value of the table, or else of the options.
    pub fn setting(&self, key: &str) -> Option<String> {
        self.config.get(key).or_else(|| self.options.get(key)).map(str::to_owned)
    }

    /// The timeline as it is now.
    pub fn timeline(&self) -> Result<Timeline> {
        Timeline::load(&self.storage, self.config.timeline())
    }

    /// The lock of the table: as the options have it, or else as it was given when the table was created.
    ///
    /// # Errors
    /// `InvalidOption` when the options name another provider than the table: locks of different kinds do not exclude
    /// each other.
    pub(crate) fn lock_config(&self) -> Result<LockConfig> {
        let (given, kept) = (self.options.get(LOCK_PROVIDER), self.config.get(LOCK_PROVIDER));
        if let (Some(given), Some(kept)) = (given, kept)
            && given.trim() != kept.trim()
        {
            return Err(Error::invalid_option(format!("{LOCK_PROVIDER} is {given}, and the table has {kept}"))
                .with("table", self.storage.uri())
                .remedy("Leave the option out: the writers of a table have to take one and the same lock"));
        }
        LockConfig::from_options(&|key| self.options.get(key).or_else(|| self.config.get(key)).map(str::to_owned))
    }

    /// Makes transitions on the timeline.
    pub fn timeline_writer(&self) -> Result<TimelineWriter> {
        let lock = self.lock_config()?;
        let several_machines = lock.provider != LockProviderKind::InProcess;
        // Threads and processes of one machine have one clock.
        let default = if several_machines { 200 } else { 0 };
        let skew = self.options.number(CLOCK_SKEW, default)?;
        if skew > LONGEST_SKEW_MS {
            return Err(Error::invalid_option(format!("{CLOCK_SKEW} is {skew}: every instant would take that long"))
                .remedy(format!("Set it to at most {LONGEST_SKEW_MS}, and the clocks of all writers right")));
        }
        let time = TimeGenerator::new(self.clock.clone(), self.config.timeline().zone, skew);
        let time = if self.options.get(CLOCK_SKEW).is_none() { time.without_sleep() } else { time };
        let time = if several_machines { time.for_several_machines() } else { time };
        let lock = TableLock::new(&self.storage, &lock, self.clock.clone(), self.last_lease.clone())?;
        Ok(TimelineWriter::new(self.storage.clone(), self.config.timeline().clone(), time)?.with_lock(lock))
    }

    /// The files as they are now, or as they were at an instant.
    pub fn view(&self, as_of: Option<&str>) -> Result<TableView> {
        for _ in 1..LOOKS {
            let view = self.view_once(as_of);
            // The schema is nearly always wanted next, and is read from the same timeline.
            let schema = view.as_ref().map_or(Ok(None), |view| TableSchema::resolve(&self.config, view));
            let is_archived = |e: Option<&Error>| e.is_some_and(|e| e.kind() == ErrorKind::NotFound);
            if !is_archived(view.as_ref().err()) && !is_archived(schema.err().as_ref()) {
                return view;
            }
        }
        self.view_once(as_of)
    }

    /// The files as a timeline shows them that was loaded just now.
    ///
    /// # Errors
    /// Those of [`HudiTable::view`].
    pub fn view_of(&self, timeline: Timeline) -> Result<TableView> {
        let view = self.new_view(timeline);
        let schema = view.as_ref().map_or(Ok(None), |view| TableSchema::resolve(&self.config, view));
        let is_archived = |e: Option<&Error>| e.is_some_and(|e| e.kind() == ErrorKind::NotFound);
        if is_archived(view.as_ref().err()) || is_archived(schema.err().as_ref()) {
            return self.view(None);
        }
        view
    }

    /// The files as they were at an instant, all of them being there. The timeline was loaded just now.
    ///
    /// # Errors
    /// `InvalidOption` when a file of that state was cleaned; `Corrupt`; `Storage`.
    pub(crate) fn complete_view_at(&self, timeline: &Timeline, as_of: &str) -> Result<TableView> {
        time_travel::complete_view_at(self, timeline, as_of, None)
    }

    fn accepting_truncated_logs(&self, view: TableView) -> Result<TableView> {
        Ok(view.accepting_truncated_logs(self.options.flag(truncated_logs::SKIP_TRUNCATED, false)?))
    }

    fn view_once(&self, as_of: Option<&str>) -> Result<TableView> {
        let timeline = self.timeline()?;
        match as_of {
            Some(instant) => {
                let view = time_travel::view_at(self, &timeline, instant)?;
                self.accepting_truncated_logs(view.comparing(KnownCleans::until(&timeline, instant)))
            }
            None => {
                let known = KnownCleans::of(&timeline);
                Ok(self.new_view(timeline)?.comparing(known))
            }
        }
    }

    /// A view that finds files in the metadata table, if there is one that may be read.
    pub(crate) fn new_view(&self, timeline: Timeline) -> Result<TableView> {
        let source = self.metadata_source(&timeline)?;
        let view = TableView::new(self.storage.clone(), timeline)?.with_metadata_table(source);
        self.accepting_truncated_logs(view)
    }

    /// Threads that work at once.
    pub fn threads(&self) -> Result<usize> {
        // Asked once: the answer is read from files of the system's, some of which take it milliseconds.
        static AVAILABLE: LazyLock<usize> =
            LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        let threads = self.options.number("hoodoo.threads", *AVAILABLE)?;
        if threads == 0 {
            return Err(Error::invalid_option("hoodoo.threads is 0").remedy("Set it to at least 1"));
        }
        Ok(threads)
    }

    /// When rows of a write are put on the disk, and where: beyond `hoodoo.memory.budget` bytes, by default a quarter
    /// of the memory that the process may have, into `hoodoo.spill.folder`, by default the folder for temporary files.
    pub fn spill_options(&self) -> Result<SpillOptions> {
        spill_options(&self.options)
    }

    /// The same for sorting what is in the table already: by default 32 MiB a thread, if that is less. Rows are read from
    /// the disk in any case, and sorting more of them at a time takes longer: they do not fit into the processor's caches.
    ///
    /// # Errors
    /// `InvalidOption` for a budget that is no number.
    pub(crate) fn sort_options(&self) -> Result<SpillOptions> {
        let spill = self.spill_options()?;
        let enough = match self.options.get("hoodoo.memory.budget") {
            Some(_) => usize::MAX,
            None => SORT_BYTES.saturating_mul(self.threads()?),
        };
        Ok(SpillOptions { budget: spill.budget.min(enough), ..spill })
    }

    /// File slices of one partition, or of all of them, by partition and file id.
    pub fn file_slices(&self, partition: Option<&str>) -> Result<Vec<FileSlice>> {
        current(|| {
            let view = self.view(None)?;
            match partition {
                Some(partition) => view.latest_slices(partition),
                None => view.all_latest_slices(),
            }
        })
    }
}

/// How tables on local disks are written, by the options.
///
/// # Errors
/// `InvalidOption` for what is neither true nor false.
pub fn local_settings(options: &Options) -> Result<LocalSettings> {
    let default = LocalSettings::default();
    Ok(LocalSettings {
        sync: options.flag("hoodoo.storage.sync", default.sync)?,
        follow_links: options.flag("hoodoo.storage.follow.links", default.follow_links)?,
    })
}

/// When rows are put on the disk, and where, by the options.
///
/// # Errors
/// `InvalidOption` for a budget that is no number.
pub fn spill_options(options: &Options) -> Result<SpillOptions> {
    let budget = match options.get("hoodoo.memory.budget") {
        Some(_) => options.number("hoodoo.memory.budget", 0usize)?,
        None => usize::try_from(*AVAILABLE_MEMORY / 4).unwrap_or(usize::MAX),
    };
    let folder = options.get("hoodoo.spill.folder").map_or_else(std::env::temp_dir, PathBuf::from);
    Ok(SpillOptions { budget, folder })
}

/// Bytes of rows that are sorted at a time by each thread, unless the options say otherwise.
const SORT_BYTES: usize = 32 << 20;

/// Taken as the memory of a machine that does not tell, such as one without `/proc`.
const UNKNOWN_MEMORY: u64 = 2 << 30;

/// Bytes of memory that the process may have: those of the machine, or of its container.
static AVAILABLE_MEMORY: LazyLock<u64> = LazyLock::new(|| {
    let system = sysinfo::System::new_with_specifics(
        sysinfo::RefreshKind::nothing().with_memory(sysinfo::MemoryRefreshKind::nothing().with_ram()),
    );
    match system.total_memory() {
        // Asked for the limits of a container, sysinfo would panic now.
        0 => UNKNOWN_MEMORY,
        total => system.cgroup_limits().map_or(total, |limits| limits.total_memory.min(total)),
    }
});
