//! What an action did to the files of the table.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;

use serde::{Deserialize, Serialize};

use crate::file_group::parse_change_log;
use crate::format::avro::metadata::{CleanMetadata, WriteStat};
use crate::format::column_range::SharedRanges;
use crate::storage::FileMeta;

/// A file that an action added.
#[derive(Debug, Clone)]
pub(crate) struct AddedFile {
    /// Its name, without folder.
    pub(crate) name: String,
    /// Its bytes.
    pub(crate) size: u64,
    /// The ranges of its columns, if they are known.
    pub(crate) ranges: Option<SharedRanges>,
    /// Its bloom filter, of a base file that has one, where that was read.
    pub(crate) bloom: Option<Arc<StoredBloom>>,
}

impl AddedFile {
    /// Whether it has rows of the table, and not only what was changed in those of another file.
    pub(crate) fn has_rows(&self) -> bool {
        parse_change_log(&FileMeta { path: self.name.clone(), size: self.size, modified_ms: 0 }).is_none()
    }
}

/// The bloom filter of a base file, as its footer has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StoredBloom {
    /// The name of its type.
    pub(crate) filter_type: String,
    /// It, in base64.
    pub(crate) filter: String,
}

/// What an action did in one partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartitionChanges {
    /// Files that it added.
    pub(crate) added: Vec<AddedFile>,
    /// Names of files that it deleted.
    pub(crate) deleted: Vec<String>,
    /// Whether the partition is gone.
    pub(crate) is_removed: bool,
}

/// What an action did to the files of the table, by partition.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileChanges {
    /// The partitions in which it did something.
    pub(crate) partitions: BTreeMap<String, PartitionChanges>,
    /// Where the keys may have changed their location.
    pub(crate) keys: Option<KeyWrites>,
    /// The columns of the files that it wrote, without meta columns; `None` where it wrote none.
    pub(crate) columns: Option<SchemaRef>,
}

/// The files by which an action may have changed the locations of keys.
#[derive(Debug, Clone)]
pub(crate) struct KeyWrites {
    /// The files that it wrote.
    pub(crate) stats: Vec<WriteStat>,
    /// File groups, by partition, whose keys are gone unless these files have them.
    pub(crate) emptied: BTreeMap<String, Vec<String>>,
    /// The columns of the table after it, without meta columns.
    pub(crate) columns: SchemaRef,
    /// Whether the table has the same rows as before, in other files.
    pub(crate) keeps_rows: bool,
    /// Of a compaction: the names of the log files that its plan has. It carries out deletes, by which older rows live that
    /// were written to newer log files.
    pub(crate) compacted: Option<HashSet<String>>,
}

impl FileChanges {
    /// Those of an action that wrote files: a write, a compaction or a clustering. Files that it replaced stay listed until
    /// they are cleaned.
    pub(crate) fn of_writes(stats: &[WriteStat]) -> Self {
        let mut changes = Self::default();
        for stat in stats {
            let (Some(path), Some(size)) = (&stat.path, stat.file_size_in_bytes) else { continue };
            let name = path.rsplit('/').next().unwrap_or_default();
            let size = u64::try_from(size).unwrap_or(0);
            if name.is_empty() || size == 0 {
                continue;
            }
            let partition = stat.partition_path.clone().unwrap_or_default();
            let known = changes.partitions.entry(partition).or_default();
            let ranges = stat.column_ranges.clone();
            known.added.push(AddedFile { name: name.to_owned(), size, ranges, bloom: None });
            for (path, size) in stat.cdc_stats.iter().flatten() {
                let name = path.rsplit('/').next().unwrap_or_default().to_owned();
                known.added.push(AddedFile {
                    name,
                    size: u64::try_from(*size).unwrap_or(0),
                    ranges: None,
                    bloom: None,
                });
            }
        }
        changes
    }

    /// The same, of an action after which keys may be elsewhere.
    pub(crate) fn with_keys(self, keys: KeyWrites) -> Self {
        Self { columns: Some(keys.columns.clone()), keys: Some(keys), ..self }
    }

    /// The same, of an action after which keys are where they were, in files of these columns.
    pub(crate) fn with_columns(self, columns: SchemaRef) -> Self {
        Self { columns: Some(columns), ..self }
    }

    /// Those of a clean. Files that were missing already are gone too.
    pub(crate) fn of_clean(clean: &CleanMetadata) -> Self {
        let mut changes = Self::default();
        for (partition, cleaned) in &clean.partition_metadata {
            let known = changes.partitions.entry(partition.clone()).or_default();
            known.deleted.extend(cleaned.success_delete_files.iter().chain(&cleaned.failed_delete_files).cloned());
            known.is_removed = cleaned.is_partition_deleted == Some(true);
        }
        changes
    }
}
