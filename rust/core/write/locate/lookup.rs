//! What a lookup of keys is asked, and what it finds.

use std::collections::BTreeMap;

use crate::file_group::FileSlice;
use crate::merge::RowRef;
use crate::table::keygen::KeyGenConfig;
use crate::write::config::Operation;
use crate::write::locate::buckets::Buckets;
use crate::write::locate::known_keys::KnownKeys;
use crate::write::locate::log_keys::Logs;
use crate::write::locate::record_index::IndexLookup;
use crate::write::rewrite::context::WriteContext;

/// A stored record that an incoming row meets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MatchedRow {
    /// Row number in the base file.
    pub position: u32,
    /// The incoming row.
    pub row: RowRef,
    /// The stored record goes, whatever the incoming row says: it moves to another partition.
    pub moved: bool,
}

/// An incoming row whose key is in the log files of a slice only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoggedRow {
    /// The incoming row.
    pub row: RowRef,
    /// See [`MatchedRow::moved`].
    pub moved: bool,
}

/// The incoming rows that meet records of one file slice.
#[derive(Debug, Clone)]
pub(crate) struct FileUpdates {
    /// The slice.
    pub slice: FileSlice,
    /// Rows that meet records of its base file, by position.
    pub rows: Vec<MatchedRow>,
    /// Rows that meet records of its log files.
    pub logged: Vec<LoggedRow>,
}

impl FileUpdates {
    /// How many rows there are.
    pub(crate) fn len(&self) -> usize {
        self.rows.len() + self.logged.len()
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a row that meets a record of the base file, or else one of the log files.
    pub(in crate::write) fn push(&mut self, position: Option<u32>, row: RowRef, moved: bool) {
        match position {
            Some(position) => self.rows.push(MatchedRow { position, row, moved }),
            None => self.logged.push(LoggedRow { row, moved }),
        }
    }
}

/// What tagging finds.
#[derive(Debug, Default)]
pub(crate) struct Tagged {
    /// Updates and deletes, by slice.
    pub updates: Vec<FileUpdates>,
    /// Rows of keys that are not stored, by partition index.
    pub inserts: BTreeMap<u32, Vec<RowRef>>,
}

/// How tagging is done.
pub(crate) struct Tagging<'a> {
    /// The record index, which names the file groups to look into.
    pub index: Option<IndexLookup<'a>>,
    /// What is known of the keys of base files before they are opened.
    pub known: Option<KnownKeys<'a>>,
    /// The write.
    pub context: &'a WriteContext,
    /// What it does.
    pub operation: Operation,
    /// Whether keys are unique in the whole table.
    pub global: bool,
    /// Whether the rows do not say where they belong.
    pub anywhere: bool,
    /// Whether each copy of a stored record is found, or the first of a file.
    pub all_copies: bool,
    /// Reads log files, in a table that has them.
    pub logs: Option<&'a Logs>,
    /// The file groups of a bucket index, in which each key has its place.
    pub buckets: Option<&'a Buckets<'a>>,
    /// Set when record keys are computed from columns.
    pub virtual_keys: Option<KeyGenConfig>,
    /// Threads.
    pub threads: usize,
}
