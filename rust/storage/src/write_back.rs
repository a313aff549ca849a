//! Writing files to a local disk while others are still being made, so that the sync that waits for all of them is short.

use std::fs::File;
use std::io::{Error, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hoodoo_runtime::interrupt;
use hoodoo_runtime::parallel::BackgroundTask;
use hoodoo_runtime::process::Process;

/// Files that are written to the disk at the same time. If it cannot keep up, the sync does the rest.
const AT_ONCE: usize = 4;

/// Files that are being written to the disk.
pub(super) struct WriteBack {
    process: Process,
    tasks: Mutex<Tasks>,
}

#[derive(Default)]
struct Tasks {
    running: Vec<BackgroundTask<Result<()>>>,
    /// The system says only once that a file could not be written: who syncs it next must learn it from here.
    failed: Option<Error>,
}

impl Default for WriteBack {
    fn default() -> Self {
        Self { process: Process::this(), tasks: Mutex::default() }
    }
}

impl WriteBack {
    /// Begins with what a file has now, unless there is enough to do.
    pub(super) fn begin(&self, file: &File) {
        if !self.process.is_this() {
            return;
        }
        let mut tasks = self.lock();
        let (done, running): (Vec<_>, Vec<_>) =
            std::mem::take(&mut tasks.running).into_iter().partition(BackgroundTask::is_done);
        tasks.running = running;
        done.into_iter().for_each(|task| tasks.end(task));
        if tasks.running.len() < AT_ONCE
            && let Ok(file) = file.try_clone()
        {
            tasks.running.push(BackgroundTask::run(true, move || file.sync_data()));
        }
    }

    /// Waits for all of them.
    ///
    /// # Errors
    /// What the disk said of one of them.
    pub(super) fn finish(&self) -> Result<()> {
        // The threads are those of the parent process, if there is one.
        if !self.process.is_this() {
            return Ok(());
        }
        let running = std::mem::take(&mut self.lock().running);
        interrupt::hold(|| {
            running.into_iter().for_each(|task| {
                let mut ended = Tasks::default();
                ended.end(task);
                if let Some(e) = ended.failed {
                    self.lock().failed.get_or_insert(e);
                }
            })
        });
        self.lock().failed.take().map_or(Ok(()), Err)
    }

    fn lock(&self) -> MutexGuard<'_, Tasks> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tasks {
    fn end(&mut self, task: BackgroundTask<Result<()>>) {
        if let Err(e) = task.wait().map_err(Error::other).and_then(|done| done) {
            self.failed.get_or_insert(e);
        }
    }
}
