//! Locks of services, by their clients in Python: see `hoodoo.locks`.

use std::sync::Arc;

use hoodoo::error::{Error, ErrorKind, Result};
use hoodoo::timeline::{ExternalLease, ExternalLock, ExternalLockRequest, register_external_locks};
use pyo3::prelude::*;

use crate::call::keep;
use crate::error::from_py;

/// Says that these locks are opened by the Python package.
pub fn register() {
    register_external_locks(|request: &ExternalLockRequest| {
        Python::attach(|py| {
            let module = py.import("hoodoo.locks")?;
            let lock = module.call_method1("open_lock", (request.class, request.settings.clone(), &request.uri))?;
            let place = lock.getattr("place")?.extract()?;
            Ok(Arc::new(PythonLock { lock: lock.unbind(), place }) as Arc<dyn ExternalLock>)
        })
        .map_err(failed)
    });
}

/// An error of the package keeps its kind; a client that fails in another way may succeed later, unless it was a signal that
/// ended it.
fn failed(e: PyErr) -> Error {
    Python::attach(|py| keep(py, &e));
    from_py(e, "the lock service failed")
}

struct PythonLock {
    lock: Py<PyAny>,
    place: String,
}

impl ExternalLock for PythonLock {
    fn try_acquire(&self, owner: &str) -> Result<Option<Box<dyn ExternalLease>>> {
        let lease = Python::attach(|py| {
            let lease = self.lock.bind(py).call_method1("try_acquire", (owner,))?;
            Ok((!lease.is_none()).then(|| lease.unbind()))
        });
        Ok(lease.map_err(failed)?.map(|lease| Box::new(PythonLease(lease)) as Box<dyn ExternalLease>))
    }

    fn place(&self) -> String {
        self.place.clone()
    }
}

struct PythonLease(Py<PyAny>);

impl PythonLease {
    fn ask(&self, question: &str) -> Result<bool> {
        Python::attach(|py| self.0.bind(py).call_method0(question)?.extract()).map_err(failed)
    }
}

impl ExternalLease for PythonLease {
    fn is_held(&self) -> bool {
        // After a signal the call ends at its next step, and gives back the lock, which it has not lost.
        self.ask("is_held").unwrap_or_else(|e| e.kind() == ErrorKind::Interrupted)
    }

    fn is_confirmed(&self) -> Result<bool> {
        self.ask("is_confirmed")
    }

    fn release(&mut self) -> Result<()> {
        Python::attach(|py| self.0.bind(py).call_method0("release").map(|_| ())).map_err(failed)
    }
}
