//! The Avro object container file.
//!
//! | part | bytes |
//! |---|---|
//! | magic | `Obj` 0x01 |
//! | header | map of string to bytes: `avro.schema`, and `avro.codec` unless the codec is null |
//! | sync marker | 16 bytes |
//! | block, any number | count of records (long), size in bytes (long), the records, the sync marker |
//!
//! Hudi writes one block with one record, null codec, and no `avro.codec`; so do we. Deflate is read as well.

use std::borrow::Cow;
use std::io::{self, Read};

use flate2::read::DeflateDecoder;
use serde::{Deserialize, Serialize};

use super::datum::{Cursor, DatumError, DatumSchema, read_datum, write_datum, write_long};
use crate::json;
use hoodoo_runtime::error::{Error, Result};

const MAGIC: &[u8; 4] = b"Obj\x01";
const SYNC_LENGTH: usize = 16;

/// A deflated block may grow to this many bytes, or this many times its size: metadata of real tables deflate to a fifth or
/// a tenth of theirs.
const LEAST_LIMIT: u64 = 4 << 20;
const MAX_INFLATION: u64 = 16;
/// Bytes of the schema in the header. That of no record of the timeline has a tenth.
const MAX_SCHEMA: usize = 1 << 20;

/// Writes a container file with one record; the same record always gives the same bytes.
///
/// # Errors
/// The value's fields are not those of the schema, in its order.
pub(crate) fn write_container<T: Serialize + ?Sized>(
    schema: &DatumSchema,
    schema_json: &str,
    record: &T,
) -> Result<Vec<u8>> {
    let mut datum = Vec::new();
    write_datum(schema, record, &mut datum)
        .map_err(|e| Error::invalid_option("a record does not fit its Avro schema").caused_by(e))?;
    let sync = sync_marker(schema_json.as_bytes(), &datum);

    let mut out = Vec::with_capacity(datum.len() + schema_json.len() + 64);
    out.extend_from_slice(MAGIC);
    write_long(1, &mut out);
    write_bytes(b"avro.schema", &mut out);
    write_bytes(schema_json.as_bytes(), &mut out);
    write_long(0, &mut out);
    out.extend_from_slice(&sync);
    write_long(1, &mut out);
    write_length(datum.len(), &mut out);
    out.extend_from_slice(&datum);
    out.extend_from_slice(&sync);
    Ok(out)
}

/// Reads the first record of a container file into a serde type; see [`super::datum`] for how fields are matched.
///
/// # Errors
/// `Corrupt` for anything that is no intact container with at least one record that fits the type; `Unsupported` for a
/// codec other than null and deflate.
pub(crate) fn read_first_record<T: for<'de> Deserialize<'de>>(bytes: &[u8]) -> Result<T> {
    let mut cursor = Cursor::new(bytes);
    let header = Header::read(&mut cursor)?;
    let schema = DatumSchema::parse(header.schema)?;
    let block = header.first_block(&mut cursor)?;
    let mut records = Cursor::new(&block);
    read_datum(&schema, &mut records).map_err(|e| Error::corrupt("an Avro record could not be read").caused_by(e))
}

/// The name, without namespace, of the record that a container file holds.
///
/// # Errors
/// `Corrupt` if the bytes do not begin like a container file with a record schema.
pub fn record_name(bytes: &[u8]) -> Result<String> {
    let header = Header::read(&mut Cursor::new(bytes))?;
    let schema: serde_json::Value = json::parse(header.schema.as_bytes(), "an Avro schema is not valid JSON")?;
    let name = schema.get("name").and_then(serde_json::Value::as_str);
    let name = name.ok_or_else(|| Error::corrupt("an Avro container file does not hold records"))?;
    Ok(name.rsplit_once('.').map_or(name, |(_, short)| short).to_owned())
}

struct Header<'a> {
    schema: &'a str,
    deflate: bool,
    sync: &'a [u8],
}

impl<'a> Header<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<Self> {
        if cursor.take(MAGIC.len()).ok() != Some(MAGIC.as_slice()) {
            return Err(Error::corrupt("not an Avro container file: it does not begin with \"Obj\\x01\""));
        }
        let (mut schema, mut codec) = (None, "null");
        Self::entries(cursor, |key, value| match key {
            "avro.schema" => {
                schema = std::str::from_utf8(value).ok();
                schema.is_some()
            }
            "avro.codec" => std::str::from_utf8(value).map(|c| codec = c).is_ok(),
            _ => true,
        })
        .map_err(|e| Error::corrupt("the header of an Avro container file is damaged").caused_by(e))?;
        let deflate = match codec {
            "null" => false,
            "deflate" => true,
            other => return Err(Error::unsupported("the codec of an Avro container file").with("codec", other)),
        };
        let schema: &str = schema.ok_or_else(|| Error::corrupt("an Avro container file has no schema"))?;
        if schema.len() > MAX_SCHEMA {
            return Err(Error::corrupt("the schema of an Avro container file is too large").with("bytes", schema.len()));
        }
        let sync = cursor.take(SYNC_LENGTH).map_err(truncated)?;
        Ok(Self { schema, deflate, sync })
    }

    fn entries(cursor: &mut Cursor<'a>, mut entry: impl FnMut(&'a str, &'a [u8]) -> bool) -> Result<(), DatumError> {
        loop {
            let mut count = cursor.long()?;
            if count == 0 {
                return Ok(());
            }
            if count < 0 {
                cursor.long()?;
                count = count.saturating_neg();
            }
            for _ in 0..count {
                let (key, value) = (cursor.string()?, cursor.bytes()?);
                if !entry(key, value) {
                    return Err(DatumError::new(format!("{key} is not UTF-8")));
                }
            }
        }
    }

    /// The bytes of the first block that holds a record.
    fn first_block(&self, cursor: &mut Cursor<'a>) -> Result<Cow<'a, [u8]>> {
        while !cursor.is_empty() {
            let records = cursor.long().map_err(truncated)?;
            let block = cursor.bytes().map_err(truncated)?;
            let offset = cursor.offset();
            if cursor.take(SYNC_LENGTH).map_err(truncated)? != self.sync {
                let error = Error::corrupt("a block of an Avro container file does not end with the sync marker");
                return Err(error.with("offset", offset));
            }
            if records > 0 {
                return if self.deflate { inflate(block).map(Cow::Owned) } else { Ok(Cow::Borrowed(block)) };
            }
        }
        Err(Error::corrupt("an Avro container file holds no record"))
    }
}

