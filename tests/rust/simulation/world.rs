//! The scheduler: one thread of all actors runs at a time, and who is next is drawn with the seed.
//!
//! Whatever an actor waits for is an entry: a request, a pause, a timer. The thread that ran last draws the next entry
//! and wakes its thread. Time goes on with each request, and jumps when everybody waits for it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::model::Model;
use super::scenario::{Fault, FaultKind, Op, Scenario};
use crate::hooked_store::Request;

/// 2027-01-15, in milliseconds.
pub const BEGIN_MS: i64 = 1_800_000_000_000;
/// Steps after which a run has hung.
const MOST_STEPS: usize = 40_000;

pub struct World {
    state: Mutex<State>,
    ended: Condvar,
}

pub struct State {
    pub now: i64,
    random: StdRng,
    burst: f64,
    /// When each object was written last.
    pub modified: HashMap<String, i64>,
    waiting: BTreeMap<u64, Waiting>,
    next: u64,
    pub actors: Vec<Actor>,
    last: usize,
    waited_for: usize,
    over: bool,
    pub steps: Vec<Step>,
    pub model: Model,
    pub failure: Option<Failure>,
}

/// What must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Which property is violated.
    pub kind: &'static str,
    pub text: String,
}

#[derive(Default)]
pub struct Actor {
    pub dead: bool,
    pub finished: bool,
    /// Whether something was done to it during its current operation.
    pub disturbed: bool,
    pub op: Option<(usize, Op)>,
    /// How many versions of the table there were when its operation began.
    pub first: usize,
    stalled_until: i64,
    /// Requests so far, and those under the lock.
    requests: [usize; 2],
    faults: Vec<Fault>,
    busy_timer: Option<u64>,
    timers_ended: bool,
    pub holds_lock: bool,
    pub sends_twice: bool,
}

struct Waiting {
    actor: usize,
    what: What,
    due: i64,
    granted: bool,
    /// The timer whose thread waits.
    timer: Option<u64>,
    wake: Arc<Condvar>,
}

#[derive(PartialEq, Eq)]
enum What {
    Begin,
    Request { is_lock: bool },
    Pause,
    Timer,
}

/// A request that was let through.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    pub now: i64,
    pub actor: usize,
    pub op: usize,
    pub request: &'static str,
    pub path: String,
    pub outcome: String,
}

/// What happens to a request that was let through.
pub type Granted = Result<Option<FaultKind>, object_store::Error>;

thread_local! {
    static TIMER: std::cell::Cell<Option<u64>> = const { std::cell::Cell::new(None) };
}

pub fn gone() -> object_store::Error {
    object_store::Error::Generic { store: "simulated", source: "the process has ended".into() }
}

