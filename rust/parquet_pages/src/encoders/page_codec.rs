//! Compressors of pages. They are reused for several column chunks, because creating one takes longer than compressing
//! a small page. For gzip, Hudi's default, a compressor of whole buffers takes half the time of one of streams.

use std::sync::{Mutex, PoisonError};

use libdeflater::{CompressionLvl, Compressor as Deflate};
use parquet::basic::Compression;
use parquet::compression::{Codec, CodecOptions, create_codec};
use zstd::bulk::Compressor;
use zstd::zstd_safe::{CParameter, ParamSwitch, compress_bound};

use super::encoded_chunk::encode_error;
use hoodoo_runtime::error::{Error, Result};

/// The content of a column's pages. At level 1, Zstandard gets search parameters for it if they save time and do not
/// make files larger; other levels use the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageContent {
    /// Unknown.
    Any,
    /// Unsorted numbers of fixed width.
    Numbers,
    /// Strings.
    Strings,
    /// Similar strings, such as record keys, which share long substrings.
    Keys,
}

impl PageContent {
    /// Minimum match length, logarithm of the hash table size, and step size where nothing repeats.
    fn search(self) -> Option<(u32, u32, u32)> {
        match self {
            Self::Any => None,
            // A hash table that fits the L1 cache is worth more than the matches that it misses.
            Self::Numbers => Some((5, 12, 2)),
            Self::Keys => Some((6, 12, 2)),
            Self::Strings => Some((7, 14, 2)),
        }
    }
}

/// Unused compressors.
static UNUSED: Mutex<Vec<PageCodec>> = Mutex::new(Vec::new());

/// Takes the lock of the unused compressors, for a fork.
pub fn hold_lock() -> impl std::any::Any {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Maximum number of unused compressors.
const MOST_UNUSED: usize = 16;
/// Larger buffers are dropped.
const LARGE_BUFFER: usize = 4 << 20;

/// A compressor of pages.
pub(crate) struct PageCodec {
    compression: Compression,
    content: PageContent,
    engine: Engine,
    /// The last compressed page.
    page: Vec<u8>,
}

enum Engine {
    Zstd(Compressor<'static>),
    Gzip(Deflate),
    Other(Box<dyn Codec>),
}

impl PageCodec {
    /// `None` for pages that are not compressed.
    pub(crate) fn get(compression: Compression, content: PageContent) -> Result<Option<Self>> {
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = unused.iter().position(|c| c.compression == compression && c.content == content) {
            return Ok(Some(unused.swap_remove(place)));
        }
        drop(unused);
        let engine = match compression {
            Compression::ZSTD(level) => Some(Engine::Zstd(zstd(level.compression_level(), content)?)),
            Compression::GZIP(level) => {
                let level = i32::try_from(level.compression_level()).unwrap_or(i32::MAX);
                Some(Engine::Gzip(Deflate::new(CompressionLvl::new(level).unwrap_or_default())))
            }
            other => create_codec(other, &CodecOptions::default()).map_err(encode_error)?.map(Engine::Other),
        };
        Ok(engine.map(|engine| Self { compression, content, engine, page: Vec::new() }))
    }

    /// A page, compressed.
    pub(crate) fn compress(&mut self, page: &[u8]) -> Result<&[u8]> {
        match &mut self.engine {
            Engine::Zstd(zstd) => {
                self.page.clear();
                self.page.reserve(compress_bound(page.len()));
                zstd.compress_to_buffer(page, &mut self.page).map_err(failed)?;
            }
            Engine::Gzip(deflate) => {
                let most = deflate.gzip_compress_bound(page.len());
                // The buffer only grows, so that its bytes are initialised once.
                if self.page.len() < most {
                    self.page.resize(most, 0);
                }
                let length = deflate.gzip_compress(page, &mut self.page).map_err(failed)?;
                return Ok(self.page.get(..length).unwrap_or_default());
            }
            Engine::Other(codec) => {
                self.page.clear();
                codec.compress(page, &mut self.page).map_err(encode_error)?;
            }
        }
        Ok(&self.page)
    }

    /// Returns it for reuse.
    pub(crate) fn put_back(mut self) {
        if self.page.capacity() > LARGE_BUFFER {
            self.page = Vec::new();
        }
        let mut unused = UNUSED.lock().unwrap_or_else(PoisonError::into_inner);
        if unused.len() < MOST_UNUSED {
            unused.push(self);
        }
    }
}

fn zstd(level: i32, content: PageContent) -> Result<Compressor<'static>> {
    let mut zstd = Compressor::new(level).map_err(failed)?;
    if let Some((shortest, places, step)) = content.search().filter(|_| level == 1) {
        let literals = CParameter::LiteralCompressionMode(ParamSwitch::Enable);
        for parameter in [
            CParameter::MinMatch(shortest),
            CParameter::HashLog(places),
            CParameter::TargetLength(step),
            // Data that does not repeat is still compressed; a longer step would skip it.
            literals,
        ] {
            zstd.set_parameter(parameter).map_err(failed)?;
        }
    }
    Ok(zstd)
}

fn failed(e: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::storage("failed to compress a page").caused_by(e)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use parquet::basic::{GzipLevel, ZstdLevel};

    #[test]
    fn every_codec_gives_back_what_it_got() {
        let page: Vec<u8> = (0..40_000u32)
            .flat_map(|i| format!("key-{:07},{}", i.wrapping_mul(7919) % 65_537, i % 5).into_bytes())
            .collect();
        let codecs = [
            Compression::ZSTD(ZstdLevel::try_new(1).unwrap()),
            Compression::ZSTD(ZstdLevel::try_new(3).unwrap()),
            Compression::SNAPPY,
            Compression::GZIP(GzipLevel::default()),
            Compression::LZ4_RAW,
        ];
        assert!(PageCodec::get(Compression::UNCOMPRESSED, PageContent::Any).unwrap().is_none());
        for compression in codecs {
            for content in [PageContent::Any, PageContent::Numbers, PageContent::Strings, PageContent::Keys] {
                let mut codec = PageCodec::get(compression, content).unwrap().unwrap();
                for page in [&page, page.get(..100).unwrap(), &[]] {
                    let compressed = codec.compress(page).unwrap().to_vec();
                    let mut reader = create_codec(compression, &CodecOptions::default()).unwrap().unwrap();
                    let mut back = Vec::new();
                    reader.decompress(&compressed, &mut back, Some(page.len())).unwrap();
                    assert_eq!(back, page, "{compression} {content:?}");
                }
                codec.put_back();
            }
        }
    }
}
