//! The trailer: the last 4096 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `TRABLK"$` |
//! | 1 + … | length and Protobuf message; then zeros |
//! | 4 | version: the minor one in the first byte, the major one, 3, in the others |

use super::fields::Fields;
use crate::error::{Error, Result};

pub(super) const TRAILER_LENGTH: usize = 4096;
const MAGIC: &[u8; 8] = b"TRABLK\"$";
const MAJOR_VERSION: u32 = 3;

/// How blocks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    None,
    Gzip,
}

/// What a reader needs of a trailer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Where the root of the data index is; all blocks with entries come before it.
    pub(super) root: u64,
    /// Entries of the root.
    pub(super) root_entries: u64,
    /// Levels of the data index, the root among them.
    pub(super) levels: u64,
    pub(super) entries: u64,
    pub(super) codec: Codec,
}

impl Trailer {
    pub(super) fn read(file: &[u8]) -> Result<Self> {
        let start = file.len().checked_sub(TRAILER_LENGTH);
        let start = start.ok_or_else(|| Error::corrupt("an HFile is shorter than its trailer"))?;
        let mut fields = Fields::new(file.get(start..).unwrap_or_default());
        if &fields.array()? != MAGIC {
            return Err(Error::corrupt("an HFile does not end with a trailer"));
        }
        let mut end = Fields::new(file.get(file.len() - 4..).unwrap_or_default());
        let version = end.int()? & 0x00ff_ffff;
        if version != MAJOR_VERSION {
            return Err(Error::unsupported("the version of an HFile").with("version", version));
        }
        let length = usize::try_from(fields.varint()?).unwrap_or(usize::MAX);
        if length > fields.left() - 4 {
            return Err(Error::corrupt("the trailer of an HFile is longer than its place"));
        }
        Self::message(Fields::new(fields.bytes(length)?), start as u64)
    }

    fn message(mut message: Fields<'_>, end: u64) -> Result<Self> {
        let (mut root, mut root_entries, mut entries, mut levels, mut codec) = (None, None, None, None, None);
        while !message.is_empty() {
            let tag = message.varint()?;
            let number = match tag & 7 {
                0 => Some(message.varint()?),
                1 => Some(message.long()?.swap_bytes()),
                2 => {
                    let length = usize::try_from(message.varint()?).unwrap_or(usize::MAX);
                    if !message.bytes(length)?.is_empty() && tag >> 3 == 13 {
                        return Err(Error::unsupported("an HFile that is encrypted"));
                    }
                    None
                }
                5 => Some(message.int()?.swap_bytes().into()),
                _ => return Err(Error::corrupt("the trailer of an HFile is no Protobuf message")),
            };
            match tag >> 3 {
                2 => root = number,
                5 => root_entries = number,
                7 => entries = number,
                8 => levels = number,
                12 => codec = number,
                _ => {}
            }
        }
        // All writers write all of them, zeros too.
        let missing = || Error::corrupt("the trailer of an HFile is incomplete");
        let codec = match codec.ok_or_else(missing)? {
            1 => Codec::Gzip,
            2 => Codec::None,
            other => return Err(Error::unsupported("the compression of an HFile").with("codec", other)),
        };
        let root = root.filter(|root| *root <= end).ok_or_else(missing)?;
        let root_entries = root_entries.ok_or_else(missing)?;
        let (levels, entries) = (levels.ok_or_else(missing)?, entries.ok_or_else(missing)?);
        Ok(Self { root, root_entries, levels, entries, codec })
    }
}
