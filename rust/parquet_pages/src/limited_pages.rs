//! Pages of data, whose headers may be hostile: the Parquet library takes memory for as many bytes and dictionary entries as
//! the header of a page announces.

use std::io::{Cursor, Error, Read, Result as IoResult};
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};

use crate::delta_counts;
use crate::thrift::{I32, Reader, STOP, STRUCT, Shape, shape_of};

/// Most headers take fewer bytes, and none takes more than the second.
const HEAD: usize = 256;
const MAX_HEAD: usize = 16 << 20;
/// A page may have so many bytes before compression, whatever its codec is.
const ALWAYS: u64 = 1 << 20;

const STATISTICS: &[(i16, Shape)] = &[
    (1, Shape::Binary),
    (2, Shape::Binary),
    (3, Shape::Number),
    (4, Shape::Number),
    (5, Shape::Binary),
    (6, Shape::Binary),
    (7, Shape::Bool),
    (8, Shape::Bool),
];
/// Fields of `PageHeader` behind the sizes.
const REST: &[(i16, Shape)] = &[(4, Shape::Number), (6, Shape::Fields(&[]))];
const DATA: i16 = 5;
const DATA_FIELDS: &[(i16, Shape)] =
    &[(1, Shape::Number), (3, Shape::Number), (4, Shape::Number), (5, Shape::Fields(STATISTICS))];
const DATA_V2: i16 = 8;
const DATA_V2_FIELDS: &[(i16, Shape)] = &[
    (1, Shape::Number),
    (2, Shape::Number),
    (3, Shape::Number),
    (5, Shape::Number),
    (6, Shape::Number),
    (7, Shape::Bool),
    (8, Shape::Fields(STATISTICS)),
];
const DICTIONARY: i16 = 7;
const DICTIONARY_FIELDS: &[(i16, Shape)] = &[(2, Shape::Number), (3, Shape::Bool)];

/// What the header of a page announces.
#[derive(Debug, PartialEq, Eq)]
struct Announced {
    uncompressed: u64,
    compressed: u64,
    /// Entries of a dictionary.
    entries: u64,
    /// How the values of a data page are encoded.
    encoding: Option<i64>,
    /// Bytes of the header itself.
    length: usize,
}

/// Reads a whole header; `None` where these bytes are none, or end before it does.
fn announced(header: &[u8]) -> Option<Announced> {
    let (mut reader, mut field) = (Reader::new(header), 0);
    let number = |reader: &mut Reader<'_>, wanted: i16, field: &mut i16| {
        let found = reader.field(field)? == I32 && *field == wanted;
        u64::try_from(if found { reader.number()? } else { return None }).ok()
    };
    number(&mut reader, 1, &mut field)?;
    let uncompressed = number(&mut reader, 2, &mut field)?;
    let compressed = number(&mut reader, 3, &mut field)?;
    let (mut entries, mut encoding) = (0, None);
    loop {
        let before = field;
        match reader.field(&mut field)? {
            STOP => return Some(Announced { uncompressed, compressed, entries, encoding, length: reader.position }),
            // No field twice.
            _ if field <= before => return None,
            STRUCT if field == DICTIONARY => {
                let found = one_number(&mut reader, 1, DICTIONARY_FIELDS)?;
                entries = u64::try_from(found.unwrap_or(0)).ok()?;
            }
            STRUCT if field == DATA => encoding = one_number(&mut reader, 2, DATA_FIELDS)?,
            STRUCT if field == DATA_V2 => encoding = one_number(&mut reader, 4, DATA_V2_FIELDS)?,
            _ if matches!(field, DICTIONARY | DATA | DATA_V2) => return None,
            ty => reader.skip_shaped(ty, shape_of(REST, field))?,
        }
    }
}

/// A number among other fields of a struct, if it is there; reads to the end of the struct.
fn one_number(reader: &mut Reader<'_>, wanted: i16, others: &'static [(i16, Shape)]) -> Option<Option<i64>> {
    let (mut found, mut field) = (None, 0);
    loop {
        match reader.field(&mut field)? {
            STOP => return Some(found),
            I32 if field == wanted && found.is_none() => found = Some(reader.number()?),
            _ if field == wanted => return None,
            ty => reader.skip_shaped(ty, shape_of(others, field))?,
        }
    }
}

