//! The trailer: the last 4096 bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 8 | `TRABLK"$` |
//! | 1 + … | length and Protobuf message; then zeros |
//! | 4 | version: the minor one in the first byte, the major one, 3, in the others |

use crate::codec::Codec;
use crate::error::{HFileError, Result};
use crate::fields::{Fields, put_string, put_varint};

pub(crate) const TRAILER_BYTES: usize = 4096;
const MAGIC: &[u8; 8] = b"TRABLK\"$";
const MAJOR_VERSION: u32 = 3;
/// The comparator that Hudi names: the order of bytes.
const COMPARATOR: &str = "org.apache.hudi.io.storage.HoodieHBaseKVComparator";

/// The fields of a trailer that are read or written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Trailer {
    pub(crate) file_info: u64,
    /// Where the root of the data index is. Data blocks and meta blocks lie before it.
    pub(crate) root: u64,
    pub(crate) data_bytes: u64,
    /// Entries of the root.
    pub(crate) root_entries: u64,
    pub(crate) meta_entries: u64,
    pub(crate) entries: u64,
    /// Levels of the data index, the root included.
    pub(crate) levels: u64,
    pub(crate) first_data_block: Option<u64>,
    pub(crate) last_data_block: Option<u64>,
    pub(crate) codec: Codec,
}

impl Trailer {
    /// Read the trailer at the end of `tail`, which ends where the file does.
    pub(crate) fn read(tail: &[u8], file_size: u64) -> Result<Self> {
        let trailer = tail.len().checked_sub(TRAILER_BYTES).and_then(|start| tail.get(start..));
        let trailer = trailer.ok_or_else(|| HFileError::corrupt("an HFile is shorter than its trailer"))?;
        let (trailer, version) = trailer.split_at_checked(TRAILER_BYTES - 4).unwrap_or_default();
        let mut fields = Fields::new(trailer);
        if &fields.array()? != MAGIC {
            return Err(HFileError::corrupt("an HFile does not end with a trailer"));
        }
        let version = Fields::new(version).int()? & 0x00ff_ffff;
        if version != MAJOR_VERSION {
            return Err(HFileError::unsupported("version", version.to_string()));
        }
        let message = fields.string()?;
        Self::message(Fields::new(message), file_size.saturating_sub(TRAILER_BYTES as u64))
    }

    fn message(mut message: Fields<'_>, end: u64) -> Result<Self> {
        let mut numbers = [None; 13];
        while !message.is_empty() {
            let tag = message.varint()?;
            let number = match tag & 7 {
                0 => Some(message.varint()?),
                1 => Some(message.long()?.swap_bytes()),
                2 => {
                    if !message.string()?.is_empty() && tag >> 3 == 13 {
                        return Err(HFileError::unsupported("encryption", "of blocks"));
                    }
                    None
                }
                5 => Some(message.int()?.swap_bytes().into()),
                _ => return Err(HFileError::corrupt("the trailer of an HFile is not a Protobuf message")),
            };
            if let Some(field) = usize::try_from(tag >> 3).ok().and_then(|field| numbers.get_mut(field)) {
                *field = number;
            }
        }
        let [_, file_info, root, data_bytes, _, root_entries, meta_entries, entries, levels, first, last, _, codec] =
            numbers;
        // All writers write all of these, zeros too.
        let missing = || HFileError::corrupt("the trailer of an HFile is incomplete");
        let codec = Codec::from_number(codec.ok_or_else(missing)?)?;
        let root = root.ok_or_else(missing)?;
        let file_info = file_info.ok_or_else(missing)?;
        if file_info < root || file_info > end {
            return Err(HFileError::corrupt("the trailer of an HFile points outside of the file"));
        }
        Ok(Self {
            file_info,
            root,
            data_bytes: data_bytes.unwrap_or_default(),
            root_entries: root_entries.ok_or_else(missing)?,
            meta_entries: meta_entries.unwrap_or_default(),
            entries: entries.ok_or_else(missing)?,
            levels: levels.ok_or_else(missing)?,
            first_data_block: first,
            last_data_block: last,
            codec,
        })
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut message = Vec::new();
        let mut number = |field: u64, value: u64| {
            put_varint(&mut message, field << 3);
            put_varint(&mut message, value);
        };
        number(1, self.file_info);
        number(2, self.root);
        number(3, self.data_bytes);
        number(5, self.root_entries);
        number(6, self.meta_entries);
        number(7, self.entries);
        number(8, self.levels);
        // As Hudi has them in a file without entries: -1 and 0.
        number(9, self.first_data_block.unwrap_or(u64::MAX));
        number(10, self.last_data_block.unwrap_or(0));
        put_varint(&mut message, 11 << 3 | 2);
        put_string(&mut message, COMPARATOR.as_bytes());
        put_varint(&mut message, 12 << 3);
        put_varint(&mut message, self.codec.number());
        let mut trailer = MAGIC.to_vec();
        put_string(&mut trailer, &message);
        trailer.resize(TRAILER_BYTES - 4, 0);
        trailer.extend_from_slice(&MAJOR_VERSION.to_be_bytes());
        trailer
    }
}
