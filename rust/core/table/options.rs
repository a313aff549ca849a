//! Options: Hudi's keys and defaults, each spelled once, with the other spellings that jobs use.

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

/// Which side of a table an option is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Reads alone.
    Read,
    /// Writes and table services.
    Write,
    /// Both; or neither, for it has no effect.
    Both,
}

/// What an option asks for that is not there.
#[derive(Debug, Clone, Copy)]
pub struct Absent {
    /// Values that do not ask for it.
    pub silent: &'static [&'static str],
    /// What is not done, and what to do about it.
    pub way: &'static str,
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
    /// What it asks for and does not get, which is warned of.
    pub absent: Option<Absent>,
}

impl OptionKey {
    /// Which side of a table it is for.
    pub fn side(&self) -> Side {
        let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| self.name.starts_with(prefix));
        match self.support {
            Support::Harmless if self.absent.is_none() => Side::Both,
            _ if begins(&READ) => Side::Read,
            _ if begins(&BOTH) && !begins(&SERVICES) => Side::Both,
            _ => Side::Write,
        }
    }
}

const fn yes(name: &'static str, aliases: &'static [&'static str]) -> OptionKey {
    OptionKey { name, aliases, support: Support::Yes, absent: None }
}

const fn harmless(name: &'static str) -> OptionKey {
    OptionKey { name, aliases: &[], support: Support::Harmless, absent: None }
}

const fn only(name: &'static str, values: &'static [&'static str]) -> OptionKey {
    OptionKey { name, aliases: &[], support: Support::Only(values), absent: None }
}

/// Another spelling.
const fn also(key: OptionKey, aliases: &'static [&'static str]) -> OptionKey {
    OptionKey { aliases, ..key }
}

/// A key that asks, with any value but `silent`, for what is not there.
const fn absent(key: OptionKey, silent: &'static [&'static str], way: &'static str) -> OptionKey {
    OptionKey { absent: Some(Absent { silent, way }), ..key }
}

const OFF: &[&str] = &["false", ""];

/// Beginnings of keys that are for reads alone.
const READ: [&str; 6] = [
    "hoodie.datasource.read.",
    "hoodie.datasource.query.",
    "hoodie.datasource.merge.",
    "hoodie.read.",
    "hoodie.enable.data.skipping",
    "as.of.",
];

/// Beginnings of keys that reads look at as well as writes: they describe the table, how its records are merged, and the
/// machine.
const BOTH: [&str; 21] = [
    "hoodie.table.",
    "hoodie.database.",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.slash.separated",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.datasource.write.keygenerator.",
    "hoodie.datasource.write.payload.class",
    "hoodie.write.complex.keygen.",
    "hoodie.write.record.merge.",
    "hoodie.record.merge.",
    "hoodie.payload.",
    "hoodie.populate.meta.fields",
    "hoodie.partition.metafile.",
    "hoodie.metadata.enable",
    "hoodie.metadata.global.record.level.index.enable",
    "hoodie.schema.on.read.enable",
    "hoodie.allow.operation.metadata.field",
    "hoodoo.threads",
    "hoodoo.memory.budget",
    "hoodoo.spill.folder",
];

/// And what begins like one of them and is for writes.
const SERVICES: [&str; 1] = ["hoodie.table.services."];

/// Beginnings of keys that somebody else reads.
pub(super) const OPEN: [&str; 3] = ["hoodie.keygen.", "hoodie.deltastreamer.keygen.", "hoodie.record.merge.property."];

/// Which lock keeps other processes out; one that is not built must not be left out silently.
pub(super) const LOCK_PROVIDER: &str = "hoodie.write.lock.provider";

