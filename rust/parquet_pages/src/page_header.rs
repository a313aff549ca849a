//! The header of a page, in Thrift's compact form.
//!
//! | field | type | what |
//! |---|---|---|
//! | 1 | i32 | kind of the page |
//! | 2 | i32 | bytes of the page before compression |
//! | 3 | i32 | bytes of the page in the file |
//! | 4 | i32, optional | CRC-32 of these |
//! | 5, 7 | struct | what only data pages, or dictionary pages, have |

use parquet::basic::Encoding;

/// A field of type i32 whose number is the one before, plus one.
const NEXT_INT: u8 = 0x15;
/// A field that is `false`, in the same place.
const NEXT_FALSE: u8 = 0x12;
const STRUCT: u8 = 0x0c;
const STOP: u8 = 0;
/// Numbers of the fields.
const SIZE: u8 = 3;
const CHECKSUM: u8 = 4;
const DATA: u8 = 5;
const DICTIONARY: u8 = 7;

/// What a page holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageKind {
    /// Values of rows, of the first version of the format; levels are runs.
    Data,
    /// Values that data pages refer to.
    Dictionary,
}

impl PageKind {
    fn number(self) -> u32 {
        match self {
            Self::Data => 0,
            Self::Dictionary => 2,
        }
    }
}

/// What the header of a page says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageHeader {
    /// What the page holds.
    pub kind: PageKind,
    /// Values, nulls included.
    pub values: u32,
    /// How they are encoded.
    pub encoding: Encoding,
    /// Bytes before compression.
    pub uncompressed: u32,
}

impl PageHeader {
    /// The bytes of the header of a page with this body, as it is in the file.
    pub(crate) fn encode(&self, body: &[u8], checksum: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(48);
        for number in [self.kind.number(), self.uncompressed, u32::try_from(body.len()).unwrap_or(u32::MAX)] {
            put_field(&mut out, number);
        }
        let mut last = SIZE;
        if checksum {
            put_field(&mut out, crc32fast::hash(body));
            last = CHECKSUM;
        }
        let (field, levels) = match self.kind {
            PageKind::Data => (DATA, true),
            PageKind::Dictionary => (DICTIONARY, false),
        };
        out.push(field.saturating_sub(last) << 4 | STRUCT);
        put_field(&mut out, self.values);
        put_field(&mut out, self.encoding as u32);
        if levels {
            put_field(&mut out, Encoding::RLE as u32);
            put_field(&mut out, Encoding::RLE as u32);
        } else {
            // Not sorted.
            out.push(NEXT_FALSE);
        }
        out.extend_from_slice(&[STOP, STOP]);
        out
    }
}

/// The first numbers of a header and what is behind them. `None` where these bytes are no header.
fn split_numbers(header: &[u8]) -> Option<([u32; SIZE as usize], &[u8])> {
    let (mut numbers, mut rest) = ([0; SIZE as usize], header);
    for to in &mut numbers {
        let (first, number) = rest.split_first()?;
        let end = number.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let (number, behind) = number.split_at_checked(end).filter(|_| *first == NEXT_INT && end <= 5)?;
        let zigzag = number.iter().rev().fold(0u64, |value, byte| value << 7 | u64::from(byte & 0x7f));
        *to = u32::try_from(zigzag >> 1).ok()?;
        rest = behind;
    }
    Some((numbers, rest))
}

/// The bytes of a page before and after compression, by the begin of its header.
pub(crate) fn sizes(header: &[u8]) -> Option<(u32, u32)> {
    split_numbers(header).map(|([_, uncompressed, compressed], _)| (uncompressed, compressed))
}

/// The header with a checksum of the body behind it. `None` where the header is none, or has one.
pub(super) fn with_checksum(header: &[u8], body: &[u8]) -> Option<Vec<u8>> {
    let (_, rest) = split_numbers(header)?;
    let (next, behind) = rest.split_first()?;
    let shorter = (next >> 4).checked_sub(CHECKSUM - SIZE).filter(|step| *step > 0)?;
    let mut out = Vec::with_capacity(header.len() + 6);
    out.extend_from_slice(header.get(..header.len() - rest.len())?);
    put_field(&mut out, crc32fast::hash(body));
    out.push(shorter << 4 | next & 0x0f);
    out.extend_from_slice(behind);
    Some(out)
}

/// Whether this is the header of a dictionary page.
pub(crate) fn is_dictionary(header: &[u8]) -> bool {
    matches!(header, [NEXT_INT, kind, ..] if u32::from(*kind) == PageKind::Dictionary.number() << 1)
}

/// Adds a number as the field behind the one before it: zigzag, then seven bits a byte, the lowest first.
fn put_field(out: &mut Vec<u8>, number: u32) {
    out.push(NEXT_INT);
    let signed = number.cast_signed();
    let mut rest = (signed << 1 ^ signed >> 31).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use bytes::Bytes;
    use parquet::column::page::{CompressedPage, Page, PageWriter};
    use parquet::file::writer::{SerializedPageWriter, TrackedWrite};

    use super::*;

    /// The page as the Parquet library writes it.
    fn by_the_library(header: PageHeader, body: &[u8]) -> Vec<u8> {
        let buf = Bytes::copy_from_slice(body);
        let PageHeader { values: num_values, encoding, .. } = header;
        let page = match header.kind {
            PageKind::Dictionary => Page::DictionaryPage { buf, num_values, encoding, is_sorted: false },
            PageKind::Data => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            },
        };
        let mut sink = TrackedWrite::new(Vec::new());
        let page = CompressedPage::new(page, header.uncompressed as usize);
        SerializedPageWriter::new(&mut sink).write_page(page).unwrap();
        sink.into_inner().unwrap()
    }

    #[test]
    fn headers_are_those_of_the_library_and_take_a_checksum() {
        for (kind, encoding) in [
            (PageKind::Data, Encoding::PLAIN),
            (PageKind::Data, Encoding::RLE_DICTIONARY),
            (PageKind::Dictionary, Encoding::PLAIN),
        ] {
            for (values, uncompressed, body) in [(0, 0, &b""[..]), (63, 64, b"abc"), (20_000, 1 << 20, &[7; 300])] {
                let header = PageHeader { kind, values, encoding, uncompressed };
                let plain = header.encode(body, false);
                assert_eq!([&plain, body].concat(), by_the_library(header, body));
                let checked = header.encode(body, true);
                assert_eq!(with_checksum(&plain, body).unwrap(), checked);
                assert_eq!(with_checksum(&checked, body), None);
                assert_eq!(sizes(&checked), Some((uncompressed, body.len() as u32)));
                assert_eq!(is_dictionary(&checked), kind == PageKind::Dictionary);
            }
        }
        for broken in [&b""[..], &[NEXT_INT], &[NEXT_INT, 0x80], &[NEXT_INT, 0, NEXT_INT, 0, NEXT_INT, 0], &[9; 20]] {
            assert_eq!(with_checksum(broken, b""), None);
        }
    }
}