fn inflate(block: &[u8]) -> Result<Vec<u8>> {
    let limit = LEAST_LIMIT.max((block.len() as u64).saturating_mul(MAX_INFLATION));
    let damaged = |e| Error::corrupt("a deflated block of an Avro container file is damaged").caused_by(e);
    // Measured first, so that no more memory is taken than the content needs, and none by one that is too large.
    let size = io::copy(&mut DeflateDecoder::new(block).take(limit + 1), &mut io::sink()).map_err(damaged)?;
    if size > limit {
        return Err(Error::corrupt("a deflated block of an Avro container file is too large").with("limit", limit));
    }
    let mut inflated = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    DeflateDecoder::new(block).take(size).read_to_end(&mut inflated).map_err(damaged)?;
    Ok(inflated)
}

fn truncated(e: DatumError) -> Error {
    Error::corrupt("an Avro container file is cut off or damaged").caused_by(e)
}

/// The marker only has to be unlikely inside the data, so it is a hash of them (FNV-1a, 128 bits).
fn sync_marker(schema: &[u8], datum: &[u8]) -> [u8; SYNC_LENGTH] {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for byte in schema.iter().chain(datum) {
        hash = (hash ^ u128::from(*byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    hash.to_le_bytes()
}

fn write_length(length: usize, out: &mut Vec<u8>) {
    write_long(i64::try_from(length).unwrap_or(i64::MAX), out);
}

fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    write_length(bytes.len(), out);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing)]

    use std::collections::BTreeMap;
    use std::io::Write;

    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    const SCHEMA: &str = r#"{"type":"map","values":["null","string"]}"#;

    type Map = BTreeMap<String, Option<String>>;

    fn sample() -> (Map, Vec<u8>) {
        let map = Map::from([("a".into(), Some("x".repeat(1000))), ("b".into(), None)]);
        let schema = DatumSchema::parse(SCHEMA).unwrap();
        let bytes = write_container(&schema, SCHEMA, &map).unwrap();
        (map, bytes)
    }

    /// A container around `blocks` of (count, payload).
    fn build(codec: &[u8], blocks: &[(i64, &[u8])]) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        write_long(2, &mut out);
        for (key, value) in [("avro.schema", SCHEMA.as_bytes()), ("avro.codec", codec)] {
            write_bytes(key.as_bytes(), &mut out);
            write_bytes(value, &mut out);
        }
        out.push(0);
        out.extend_from_slice(&[7; SYNC_LENGTH]);
        for (count, payload) in blocks {
            write_long(*count, &mut out);
            write_bytes(payload, &mut out);
            out.extend_from_slice(&[7; SYNC_LENGTH]);
        }
        out
    }

    fn payload(map: &Map) -> Vec<u8> {
        let mut out = Vec::new();
        write_datum(&DatumSchema::parse(SCHEMA).unwrap(), map, &mut out).unwrap();
        out
    }

    fn deflated(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn a_record_survives_and_its_bytes_are_stable() {
        let (map, bytes) = sample();
        assert_eq!(read_first_record::<Map>(&bytes).unwrap(), map);
        assert_eq!(sample().1, bytes);
        assert!(!bytes.windows(10).any(|w| w == b"avro.codec"));
    }

    #[test]
    fn deflate_is_read_and_other_codecs_are_refused() {
        let (map, _) = sample();
        let bytes = build(b"deflate", &[(1, &deflated(&payload(&map)))]);
        assert_eq!(read_first_record::<Map>(&bytes).unwrap(), map);
        let snappy = read_first_record::<Map>(&build(b"snappy", &[(1, b"")])).unwrap_err();
        assert_eq!(snappy.kind(), ErrorKind::Unsupported);
        assert!(snappy.to_string().contains("snappy"));
    }

    #[test]
    fn a_deflate_bomb_is_cut_short_and_empty_blocks_are_passed_over() {
        let zeros = deflated(&vec![0; 4 << 20]);
        // Zero bytes are an empty map: the block inflates and only its first value is read.
        assert_eq!(read_first_record::<Map>(&build(b"deflate", &[(1, &zeros)])).unwrap(), Map::new());
        let error = read_first_record::<Map>(&build(b"deflate", &[(1, &deflated(&vec![0; 5 << 20]))])).unwrap_err();
        assert!(error.message().contains("too large"), "{error}");
        let (map, _) = sample();
        let bytes = build(b"null", &[(0, b""), (1, &payload(&map))]);
        assert_eq!(read_first_record::<Map>(&bytes).unwrap(), map);
    }

    #[test]
    fn no_record_is_an_error() {
        let error = read_first_record::<Map>(&build(b"null", &[])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("no record"));
    }

    #[test]
    fn every_truncation_is_corrupt() {
        let (_, bytes) = sample();
        for end in 0..bytes.len() {
            let error = read_first_record::<Map>(&bytes[..end]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "cut at {end}");
        }
    }
}
