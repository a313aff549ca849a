//! The hashing config that Hudi keeps in a table whose partitions have different numbers of buckets:
//! `.hoodie/.bucket_index/partition_bucket_index_meta/<instant>.hashing_config`, JSON.

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::storage::Storage;
use crate::timeline::Timeline;

const FOLDER: &str = ".hoodie/.bucket_index/partition_bucket_index_meta";
const SUFFIX: &str = ".hashing_config";

/// How many buckets the partitions of a table have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct HashingConfig {
    /// As `hoodie.bucket.index.partition.expressions`.
    #[serde(default)]
    pub(super) expressions: String,
    /// Buckets of the partitions that no expression matches.
    #[serde(rename = "defaultBucketNumber")]
    pub(super) buckets: u32,
    /// What the expressions are.
    #[serde(default)]
    rule: String,
}

impl HashingConfig {
    /// The newest one of a table, if it has one; those of actions that are pending do not count.
    ///
    /// # Errors
    /// `Corrupt` for one that cannot be read; `Unsupported` for one of other rules; `Storage`.
    pub(super) fn newest(storage: &Storage, timeline: &Timeline) -> Result<Option<Self>> {
        let files = storage.list(FOLDER)?.files;
        let instant =
            |path: &str| path.rsplit('/').next().and_then(|name| name.strip_suffix(SUFFIX)).map(str::to_owned);
        let committed = files.iter().filter_map(|file| Some((instant(&file.path)?, &file.path)));
        let Some((_, path)) = committed.filter(|(instant, _)| !timeline.is_pending(instant)).max() else {
            return Ok(None);
        };
        let named = |e: Error| e.with("table", storage.uri()).with("file", path);
        let config: Self = serde_json::from_slice(&storage.read(path)?)
            .map_err(|e| named(Error::corrupt("the hashing config of the bucket index cannot be read").caused_by(e)))?;
        if !(config.rule.is_empty() || config.rule.eq_ignore_ascii_case("regex")) {
            let rule = &config.rule;
            return Err(named(Error::unsupported(format!("rules of the type '{rule}' for numbers of buckets"))));
        }
        if config.buckets == 0 {
            return Err(named(Error::corrupt("the hashing config of the bucket index has no buckets")));
        }
        Ok(Some(config))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::format::instant::Layout;
    use crate::storage::{FileMeta, StorageOptions};
    use crate::timeline::{TimeZone, TimelineConfig};

    fn timeline(files: &[&str]) -> Timeline {
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        let meta = |name: &&str| FileMeta { path: format!("t/{name}"), size: 1, modified_ms: 0 };
        Timeline::from_files(config, files.iter().map(meta).collect())
    }

    #[test]
    fn the_newest_that_is_committed_counts() {
        let storage = Storage::open("memory://hashing-config/t", &StorageOptions::new()).unwrap();
        assert_eq!(HashingConfig::newest(&storage, &timeline(&[])).unwrap(), None);
        for (instant, buckets) in [("00000000000000", 2), ("20260101000000000", 3), ("20260102000000000", 4)] {
            let body = format!(
                r#"{{"expressions": "p,8", "defaultBucketNumber": {buckets}, "rule": "REGEX", "version": 1, "instant": "{instant}"}}"#
            );
            storage.create(&format!("{FOLDER}/{instant}{SUFFIX}"), body).unwrap();
        }
        let buckets = |files: &[&str]| HashingConfig::newest(&storage, &timeline(files)).unwrap().unwrap().buckets;
        assert_eq!(buckets(&[]), 4);
        assert_eq!(buckets(&["20260102000000000.replacecommit.requested"]), 3);
        storage.create(&format!("{FOLDER}/20260103000000000{SUFFIX}"), "{").unwrap();
        assert!(HashingConfig::newest(&storage, &timeline(&[])).unwrap_err().to_string().contains("20260103"));
    }
}
