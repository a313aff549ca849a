//! Restoring: the table becomes what it was at a savepoint. All later writes are undone, with their plans and files.
//!
//! On the timeline: `R.restore.requested` (the plan), `R.restore.inflight`. While it is pending nobody writes. Then, newest
//! write first, each completed instant is deleted, which takes the table back one commit at a time; the files of these
//! writes are deleted; what they told the metadata table is taken out, or that is made anew; their instants go.
//! `R_C.restore` records what was done. A restore whose process was killed is finished by doing it again.
//!
//! Cleans, rollbacks and savepoints stay on the timeline, as with Hudi. Beyond what Hudi does, writes that were archived are
//! undone too, plans of clusterings leave nothing behind, and the order of compactions does not matter.

mod execute;
mod plan;

#[cfg(test)]
mod tests;

pub use execute::{Restored, restore};