/// Every key that is known.
pub const KEYS: &[OptionKey] = &[
    yes("hoodie.table.name", &["hoodie.datasource.write.table.name"]),
    yes("hoodie.database.name", &[]),
    yes("hoodie.table.type", &["hoodie.datasource.write.table.type", "hoodie.datasource.write.storage.type"]),
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
        &[
            "hoodie.write.record.merge.strategy.id",
            "hoodie.datasource.write.record.merger.strategy",
            "hoodie.compaction.record.merger.strategy",
        ],
    ),
    yes("hoodie.write.record.merge.custom.implementation.classes", &["hoodie.datasource.write.record.merger.impls"]),
    yes("hoodie.table.partial.update.mode", &[]),
    yes("hoodie.payload.delete.field", &[]),
    yes("hoodie.payload.delete.marker", &[]),
    yes("hoodie.datasource.write.payload.class", &["hoodie.compaction.payload.class"]),
    yes("hoodie.datasource.write.operation", &[]),
    yes("hoodie.datasource.write.partitions.to.delete", &[]),
    yes("hoodie.datasource.write.reconcile.schema", &[]),
    yes("hoodie.schema.on.read.enable", &[]),
    yes("hoodie.write.set.null.for.missing.columns", &[]),
    yes("hoodie.combine.before.insert", &[]),
    yes("hoodie.combine.before.upsert", &[]),
    yes("hoodie.merge.allow.duplicate.on.inserts", &[]),
    yes("hoodie.index.type", &[]),
    yes("hoodie.index.bucket.engine", &[]),
    yes("hoodie.bucket.index.num.buckets", &[]),
    yes("hoodie.bucket.index.hash.field", &[]),
    yes("hoodie.bucket.index.partition.expressions", &[]),
    yes("hoodie.bucket.index.partition.rule.type", &[]),
    yes("hoodie.bloom.index.update.partition.path", &[]),
    yes("hoodie.simple.index.update.partition.path", &[]),
    yes("hoodie.record.index.update.partition.path", &[]),
    yes(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        &["hoodie.metadata.record.index.min.filegroup.count"],
    ),
    yes(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        &["hoodie.metadata.record.index.max.filegroup.count"],
    ),
    yes("hoodie.metadata.record.level.index.min.filegroup.count", &[]),
    yes("hoodie.metadata.record.level.index.max.filegroup.count", &[]),
    yes("hoodie.metadata.record.index.growth.factor", &[]),
    yes("hoodie.metadata.record.index.max.filegroup.size", &[]),
    yes("hoodie.bloom.index.filter.type", &[]),
    yes("hoodie.bloom.index.use.metadata", &[]),
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
    absent(
        harmless("hoodie.datasource.compaction.async.enable"),
        OFF,
        "no compaction runs beside the writes. Leave hoodie.compact.inline at true, or call Table.compact (hoodoo compact)",
    ),
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
    absent(
        yes("hoodie.clustering.async.enabled", &["hoodie.datasource.clustering.async.enable"]),
        OFF,
        "no clustering runs beside the writes. Call Table.cluster (hoodoo cluster run), or set hoodie.clustering.inline=true",
    ),
    yes("hoodie.clustering.async.max.commits", &[]),
    yes("hoodie.clustering.plan.strategy.class", &[]),
    yes("hoodie.clustering.execution.strategy.class", &[]),
    harmless("hoodie.clustering.max.parallelism"),
    harmless("hoodie.clustering.group.read.parallelism"),
    harmless("hoodie.clustering.plan.generation.use.local.engine.context"),
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
    yes("hoodie.metadata.index.column.stats.enable", &[]),
    yes("hoodie.metadata.index.column.stats.column.list", &[]),
    yes("hoodie.metadata.index.column.stats.max.columns.to.index", &[]),
    yes("hoodie.metadata.index.column.stats.file.group.count", &[]),
    yes("hoodie.metadata.index.partition.stats.enable", &[]),
    yes("hoodie.metadata.index.partition.stats.file.group.count", &[]),
    yes("hoodie.metadata.index.bloom.filter.enable", &[]),
    yes("hoodie.metadata.index.bloom.filter.file.group.count", &[]),
    yes("hoodie.metadata.index.expression.file.group.count", &[]),
    yes("hoodie.metadata.auto.delete.partitions", &[]),
    yes("hoodie.metadata.compact.max.delta.commits", &[]),
    yes("hoodie.metadata.log.compaction.enable", &[]),
    yes("hoodie.metadata.log.compaction.blocks.threshold", &[]),
    yes("hoodie.time.generator.max_expected_clock_skew_ms", &["hoodie.time.generator.max.expected.clock.skew.ms"]),
    yes(LOCK_PROVIDER, &[]),
    yes("hoodie.write.num.retries.on.conflict.failures", &[]),
    yes("hoodie.write.lock.wait_time_ms", &[]),
    yes("hoodie.write.lock.num_retries", &[]),
    yes("hoodie.write.lock.wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.max_wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.client.num_retries", &[]),
    yes("hoodie.write.lock.client.wait_time_ms_between_retry", &[]),
    yes("hoodie.write.lock.filesystem.path", &[]),
    yes("hoodie.write.lock.filesystem.expire", &[]),
    yes("hoodie.write.lock.storage.validity.timeout.secs", &[]),
    yes("hoodie.write.lock.zookeeper.url", &[]),
    yes("hoodie.write.lock.zookeeper.port", &[]),
    yes("hoodie.write.lock.zookeeper.base_path", &[]),
    yes("hoodie.write.lock.zookeeper.lock_key", &[]),
    yes("hoodie.write.lock.zookeeper.session_timeout_ms", &[]),
    yes("hoodie.write.lock.zookeeper.connection_timeout_ms", &[]),
    yes("hoodie.write.lock.dynamodb.table", &[]),
    yes("hoodie.write.lock.dynamodb.region", &[]),
    yes("hoodie.write.lock.dynamodb.partition_key", &[]),
    yes("hoodie.write.lock.dynamodb.endpoint_url", &[]),
    yes("hoodie.write.lock.dynamodb.billing_mode", &[]),
    yes("hoodie.write.lock.dynamodb.read_capacity", &[]),
    yes("hoodie.write.lock.dynamodb.write_capacity", &[]),
    harmless("hoodie.write.lock.dynamodb.table_creation_timeout"),
    yes("hoodie.aws.access.key", &[]),
    yes("hoodie.aws.secret.key", &[]),
    yes("hoodie.aws.session.token", &[]),
    yes("hoodie.aws.region", &[]),
    yes("hoodie.write.lock.storage.renew.interval.secs", &["hoodie.write.lock.storage.heartbeat.poll.secs"]),
    yes("hoodoo.log.skip.corrupt.blocks", &[]),
    yes("hoodoo.schema.evolution", &[]),
    yes("hoodoo.memory.budget", &[]),
    yes("hoodoo.parquet.page.checksums", &[]),
    yes("hoodoo.spill.folder", &[]),
    yes("hoodoo.threads", &[]),
    yes("hoodoo.write.lease", &[]),
    yes("hoodoo.storage.sync", &[]),
    yes("hoodoo.storage.follow.links", &[]),
    yes("hoodie.write.concurrency.mode", &[]),
    yes("hoodie.write.concurrency.early.conflict.detection.enable", &[]),
    only("hoodie.time.generator.type", &["WAIT_TO_ADJUST_SKEW"]),
    yes("hoodie.clean.failed.writes.policy", &["hoodie.cleaner.policy.failed.writes"]),
    yes("hoodie.table.cdc.enabled", &[]),
    yes("hoodie.table.cdc.supplemental.logging.mode", &[]),
    only("hoodie.allow.operation.metadata.field", &["false"]),
    also(only("hoodie.table.base.file.format", &["PARQUET"]), &["hoodie.table.ro.file.format"]),
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
    absent(
        harmless("hoodie.datasource.write.schema.allow.auto.evolution.column.drop"),
        OFF,
        "a batch without a column never takes the column out of the table: its rows get nulls there, or keep \
         their values. Leave it out",
    ),
    harmless("hoodie.datasource.hive_sync.enable"),
    harmless("hoodie.datasource.meta.sync.enable"),
    absent(
        harmless("hoodie.precommit.validators"),
        &[""],
        "commits are not validated by classes of the JVM. Check the rows before you write them",
    ),
    absent(
        also(harmless("hoodie.clean.async.enabled"), &["hoodie.clean.async"]),
        OFF,
        "cleaning does not run beside the writes but after them. Leave hoodie.clean.automatic at true",
    ),
    absent(
        harmless("hoodie.archive.async"),
        OFF,
        "archiving does not run beside the writes but after them. Leave hoodie.archive.automatic at true",
    ),
    harmless("hoodie.archive.delete.parallelism"),
    harmless("hoodie.commits.archival.batch"),
    also(harmless("hoodie.clean.parallelism"), &["hoodie.cleaner.parallelism"]),
    also(harmless("hoodie.clean.incremental.enabled"), &["hoodie.cleaner.incremental.mode"]),
    harmless("hoodie.avro.schema.validate"),
    harmless("hoodie.bucket.index.query.pruning"),
    harmless("hoodie.bucket.index.remote.partitioner.enable"),
    harmless("hoodie.bloom.index.parallelism"),
    harmless("hoodie.simple.index.parallelism"),
    harmless("hoodie.global.simple.index.parallelism"),
    harmless("hoodie.record.index.use.caching"),
    harmless("hoodie.record.index.input.storage.level"),
    harmless("hoodie.metadata.streaming.write.enabled"),
    harmless("hoodie.finalize.write.parallelism"),
    harmless("hoodie.markers.delete.parallelism"),
    harmless("hoodie.file.listing.parallelism"),
    harmless("hoodie.write.status.storage.level"),
    harmless("hoodie.datasource.read.use.new.parquet.file.format"),
    absent(harmless("hoodie.metadata.index.expression.enable"), OFF, NO_INDEX),
    yes("hoodie.metadata.record.level.index.enable", &[]),
    yes("hoodie.metadata.global.record.level.index.enable", &["hoodie.metadata.record.index.enable"]),
    harmless("hoodie.client.heartbeat.interval_in_ms"),
    yes("hoodie.write.auto.upgrade", &[]),
    yes("hoodie.datasource.write.commitmeta.key.prefix", &[]),
    harmless("hoodie.write.lock.heartbeat_interval_ms"),
    yes("hoodie.write.lock.conflict.resolution.strategy", &[]),
    harmless("hoodie.auto.adjust.lock.configs"),
    yes("hoodie.datasource.query.type", &["hoodie.datasource.view.type"]),
    yes("as.of.instant", &[]),
    yes("hoodie.datasource.read.begin.instanttime", &[]),
    yes("hoodie.datasource.read.end.instanttime", &[]),
    yes("hoodie.datasource.query.incremental.format", &[]),
    only("hoodie.datasource.merge.type", &["payload_combine"]),
    only("hoodie.datasource.read.paths", &[""]),
    only("hoodie.datasource.read.incr.path.glob", &[""]),
    only("hoodie.datasource.read.incr.filters", &[""]),
    only("hoodie.datasource.read.schema.use.end.instanttime", &["false"]),
    only("hoodie.datasource.read.extract.partition.values.from.path", &["false"]),
    absent(
        harmless("hoodie.datasource.read.incr.fallback.fulltablescan.enable"),
        OFF,
        "an incremental read whose files were cleaned is an error, and no scan of the table. Begin later, or keep more \
         commits (hoodie.clean.commits.retained)",
    ),
    harmless("hoodie.datasource.read.incr.skip_cluster"),
    harmless("hoodie.datasource.read.incr.skip_compact"),
    harmless("hoodie.datasource.read.file.index.listing.mode"),
    yes("hoodie.enable.data.skipping", &[]),
];

const NO_INDEX: &str =
    "no write builds one. Build it with Table.index(\"expression_index\", …), which every write keeps";

/// The known key of a spelling.
pub fn find(spelling: &str) -> Option<&'static OptionKey> {
    KEYS.iter().find(|k| k.name == spelling || k.aliases.contains(&spelling))
}
