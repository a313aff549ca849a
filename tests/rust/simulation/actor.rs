//! What an actor does, and what has to be true of each operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use hoodoo::client;
use hoodoo::simulated::SimulatedProcess;
use hoodoo::storage::Storage;
use hoodoo::table::HudiTable;
use hoodoo::table::scan::ScanRequest;
use hoodoo::write::Operation;
use hoodoo::{ErrorKind, Result};
use object_store::memory::InMemory;

use super::clock::ActorClock;
use super::model::{Rows, value};
use super::scenario::{ActorPlan, Op, Scenario, partition};
use super::store::ActorStore;
use super::world::World;
use crate::small_table::{create_with, open_with, schema, write_batch};

/// The objects of a run, and how processes reach them.
#[derive(Clone)]
pub struct Site {
    pub world: Arc<World>,
    pub objects: Arc<InMemory>,
    options: Vec<(String, String)>,
    /// Of its simulated processes.
    first_number: u32,
    seed: u64,
    /// The process of those that look on.
    onlooker: SimulatedProcess,
    is_calm: bool,
}

impl Site {
    pub fn new(scenario: &Scenario, first_number: u32) -> Self {
        let world = Arc::new(World::new(scenario));
        let options = scenario.options.clone();
        let (seed, onlooker) = (scenario.schedule, SimulatedProcess::new(first_number, scenario.schedule));
        let is_calm = scenario.faults.is_empty();
        Self { world, objects: Arc::default(), options, first_number, seed, onlooker, is_calm }
    }

    fn storage(&self, actor: Option<usize>) -> Storage {
        let store = ActorStore::new(&self.world, &self.objects, actor);
        Storage::from_store(store, "small", "memory://simulation/small").unwrap().as_remote()
    }

    fn process(&self, actor: usize) -> SimulatedProcess {
        let number = u32::try_from(actor + 1).unwrap();
        SimulatedProcess::new(self.first_number + number, self.seed.wrapping_add(u64::from(number)))
    }

    /// Whether no fault hits anybody.
    pub fn is_calm(&self) -> bool {
        self.is_calm
    }

    /// Does something that is not scheduled.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        self.onlooker.during(work)
    }

    fn open(&self, actor: Option<usize>, skew_ms: i64) -> Result<HudiTable> {
        open_with(self.storage(actor), ActorClock::new(&self.world, actor, skew_ms), &self.options)
    }

    pub fn create(&self) {
        let clock = ActorClock::new(&self.world, None, 0);
        self.aside(|| create_with(self.storage(None), clock, &self.options)).unwrap();
    }

    /// Opens the table as one who looks on.
    pub fn look(&self) -> HudiTable {
        self.open(None, 0).unwrap()
    }

    /// Compares the table with the model.
    pub fn compare(&self, when: &str) {
        let seen = self.aside(|| self.open(None, 0).and_then(|table| read(&table)));
        let mut state = self.world.state();
        match seen {
            Err(e) => state.fail("error", format!("{when}, the table cannot be read: {e}")),
            Ok(Err(doubled)) => state.fail("doubled key", format!("{when}, {doubled}")),
            Ok(Ok(seen)) if state.model.now().contains(&seen) => state.model.seen(&seen),
            Ok(Ok(seen)) => {
                let expected = state.model.now();
                state.fail("rows", format!("{when}, readers see {seen:?}, and not one of {expected:?}"));
            }
        }
    }
}

/// The rows of a table; an error for a key that is there twice.
pub fn read(table: &HudiTable) -> Result<std::result::Result<Rows, String>> {
    let mut rows = BTreeMap::new();
    for batch in table.scan(&ScanRequest::default())? {
        let batch = batch?;
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>().clone();
        let (ids, values) = (text("id"), text("val"));
        let times = batch.column_by_name("ts").unwrap().as_primitive::<Int64Type>().clone();
        for row in 0..ids.len() {
            let value = (times.value(row), values.value(row).to_owned());
            if let Some(other) = rows.insert(ids.value(row).to_owned(), value) {
                return Ok(Err(format!(
                    "key {} is there twice: {other:?} and {:?}",
                    ids.value(row),
                    rows[ids.value(row)]
                )));
            }
        }
    }
    Ok(Ok(rows))
}

