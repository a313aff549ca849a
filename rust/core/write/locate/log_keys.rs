//! Which file slices have log files that may hold record keys which their base file lacks.
//!
//! The indexes look into base files, for an ordinary log file changes records that are there. These do more:
//!
//! | slice | told by |
//! |---|---|
//! | without base file | the slice |
//! | of a bucket index, or of consistent hashing: all writes go to log files | the file id |
//! | whose log was written to an older base file: the record may have been deleted when that was compacted | times; the base file in the write stat |
//! | whose writer puts new rows into log files (Flink) | inserts in the write stat |

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::datatypes::SchemaRef;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::file_group::{BaseFile, FileSlice, LogFile};
use crate::format::avro::metadata::{ReplaceCommitMetadata, WriteStat};
use crate::storage::{FileMeta, Storage};
use crate::table::commit_metadata::{decode_write_metadata, read_write_metadata};
use crate::table::file_group_reader::FileGroupReader;
use crate::table::{HudiTable, TableSchema, TableType, TableView};
use crate::timeline::Timeline;
use crate::timeline::history::{HistoryReader, LoadMode};

/// Instant, partition and file id of a log file.
type LogId = (String, String, String);

/// What write stats tell of log files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct LogWrites {
    /// Instants whose write stats were looked at.
    known: BTreeSet<String>,
    /// Log files with records that were not in the base file.
    inserts: BTreeSet<LogId>,
    /// The instant of the base file that a log file was written to.
    #[serde(with = "pairs")]
    bases: HashMap<LogId, String>,
    /// Base files that were written, by their file groups.
    #[serde(skip)]
    written: HashMap<(String, String), BTreeSet<String>>,
}

impl LogWrites {
    /// Adds what the write stats of a commit tell.
    pub(in crate::write) fn add(&mut self, instant: &str, metadata: &ReplaceCommitMetadata) {
        self.known.insert(instant.to_owned());
        if metadata.operation_type.as_deref() == Some("LOG_COMPACT") {
            // Its records are those of log files that are still in the slice.
            return;
        }
        for (partition, stats) in &metadata.partition_to_write_stats {
            for stat in stats {
                self.add_file(instant, partition, stat);
            }
        }
    }

    fn add_file(&mut self, instant: &str, partition: &str, stat: &WriteStat) {
        let Some(path) = stat.path.as_deref() else { return };
        let file = named(path.rsplit('/').next().unwrap_or(path));
        let Some(log) = LogFile::parse(&file) else {
            if let Some(base) = BaseFile::parse(&file) {
                self.written.entry((partition.to_owned(), base.file_id)).or_default().insert(base.instant);
            }
            return;
        };
        let id: LogId = (instant.to_owned(), partition.to_owned(), log.file_id);
        // A stat without the field says nothing; an empty name: there was no base file.
        if let Some(name) = &stat.base_file {
            let base = BaseFile::parse(&named(name)).map(|base| base.instant);
            self.bases.insert(id.clone(), base.unwrap_or_default());
        }
        if stat.num_inserts.is_some_and(|inserts| inserts > 0) {
            self.inserts.insert(id);
        }
    }

    /// What tasks need of it: that a log file was written to the newest base file of its time goes without saying.
    pub(in crate::write) fn for_tasks(&self) -> Self {
        let is_old = |((instant, partition, file_id), base): (&LogId, &String)| {
            let written = self.written.get(&(partition.clone(), file_id.clone()));
            written.is_some_and(|all| all.iter().any(|newer| newer > base && newer < instant))
        };
        let old = self.bases.iter().filter(|(id, base)| is_old((id, base)));
        Self {
            known: self.known.clone(),
            inserts: self.inserts.clone(),
            bases: old.map(|(id, base)| (id.clone(), base.clone())).collect(),
            written: HashMap::new(),
        }
    }

    /// Whether the log files of a slice may hold other keys than its base file, as their write stats tell.
    fn inserts_into(&self, slice: &FileSlice) -> bool {
        slice.logs.iter().any(|log| {
            let id = (log.instant.clone(), slice.partition.clone(), slice.file_id.clone());
            !self.known.contains(&log.instant)
                || self.inserts.contains(&id)
                || self.bases.get(&id).is_some_and(|base| *base != slice.base_instant)
        })
    }
}

/// A map as a list of pairs: in JSON, keys are strings.
mod pairs {
    use std::collections::HashMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::LogId;