impl World {
    pub fn new(scenario: &Scenario) -> Self {
        let faults = |actor: usize| scenario.faults.iter().filter(|f| f.actor == actor).cloned().collect();
        let actors = (0..scenario.actors.len()).map(|a| Actor { faults: faults(a), ..Actor::default() }).collect();
        let state = State {
            now: BEGIN_MS,
            random: StdRng::seed_from_u64(scenario.schedule),
            burst: scenario.burst,
            modified: HashMap::new(),
            waiting: BTreeMap::new(),
            next: scenario.actors.len() as u64,
            actors,
            last: 0,
            waited_for: scenario.actors.len(),
            over: false,
            steps: Vec::new(),
            model: Model::default(),
            failure: None,
        };
        Self { state: Mutex::new(state), ended: Condvar::new() }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub fn now(&self) -> i64 {
        self.state().now
    }

    pub fn is_over(&self) -> bool {
        self.state().over
    }

    /// Waits until the first step of an actor.
    pub fn begin(&self, actor: usize) {
        let mut state = self.state();
        // In the order of the actors, and not in that in which their threads began.
        let id = actor as u64;
        state.insert_as(id, actor, What::Begin, 0);
        state.waited_for -= 1;
        if state.waited_for == 0 {
            self.go_on(&mut state);
        }
        drop(self.wait(state, id));
    }

    /// The actor has nothing more to do.
    pub fn end(&self, actor: usize) {
        let mut state = self.state();
        state.actors[actor].finished = true;
        self.go_on(&mut state);
    }

    /// Waits until the request is let through.
    pub fn request(&self, actor: usize, request: Request, path: &str) -> Granted {
        let mut state = self.state();
        if state.over {
            return Err(gone());
        }
        let of = &mut state.actors[actor];
        let numbers = of.requests;
        of.requests[0] += 1;
        of.requests[1] += usize::from(of.holds_lock);
        let hits = |f: &&Fault| f.at == numbers[usize::from(f.is_locked)] && (!f.is_locked || of.holds_lock);
        let fault = of.faults.iter().find(hits).map(|f| f.kind);
        let fault = fault.and_then(|fault| state.strike(actor, fault, request, path));
        let late = if let Some(FaultKind::LateThenDeath(ms)) = fault { ms } else { 0 };
        let due = state.now + late;
        let is_lock = path.ends_with("/table_lock.json");
        let id = state.insert(actor, What::Request { is_lock }, due);
        self.go_on(&mut state);
        let (mut state, let_through) = self.wait(state, id);
        if !let_through {
            return Err(gone());
        }
        if fault == Some(FaultKind::Death) {
            state.note(actor, request, path, "never sent: the process ends".to_owned());
            self.die(state, actor);
            return Err(gone());
        }
        Ok(fault)
    }

    /// Ends the process of an actor: this thread waits until the end of the run.
    pub fn die(&self, mut state: MutexGuard<'_, State>, actor: usize) {
        state.actors[actor].dead = true;
        self.go_on(&mut state);
        while !state.over {
            state = self.ended.wait(state).unwrap();
        }
    }

    pub fn pause(&self, actor: usize, ms: i64) {
        let mut state = self.state();
        if state.over {
            state.now += ms.max(1);
            return;
        }
        let due = state.now + ms;
        let id = state.insert(actor, What::Pause, due);
        self.go_on(&mut state);
        drop(self.wait(state, id));
    }

    pub fn add_timer(&self, actor: usize, every: i64) -> u64 {
        let mut state = self.state();
        let due = state.now + every;
        state.insert(actor, What::Timer, due)
    }

    /// Waits for a timer; false when it has stopped.
    pub fn wait_for_timer(&self, id: u64) -> bool {
        let state = self.state();
        state.waiting.contains_key(&id) && self.wait(state, id).1
    }

    /// Runs the work of a timer that was waited for.
    pub fn run_timer(&self, id: u64, work: &mut dyn FnMut() -> bool) -> bool {
        TIMER.set(Some(id));
        let goes_on = work();
        TIMER.set(None);
        goes_on
    }

    /// The work of a timer is done; the timer begins anew with this interval.
    pub fn timer_done(&self, actor: usize, id: u64, again: Option<i64>) {
        let mut state = self.state();
        state.actors[actor].busy_timer = None;
        if let Some(every) = again {
            let due = state.now + every;
            state.insert_as(id, actor, What::Timer, due);
        }
        self.go_on(&mut state);
    }

    pub fn stop_timer(&self, id: u64) {
        let mut state = self.state();
        if let Some(waiting) = state.waiting.remove(&id) {
            waiting.wake.notify_all();
        }
    }

    /// Waits until nobody has anything to do, then lets all threads end.
    pub fn finish(&self) {
        let mut state = self.state();
        while !state.over {
            state = self.ended.wait(state).unwrap();
        }
        state.waiting.values().for_each(|w| w.wake.notify_all());
    }

    fn wait<'a>(&self, mut state: MutexGuard<'a, State>, id: u64) -> (MutexGuard<'a, State>, bool) {
        loop {
            let Some(waiting) = state.waiting.get(&id) else { return (state, false) };
            if waiting.granted || state.over {
                let granted = waiting.granted && !state.over;
                state.waiting.remove(&id);
                return (state, granted);
            }
            let wake = waiting.wake.clone();
            state = wake.wait(state).unwrap();
        }
    }

    /// Draws who is next.
    fn go_on(&self, state: &mut State) {
        if state.over {
            return;
        }
        let next = if state.failure.is_none() && state.steps.len() < MOST_STEPS { state.draw() } else { None };
        match next {
            Some(id) => {
                let waiting = state.waiting.get_mut(&id).unwrap();
                waiting.granted = true;
                waiting.wake.notify_all();
            }
            None => {
                if state.steps.len() >= MOST_STEPS {
                    state.fail("no end", format!("the run has no end: {MOST_STEPS} steps"));
                }
                state.over = true;
                state.waiting.values().for_each(|w| w.wake.notify_all());
                self.ended.notify_all();
            }
        }
    }
}

