//! Which process something belongs to: a forked child inherits the memory of its parent, but none of its threads, and no
//! right to its locks and unfinished files.

/// A process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process(u32);

impl Process {
    /// This process.
    pub fn this() -> Self {
        Self(std::process::id())
    }

    /// Whether this process is still that one, and no child of it.
    pub fn is_this(self) -> bool {
        self == Self::this()
    }
}