    pub(in crate::write) fn serialize<S: Serializer>(map: &HashMap<LogId, String>, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(in crate::write) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<HashMap<LogId, String>, D::Error> {
        Ok(Vec::deserialize(from)?.into_iter().collect())
    }
}

/// What writes need of a table's log files.
pub(crate) struct Logs {
    /// Reads slices that have log files.
    pub reader: FileGroupReader,
    /// Tells which of them have to be read.
    pub keys: LogKeys,
}

impl Logs {
    /// Of a table that has log files; `columns` are those of its data files, `known` what is known of write stats already.
    ///
    /// # Errors
    /// Those of [`HudiTable::file_group_reader`].
    pub(crate) fn new(
        table: &HudiTable,
        view: &TableView,
        columns: &SchemaRef,
        known: LogWrites,
    ) -> Result<Option<Self>> {
        if table.config().table_type() != TableType::MergeOnRead {
            return Ok(None);
        }
        let timeline = Arc::new(view.timeline().clone());
        let history = TableSchema::resolve(table.config(), view)?.and_then(|schema| schema.history);
        let reader = table.file_group_reader(timeline.clone(), columns.clone(), history.as_ref())?;
        Ok(Some(Self { reader, keys: LogKeys::new(table.storage().clone(), timeline, known) }))
    }
}

/// Finds the slices of a view whose log files may hold keys that their base file lacks.
pub(crate) struct LogKeys {
    storage: Storage,
    timeline: Arc<Timeline>,
    writes: Mutex<LogWrites>,
}

impl LogKeys {
    /// `known`: what is known of write stats already; those of other commits are read when they are needed.
    pub(crate) fn new(storage: Storage, timeline: Arc<Timeline>, known: LogWrites) -> Self {
        Self { storage, timeline, writes: Mutex::new(known) }
    }

    /// Whether names and times tell that there may be such keys: nothing is read.
    pub(crate) fn by_name(&self, slice: &FileSlice) -> bool {
        if slice.logs.is_empty() {
            return false;
        }
        let begun = || self.timeline.completion_time(&slice.base_instant);
        slice.base.is_none()
            || is_of_bucket(&slice.file_id)
            || begun().is_some_and(|begun| slice.logs.iter().any(|log| log.instant.as_str() <= begun))
    }

