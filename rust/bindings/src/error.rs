//! Errors of the core as exceptions of `hoodoo.exceptions`.

use hoodoo::{Error, ErrorKind};
use pyo3::PyErr;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyType};

fn class_of(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::TableNotFound => "TableNotFoundError",
        ErrorKind::InvalidOption => "InvalidOptionError",
        ErrorKind::Schema => "SchemaError",
        ErrorKind::Corrupt => "CorruptFileError",
        ErrorKind::Conflict => "ConflictError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Storage | ErrorKind::NotFound | ErrorKind::AlreadyExists => "StorageError",
        ErrorKind::Lock => "LockError",
        // Python sees what its signal handler raised in place of it; of a reader that was interrupted, this.
        ErrorKind::Interrupted => "HudiError",
        ErrorKind::Internal => "InternalError",
        _ => "HudiError",
    }
}

/// The Python exception of an error, with its context in `.context` and whether to try again in `.retryable`.
pub fn to_py(error: Error) -> PyErr {
    Python::attach(|py| build(py, &error).unwrap_or_else(|_| PyRuntimeError::new_err(error.to_string())))
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = py.import("hoodoo.exceptions")?.getattr(class_of(error.kind()))?;
    let class = class.cast_into::<PyType>()?;
    let context = PyDict::new(py);
    for (name, value) in error.context() {
        context.set_item(name, value)?;
    }
    let value = class.call1((error.to_string(),))?;
    value.setattr("context", context)?;
    value.setattr("retryable", error.is_retryable())?;
    value.setattr("outdated_plan", error.is_outdated_plan())?;
    Ok(PyErr::from_value(value))
}

/// The error of the core for an exception that code of the package raised; others become errors of a lock, which are tried
/// again.
pub fn from_py(error: PyErr, message: &str) -> Error {
    Python::attach(|py| {
        let class = error.get_type(py).name().map(|name| name.to_string()).unwrap_or_default();
        let text = error.value(py).to_string();
        if !error.is_instance_of::<PyException>(py) {
            return Error::interrupted(format!("{message}: {class}"));
        }
        match class.as_str() {
            "InvalidOptionError" => Error::invalid_option(text),
            "UnsupportedError" | "MissingDependencyError" => Error::unsupported(text),
            _ => Error::lock(format!("{message}: {class}: {text}")),
        }
    })
}
