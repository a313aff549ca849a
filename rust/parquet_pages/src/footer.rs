//! Footers of Parquet files, which may be hostile.
//!
//! The Parquet library follows the schema of a footer by recursion, and takes memory for as many children as a group
//! announces: a few kilobytes could overflow the stack, which ends the process. So the schema is looked at before.

use std::sync::Arc;

use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader};
use parquet::file::reader::ChunkReader;

use crate::thrift::{I32, LIST, Reader, STOP, STRUCT, Shape, shape_of};

/// The length of the footer, and the magic word.
const TAIL: u64 = 8;
const MAGIC: &[u8; 4] = b"PAR1";
/// How deep groups may nest: a list has three of them, and schemas of tables nest 64 deep at most.
const MAX_DEPTH: usize = 256;
/// Fields of `FileMetaData`.
const VERSION: i16 = 1;
const SCHEMA: i16 = 2;
/// Fields of `SchemaElement`.
const CHILDREN: i16 = 5;
const ELEMENT: &[(i16, Shape)] = &[
    (1, Shape::Number),
    (2, Shape::Number),
    (3, Shape::Number),
    (4, Shape::Binary),
    (6, Shape::Number),
    (7, Shape::Number),
    (8, Shape::Number),
    (9, Shape::Number),
    (10, Shape::Fields(LOGICAL_TYPE)),
];
/// Fields of `LogicalType`; those that are left out have no fields.
const LOGICAL_TYPE: &[(i16, Shape)] = &[
    (5, Shape::Fields(&[(1, Shape::Number), (2, Shape::Number)])),
    (7, Shape::Fields(TIME)),
    (8, Shape::Fields(TIME)),
    (10, Shape::Fields(&[(1, Shape::Byte), (2, Shape::Bool)])),
    (16, Shape::Fields(&[(1, Shape::Byte)])),
    (17, Shape::Fields(&[(1, Shape::Binary)])),
    (18, Shape::Fields(&[(1, Shape::Binary), (2, Shape::Number)])),
];
const TIME: &[(i16, Shape)] = &[(1, Shape::Bool), (2, Shape::Fields(&[]))];

/// The bytes of the footer of a file, without its length.
///
/// # Errors
/// The file does not end with a footer; what the file says.
pub fn footer_bytes<R: ChunkReader>(file: &R) -> Result<Bytes> {
    let none = || ParquetError::General("the file does not end with a Parquet footer".to_owned());
    let end = file.len().checked_sub(TAIL).ok_or_else(none)?;
    let tail = file.get_bytes(end, TAIL as usize)?;
    let (length, magic) = tail.split_first_chunk::<4>().ok_or_else(none)?;
    if magic != MAGIC {
        return Err(none());
    }
    let length = u32::from_le_bytes(*length);
    file.get_bytes(end.checked_sub(u64::from(length)).ok_or_else(none)?, length as usize)
}

/// Decodes a footer.
///
/// # Errors
/// It is damaged, or its schema nests too deeply.
pub fn decode_footer(footer: &[u8]) -> Result<ParquetMetaData> {
    let schema = checked_schema(footer)
        .ok_or_else(|| ParquetError::General("the schema of a Parquet footer is damaged or nests too deeply".into()))?;
    // Only the schema that was looked at counts: a footer may have a second one. It has no row groups here.
    let alone = [&[0x15, 2, 0x19], schema, &[0x16, 0, 0x19, 0x0c, 0]].concat();
    let alone = ParquetMetaDataReader::decode_metadata(&alone)?;
    let schema = alone.file_metadata().schema_descr_ptr();
    let options = ParquetMetaDataOptions::new().with_schema(Arc::clone(&schema));
    ParquetMetaDataReader::decode_metadata_with_options(footer, Some(&options))
}

