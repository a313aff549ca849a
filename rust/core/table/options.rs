//! Options: Hudi's keys and defaults, each spelled once, with the other spellings that jobs use.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::timeline::LockProviderKind;

/// What is done about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    /// Honoured.
    Yes,
    /// Has no meaning here and no influence on the data; accepted without a word.
    Harmless,
    /// Not built; any value but these would change the data or its safety and is refused.
    Only(&'static [&'static str]),
}

/// A key that is known.
#[derive(Debug, Clone, Copy)]
pub struct OptionKey {
    /// The spelling that is used in messages and in `hoodie.properties`.
    pub name: &'static str,
    /// Other spellings, older ones last.
    pub aliases: &'static [&'static str],
    /// What is done about it.
    pub support: Support,
}

const fn yes(name: &'static str, aliases: &'static [&'static str]) -> OptionKey {
    OptionKey { name, aliases, support: Support::Yes }
}

const fn harmless(name: &'static str) -> OptionKey {
    OptionKey { name, aliases: &[], support: Support::Harmless }
}

const fn only(name: &'static str, values: &'static [&'static str]) -> OptionKey {
    OptionKey { name, aliases: &[], support: Support::Only(values) }
}

/// Beginnings of keys that somebody else reads.
const OPEN: [&str; 3] = ["hoodie.keygen.", "hoodie.deltastreamer.keygen.", "hoodie.record.merge.property."];

/// Which lock keeps other processes out; one that is not built must not be left out silently.
const LOCK_PROVIDER: &str = "hoodie.write.lock.provider";

/// Every key that is known.
pub const KEYS: &[OptionKey] = &[
    yes("hoodie.table.name", &["hoodie.datasource.write.table.name"]),
    yes("hoodie.database.name", &[]),
    yes("hoodie.table.type", &["hoodie.datasource.write.table.type"]),
    yes("hoodie.table.version", &["hoodie.write.table.version"]),
    yes("hoodie.table.recordkey.fields", &["hoodie.datasource.write.recordkey.field"]),
    yes("hoodie.table.partition.fields", &["hoodie.datasource.write.partitionpath.field"]),
    yes(
        "hoodie.table.ordering.fields",
        &[
            "hoodie.datasource.write.precombine.field",
            "hoodie.datasource.write.ordering.fields",
            "hoodie.table.precombine.field",
        ],
    ),
    yes("hoodie.table.keygenerator.type", &["hoodie.datasource.write.keygenerator.type"]),
    yes("hoodie.table.keygenerator.class", &["hoodie.datasource.write.keygenerator.class"]),
    yes("hoodie.datasource.write.hive_style_partitioning", &[]),
    yes("hoodie.datasource.write.partitionpath.urlencode", &[]),
    yes("hoodie.datasource.write.slash.separated.date.partitioning", &[]),
    yes("hoodie.datasource.write.drop.partition.columns", &[]),
    yes("hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled", &[]),
    yes("hoodie.write.complex.keygen.new.encoding", &[]),
    yes("hoodie.write.complex.keygen.validation.enable", &[]),
    yes("hoodie.populate.meta.fields", &[]),
    yes("hoodie.partition.metafile.use.base.format", &[]),
    yes("hoodie.table.timeline.timezone", &["hoodie.timeline.timezone"]),
    yes("hoodie.record.merge.mode", &["hoodie.write.record.merge.mode"]),
    yes(
        "hoodie.record.merge.strategy.id",
        &["hoodie.write.record.merge.strategy.id", "hoodie.datasource.write.record.merger.strategy"],
    ),
    yes("hoodie.write.record.merge.custom.implementation.classes", &["hoodie.datasource.write.record.merger.impls"]),
    yes("hoodie.table.partial.update.mode", &[]),
    yes("hoodie.payload.delete.field", &[]),
    yes("hoodie.payload.delete.marker", &[]),
    yes("hoodie.datasource.write.payload.class", &["hoodie.compaction.payload.class"]),
    yes("hoodie.datasource.write.operation", &[]),
    yes("hoodie.datasource.write.partitions.to.delete", &[]),
    yes("hoodie.datasource.write.reconcile.schema", &[]),
    yes("hoodie.write.set.null.for.missing.columns", &[]),
    yes("hoodie.combine.before.insert", &[]),
    yes("hoodie.combine.before.upsert", &[]),
    yes("hoodie.merge.allow.duplicate.on.inserts", &[]),
    yes("hoodie.index.type", &[]),
    yes("hoodie.bloom.index.update.partition.path", &[]),
    yes("hoodie.simple.index.update.partition.path", &[]),
    yes("hoodie.bloom.index.filter.type", &[]),
    yes("hoodie.index.bloom.num_entries", &[]),
    yes("hoodie.index.bloom.fpp", &[]),
    yes("hoodie.bloom.index.filter.dynamic.max.entries", &[]),
    yes("hoodie.parquet.bloom.filter.enabled", &[]),
    yes("hoodie.parquet.max.file.size", &[]),
    yes("hoodie.parquet.small.file.limit", &[]),
    yes("hoodie.parquet.block.size", &[]),
    yes("hoodie.parquet.page.size", &[]),
    yes("hoodie.parquet.dictionary.enabled", &[]),
    yes("hoodie.parquet.compression.codec", &[]),
    yes("hoodie.copyonwrite.insert.split.size", &[]),
    yes("hoodie.copyonwrite.insert.auto.split", &[]),
    yes("hoodie.copyonwrite.record.size.estimate", &[]),
    yes("hoodie.record.size.estimation.threshold", &[]),
    yes("hoodie.bulkinsert.sort.mode", &[]),
    yes("hoodie.bulkinsert.user.defined.partitioner.sort.columns", &[]),
    yes("hoodie.clean.automatic", &[]),
    yes("hoodie.clean.policy", &["hoodie.cleaner.policy"]),
    yes("hoodie.clean.commits.retained", &["hoodie.cleaner.commits.retained"]),
    yes("hoodie.clean.fileversions.retained", &["hoodie.cleaner.fileversions.retained"]),
    yes("hoodie.clean.hours.retained", &["hoodie.cleaner.hours.retained"]),
    yes("hoodie.clean.trigger.max.commits", &["hoodie.clean.max.commits"]),
    yes("hoodie.table.services.enabled", &[]),
    yes("hoodie.archive.automatic", &[]),
    yes("hoodie.archive.beyond.savepoint", &[]),
    yes("hoodie.read.timeline.holes.resolution.policy", &[]),
    yes("hoodie.logfile.data.block.format", &[]),
    yes("hoodie.logfile.data.block.max.size", &[]),
    yes("hoodie.logfile.max.size", &[]),
    yes("hoodie.write.record.positions", &[]),
    yes("hoodie.keep.min.commits", &["archive.min_commits"]),
    yes("hoodie.keep.max.commits", &["archive.max_commits"]),
    yes("hoodie.timeline.compaction.batch.size", &[]),
    yes("hoodie.timeline.compaction.target.file.max.bytes", &[]),
    yes("hoodie.timeline.manifest.retained.versions", &[]),
    yes("hoodie.compact.inline", &[]),
    yes("hoodie.compact.schedule.inline", &[]),
    yes("hoodie.compact.inline.trigger.strategy", &[]),
    yes("hoodie.compact.inline.max.delta.seconds", &[]),
    yes("hoodie.compaction.strategy", &[]),
    yes("hoodie.compaction.daybased.target.partitions", &[]),
    yes("hoodie.compaction.partition.path.regex", &[]),
    yes("hoodie.compaction.target.io", &[]),
    yes("hoodie.compaction.logfile.size.threshold", &[]),
    yes("hoodie.compaction.logfile.num.threshold", &[]),
    yes("hoodie.compact.inline.max.delta.commits", &[]),
    yes("hoodie.log.compaction.enable", &[]),
    yes("hoodie.log.compaction.inline", &[]),
    yes("hoodie.log.compaction.blocks.threshold", &[]),
    yes("hoodie.clustering.inline", &["hoodie.datasource.clustering.inline.enable"]),
    yes("hoodie.clustering.inline.max.commits", &[]),
    yes("hoodie.clustering.schedule.inline", &[]),
    yes("hoodie.clustering.async.enabled", &["hoodie.datasource.clustering.async.enable"]),
    yes("hoodie.clustering.async.max.commits", &[]),
    yes("hoodie.clustering.plan.strategy.class", &[]),
    yes("hoodie.clustering.execution.strategy.class", &[]),
    yes("hoodie.clustering.plan.partition.filter.mode", &[]),
    yes("hoodie.clustering.plan.strategy.daybased.lookback.partitions", &[]),
    yes("hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions", &[]),
    yes("hoodie.clustering.plan.strategy.cluster.begin.partition", &[]),
    yes("hoodie.clustering.plan.strategy.cluster.end.partition", &[]),
    yes("hoodie.clustering.plan.strategy.partition.regex.pattern", &[]),
    yes("hoodie.clustering.plan.strategy.partition.selected", &[]),
    yes("hoodie.clustering.plan.strategy.small.file.limit", &[]),
    yes("hoodie.clustering.plan.strategy.target.file.max.bytes", &[]),
    yes("hoodie.clustering.plan.strategy.max.bytes.per.group", &[]),
    yes("hoodie.clustering.plan.strategy.max.num.groups", &[]),
    yes("hoodie.clustering.plan.strategy.single.group.clustering.enabled", &[]),
    yes("hoodie.clustering.plan.strategy.file.slices.sort.by", &[]),
    yes("hoodie.clustering.plan.strategy.sort.columns", &[]),
    yes("hoodie.clustering.plan.strategy.earliest.commit.to.cluster", &[]),
    yes("hoodie.clustering.updates.strategy", &[]),
    yes("hoodie.clustering.rollback.pending.replacecommit.on.conflict", &[]),
    yes("hoodie.layout.optimize.strategy", &[]),
    yes("hoodie.table.services.incremental.enabled", &[]),
    yes("hoodoo.clustering.plan.strategy", &[]),
    yes("hoodoo.clustering.plan.group.order", &[]),
    yes("hoodoo.clustering.plan.group.min.files", &[]),
    yes("hoodoo.clustering.plan.seed", &[]),
    yes("hoodoo.clustering.include.log.files", &[]),
    yes("hoodoo.clustering.rewrite.clustered", &[]),
    yes("hoodoo.clustering.task.bytes", &[]),
    yes("hoodie.metadata.enable", &[]),
    yes("hoodie.metadata.auto.delete.partitions", &[]),
    yes("hoodie.time.generator.max_expected_clock_skew_ms", &["hoodie.time.generator.max.expected.clock.skew.ms"]),
    yes(LOCK_PROVIDER, &[]),
    yes("hoodie.write.lock.wait_time_ms", &[]),
    yes("hoodie.write.lock.num_retries", &[]),
    yes("hoodie.write.lock.wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.max_wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.client.num_retries", &[]),
    yes("hoodie.write.lock.client.wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.filesystem.path", &[]),
    yes("hoodie.write.lock.filesystem.expire", &[]),
    yes("hoodie.write.lock.storage.validity.timeout.secs", &[]),
    yes("hoodie.write.lock.storage.renew.interval.secs", &["hoodie.write.lock.storage.heartbeat.poll.secs"]),
    yes("hoodoo.log.skip.corrupt.blocks", &[]),
    yes("hoodoo.memory.budget", &[]),
    yes("hoodoo.spill.folder", &[]),
    yes("hoodoo.threads", &[]),
    only("hoodie.write.concurrency.mode", &["SINGLE_WRITER"]),
    only("hoodie.time.generator.type", &["WAIT_TO_ADJUST_SKEW"]),
    only("hoodie.clean.failed.writes.policy", &["EAGER"]),
    only("hoodie.cleaner.policy.failed.writes", &["EAGER"]),
    only("hoodie.table.cdc.enabled", &["false"]),
    only("hoodie.schema.on.read.enable", &["false"]),
    only("hoodie.allow.operation.metadata.field", &["false"]),
    only("hoodie.table.base.file.format", &["PARQUET"]),
    only("hoodie.datasource.insert.dup.policy", &["none"]),
    only("hoodie.datasource.write.insert.drop.duplicates", &["false"]),
    only("hoodie.parquet.outputtimestamptype", &["TIMESTAMP_MICROS"]),
    harmless("hoodie.insert.shuffle.parallelism"),
    harmless("hoodie.upsert.shuffle.parallelism"),
    harmless("hoodie.delete.shuffle.parallelism"),
    harmless("hoodie.bulkinsert.shuffle.parallelism"),
    harmless("hoodie.embed.timeline.server"),
    harmless("hoodie.write.markers.type"),
    harmless("hoodie.rollback.using.markers"),
    harmless("hoodie.datasource.write.row.writer.enable"),
    harmless("hoodie.datasource.write.streaming.ignore.failed.batch"),
    harmless("hoodie.datasource.write.commitmeta.key.prefix"),
    harmless("hoodie.datasource.write.schema.allow.auto.evolution.column.drop"),
    harmless("hoodie.datasource.hive_sync.enable"),
    harmless("hoodie.datasource.meta.sync.enable"),
    harmless("hoodie.clean.async.enabled"),
    harmless("hoodie.archive.async"),
    harmless("hoodie.archive.delete.parallelism"),
    harmless("hoodie.commits.archival.batch"),
    harmless("hoodie.clean.parallelism"),
    harmless("hoodie.clean.incremental.enabled"),
    harmless("hoodie.clustering.max.parallelism"),
    harmless("hoodie.clustering.group.read.parallelism"),
    harmless("hoodie.clustering.plan.generation.use.local.engine.context"),
    harmless("hoodie.avro.schema.validate"),
    harmless("hoodie.bloom.index.parallelism"),
    harmless("hoodie.simple.index.parallelism"),
    harmless("hoodie.global.simple.index.parallelism"),
    harmless("hoodie.bloom.index.use.metadata"),
    harmless("hoodie.finalize.write.parallelism"),
    harmless("hoodie.markers.delete.parallelism"),
    harmless("hoodie.file.listing.parallelism"),
    harmless("hoodie.write.status.storage.level"),
    harmless("hoodie.datasource.read.use.new.parquet.file.format"),
    harmless("hoodie.metadata.index.column.stats.enable"),
    harmless("hoodie.metadata.index.partition.stats.enable"),
    harmless("hoodie.client.heartbeat.interval_in_ms"),
    harmless("hoodie.write.auto.upgrade"),
    harmless("hoodie.write.lock.heartbeat_interval_ms"),
    yes("hoodie.write.lock.conflict.resolution.strategy", &[]),
    harmless("hoodie.auto.adjust.lock.configs"),
];

/// Options as a job gives them, checked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    given: BTreeMap<String, String>,
    unknown: Vec<String>,
}

impl Options {
    /// Checks the options: refuses what is known and would change the data if it were ignored.
    pub fn new(given: BTreeMap<String, String>) -> Result<Self> {
        let mut unknown = Vec::new();
        for (key, value) in &given {
            match find(key).map(|k| k.support) {
                Some(Support::Yes) if key == LOCK_PROVIDER => {
                    LockProviderKind::parse(value)?;
                }
                Some(Support::Yes | Support::Harmless) => {}
                Some(Support::Only(values)) => {
                    if !values.iter().any(|v| v.eq_ignore_ascii_case(value)) {
                        return Err(Error::unsupported(format!("option {key}={value} is not supported")).remedy(
                            match values {
                                [] | [""] => "Leave the option out".to_owned(),
                                _ => format!("Leave the option out, or set it to {}", values.join(" or ")),
                            },
                        ));
                    }
                }
                // Settings of timestamp key generators and of record mergers are read by these themselves.
                None if OPEN.iter().any(|prefix| key.starts_with(prefix)) => {}
                None => unknown.push(key.clone()),
            }
        }
        Ok(Self { given, unknown })
    }

    /// The same options with others on top.
    pub fn with(&self, more: &BTreeMap<String, String>) -> Result<Self> {
        let mut given = self.given.clone();
        for (key, value) in more {
            // A new value under one spelling replaces an old one under another.
            if let Some(known) = find(key) {
                given.remove(known.name);
                for alias in known.aliases {
                    given.remove(*alias);
                }
            }
            given.insert(key.clone(), value.clone());
        }
        Self::new(given)
    }

    /// Keys that nobody here knows; worth one warning.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// What was given, as it was spelled.
    pub fn given(&self) -> &BTreeMap<String, String> {
        &self.given
    }

    /// The value of a key under any of its spellings.
    pub fn get(&self, name: &str) -> Option<&str> {
        let known = find(name);
        let spellings = std::iter::once(name)
            .chain(known.iter().flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().copied())));
        spellings.into_iter().find_map(|s| self.given.get(s)).map(String::as_str)
    }

    /// A boolean.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(v) if v.eq_ignore_ascii_case("true") => Ok(true),
            Some(v) if v.eq_ignore_ascii_case("false") => Ok(false),
            Some(v) => Err(bad(name, v, "true or false")),
        }
    }

    /// A number.
    pub fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.get(name) {
            None => Ok(default),
            Some(v) => v.trim().parse().map_err(|_| bad(name, v, "a number")),
        }
    }
}

