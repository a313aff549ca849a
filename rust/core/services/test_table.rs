//! Small tables for tests, written step by step, so that any step can be left out.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};

use crate::file_group::BaseFile;
use crate::file_group::base::{BaseFileOptions, BaseFileWriter};
use crate::file_group::markers::{MarkerType, create_marker, delete_markers};
use crate::format::avro::metadata::{
    CommitMetadata, ReplaceCommitMetadata, SavepointMetadata, SavepointPartitionMetadata, WriteStat, encode,
};
use crate::format::avro::schema::table_schema_to_avro;
use crate::format::instant::{Action, Instant, State};
use crate::storage::{Storage, StorageOptions};
use crate::table::{HudiTable, Options, TableSpec, with_meta_columns};
use crate::timeline::SystemClock;

/// A table with the columns `id` and `part`, keyed by `id`, partitioned by `part`.
pub(super) struct TestTable {
    pub(super) table: HudiTable,
}

fn columns() -> Schema {
    Schema::new(vec![Field::new("id", DataType::Utf8, true), Field::new("part", DataType::Utf8, true)])
}

/// A pending write.
pub(super) struct Pending<'a> {
    pub(super) made: &'a TestTable,
    pub(super) instant: Instant,
    stats: BTreeMap<String, Vec<WriteStat>>,
    replaced: BTreeMap<String, Vec<String>>,
    operation: &'static str,
}

impl TestTable {
    pub(super) fn new(options: &[(&str, &str)]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let uri = format!("memory://services-{}/t", COUNT.fetch_add(1, Ordering::Relaxed));
        Self::at(Storage::open(&uri, &StorageOptions::new()).unwrap(), options)
    }

    pub(super) fn at(storage: Storage, options: &[(&str, &str)]) -> Self {
        let mut all = BTreeMap::from([
            ("hoodie.table.name".to_owned(), "t".to_owned()),
            ("hoodie.table.recordkey.fields".to_owned(), "id".to_owned()),
            ("hoodie.table.partition.fields".to_owned(), "part".to_owned()),
        ]);
        all.extend(options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())));
        let options = Options::new(all).unwrap();
        let schema = columns();
        let spec = TableSpec { options: &options, schema: &schema, keep_schema: false };
        Self { table: spec.create(storage, Arc::new(SystemClock)).unwrap() }
    }

    pub(super) fn storage(&self) -> &Storage {
        self.table.storage()
    }

    /// Requests and starts a write.
    pub(super) fn begin(&self, action: Action) -> Pending<'_> {
        let writer = self.table.timeline_writer().unwrap();
        let requested = writer.request(action, |_| Ok(Vec::new())).unwrap();
        let instant = writer.start(&requested, Vec::new()).unwrap();
        Pending {
            made: self,
            instant,
            stats: BTreeMap::new(),
            replaced: BTreeMap::new(),
            operation: if action == Action::ReplaceCommit { "INSERT_OVERWRITE" } else { "UPSERT" },
        }
    }

    /// A commit that writes one file.
    pub(super) fn commit(&self, partition: &str, file_id: &str, keys: &[&str]) -> Instant {
        let mut write = self.begin(Action::Commit);
        write.file(partition, file_id, keys);
        write.complete()
    }

    /// A savepoint over the given files.
    pub(super) fn savepoint(&self, commit: &Instant, partition: &str, files: &[String]) {
        let names = files.iter().map(|f| f.rsplit('/').next().unwrap().to_owned()).collect();
        let part = SavepointPartitionMetadata { partition_path: partition.to_owned(), savepoint_data_file: names };
        let record = SavepointMetadata {
            partition_metadata: BTreeMap::from([(partition.to_owned(), part)]),
            ..Default::default()
        };
        let pending = Instant { action: Action::Savepoint, state: State::Inflight, completed: None, ..commit.clone() };
        let writer = self.table.timeline_writer().unwrap();
        let timeline = writer.load().unwrap();
        self.storage().create(&timeline.path(&pending), "").unwrap();
        writer.complete(&pending, encode(&record).unwrap(), |_| Ok(()), |_, ()| Ok(())).unwrap();
    }

    /// Data files, sorted, without their folder.
    pub(super) fn data_files(&self) -> Vec<String> {
        let all = self.storage().list_recursive("").unwrap();
        all.into_iter().map(|f| f.path).filter(|p| p.ends_with(".parquet") && !p.starts_with(".hoodie")).collect()
    }

    /// Names of the timeline's files.
    pub(super) fn instants(&self) -> Vec<String> {
        let listed = self.storage().list(".hoodie/timeline").unwrap().files;
        listed.into_iter().map(|f| f.name().to_owned()).collect()
    }
}

