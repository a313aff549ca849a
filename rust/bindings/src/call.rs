//! Calls that may take long: they run without the GIL, and a signal whose handler raises ends them.
//!
//! Python runs the handlers of signals on its main thread only, and only between instructions. So a call on that thread
//! asks for them now and then; on other threads it just runs.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;
use std::time::Duration;

use arrow::array::{ArrayData, RecordBatch, RecordBatchReader, make_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow_pyarrow::{FromPyArrow, IntoPyArrow, ToPyArrow};
use hoodoo::interrupt::{self, Interrupt};
use hoodoo::table::LateFilter;
use hoodoo::write::CommitOutcome;
use hoodoo::{Error, Result};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::to_py;
use crate::from_python::predicate;
use crate::{logging, to_python};

/// How often a stream asks for signals. Python does so itself between two batches; this is for a batch that takes long.
const STREAM_INTERVAL: Duration = Duration::from_millis(500);

/// What a signal handler, or the source of the rows, raised.
type Raised = Arc<Mutex<Option<PyErr>>>;

fn put(raised: &Raised, e: PyErr) {
    raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(e);
}

fn take(raised: &Raised) -> Option<PyErr> {
    raised.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Runs the handlers of signals that came; whether one raised, here or in code of the user's that ran meanwhile.
fn signalled(raised: &Raised) -> bool {
    let check = |py: Python<'_>| {
        logging::hand_over(py);
        let ends = |e: &PyErr| !e.is_instance_of::<PyException>(py);
        let ended = raised.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(ends);
        py.check_signals().map_err(|e| put(raised, e)).is_err() || ended
    };
    Python::try_attach(check).unwrap_or_default()
}

thread_local! {
    /// What the call of this thread raises.
    static RAISED: RefCell<Option<Raised>> = const { RefCell::new(None) };
}

/// Keeps what code of the user's raised within a call, where it says that Python is to end, as Ctrl-C does: an error of
/// the core would lose its kind.
pub fn keep(py: Python<'_>, e: &PyErr) {
    if !e.is_instance_of::<PyException>(py) {
        RAISED.with_borrow(|raised| raised.iter().for_each(|raised| put(raised, e.clone_ref(py))));
    }
}

fn is_main_thread(py: Python<'_>) -> PyResult<bool> {
    let threading = py.import(intern!(py, "threading"))?;
    let main = threading.call_method0(intern!(py, "main_thread"))?.getattr(intern!(py, "ident"))?;
    threading.call_method0(intern!(py, "get_ident"))?.eq(main)
}

/// A call in the making.
#[derive(Default)]
pub struct Call {
    raised: Raised,
}

/// Runs `work` without the GIL.
pub fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    Call::default().run(py, work)
}

/// The same for work that commits.
pub fn commit<'py>(
    py: Python<'py>,
    work: impl FnOnce() -> Result<Option<CommitOutcome>> + Send,
) -> PyResult<Option<Bound<'py, PyDict>>> {
    Call::default().commit(py, work)
}

impl Call {
    /// The rows that the call is given. They are read on the thread that reads this, and what their source raises is raised
    /// by the call.
    pub fn rows(&self, reader: Bound<'_, PyAny>) -> PyResult<Box<dyn RecordBatchReader + Send>> {
        let schema = Schema::from_pyarrow_bound(&reader.getattr(intern!(reader.py(), "schema"))?)?;
        Ok(Box::new(Rows { reader: reader.unbind(), schema: Arc::new(schema), raised: self.raised.clone() }))
    }

    /// The filter that the call is given: a Python function from a schema to a filter in the form of the core. It is called
    /// with the GIL, and the call raises what it raises.
    pub fn filter(&self, convert: Option<Bound<'_, PyAny>>) -> Option<LateFilter> {
        let convert = self.callback(convert?);
        Some(LateFilter::new(move |columns| {
            let failed = || Error::schema("the filter does not fit the columns");
            convert.call(failed, |convert| predicate(&convert.call1((columns.to_pyarrow(convert.py())?,))?))
        }))
    }

    /// A Python function that the call is given.
    pub fn callback(&self, function: Bound<'_, PyAny>) -> Callback {
        Callback { function: function.unbind(), raised: self.raised.clone() }
    }

    /// Runs `work` without the GIL.
    pub fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
        let outcome = self.work(py, work)?;
        match take(&self.raised) {
            Some(e) => Err(e),
            None => outcome.map_err(to_py),
        }
    }

    /// Runs work that commits. An exception says so when the commit stands all the same.
    pub fn commit<'py>(
        self,
        py: Python<'py>,
        work: impl FnOnce() -> Result<Option<CommitOutcome>> + Send,
    ) -> PyResult<Option<Bound<'py, PyDict>>> {
        let outcome = self.work(py, work)?;
        let raised = take(&self.raised);
        match outcome {
            Ok(Some(done)) => {
                let commit = to_python::commit(py, &done)?;
                match raised.or_else(|| py.check_signals().err()) {
                    None => Ok(Some(commit)),
                    Some(e) => Err(committed(py, e, &commit)),
                }
            }
            Ok(None) => raised.map_or(Ok(None), Err),
            Err(e) => Err(raised.unwrap_or_else(|| to_py(e))),
        }
    }

    fn work<T: Send>(&self, py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<Result<T>> {
        logging::refresh_level(py);
        if !is_main_thread(py)? {
            let outcome = py.detach(work);
            logging::hand_over(py);
            return Ok(outcome);
        }
        let raised = self.raised.clone();
        let interrupt = Interrupt::watching(Box::new(move || signalled(&raised)), interrupt::INTERVAL);
        // A signal handler, or the source of the rows, may begin a call within this one.
        let before = RAISED.replace(Some(self.raised.clone()));
        let outcome = py.detach(|| interrupt.during(work));
        RAISED.set(before);
        logging::hand_over(py);
        Ok(outcome)
    }
}

