//! The checksum of a footer, one of its key-value pairs: the CRC-32 of the whole footer with zeros instead of the
//! checksum.
//!
//! Parquet has no checksum of footers. Without one, a flipped bit in a column name makes the column look missing, and
//! one in a bloom filter makes a key look new.

use std::ops::Range;
use std::sync::Arc;

use parquet::file::metadata::ParquetMetaData;
use parquet::file::reader::ChunkReader;

use hoodoo_parquet_pages::footer::{decode_footer, footer_bytes};
use hoodoo_runtime::error::{Error, Result};
use hoodoo_storage::guard::Chunks;

/// Key of the pair, the last one of a footer.
pub(super) const FOOTER_CHECKSUM_KEY: &str = "hoodoo.footer.crc32";
/// Placeholder of the value until it is known.
pub(super) const NOT_KNOWN: &str = "00000000";
/// Header of a string of eight bytes in the field after the key, in Thrift's compact protocol.
const STRING_OF_EIGHT: [u8; 2] = [0x18, 8];
/// The length of the footer, and the magic word.
pub(super) const TAIL: usize = 4 + 4;
const MAGIC: &[u8; 4] = b"PAR1";

/// Range of the value in (the end of) a footer. `Err` if the key has no value.
fn place(footer: &[u8]) -> Result<Option<Range<usize>>, ()> {
    let Some(key) = memchr::memmem::rfind(footer, FOOTER_CHECKSUM_KEY.as_bytes()) else { return Ok(None) };
    let lead = key + FOOTER_CHECKSUM_KEY.len();
    let value = lead + STRING_OF_EIGHT.len()..lead + STRING_OF_EIGHT.len() + NOT_KNOWN.len();
    match footer.get(lead..value.start) == Some(STRING_OF_EIGHT.as_slice()) && value.end <= footer.len() {
        true => Ok(Some(value)),
        false => Err(()),
    }
}

/// Writes the checksum to (the end of) a footer, if it has the key.
pub(super) fn put(footer: &mut [u8], sum: crc32fast::Hasher) {
    let text = format!("{:08x}", sum.finalize());
    if let Ok(Some(place)) = place(footer)
        && let Some(value) = footer.get_mut(place)
    {
        value.copy_from_slice(text.as_bytes());
    }
}

/// Start of the footer in the last bytes of a file.
pub(super) fn start_of_footer(end: &[u8]) -> Option<usize> {
    let (rest, tail) = end.split_last_chunk::<TAIL>()?;
    let [a, b, c, d, magic @ ..] = tail;
    let length = usize::try_from(u32::from_le_bytes([*a, *b, *c, *d])).ok()?;
    if magic == MAGIC { rest.len().checked_sub(length) } else { None }
}

/// Compares a footer with its checksum.
fn check(footer: &[u8]) -> Result<()> {
    let damaged = || {
        Error::corrupt("the footer of a Parquet file does not match its checksum")
            .remedy("The file was damaged after it was written: restore it from a backup")
    };
    let Some(place) = place(footer).map_err(|()| damaged())? else { return Ok(()) };
    let (before, rest) = footer.split_at_checked(place.start).ok_or_else(damaged)?;
    let (value, behind) = rest.split_at_checked(place.len()).ok_or_else(damaged)?;
    let mut sum = crc32fast::Hasher::new();
    [before, NOT_KNOWN.as_bytes(), behind].iter().for_each(|bytes| sum.update(bytes));
    if value == format!("{:08x}", sum.finalize()).as_bytes() { Ok(()) } else { Err(damaged()) }
}

/// Reads the footer of a file and compares it with its checksum, but only in files of hoodoo: other tools copy the
/// key-value pairs when they merge files.
pub(super) fn read_footer<R: ChunkReader>(chunks: &Chunks<R>) -> Result<Arc<ParquetMetaData>> {
    let footer = footer_bytes(chunks).map_err(|e| chunks.explain_parquet(e))?;
    let metadata = decode_footer(&footer).map_err(|e| chunks.explain_parquet(e))?;
    if metadata.file_metadata().created_by().is_some_and(|by| by.starts_with("hoodoo version ")) {
        check(&footer)?;
    }
    Ok(Arc::new(metadata))
}
