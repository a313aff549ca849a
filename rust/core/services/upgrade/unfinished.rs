//! What is left to do of an upgrade, for the process that goes on after a crash.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::storage::Storage;

const FILE: &str = ".hoodie/.aux/upgrade.json";

/// An upgrade that began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Unfinished {
    /// The version that the table had.
    pub(super) from: u32,
    /// The partitions of the metadata table that is made anew at the end.
    pub(super) metadata_partitions: Vec<String>,
}

impl Unfinished {
    /// Reads it; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt`; `Storage`.
    pub(super) fn read(storage: &Storage) -> Result<Option<Self>> {
        let Some(content) = storage.read_if_exists(FILE)? else { return Ok(None) };
        let parsed = serde_json::from_slice(&content).map_err(|e| {
            Error::corrupt("the note of an upgrade that began cannot be read")
                .caused_by(e)
                .with("table", storage.uri())
                .with("file", FILE)
                .remedy("Delete the file and upgrade again")
        });
        parsed.map(Some)
    }

    /// Writes it.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn write(&self, storage: &Storage) -> Result<()> {
        let content = serde_json::to_vec(self).map_err(|e| Error::internal("an upgrade has no JSON").caused_by(e))?;
        storage.replace(FILE, content)?;
        storage.sync()
    }

    /// Removes it.
    ///
    /// # Errors
    /// `Storage`.
    pub(super) fn remove(storage: &Storage) -> Result<()> {
        storage.delete(FILE).map(|_| ())
    }
}
