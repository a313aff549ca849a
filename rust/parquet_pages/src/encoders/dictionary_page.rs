//! The encoder of dictionary pages: the values of a dictionary, in PLAIN encoding, before all data pages of a chunk.

use parquet::basic::Encoding;

use super::chunk_pages::ChunkPages;
use crate::page_header::PageKind;
use hoodoo_runtime::error::{Error, Result};

impl ChunkPages {
    /// Writes the dictionary page. `plain` are its values, one behind the other.
    pub(crate) fn dictionary(&mut self, plain: &[u8], values: usize) -> Result<()> {
        let num_values = u32::try_from(values).unwrap_or(u32::MAX);
        self.dictionary_at = Some(self.write(plain, PageKind::Dictionary, num_values, Encoding::PLAIN)?.0);
        Ok(())
    }
}

/// Appends a string to the values of a dictionary page.
///
/// # Errors
/// `Schema` for more than 4 GiB.
pub(crate) fn put_string(string: &str, plain: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(string.len()).map_err(|_| Error::schema("a string has more than 4 GiB"))?;
    plain.extend_from_slice(&length.to_le_bytes());
    plain.extend_from_slice(string.as_bytes());
    Ok(())
}