    /// The slices that may have such keys, as names, times and write stats tell.
    ///
    /// # Errors
    /// `Corrupt` and `Storage` when commits cannot be read.
    pub(crate) fn of<'s>(&self, slices: impl Iterator<Item = &'s FileSlice>) -> Result<Vec<&'s FileSlice>> {
        let (mut found, in_doubt): (Vec<&FileSlice>, Vec<&FileSlice>) =
            slices.filter(|slice| !slice.logs.is_empty()).partition(|slice| self.by_name(slice));
        if !in_doubt.is_empty() {
            let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
            self.read_missing(&mut writes, &in_doubt)?;
            found.extend(in_doubt.into_iter().filter(|slice| writes.inserts_into(slice)));
        }
        Ok(found)
    }

    fn read_missing(&self, writes: &mut LogWrites, slices: &[&FileSlice]) -> Result<()> {
        let logs = slices.iter().flat_map(|slice| slice.logs.iter().map(|log| log.instant.as_str()));
        let mut missing: BTreeSet<&str> = logs.filter(|instant| !writes.known.contains(*instant)).collect();
        for instant in self.timeline.completed_writes() {
            if missing.remove(instant.requested.as_str()) {
                writes.add(&instant.requested, &read_write_metadata(&self.storage, &self.timeline, instant)?);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let history = HistoryReader::new(&self.storage, self.timeline.config());
        let (first, last) = (missing.first().copied(), missing.last().copied());
        for entry in history.read(first, last, LoadMode::Metadata)? {
            if entry.action.is_write() && missing.contains(entry.requested.as_str()) {
                let body = entry.metadata.unwrap_or_default();
                writes.add(&entry.requested, &decode_write_metadata(&body, entry.action)?);
            }
        }
        Ok(())
    }
}

fn named(name: &str) -> FileMeta {
    FileMeta { path: name.to_owned(), size: 0, modified_ms: 0 }
}

/// Whether a file id is one of a bucket index: the number of the bucket in eight digits (there are never a million buckets
/// in a partition, and a random id hardly begins like that), or, with consistent hashing, a UUID made of a name.
fn is_of_bucket(file_id: &str) -> bool {
    let id = file_id.as_bytes();
    let is_number = id.get(..8).is_some_and(|first| first.iter().all(u8::is_ascii_digit) && first.starts_with(b"00"));
    let made_of_name = id.get(8) == Some(&b'-') && id.get(13..15) == Some(b"-3");
    is_number || made_of_name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::instant::Layout;
    use crate::storage::StorageOptions;
    use crate::timeline::{TimeZone, TimelineConfig};
    use std::collections::BTreeMap;

    fn slice(file_id: &str, base: Option<&str>, logs: &[&str]) -> FileSlice {
        let log = |instant: &&str| LogFile::parse(&named(&format!(".{file_id}_{instant}.log.1_0-0-0"))).unwrap();
        let first = logs.first().copied().unwrap_or_default();
        FileSlice {
            partition: "p".into(),
            file_id: file_id.into(),
            base_instant: base.unwrap_or(first).into(),
            base: base.and_then(|b| BaseFile::parse(&named(&format!("{file_id}_0-0-0_{b}.parquet")))),
            logs: logs.iter().map(log).collect(),
        }
    }

    fn commit(file_id: &str, instant: &str, base: Option<&str>, inserts: i64) -> ReplaceCommitMetadata {
        let stat = WriteStat {
            path: Some(format!("p/.{file_id}_{instant}.log.1_0-0-0")),
            base_file: base.map(|b| format!("{file_id}_0-0-0_{b}.parquet")),
            num_inserts: Some(inserts),
            ..Default::default()
        };
        let partition_to_write_stats = BTreeMap::from([("p".to_owned(), vec![stat])]);
        ReplaceCommitMetadata { partition_to_write_stats, ..Default::default() }
    }

    fn suspected(slice: &FileSlice, known: LogWrites) -> (bool, bool) {
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let done = ["t/10_20.commit", "t/15_25.deltacommit", "t/30_31.deltacommit"];
        let done = done.map(|path| FileMeta { path: path.into(), size: 1, modified_ms: 0 });
        let timeline = Timeline::from_files(config, done.to_vec());
        let storage = Storage::open("memory://log-keys/t", &StorageOptions::new()).unwrap();
        let keys = LogKeys::new(storage, Arc::new(timeline), known);
        (keys.by_name(slice), !keys.of([slice].into_iter()).unwrap().is_empty())
    }

    const ID: &str = "5476da0a-3e7c-4c1a-9a42-0123456789ab-0";

    fn known(instant: &str, base: Option<&str>, inserts: i64) -> LogWrites {
        let mut writes = LogWrites::default();
        writes.add(instant, &commit(ID, instant, base, inserts));
        writes
    }

    #[test]
    fn an_ordinary_log_holds_keys_of_its_base_file_only() {
        assert_eq!(suspected(&slice(ID, Some("10"), &[]), LogWrites::default()), (false, false));
        assert_eq!(suspected(&slice(ID, Some("10"), &["30"]), known("30", Some("10"), 0)), (false, false));
        assert_eq!(suspected(&slice(ID, Some("10"), &["30"]), known("30", None, 0)), (false, false));
    }

    #[test]
    fn names_and_times_tell_of_others() {
        assert!(suspected(&slice(ID, None, &["30"]), LogWrites::default()).0);
        // The write began before the base file was there.
        assert!(suspected(&slice(ID, Some("10"), &["15"]), LogWrites::default()).0);
        for id in ["00000031-d412-491c-9d6d-9167be27f717-0", "dad73638-0699-3d64-9014-d55bccb9782d-0"] {
            assert!(suspected(&slice(id, Some("10"), &["30"]), LogWrites::default()).0);
        }
    }

    #[test]
    fn write_stats_tell_of_others() {
        let slice = slice(ID, Some("10"), &["30"]);
        assert_eq!(suspected(&slice, known("30", Some("10"), 1)), (false, true));
        assert_eq!(suspected(&slice, known("30", Some("05"), 0)), (false, true));
        let both = |writes: LogWrites| (suspected(&slice, writes.for_tasks()), writes.for_tasks().bases.len());
        let compacted = |log: &str, base: &str| {
            let mut writes = known(log, Some(base), 0);
            let path = Some(format!("p/{ID}_0-0-0_10.parquet"));
            let stat = WriteStat { path, ..Default::default() };
            let partition_to_write_stats = BTreeMap::from([("p".to_owned(), vec![stat])]);
            writes.add("10", &ReplaceCommitMetadata { partition_to_write_stats, ..Default::default() });
            writes
        };
        assert_eq!(both(compacted("30", "10")), ((false, false), 0));
        assert_eq!(both(compacted("30", "05")), ((false, true), 1));
    }
}
