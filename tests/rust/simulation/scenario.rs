//! What a seed stands for: a table, what each actor does, what goes wrong, and the seed of the schedule.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

#[derive(Debug, Clone)]
pub struct Scenario {
    pub options: Vec<(String, String)>,
    pub actors: Vec<ActorPlan>,
    pub faults: Vec<Fault>,
    /// Draws who is next.
    pub schedule: u64,
    /// How likely it is that the same actor goes on.
    pub burst: f64,
}

#[derive(Debug, Clone)]
pub struct ActorPlan {
    pub skew_ms: i64,
    /// Operations, each after a pause in milliseconds.
    pub ops: Vec<(i64, Op)>,
    /// Whether each operation opens the table anew.
    pub opens_anew: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Keys with their ordering values.
    Upsert(Vec<(String, i64)>),
    Delete(Vec<String>),
    Read,
    Compact,
    ScheduleCompaction,
    LogCompact,
    Cluster,
    Clean,
}

impl Op {
    pub fn is_write(&self) -> bool {
        matches!(self, Self::Upsert(_) | Self::Delete(_))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub actor: usize,
    /// Which request of the actor it hits.
    pub at: usize,
    /// Whether only requests count for which the actor holds the table lock.
    pub is_locked: bool,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// The request is not carried out.
    Error,
    /// The request is carried out, and its answer is lost.
    LostAnswer,
    /// The client of the store sends the request twice.
    Twice,
    /// The process ends before the request.
    Death,
    /// The process ends behind the request.
    DeathAfter,
    /// The process ends, and the request is carried out later.
    LateThenDeath(i64),
    /// The process stands still for some milliseconds before the request.
    Stall(i64),
}

const KEYS: usize = 6;
/// A standstill from which on heartbeats expire.
const LONG_MS: i64 = 150_000;

pub fn key(number: usize) -> String {
    format!("k{number}")
}

/// The partition of a key.
pub fn partition(key: &str) -> &'static str {
    if key.ends_with(['0', '2', '4']) { "p0" } else { "p1" }
}

/// What the operations of a scenario are drawn from.
#[derive(Debug, Clone, Copy)]
struct Kind {
    is_merge_on_read: bool,
    /// Whether rows are deleted. Then all ordering values are equal: a delete in a log is forgotten as soon as a record
    /// follows it, so that an older row in the base file with a larger ordering value comes back (`docs/concepts.md`).
    deletes: bool,
}

impl Scenario {
    pub fn of(seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let random = &mut random;
        let is_merge_on_read = random.random_bool(0.6);
        let kind = Kind { is_merge_on_read, deletes: random.random_bool(0.4) };
        let count = random.random_range(2..=4);
        let mut actors: Vec<_> = (0..count).map(|_| ActorPlan::draw(random, kind)).collect();
        // One writes in any case.
        actors[0].ops[0].1 = Op::upsert(random, kind);
        let faults: Vec<_> = (0..random.random_range(0..=3)).map(|_| Fault::draw(random, count)).collect();
        for fault in &faults {
            // Somebody finds out that the heartbeat has expired.
            if let FaultKind::Stall(ms) = fault.kind
                && ms >= LONG_MS
            {
                let compacts = is_merge_on_read && random.random_bool(0.3);
                let op = if compacts { Op::Compact } else { Op::upsert(random, kind) };
                // Often when the other one is about to go on.
                let pause = if random.random_bool(0.5) { ms } else { LONG_MS };
                actors[(fault.actor + 1) % count].ops.push((pause - random.random_range(0..2_500), op));
            }
        }
        let burst = *[0.0, 0.5, 0.9, 0.97].choose(random).unwrap();
        Self { options: options(random, is_merge_on_read), actors, faults, schedule: random.random(), burst }
    }
}

