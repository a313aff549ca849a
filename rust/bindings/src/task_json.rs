//! Plans, tasks and reports on their way between the processes of an engine: as JSON.

use hoodoo::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value as JSON.
///
/// # Errors
/// `Internal` for a value that JSON does not have.
pub fn task_to_json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::internal("a task has no JSON").caused_by(e))
}

/// A value from JSON that another process made; `of` says of what it is, as in "a clustering".
///
/// # Errors
/// `InvalidOption` for other JSON.
pub fn task_from_json<T: DeserializeOwned>(json: &str, of: &str) -> Result<T> {
    serde_json::from_str(json).map_err(|e| Error::invalid_option(format!("a malformed task of {of}")).caused_by(e))
}