impl Pending<'_> {
    /// Writes a base file; returns its path.
    pub(super) fn file(&mut self, partition: &str, file_id: &str, keys: &[&str]) -> String {
        let name = BaseFile::file_name(file_id, "0-1-1", &self.instant.requested);
        let path = format!("{partition}/{name}");
        let storage = self.made.storage();
        let metadata = format!("{partition}/.hoodie_partition_metadata");
        if !storage.exists(&metadata).unwrap() {
            let text = format!("#x\ncommitTime={}\npartitionDepth=1\n", self.instant.requested);
            storage.create(&metadata, text).unwrap();
        }
        create_marker(storage, &self.instant.requested, &path, MarkerType::Create).unwrap();
        let bytes = base_file(&self.instant.requested, partition, &name, keys);
        let stat = WriteStat {
            file_id: Some(file_id.to_owned()),
            path: Some(path.clone()),
            num_writes: Some(keys.len() as i64),
            file_size_in_bytes: Some(bytes.len() as i64),
            partition_path: Some(partition.to_owned()),
            ..Default::default()
        };
        storage.create(&path, bytes).unwrap();
        self.stats.entry(partition.to_owned()).or_default().push(stat);
        path
    }

    pub(super) fn replace(&mut self, partition: &str, file_id: &str) {
        self.replaced.entry(partition.to_owned()).or_default().push(file_id.to_owned());
    }

    pub(super) fn complete(self) -> Instant {
        let schema = table_schema_to_avro(&columns(), "t", false).unwrap();
        let extra_metadata = BTreeMap::from([("schema".to_owned(), schema)]);
        let operation_type = Some(self.operation.to_owned());
        let body = match self.instant.action {
            Action::ReplaceCommit => encode(&ReplaceCommitMetadata {
                partition_to_write_stats: self.stats,
                partition_to_replace_file_ids: self.replaced,
                extra_metadata,
                operation_type,
                ..Default::default()
            }),
            _ => encode(&CommitMetadata {
                partition_to_write_stats: self.stats,
                extra_metadata,
                operation_type,
                ..Default::default()
            }),
        };
        let writer = self.made.table.timeline_writer().unwrap();
        let done = writer.complete(&self.instant, body.unwrap(), |_| Ok(()), |_, ()| Ok(())).unwrap();
        let completed = done.instant;
        delete_markers(self.made.storage(), &completed.requested).unwrap();
        completed
    }
}

/// The bytes of a base file with these keys.
pub(super) fn base_file(instant: &str, partition: &str, name: &str, keys: &[&str]) -> Vec<u8> {
    let schema = with_meta_columns(&columns());
    let all = |text: &str| Arc::new(StringArray::from(vec![text; keys.len()])) as ArrayRef;
    let ids: ArrayRef = Arc::new(StringArray::from(keys.to_vec()));
    let columns = vec![all(instant), all("0_0_0"), ids.clone(), all(partition), all(name), ids, all(partition)];
    let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
    let mut writer = BaseFileWriter::try_new(Vec::new(), schema, BaseFileOptions::default()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap().0
}