pub fn rows(keys: &[(String, i64)], value: &str) -> RecordBatch {
    let text = |value: &dyn Fn(&str) -> String| {
        Arc::new(StringArray::from_iter_values(keys.iter().map(|(key, _)| value(key)))) as Arc<dyn Array>
    };
    let times = Arc::new(Int64Array::from_iter_values(keys.iter().map(|(_, ts)| *ts)));
    let (ids, parts) = (text(&str::to_owned), text(&|key| partition(key).to_owned()));
    RecordBatch::try_new(schema(), vec![ids, times, parts, text(&|_| value.to_owned())]).unwrap()
}

/// What became of an operation.
enum Done {
    Committed,
    Read(std::result::Result<Rows, String>),
    Served,
}

fn carry_out(table: &HudiTable, actor: usize, number: usize, op: &Op) -> Result<Done> {
    let value = value(actor, number);
    match op {
        Op::Upsert(keys) => write_batch(table, Operation::Upsert, rows(keys, &value)).map(|_| Done::Committed),
        Op::Delete(keys) => {
            let keys: Vec<_> = keys.iter().map(|key| (key.clone(), 0)).collect();
            write_batch(table, Operation::Delete, rows(&keys, &value)).map(|_| Done::Committed)
        }
        Op::Read => read(table).map(Done::Read),
        Op::Compact => client::compact(table, None).map(|_| Done::Served),
        Op::ScheduleCompaction => client::schedule_compaction(table).map(|_| Done::Served),
        Op::LogCompact => client::log_compact(table).map(|_| Done::Served),
        Op::Cluster => client::cluster(table, None, true).map(|_| Done::Served),
        Op::Clean => client::clean(table).map(|_| Done::Served),
    }
}

/// Runs all operations of an actor.
pub fn run(site: &Site, actor: usize, plan: &ActorPlan) {
    site.world.begin(actor);
    let all = || site.process(actor).during(|| run_all(site, actor, plan));
    if let Err(panic) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(all)) {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        site.world.state().fail("panic", format!("actor {actor} panicked: {}", text.unwrap_or_default()));
    }
    site.world.end(actor);
}

fn run_all(site: &Site, actor: usize, plan: &ActorPlan) {
    {
        let mut opened = None;
        for (number, (pause, op)) in plan.ops.iter().enumerate() {
            if *pause > 0 {
                site.world.pause(actor, *pause);
            }
            {
                let mut state = site.world.state();
                let first = state.model.versions.len();
                let of = &mut state.actors[actor];
                (of.op, of.disturbed, of.first) = (Some((number, op.clone())), false, first);
            }
            let table = match opened.take().filter(|_| !plan.opens_anew) {
                Some(table) => Ok(table),
                None => site.open(Some(actor), plan.skew_ms),
            };
            let done = table.and_then(|table| {
                let done = carry_out(&table, actor, number, op);
                opened = Some(table);
                done
            });
            if site.world.is_over() {
                break;
            }
            judge(site, (actor, number), op, done);
        }
    }
}

/// Whether an operation may end like this.
fn judge(site: &Site, (actor, number): (usize, usize), op: &Op, done: Result<Done>) {
    {
        let mut state = site.world.state();
        let is_published = state.model.commits.iter().any(|(_, a, o)| (*a, *o) == (actor, number));
        let is_disturbed = state.actors[actor].disturbed;
        let what = format!("actor {actor}, operation {number} ({op:?})");
        let problem = match &done {
            Ok(Done::Committed) if !is_published => {
                Some(("acknowledged", "was acknowledged and is not published".to_owned()))
            }
            Ok(Done::Read(Err(doubled))) => Some(("doubled key", doubled.clone())),
            Ok(Done::Read(Ok(seen))) => {
                let possible = state.model.since(state.actors[actor].first);
                (!possible.contains(seen)).then(|| ("read", format!("read {seen:?}: none of {possible:?}")))
            }
            Ok(_) => None,
            Err(e) if is_published && !is_disturbed => Some(("acknowledged", format!("is published and failed: {e}"))),
            Err(e) => match e.kind() {
                ErrorKind::Conflict | ErrorKind::Lock => None,
                // What was cleaned while it was read.
                ErrorKind::NotFound if !op.is_write() => None,
                ErrorKind::Storage if is_disturbed => None,
                _ => Some(("error", format!("failed: {e:?}"))),
            },
        };
        let outcome = match &done {
            Ok(_) => "ok".to_owned(),
            Err(e) => e.to_string(),
        };
        state.ended(actor, outcome);
        if let Some((kind, problem)) = problem {
            state.fail(kind, format!("{what} {problem}"));
        }
    }
    if *op != Op::Read {
        site.compare(&format!("behind operation {number} of actor {actor}"));
    }
}
