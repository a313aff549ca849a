//! The file info: names and values, as a Protobuf message after the four bytes `PBUF`.
//!
//! | field | what |
//! |---|---|
//! | 1, repeated | a message of 1: name, 2: value |

use bytes::Bytes;

use crate::error::{HFileError, Result};
use crate::fields::{Fields, put_string, put_varint};

const MAGIC: &[u8; 4] = b"PBUF";
/// More entries than any writer has: an entry takes more memory than it has bytes.
const MAX_ENTRIES: usize = 10_000;
/// Tag of field 1 and of field 2, both strings of bytes.
const FIRST: u64 = 1 << 3 | 2;
const SECOND: u64 = 2 << 3 | 2;

pub(crate) const LAST_KEY: &str = "hfile.LASTKEY";
pub(crate) const AVERAGE_KEY_LENGTH: &str = "hfile.AVG_KEY_LEN";
pub(crate) const AVERAGE_VALUE_LENGTH: &str = "hfile.AVG_VALUE_LEN";
pub(crate) const CREATE_TIME: &str = "hfile.CREATE_TIME_TS";
pub(crate) const KEY_VALUE_VERSION: &str = "KEY_VALUE_VERSION";
pub(crate) const MAX_MEMSTORE_TIMESTAMP: &str = "MAX_MEMSTORE_TS_KEY";
/// Length of the longest tags: HBase writes it where entries have tags.
const MAX_TAGS_LENGTH: &str = "hfile.MAX_TAGS_LEN";

/// The names and values of a file, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileInfo {
    entries: Vec<(Bytes, Bytes)>,
}

impl FileInfo {
    pub(crate) fn read(content: &Bytes) -> Result<Self> {
        let mut fields = Fields::new(content);
        if &fields.array()? != MAGIC {
            return Err(HFileError::unsupported("file info format", "Writable"));
        }
        let mut message = Fields::new(fields.string()?);
        let mut entries = Vec::new();
        while !message.is_empty() {
            if message.varint()? != FIRST {
                return Err(HFileError::corrupt("the file info of an HFile has an unknown field"));
            }
            if entries.len() == MAX_ENTRIES {
                return Err(HFileError::corrupt("the file info of an HFile has too many entries"));
            }
            entries.push(pair(content, message.string()?)?);
        }
        let info = Self { entries };
        if info.get(MAX_TAGS_LENGTH).is_some_and(|length| length.iter().any(|byte| *byte != 0)) {
            return Err(HFileError::unsupported("tags", "of entries"));
        }
        Ok(info)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Bytes> {
        self.entries.iter().find(|(found, _)| found == name.as_bytes()).map(|(_, value)| value)
    }
}

fn pair(content: &Bytes, message: &[u8]) -> Result<(Bytes, Bytes)> {
    let mut fields = Fields::new(message);
    let (mut name, mut value) = (Bytes::new(), Bytes::new());
    while !fields.is_empty() {
        match (fields.varint()?, fields.string()?) {
            (FIRST, bytes) => name = content.slice_ref(bytes),
            (SECOND, bytes) => value = content.slice_ref(bytes),
            _ => return Err(HFileError::corrupt("an entry of the file info of an HFile has an unknown field")),
        }
    }
    Ok((name, value))
}

/// The content of the block of the file info.
pub(crate) fn file_info_content(entries: &[(String, Vec<u8>)]) -> Vec<u8> {
    let (mut message, mut pair) = (Vec::new(), Vec::new());
    for (name, value) in entries {
        pair.clear();
        put_varint(&mut pair, FIRST);
        put_string(&mut pair, name.as_bytes());
        put_varint(&mut pair, SECOND);
        put_string(&mut pair, value);
        put_varint(&mut message, FIRST);
        put_string(&mut message, &pair);
    }
    let mut content = MAGIC.to_vec();
    put_string(&mut content, &message);
    content
}