fn options(random: &mut StdRng, is_merge_on_read: bool) -> Vec<(String, String)> {
    let mut options: Vec<(&str, &str)> = Vec::new();
    options.push(("hoodie.table.type", if is_merge_on_read { "MERGE_ON_READ" } else { "COPY_ON_WRITE" }));
    options.push(("hoodie.metadata.enable", if random.random_bool(0.4) { "true" } else { "false" }));
    options.push(("hoodie.metadata.compact.max.delta.commits", "2"));
    options.push(("hoodie.parquet.small.file.limit", if random.random_bool(0.5) { "0" } else { "1000000" }));
    options.push(("hoodie.compact.inline", if random.random_bool(0.3) { "true" } else { "false" }));
    options.push(("hoodie.compact.inline.max.delta.commits", "2"));
    options.push(("hoodie.log.compaction.blocks.threshold", "2"));
    options.push(("hoodie.clean.commits.retained", if random.random_bool(0.5) { "1" } else { "3" }));
    options.push(("hoodie.clean.automatic", if random.random_bool(0.7) { "true" } else { "false" }));
    if random.random_bool(0.5) {
        options.push(("hoodie.keep.min.commits", "4"));
        options.push(("hoodie.keep.max.commits", "5"));
    }
    if random.random_bool(0.3) {
        let provider = "org.apache.hudi.client.transaction.lock.StorageBasedLockProvider";
        options.push(("hoodie.write.lock.provider", provider));
    }
    options.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

impl ActorPlan {
    fn draw(random: &mut StdRng, kind: Kind) -> Self {
        let count = random.random_range(1..=4);
        let reads = random.random_bool(0.2);
        let op = |random: &mut StdRng| {
            // Mostly at once, so that they meet; sometimes when a heartbeat has expired.
            let pause = match random.random_range(0..10) {
                0 => random.random_range(60_000..400_000),
                1..4 => random.random_range(0..3_000),
                _ => 0,
            };
            (pause, if reads { Op::Read } else { Op::draw(random, kind) })
        };
        let ops = (0..count).map(|_| op(random)).collect();
        Self { skew_ms: random.random_range(-90..=90), ops, opens_anew: random.random_bool(0.3) }
    }
}

impl Op {
    fn upsert(random: &mut StdRng, kind: Kind) -> Self {
        let count = random.random_range(1..=3);
        let ts = |random: &mut StdRng| if kind.deletes { 1 } else { random.random_range(1..1000) };
        let mut rows: Vec<_> = (0..count).map(|_| (key(random.random_range(0..KEYS)), ts(random))).collect();
        rows.sort();
        rows.dedup_by(|a, b| a.0 == b.0);
        Self::Upsert(rows)
    }

    fn draw(random: &mut StdRng, kind: Kind) -> Self {
        match random.random_range(0..20) {
            11..13 if kind.deletes => Self::Delete(vec![key(random.random_range(0..KEYS))]),
            0..13 => Self::upsert(random, kind),
            13..15 => Self::Read,
            15 | 16 if kind.is_merge_on_read => Self::Compact,
            17 if kind.is_merge_on_read => [Self::ScheduleCompaction, Self::LogCompact].choose(random).unwrap().clone(),
            15..18 => Self::Cluster,
            18 => Self::Clean,
            _ => Self::Read,
        }
    }
}

impl Fault {
    fn draw(random: &mut StdRng, actors: usize) -> Self {
        let kind = match random.random_range(0..14) {
            0 => FaultKind::Error,
            1..4 => FaultKind::LostAnswer,
            4 => FaultKind::Twice,
            5..7 => FaultKind::Death,
            7..9 => FaultKind::DeathAfter,
            9 => FaultKind::LateThenDeath(random.random_range(0..3_000)),
            10 => FaultKind::Stall(random.random_range(10..5_000)),
            _ => FaultKind::Stall(random.random_range(LONG_MS..400_000)),
        };
        let is_locked = random.random_bool(0.4);
        let at = random.random_range(0..if is_locked { 50 } else { 150 });
        Self { actor: random.random_range(0..actors), at, is_locked, kind }
    }
}
