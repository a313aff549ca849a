//! Upgrading a table: versions 6 and 8 to 8 and 9.
//!
//! | step | what |
//! |---|---|
//! | [`move_timeline`](timeline::move_timeline) | version 6 only: the instants and the archive are written in the layout of version 8, beside the old ones; then one change of `hoodie.properties` makes them the table's. Until then nothing has changed for readers |
//! | [`execute`] | the old instants are deleted; logs are compacted by the old rule of merging; failed writes are rolled back; `hoodie.properties` gets the new version; the metadata table is made anew |
//!
//! Each step can be repeated. A file below `.hoodie/.aux` says what is left to do after a crash; doing the upgrade again
//! ends it. Properties become those that Hudi's own upgrade gives (`UpgradeDowngrade`, `SixToEightUpgradeHandler` and
//! `EightToNineUpgradeHandler` of Hudi 1.2).

mod completion_times;
mod execute;
mod old_logs;
mod plan;
mod properties;
mod timeline;
mod unfinished;

pub use execute::{Upgraded, upgrade};
pub use plan::{PropertyChange, UpgradePlan, planned};
