//! A block and its header.

use std::collections::BTreeMap;
use std::ops::Range;

/// What a block holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockKind {
    /// A command, of which there is one: roll an instant back.
    Command,
    /// Keys of deleted records.
    Delete,
    /// Bytes that are no block. Never written; it is what a reader makes of a write that was cut off.
    Corrupt,
    /// Records in Avro's binary form.
    AvroData,
    /// Records in an HFile.
    HfileData,
    /// Records in a Parquet file.
    ParquetData,
    /// Changes of records, in Avro's binary form.
    CdcData,
}

impl BlockKind {
    /// The kind with the number that stands in a file. There is none for corrupt bytes.
    pub(crate) fn from_number(number: i32) -> Option<Self> {
        Some(match number {
            0 => Self::Command,
            1 => Self::Delete,
            3 => Self::AvroData,
            4 => Self::HfileData,
            5 => Self::ParquetData,
            6 => Self::CdcData,
            _ => return None,
        })
    }

    /// The number of this kind in a file.
    pub fn number(self) -> Option<u32> {
        (0..=6).find(|number| i32::try_from(*number).ok().and_then(Self::from_number) == Some(self))
    }
}

/// What an entry of a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HeaderKey {
    /// Requested time of the instant that wrote the block.
    InstantTime,
    /// Command: the instant that it is about.
    TargetInstantTime,
    /// Avro schema of the records.
    Schema,
    /// Which command; `0` is a rollback.
    CommandBlockType,
    /// Instants whose blocks this one replaces, with commas between them.
    CompactedBlockTimes,
    /// Positions of the records in the base file, a base64 bitmap.
    RecordPositions,
    /// Number of the block within its commit.
    BlockIdentifier,
    /// `true`: the records have only some of the columns.
    IsPartial,
    /// Instant of the base file that the positions are about.
    BaseFileInstantTimeOfRecordPositions,
    /// A key that we do not know, by its number.
    Other(i32),
}

impl HeaderKey {
    /// The key with the number that stands in a file.
    pub(crate) fn from_number(number: i32) -> Self {
        match number {
            0 => Self::InstantTime,
            1 => Self::TargetInstantTime,
            2 => Self::Schema,
            3 => Self::CommandBlockType,
            4 => Self::CompactedBlockTimes,
            5 => Self::RecordPositions,
            6 => Self::BlockIdentifier,
            7 => Self::IsPartial,
            8 => Self::BaseFileInstantTimeOfRecordPositions,
            other => Self::Other(other),
        }
    }

    /// The number of this key in a file.
    pub fn number(self) -> i32 {
        match self {
            Self::Other(number) => number,
            known => (0..=8).find(|number| Self::from_number(*number) == known).unwrap_or_default(),
        }
    }
}

/// The entries of a header.
pub(crate) type HeaderMap = BTreeMap<HeaderKey, String>;

/// Where a block lies and what it says about itself; its content is not read yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// What it holds.
    pub kind: BlockKind,
    /// The bytes of the whole block in the file, the magic included.
    pub range: Range<u64>,
    /// What stands before the content; empty for corrupt bytes.
    pub header: HeaderMap,
    /// What stands behind the content, by keys that have no meaning yet; Hudi leaves it empty.
    pub footer: BTreeMap<i32, String>,
    /// The bytes of the content in the file, without checksums; for corrupt bytes, all behind the magic.
    pub content: Range<u64>,
    /// The checksum of the content, where it has one.
    pub checksum: Option<u32>,
}

impl Block {
    /// An entry of the header.
    pub fn header(&self, key: HeaderKey) -> Option<&str> {
        self.header.get(&key).map(String::as_str)
    }
}