/// How many bytes a codec can make of one.
fn most_of_one(codec: Compression) -> u64 {
    match codec {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 32,
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1 << 11,
        // They take no memory for bytes that are not there.
        _ => 1 << 20,
    }
}

/// A file that is read only as long as its pages announce no more than they can hold.
#[derive(Clone)]
pub struct LimitedPages<R> {
    inner: R,
    metadata: Arc<ParquetMetaData>,
}

impl<R> LimitedPages<R> {
    /// Limits the pages of a file with this footer.
    pub fn new(inner: R, metadata: Arc<ParquetMetaData>) -> Self {
        Self { inner, metadata }
    }
}

fn check<R: ChunkReader>(inner: &R, metadata: &ParquetMetaData, start: u64, page: &Announced) -> Result<()> {
    let within = |chunk: &&ColumnChunkMetaData| {
        let begin = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
        let begin = begin.min(chunk.data_page_offset()).max(0).cast_unsigned();
        let length = chunk.compressed_size().max(0).cast_unsigned();
        (begin..begin.saturating_add(length)).contains(&start)
    };
    let chunks = || metadata.row_groups().iter().flat_map(|group| group.columns()).filter(within);
    let too_large = page.uncompressed > ALWAYS
        && chunks().any(|c| page.uncompressed / most_of_one(c.compression()) > page.compressed);
    if too_large || page.entries > page.uncompressed {
        return Err(ParquetError::General(format!(
            "a page of {} bytes announces {} bytes and {} dictionary entries",
            page.compressed, page.uncompressed, page.entries
        )));
    }
    if page.encoding.is_some_and(delta_counts::has_lengths) {
        let length = page.compressed.saturating_add(page.length as u64);
        return chunks().try_for_each(|chunk| delta_counts::check(inner, chunk, start, length));
    }
    Ok(())
}

impl<R: Length> Length for LimitedPages<R> {
    fn len(&self) -> u64 {
        self.inner.len()
    }
}

impl<R: ChunkReader + Clone> ChunkReader for LimitedPages<R> {
    type T = LimitedRead<R>;

    fn get_read(&self, start: u64) -> Result<Self::T> {
        let read = self.inner.get_read(start)?;
        Ok(LimitedRead { read, head: None, start, file: self.clone() })
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.inner.get_bytes(start, length)?;
        // With an offset index, the header comes with the page. Bytes that are no header are what is behind one.
        if let Some(page) = announced(&bytes) {
            check(&self.inner, &self.metadata, start, &page)?;
        }
        Ok(bytes)
    }
}

/// Reads from a page header on.
pub struct LimitedRead<R: ChunkReader> {
    read: R::T,
    /// The first bytes, once they are wanted: the library asks for places that it then does not read.
    head: Option<Cursor<Vec<u8>>>,
    start: u64,
    file: LimitedPages<R>,
}

impl<R: ChunkReader> LimitedRead<R> {
    /// Reads the header, and looks at it.
    fn open(&mut self) -> IoResult<Vec<u8>> {
        let (mut head, mut wanted) = (Vec::with_capacity(HEAD), HEAD);
        loop {
            let missing = (wanted - head.len()) as u64;
            let read = self.read.by_ref().take(missing).read_to_end(&mut head)? as u64;
            match announced(&head) {
                Some(page) => {
                    check(&self.file.inner, &self.file.metadata, self.start, &page).map_err(Error::other)?;
                    return Ok(head);
                }
                None if read < missing || wanted >= MAX_HEAD => {
                    return Err(Error::other(ParquetError::General("the header of a page is damaged".into())));
                }
                None => wanted *= 4,
            }
        }
    }
}

impl<R: ChunkReader> Read for LimitedRead<R> {
    fn read(&mut self, out: &mut [u8]) -> IoResult<usize> {
        let mut head = match self.head.take() {
            Some(head) => head,
            None => Cursor::new(self.open()?),
        };
        let read = head.read(out)?;
        self.head = Some(head);
        if read == 0 { self.read.read(out) } else { Ok(read) }
    }
}
