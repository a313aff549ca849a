//! Which process something belongs to: a forked child inherits the memory of its parent, but none of its threads, and no
//! right to its locks and unfinished files.

use crate::simulated;

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    id: u32,
    /// Of a test; 0 outside of them.
    simulated: u32,
}

impl Process {
    /// This process.
    pub fn this() -> Self {
        Self { id: std::process::id(), simulated: simulated::number() }
    }

    /// Whether this process is still that one, and no child of it.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}