/// A Python function that a call is given. It is called with the GIL, and the call raises what it raises.
pub struct Callback {
    function: Py<PyAny>,
    raised: Raised,
}

impl Callback {
    /// Calls the function; if it raises, the core gets `failed`.
    pub fn call<T>(
        &self,
        failed: impl FnOnce() -> Error,
        call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Result<T> {
        Python::attach(|py| {
            call(self.function.bind(py)).map_err(|e| {
                let error = failed().caused_by(e.to_string());
                put(&self.raised, e);
                error
            })
        })
    }
}

/// Says in an exception that the commit stands, and which it is.
fn committed(py: Python<'_>, raised: PyErr, commit: &Bound<'_, PyDict>) -> PyErr {
    let tell = || -> PyResult<()> {
        let commit = py.import("hoodoo.commit")?.getattr("Commit")?.call_method1("from_native", (commit,))?;
        let note = format!("the commit {} stands: its rows are in the table", commit.getattr("instant")?);
        raised.value(py).setattr("commit", commit)?;
        if let Some(add_note) = raised.value(py).getattr_opt("add_note")? {
            add_note.call1((note,))?;
        }
        Ok(())
    };
    // Of an exception that takes no attributes, what it says itself is left.
    let _ = tell();
    raised
}

/// The batches of a `pyarrow.RecordBatchReader`. Through its Python methods: a C stream makes text of an exception.
struct Rows {
    reader: Py<PyAny>,
    schema: SchemaRef,
    raised: Raised,
}

impl Iterator for Rows {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        Python::attach(|py| {
            let batch = self.reader.bind(py).call_method0(intern!(py, "read_next_batch"));
            match batch.and_then(|batch| RecordBatch::from_pyarrow_bound(&batch).or_else(|e| nullable(&batch).ok_or(e)))
            {
                Ok(batch) => Some(Ok(batch)),
                Err(e) if e.is_instance_of::<PyStopIteration>(py) => None,
                Err(e) => {
                    let text = ArrowError::CDataInterface(e.to_string());
                    if !is_of_arrow(py, &e).unwrap_or_default() {
                        put(&self.raised, e);
                    }
                    Some(Err(text))
                }
            }
        })
    }
}

/// The batch with columns that may be null: pyarrow keeps nulls in columns that say that they have none, and which column
/// that is, and whether it matters, is for the write to say.
fn nullable(batch: &Bound<'_, PyAny>) -> Option<RecordBatch> {
    let schema = Schema::from_pyarrow_bound(&batch.getattr("schema").ok()?).ok()?;
    let fields: Vec<Field> = schema.fields().iter().map(|f| f.as_ref().clone().with_nullable(true)).collect();
    let columns = batch.getattr("columns").ok()?.try_iter().ok()?;
    let columns = columns.map(|column| ArrayData::from_pyarrow_bound(&column.ok()?).ok().map(make_array));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.collect::<Option<Vec<_>>>()?).ok()
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}

fn is_of_arrow(py: Python<'_>, e: &PyErr) -> PyResult<bool> {
    e.value(py).is_instance(&py.import("pyarrow")?.getattr("ArrowException")?)
}

/// A stream for Python. On the main thread, where it is read there, a signal ends it also while it makes a batch.
pub fn stream(py: Python<'_>, stream: Box<dyn RecordBatchReader + Send>) -> PyResult<Bound<'_, PyAny>> {
    if !is_main_thread(py)? {
        return stream.into_pyarrow(py);
    }
    let raised = Raised::default();
    let watched = raised.clone();
    let interrupt = Interrupt::watching(Box::new(move || signalled(&watched)), STREAM_INTERVAL);
    let stream: Box<dyn RecordBatchReader + Send> =
        Box::new(Watched { stream, interrupt, raised, thread: std::thread::current().id() });
    stream.into_pyarrow(py)
}

struct Watched {
    stream: Box<dyn RecordBatchReader + Send>,
    interrupt: Interrupt,
    raised: Raised,
    thread: ThreadId,
}

impl Iterator for Watched {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if std::thread::current().id() != self.thread {
            return self.stream.next();
        }
        let next = self.interrupt.during(|| self.stream.next());
        match take(&self.raised) {
            None => next,
            Some(e) => Some(Err(again(&e).into())),
        }
    }
}

/// An exception cannot cross a C stream. A Ctrl-C comes again as soon as Python goes on.
fn again(raised: &PyErr) -> Error {
    Python::attach(|py| {
        if raised.is_instance_of::<PyKeyboardInterrupt>(py) {
            let _ = py.import("_thread").and_then(|thread| thread.call_method0("interrupt_main"));
        }
    });
    Error::interrupted("reading was interrupted").caused_by(raised.to_string())
}

impl RecordBatchReader for Watched {
    fn schema(&self) -> SchemaRef {
        self.stream.schema()
    }
}