/// The list of schema elements, if they make up one tree that is not too deep.
fn checked_schema(footer: &[u8]) -> Option<&[u8]> {
    let (mut reader, mut field) = (Reader::new(footer), 0);
    loop {
        match reader.field(&mut field)? {
            LIST if field == SCHEMA => break,
            I32 if field == VERSION => reader.skip(I32)?,
            _ => return None,
        }
    }
    let begin = reader.position;
    let (elements, ty) = reader.list()?;
    if ty != STRUCT || elements > footer.len() {
        return None;
    }
    // Children that groups still wait for, outermost first.
    let mut open: Vec<usize> = Vec::new();
    for number in 0..elements {
        let children = children(&mut reader)?;
        match open.last_mut() {
            Some(missing) => *missing -= 1,
            None if number > 0 => return None,
            None => {}
        }
        if children > elements - number - 1 || open.len() >= MAX_DEPTH {
            return None;
        }
        if children > 0 {
            open.push(children);
        }
        while open.last() == Some(&0) {
            open.pop();
        }
    }
    if open.is_empty() { footer.get(begin..reader.position) } else { None }
}

/// How many children a schema element has; reads to its end.
fn children(reader: &mut Reader<'_>) -> Option<usize> {
    let (mut children, mut field) = (None, 0);
    loop {
        match reader.field(&mut field)? {
            STOP => return Some(children.unwrap_or(0)),
            I32 if field == CHILDREN && children.is_none() => children = Some(usize::try_from(reader.number()?).ok()?),
            _ if field == CHILDREN => return None,
            ty => reader.skip_shaped(ty, shape_of(ELEMENT, field))?,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use parquet::arrow::ArrowWriter;

    use super::*;

    fn footer(schema: Schema) -> Bytes {
        let mut bytes = Vec::new();
        ArrowWriter::try_new(&mut bytes, Arc::new(schema), None).unwrap().close().unwrap();
        footer_bytes(&Bytes::from(bytes)).unwrap()
    }

    fn nested(levels: usize) -> Schema {
        let item = |ty: DataType| Arc::new(Field::new("item", ty, true));
        let ty = (0..levels).fold(DataType::Int32, |ty, _| DataType::List(item(ty)));
        let ty = DataType::Struct(vec![Field::new("l", ty, true), Field::new("s", DataType::Utf8, false)].into());
        Schema::new(vec![Field::new("a", DataType::Int64, false), Field::new("b", ty, true)])
    }

    #[test]
    fn footers_are_those_of_the_library() {
        for levels in [0, 1, 64] {
            let footer = footer(nested(levels));
            let expected = ParquetMetaDataReader::decode_metadata(&footer).unwrap();
            assert_eq!(decode_footer(&footer).unwrap(), expected);
        }
        let empty = footer(Schema::empty());
        assert_eq!(decode_footer(&empty).unwrap(), ParquetMetaDataReader::decode_metadata(&empty).unwrap());
    }

    /// A schema of so many elements, each a group of `children`.
    fn groups(count: u32, children: u32) -> Vec<u8> {
        let varint = |mut n: u32| {
            let mut out = Vec::new();
            while n >= 0x80 {
                out.push(n as u8 | 0x80);
                n >>= 7;
            }
            out.push(n as u8);
            out
        };
        let group = [&[0x35, 0, 0x18, 1, b'g', 0x15], &varint(children << 1)[..], &[0]].concat();
        let leaf = [0x15, 2, 0x25, 0, 0x18, 1, b'x', 0];
        let list = [&[0xfc], &varint(count + 1)[..], &group.repeat(count as usize)[..], &leaf].concat();
        [&[0x15, 2, 0x19], &list[..], &[0x16, 0, 0x19, 0x0c, 0]].concat()
    }

    #[test]
    fn a_schema_that_nests_too_deeply_or_announces_too_much_is_refused() {
        assert!(decode_footer(&groups(200, 1)).is_ok());
        for hostile in [groups(300, 1), groups(500_000, 1), groups(1, 1 << 30), groups(10, 7), groups(10, 0)] {
            decode_footer(&hostile).unwrap_err();
        }
        // A second schema does not replace the one that was looked at.
        let (mut first, second) = (groups(2, 1), groups(100_000, 1));
        first.truncate(first.len() - 1);
        let twice = [&first[..], &[0x09, 4], &second[3..]].concat();
        let decoded = decode_footer(&twice).unwrap();
        assert_eq!(decoded.file_metadata().schema_descr().column(0).path().string(), "g.x");
        let whole = groups(20, 1);
        for end in 0..whole.len() {
            decode_footer(&whole[..end]).unwrap_err();
        }
    }
}
