//! The error type of the crate.

use std::borrow::Cow;
use std::fmt;

/// Result with this crate's [`HFileError`].
pub type Result<T, E = HFileError> = std::result::Result<T, E>;

/// Why an HFile cannot be read or written. An `offset` is the position of a block in the file.
#[derive(Debug)]
#[non_exhaustive]
pub enum HFileError {
    /// The bytes are damaged or cut off, or are not an HFile.
    Corrupt {
        /// What is wrong.
        message: Cow<'static, str>,
        /// The block that is damaged, where it is known.
        offset: Option<u64>,
    },
    /// A block does not have the checksum that is stored with it.
    ChecksumMismatch {
        /// The block.
        offset: u64,
    },
    /// The file uses a feature of HFiles that is not supported.
    Unsupported {
        /// The feature, such as "compression codec".
        feature: &'static str,
        /// The value that is not supported, such as "SNAPPY".
        value: String,
    },
    /// A block, or the index, takes more memory than the reader may use.
    TooLarge {
        /// Bytes that it takes by its own account.
        bytes: u64,
        /// The most bytes that are allowed: [`HFileReaderOptions::max_block_bytes`](crate::HFileReaderOptions::max_block_bytes).
        limit: u64,
        /// The block.
        offset: u64,
    },
    /// A lookup needs a file whose entries are sorted by the bytes of their keys, and this one is not.
    UnsortedEntries {
        /// The block in which an entry is out of order, or the index.
        offset: u64,
    },
    /// The caller passed keys that are not in ascending order of their bytes, or passed a key twice.
    UnsortedKeys {
        /// The number of the first such key, from 0.
        position: u64,
    },
    /// The caller passed a key, a value or other content that is longer than an HFile can hold.
    TooLong {
        /// What is too long, such as "key".
        what: &'static str,
        /// Its length in bytes.
        bytes: u64,
        /// The most bytes that it may have.
        limit: u64,
    },
    /// The caller set an entry of the file info that the writer sets itself.
    ReservedName(String),
    /// The output of a writer failed.
    Io(std::io::Error),
    /// The source of a reader failed; what it returned is kept.
    Source(Box<dyn std::error::Error + Send + Sync>),
}

impl HFileError {
    pub(crate) fn corrupt(message: impl Into<Cow<'static, str>>) -> Self {
        Self::Corrupt { message: message.into(), offset: None }
    }

    pub(crate) fn corrupt_at(message: impl Into<Cow<'static, str>>, offset: u64) -> Self {
        Self::Corrupt { message: message.into(), offset: Some(offset) }
    }

    pub(crate) fn unsupported(feature: &'static str, value: impl Into<String>) -> Self {
        Self::Unsupported { feature, value: value.into() }
    }

    /// Names the block, where the error does not do so already.
    pub(crate) fn at(self, block: u64) -> Self {
        match self {
            Self::Corrupt { message, offset: None } => Self::Corrupt { message, offset: Some(block) },
            other => other,
        }
    }

    /// The block that the error is about.
    pub fn offset(&self) -> Option<u64> {
        match self {
            Self::Corrupt { offset, .. } => *offset,
            Self::ChecksumMismatch { offset } | Self::TooLarge { offset, .. } | Self::UnsortedEntries { offset } => {
                Some(*offset)
            }
            _ => None,
        }
    }
}

impl fmt::Display for HFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt { message, .. } => f.write_str(message)?,
            Self::ChecksumMismatch { .. } => f.write_str("a block of an HFile does not have its checksum")?,
            Self::Unsupported { feature, value } => write!(f, "the {feature} {value} of an HFile is not supported")?,
            Self::TooLarge { bytes, limit, .. } => {
                write!(f, "a block of an HFile takes {bytes} bytes of memory, and {limit} are allowed")?;
            }
            Self::UnsortedEntries { .. } => {
                f.write_str(
                    "keys cannot be looked up in an HFile whose entries are not sorted by the bytes of their keys",
                )?;
            }
            Self::UnsortedKeys { position } => {
                write!(
                    f,
                    "key {position} is not greater than the key before it; pass keys sorted by their bytes, each once"
                )?;
            }
            Self::TooLong { what, bytes, limit } => {
                write!(f, "a {what} of an HFile has {bytes} bytes, and may have no more than {limit}")?;
            }
            Self::ReservedName(name) => write!(f, "the entry {name} of the file info is set by the writer")?,
            Self::Io(e) => write!(f, "an HFile cannot be written: {e}")?,
            Self::Source(e) => write!(f, "an HFile cannot be read: {e}")?,
        }
        match self.offset() {
            Some(offset) => write!(f, " (block at offset {offset})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for HFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(e) => Some(e),
            Self::Source(e) => Some(&**e),
            _ => None,
        }
    }
}

impl From<std::io::Error> for HFileError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}
