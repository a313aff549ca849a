//! What is done around a fork of this process.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::logging;

#[pyfunction]
fn before_fork() {
    hoodoo::fork::before();
    logging::before_fork();
}

#[pyfunction]
fn after_fork() {
    logging::after_fork();
    hoodoo::fork::after();
}

/// Has Python call the core around each fork, where there is such a thing.
pub fn register(m: &Bound<'_, PyModule>) -> PyResult<()> {
    let Some(register) = m.py().import("os")?.getattr_opt("register_at_fork")? else { return Ok(()) };
    let hooks = PyDict::new(m.py());
    hooks.set_item("before", wrap_pyfunction!(before_fork, m)?)?;
    let after = wrap_pyfunction!(after_fork, m)?;
    hooks.set_item("after_in_parent", &after)?;
    hooks.set_item("after_in_child", &after)?;
    register.call((), Some(&hooks)).map(|_| ())
}
