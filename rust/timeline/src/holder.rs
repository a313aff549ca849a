//! The name of the process that holds a lock or a heartbeat, with its machine: what a killed process of the same
//! machine left is taken over at once, before it expires.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};
use uuid::Uuid;

use hoodoo_runtime::simulated;

/// Holders of this process that were not dropped, by their id.
static ALIVE: LazyLock<Mutex<HashSet<Uuid>>> = LazyLock::new(Mutex::default);

pub(super) fn hold_lock() -> impl std::any::Any {
    ALIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A unique name, by which others on the same machine find out whether its process still runs. It counts as running
/// until it is dropped.
#[derive(Debug)]
pub(super) struct Holder {
    id: Uuid,
    text: String,
}

impl Default for Holder {
    fn default() -> Self {
        let id = simulated::uuid();
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        Self { id, text: format!("{} {} {id}", machine(), std::process::id()) }
    }
}

impl Holder {
    /// The name, as it is written to files: machine, process, id.
    pub(super) fn name(&self) -> &str {
        &self.text
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        ALIVE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}

/// Whether the process of this name is known to have ended. False for names of other engines and of other machines.
pub(super) fn is_known_ended(name: &str) -> bool {
    let mut words = name.split_whitespace();
    let (Some(at), Some(process), Some(id)) = (words.next(), words.next(), words.next()) else { return false };
    let (Ok(process), Ok(id)) = (process.parse::<u32>(), Uuid::parse_str(id)) else { return false };
    if at != machine() {
        return false;
    }
    if process == std::process::id() {
        return !ALIVE.lock().unwrap_or_else(PoisonError::into_inner).contains(&id);
    }
    let mut system = System::new();
    let pid = Pid::from_u32(process);
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), true, ProcessRefreshKind::nothing());
    match system.process(pid) {
        // A zombie has ended; its parent has not read its exit status yet.
        Some(found) => matches!(found.status(), sysinfo::ProcessStatus::Zombie | sysinfo::ProcessStatus::Dead),
        None => !is_hidden(process),
    }
}

/// Whether a process runs that is not listed: where `/proc` is mounted with `hidepid`, those of other users are not.
#[cfg(unix)]
fn is_hidden(process: u32) -> bool {
    let pid = i32::try_from(process).ok().and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn is_hidden(_: u32) -> bool {
    false
}

/// Names the scope in which process ids are unique: one boot of a machine, one container. A unique name if that is not
/// known.
pub(super) fn machine() -> &'static str {
    static MACHINE: LazyLock<String> = LazyLock::new(|| {
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        let processes = std::fs::read_link("/proc/self/ns/pid");
        match (boot, processes) {
            (Ok(boot), Ok(processes)) => format!("{}/{}", boot.trim(), processes.display()),
            _ => Uuid::new_v4().to_string(),
        }
    });
    &MACHINE
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_process_that_is_not_listed() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(is_hidden(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_hidden(child.id()));
        // Of another user, where this one is not root.
        assert!(is_hidden(1));
    }
}
