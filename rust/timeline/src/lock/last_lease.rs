//! What is known of the last release of the lease: with it the next attempt to acquire the lock takes one request, because
//! the file need not be read first.
//!
//! The processes of a machine tell each other, by a file in the temporary folder on which they lock. It is only a guess:
//! the conditional write of the lease fails if it is wrong.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};

use hoodoo_storage::FileVersion;

/// Name of the file in which the processes of a machine share it.
const SHARED: &str = "last-lease.json";

/// The version of the file with which this process last released the lock.
#[derive(Default)]
pub struct LastLease(Mutex<Option<Released>>);

#[derive(Clone, Serialize, Deserialize)]
struct Released {
    version: FileVersion,
    /// Whether the file still had that version when the lock was last acquired.
    is_likely: bool,
}

/// The last release by any process of this machine, as far as it is known. Used under the lock between its processes.
#[derive(Clone)]
pub(super) struct LastRelease {
    process: Arc<LastLease>,
    shared: Option<PathBuf>,
}

impl LastRelease {
    /// That of this process, shared with others in the folder on which they lock.
    pub(super) fn new(process: Arc<LastLease>, folder: Option<PathBuf>) -> Self {
        Self { process, shared: folder.map(|folder| folder.join(SHARED)) }
    }

    /// The version to try.
    pub(super) fn likely(&self) -> Option<FileVersion> {
        self.load().filter(|last| last.is_likely).map(|last| last.version)
    }

    /// Records the version of the file that was read.
    pub(super) fn found(&self, version: Option<&FileVersion>) {
        let Some(last) = self.load() else { return };
        let is_likely = version == Some(&last.version);
        if is_likely != last.is_likely {
            self.store(Released { is_likely, ..last });
        }
    }

    /// Records the version of the file with which the lock was released.
    pub(super) fn released(&self, version: FileVersion) {
        let is_likely = self.load().is_none_or(|last| last.is_likely);
        self.store(Released { version, is_likely });
    }

    // What another process says is newer. A file that a killed process was writing says nothing.
    fn load(&self) -> Option<Released> {
        let shared = self.shared.as_ref().and_then(|file| std::fs::read(file).ok());
        let shared = shared.and_then(|content| serde_json::from_slice(&content).ok());
        // Never waits: in a forked child the mutex may be held for ever.
        shared.or_else(|| self.process.0.try_lock().ok()?.clone())
    }

    fn store(&self, last: Released) {
        if let (Some(file), Ok(content)) = (&self.shared, serde_json::to_vec(&last))
            && let Err(e) = std::fs::write(file, content)
        {
            tracing::debug!(file = %file.display(), "the last lease is not shared with other processes: {e}");
        }
        if let Ok(mut slot) = self.process.0.try_lock() {
            *slot = Some(last);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn version(tag: &str) -> FileVersion {
        serde_json::from_value(serde_json::json!({ "e_tag": tag, "version": null })).unwrap()
    }

    #[test]
    fn processes_of_a_machine_tell_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let process = || LastRelease::new(Arc::default(), Some(folder.path().to_owned()));
        let (one, other) = (process(), process());
        assert!(one.likely().is_none());
        one.released(version("1"));
        assert_eq!(other.likely(), Some(version("1")));
        other.released(version("2"));
        assert_eq!(one.likely(), Some(version("2")));
        // A writer of another machine got in between.
        one.found(Some(&version("3")));
        assert!(one.likely().is_none() && other.likely().is_none());
        other.released(version("4"));
        assert!(one.likely().is_none());
        one.found(Some(&version("4")));
        assert_eq!(other.likely(), Some(version("4")));
        // What a killed process was writing.
        std::fs::write(folder.path().join(SHARED), "{\"vers").unwrap();
        assert_eq!(one.likely(), Some(version("4")));
        assert!(process().likely().is_none());
    }

    #[test]
    fn without_a_folder_each_process_knows_its_own() {
        let one = LastRelease::new(Arc::default(), None);
        one.released(version("1"));
        assert_eq!(one.likely(), Some(version("1")));
        one.found(None);
        assert!(one.likely().is_none());
    }
}