fn bad(name: &str, value: &str, wanted: &str) -> Error {
    Error::invalid_option(format!("option {name} is '{value}'")).remedy(format!("Set it to {wanted}"))
}

/// The known key of a spelling.
pub fn find(spelling: &str) -> Option<&'static OptionKey> {
    KEYS.iter().find(|k| k.name == spelling || k.aliases.contains(&spelling))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn every_spelling_is_heard_and_is_unique() {
        let o = options(&[("hoodie.datasource.write.precombine.field", "ts"), ("x.y", "1")]).unwrap();
        assert_eq!(o.get("hoodie.table.ordering.fields"), Some("ts"));
        assert_eq!(o.unknown(), ["x.y"]);
        let mut all: Vec<&str> =
            KEYS.iter().flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().copied())).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|w| matches!(w, [a, b] if a != b)), "a spelling stands for two keys");
    }

    #[test]
    fn what_cannot_be_ignored_is_refused() {
        let e = options(&[("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL")]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(options(&[("hoodie.write.concurrency.mode", "single_writer")]).is_ok());
    }

    #[test]
    fn later_options_win_under_any_spelling() {
        let o = options(&[("hoodie.table.ordering.fields", "a")]).unwrap();
        let more = [("hoodie.datasource.write.precombine.field".to_owned(), "b".to_owned())].into();
        assert_eq!(o.with(&more).unwrap().get("hoodie.table.ordering.fields"), Some("b"));
    }

    #[test]
    fn values_are_checked() {
        let o = options(&[("hoodie.clean.automatic", "yes"), ("hoodie.clean.commits.retained", "x")]).unwrap();
        assert!(o.flag("hoodie.clean.automatic", true).is_err());
        assert!(o.number("hoodie.clean.commits.retained", 10u32).is_err());
        assert_eq!(o.number("hoodoo.threads", 3usize).unwrap(), 3);
    }
}
