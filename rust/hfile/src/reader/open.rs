//! Opens a file with one read of its tail, or two if the load-on-open section is longer.

use bytes::{Bytes, BytesMut};

use super::{HFileReader, HFileReaderOptions};
use crate::block::{BlockKind, BlockReader};
use crate::entries::row_of;
use crate::error::{HFileError, Result};
use crate::file_info::{FileInfo, LAST_KEY};
use crate::index::{MAX_LEVELS, meta_entries, root_entries};
use crate::source::{ReadAt, read_range};
use crate::trailer::{TRAILER_BYTES, Trailer};

pub(super) fn open<S: ReadAt>(source: S, options: &HFileReaderOptions) -> Result<HFileReader<S>> {
    let (trailer, section) = load(&source, options)?;
    if !(1..=MAX_LEVELS).contains(&trailer.levels) {
        return Err(HFileError::corrupt(format!("the index of an HFile cannot have {} levels", trailer.levels)));
    }
    let mut blocks = BlockReader::new(trailer.codec, options.max_block_bytes);
    let (root, length) = blocks.first(&section, trailer.root, BlockKind::RootIndex)?;
    let root = root_entries(&root, trailer.root_entries, trailer.root).map_err(|e| e.at(trailer.root))?;
    let meta = part(&section, length)?;
    let meta_at = trailer.root + length as u64;
    let (meta, _) = blocks.first(&meta, meta_at, BlockKind::RootIndex)?;
    let meta = meta_entries(&meta, trailer.meta_entries, trailer.root).map_err(|e| e.at(meta_at))?;
    let info = usize::try_from(trailer.file_info - trailer.root).map_err(|_| outside())?;
    let (info, _) = blocks.first(&part(&section, info)?, trailer.file_info, BlockKind::FileInfo)?;
    let info = FileInfo::read(&info).map_err(|e| e.at(trailer.file_info))?;
    let last_key = info.get(LAST_KEY).filter(|key| !key.is_empty()).map(row_of).transpose()?;
    Ok(HFileReader { source, trailer, max_block_bytes: options.max_block_bytes, root, meta, info, last_key })
}

/// The trailer, and all bytes from the root index to the trailer.
fn load<S: ReadAt>(source: &S, options: &HFileReaderOptions) -> Result<(Trailer, Bytes)> {
    let size = source.size();
    let tail_start = size.saturating_sub(options.tail_bytes.max(TRAILER_BYTES as u64));
    let tail = read_range(source, tail_start..size)?;
    let trailer = Trailer::read(&tail, size)?;
    let in_tail = tail.slice(..tail.len() - TRAILER_BYTES);
    if trailer.root >= tail_start {
        let start = usize::try_from(trailer.root - tail_start).map_err(|_| outside())?;
        return Ok((trailer, part(&in_tail, start)?));
    }
    let (bytes, limit) = (size - trailer.root, options.max_block_bytes as u64);
    if bytes > limit {
        return Err(HFileError::TooLarge { bytes, limit, offset: trailer.root });
    }
    let before = read_range(source, trailer.root..tail_start)?;
    let mut section = BytesMut::with_capacity(before.len() + in_tail.len());
    section.extend_from_slice(&before);
    section.extend_from_slice(&in_tail);
    Ok((trailer, section.freeze()))
}

/// The bytes from a position on.
fn part(bytes: &Bytes, start: usize) -> Result<Bytes> {
    if start > bytes.len() { Err(outside()) } else { Ok(bytes.slice(start..)) }
}

fn outside() -> HFileError {
    HFileError::corrupt("a part of an HFile is cut off")
}
