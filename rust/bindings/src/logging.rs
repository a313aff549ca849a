//! What the core logs goes to Python's `logging`, to the logger `hoodoo`.
//!
//! A thread of the core must not wait for the GIL: who has it may wait for that thread. So records are queued, and the call
//! that Python made hands them over: now and then while it runs on the main thread, and when it ends.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use hoodoo::visible::visible;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record as Values};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};

/// More records are not kept between two calls; the oldest are dropped.
const MOST_RECORDS: usize = 10_000;
/// The crate whose events are handed over.
const CRATE: &str = "hoodoo";

/// The least important level that the Python logger takes, in Python's numbers.
static LEVEL: AtomicU32 = AtomicU32::new(30);
static STATE: Mutex<State> = Mutex::new(State { records: VecDeque::new(), spans: None });

struct State {
    records: VecDeque<Record>,
    /// Spans that are open.
    spans: Option<HashMap<u64, Span>>,
}

struct Record {
    level: u32,
    message: String,
    at: SystemTime,
}

struct Span {
    message: String,
    begun: Instant,
    handles: usize,
}

thread_local! {
    static HELD: RefCell<Option<MutexGuard<'static, State>>> = const { RefCell::new(None) };
}

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn push(&mut self, level: u32, message: String) {
        if self.records.len() >= MOST_RECORDS {
            self.records.pop_front();
        }
        self.records.push_back(Record { level, message, at: SystemTime::now() });
    }
}

/// To be called around a fork: a child has only the thread that forked, and could wait for ever for a lock of another.
pub fn before_fork() {
    // Fails in a thread that ends: none that forks.
    let _ = HELD.try_with(|held| held.replace(Some(state())));
}

/// See [`before_fork`].
pub fn after_fork() {
    let _ = HELD.try_with(RefCell::take);
}

fn level_of(level: Level) -> u32 {
    match level {
        Level::ERROR => 40,
        Level::WARN => 30,
        Level::INFO => 20,
        Level::DEBUG => 10,
        Level::TRACE => 5,
    }
}

struct Bridge {
    next: AtomicU64,
}

impl Subscriber for Bridge {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // The level of the Python logger may change at any time.
        if metadata.target().starts_with(CRATE) { Interest::sometimes() } else { Interest::never() }
    }

    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // A span is logged when it closes, and that is a detail.
        let level = if metadata.is_span() { Level::DEBUG } else { *metadata.level() };
        level_of(level) >= LEVEL.load(Ordering::Relaxed)
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let mut message = MessageWriter { message: span.metadata().name().to_owned(), fields: String::new() };
        span.record(&mut message);
        let span = Span { message: message.finish(), begun: Instant::now(), handles: 1 };
        state().spans.get_or_insert_default().insert(id, span);
        Id::from_u64(id)
    }

    fn record(&self, id: &Id, values: &Values<'_>) {
        if let Some(span) = state().spans.as_mut().and_then(|spans| spans.get_mut(&id.into_u64())) {
            let mut message = MessageWriter { message: std::mem::take(&mut span.message), fields: String::new() };
            values.record(&mut message);
            span.message = message.finish();
        }
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = MessageWriter::default();
        event.record(&mut message);
        state().push(level_of(*event.metadata().level()), message.finish());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}

    fn clone_span(&self, id: &Id) -> Id {
        if let Some(span) = state().spans.as_mut().and_then(|spans| spans.get_mut(&id.into_u64())) {
            span.handles += 1;
        }
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let mut state = state();
        let Some(spans) = &mut state.spans else { return false };
        let Some(span) = spans.get_mut(&id.into_u64()) else { return false };
        span.handles -= 1;
        if span.handles > 0 {
            return false;
        }
        if let Some(Span { message, begun, .. }) = spans.remove(&id.into_u64()) {
            let message = format!("{message} took {:.3} s", begun.elapsed().as_secs_f64());
            state.push(level_of(Level::DEBUG), message);
        }
        true
    }
}

/// A message with its fields behind.
#[derive(Default)]
struct MessageWriter {
    message: String,
    fields: String,
}

impl MessageWriter {
    fn finish(self) -> String {
        let whole = if self.fields.is_empty() { self.message } else { format!("{} [{}]", self.message, self.fields) };
        visible(&whole, false).into_owned()
    }
}

impl Visit for MessageWriter {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let written = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => {
                let comma = if self.fields.is_empty() { "" } else { ", " };
                write!(self.fields, "{comma}{name}={value:?}")
            }
        };
        // Writing to a string does not fail.
        let _ = written;
    }
}

fn logger(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    py.import(intern!(py, "logging"))?.call_method1(intern!(py, "getLogger"), (CRATE,))
}

/// Asks the Python logger which levels it takes.
pub fn refresh_level(py: Python<'_>) {
    let asked = logger(py).and_then(|logger| logger.call_method0(intern!(py, "getEffectiveLevel"))?.extract::<u32>());
    if let Ok(level) = asked {
        LEVEL.store(level, Ordering::Relaxed);
    }
}

/// Hands queued records over to the Python logger.
pub fn hand_over(py: Python<'_>) {
    // The lock is given back before Python code runs: that may log by another call.
    let records = std::mem::take(&mut state().records);
    if records.is_empty() {
        return;
    }
    let handed = logger(py).and_then(|logger| records.iter().try_for_each(|record| handle(py, &logger, record)));
    if let Err(e) = handed {
        e.write_unraisable(py, None);
    }
}

fn handle(py: Python<'_>, logger: &Bound<'_, PyAny>, record: &Record) -> PyResult<()> {
    if !logger.call_method1(intern!(py, "isEnabledFor"), (record.level,))?.is_truthy()? {
        return Ok(());
    }
    let logging = py.import(intern!(py, "logging"))?;
    let given = PyDict::new(py);
    given.set_item("name", CRATE)?;
    given.set_item("msg", &record.message)?;
    given.set_item("levelno", record.level)?;
    given.set_item("levelname", logging.call_method1(intern!(py, "getLevelName"), (record.level,))?)?;
    given.set_item("created", record.at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())?;
    let made = logging.call_method1(intern!(py, "makeLogRecord"), (given,))?;
    logger.call_method1(intern!(py, "handle"), (made,)).map(|_| ())
}

/// Has the core log to Python.
pub fn register() {
    // Fails where there is a subscriber already: then that one has the events.
    let _ = tracing::subscriber::set_global_default(Bridge { next: AtomicU64::new(1) });
}