impl State {
    pub fn fail(&mut self, kind: &'static str, text: String) {
        self.failure.get_or_insert(Failure { kind, text });
    }

    fn insert(&mut self, actor: usize, what: What, due: i64) -> u64 {
        self.next += 1;
        self.insert_as(self.next, actor, what, due);
        self.next
    }

    fn insert_as(&mut self, id: u64, actor: usize, what: What, due: i64) {
        let waiting = Waiting { actor, what, due, granted: false, timer: TIMER.get(), wake: Arc::default() };
        self.waiting.insert(id, waiting);
    }

    /// What a fault means for the request that comes next.
    fn strike(&mut self, actor: usize, fault: FaultKind, request: Request, path: &str) -> Option<FaultKind> {
        let now = self.now;
        let of = &mut self.actors[actor];
        // That the client of the store sends a request again must not be noticed.
        of.disturbed |= fault != FaultKind::Twice;
        match fault {
            // A process that stands still behind its last look at the lock, for longer than its lease, is beyond what a
            // lease can exclude; so is a request that the store carries out that late.
            FaultKind::Stall(ms) => {
                let changes = !matches!(request, Request::Get | Request::List);
                let longest = if of.holds_lock && changes { ms.min(3_000) } else { ms };
                of.stalled_until = now + longest;
                self.note(actor, request, path, format!("stands still for {longest} ms before it"));
                None
            }
            FaultKind::LateThenDeath(_) => {
                of.timers_ended = true;
                Some(fault)
            }
            other => {
                of.sends_twice = other == FaultKind::Twice;
                Some(other)
            }
        }
    }

    /// An operation of an actor has ended.
    pub fn ended(&mut self, actor: usize, outcome: String) {
        let op = self.actors[actor].op.as_ref().map_or(0, |(number, _)| *number);
        let now = self.now - BEGIN_MS;
        self.steps.push(Step { now, actor, op, request: "answer", path: String::new(), outcome });
    }

    pub fn note(&mut self, actor: usize, request: Request, path: &str, outcome: String) {
        let request = match request {
            Request::Put => "put",
            Request::Get => "get",
            Request::List => "list",
            Request::Delete => "delete",
        };
        let op = self.actors[actor].op.as_ref().map_or(0, |(number, _)| *number);
        let path = path.strip_prefix("small/").unwrap_or(path).to_owned();
        self.steps.push(Step { now: self.now - BEGIN_MS, actor, op, request, path, outcome });
    }

    /// Whether an entry may be next, but for the time.
    fn may_go_on(&self, waiting: &Waiting) -> bool {
        let actor = &self.actors[waiting.actor];
        let is_timer = waiting.what == What::Timer;
        if waiting.granted || actor.dead || (is_timer && (actor.timers_ended || actor.finished)) {
            return false;
        }
        if let Some(timer) = actor.busy_timer {
            return waiting.timer == Some(timer);
        }
        // The thread of a timer would wait for the mutex of the lease.
        let asks_for_lock = |w: &Waiting| w.actor == waiting.actor && w.what == What::Request { is_lock: true };
        !is_timer || !self.waiting.values().any(asks_for_lock)
    }

    fn due(&self, waiting: &Waiting) -> i64 {
        waiting.due.max(self.actors[waiting.actor].stalled_until)
    }

    fn draw(&mut self) -> Option<u64> {
        // Timers alone keep nothing going.
        let counts = |w: &Waiting| w.what != What::Timer && self.may_go_on(w);
        if !self.waiting.values().any(counts) {
            return None;
        }
        let possible: Vec<_> = self.waiting.iter().filter(|(_, w)| self.may_go_on(w)).collect();
        let first = possible.iter().map(|(_, w)| self.due(w)).min()?;
        self.now = self.now.max(first);
        let ready = possible.iter().filter(|(_, w)| self.due(w) <= self.now).map(|(id, w)| (**id, w.actor));
        let ready: Vec<_> = ready.collect();
        let of_last: Vec<_> = ready.iter().filter(|(_, actor)| *actor == self.last).copied().collect();
        let among = if !of_last.is_empty() && self.random.random_bool(self.burst) { of_last } else { ready };
        let (id, actor) = among[self.random.random_range(0..among.len())];
        self.last = actor;
        match self.waiting[&id].what {
            What::Timer => self.actors[actor].busy_timer = Some(id),
            What::Request { .. } => self.now += self.random.random_range(1..20),
            _ => {}
        }
        Some(id)
    }
}
