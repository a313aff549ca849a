//! The table's files: any `object_store`, used through blocking calls.
//!
//! Everything above is synchronous: the work is done by plain threads (one per file group), which block on
//! a small runtime of this crate. Paths are relative to the table's base and use `/`.
//!
//! On local disks Hadoop keeps a checksum `.<name>.crc` beside each file it wrote, and refuses to read a file whose
//! checksum is stale. So whoever replaces or deletes a file here also removes that side file.
//!
//! A file is written under its name with `#1` (or a higher number) behind it and gets its name when it is whole. A
//! process that is killed leaves such a file behind: no listing shows it, and deleting the name deletes it too.

#![warn(missing_docs, unreachable_pub)]

mod changes;
mod content_cache;
mod deletion;
mod disk_change;
mod durability;
mod emptied_folders;
mod fetches;
mod file_reader;
mod file_tasks;
mod file_writer;
pub mod guard;
mod listing;
mod local;
mod local_disk;
mod local_folder;
mod location;
mod many_files;
mod option_values;
mod read_ahead;
mod real_folders;
mod remote_store;
mod renewal;
mod retries;
mod runtime;
mod schemes;
mod secrets;
mod small_files;
mod spill;
mod store;
mod unchanging;
mod versioned;
mod windows;
mod write_back;

#[doc(hidden)]
pub use disk_change::DiskChange;
pub use file_reader::FileReader;
pub use file_tasks::FileTasks;
pub use file_writer::{CopyFrom, FileWriter};
pub use listing::{FileMeta, ListedFile, SideFiles};
pub use local_disk::LocalSettings;
pub use location::StorageOptions;
pub use runtime::block_on;
pub use spill::spill;
pub use spill::{SpillOptions, SpillWriter};
pub use store::Storage;
pub use store::optional;
pub use versioned::FileVersion;

/// Takes the locks of the process, for a fork.
pub fn hold_locks(held: &mut Vec<Box<dyn std::any::Any>>) {
    held.push(Box::new(location::hold_lock()));
    held.push(Box::new(runtime::hold_lock()));
    held.push(Box::new(secrets::hold_lock()));
}

#[cfg(test)]
mod tests;
