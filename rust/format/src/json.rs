//! JSON of metadata, which may be hostile: a few bytes of it can ask for far more memory than they are.

use serde::Deserialize;

use hoodoo_runtime::error::{Error, Result};

/// Smaller documents are not weighed.
const SMALL: usize = 256 << 10;
/// What an object, a list and any other value may take in memory, at least.
const OBJECT: u64 = 400;
const LIST: u64 = 100;
const VALUE: u64 = 40;
/// A document may weigh this, or so much for each of its bytes. Metadata of real tables weigh less than half of that.
const LEAST_LIMIT: u64 = 16 << 20;
const LIMIT_PER_BYTE: u64 = 20;

/// Parses a document.
///
/// # Errors
/// `Corrupt`, with this message, for what is no JSON of the type; and for a document of very many empty values.
pub fn parse<'de, T: Deserialize<'de>>(document: &'de [u8], message: &str) -> Result<T> {
    let limit = LEAST_LIMIT.max(LIMIT_PER_BYTE.saturating_mul(document.len() as u64));
    if document.len() > SMALL && weight(document) > limit {
        return Err(Error::corrupt("a JSON document holds far more values than metadata do").with("limit", limit));
    }
    serde_json::from_slice(document).map_err(|e| Error::corrupt(message).caused_by(e))
}

/// What the values of a document take in memory, nearly. What stands in strings is none.
fn weight(document: &[u8]) -> u64 {
    let (mut weight, mut rest) = (0, document);
    while let Some(at) = memchr::memchr(b'"', rest) {
        let (outside, inside) = rest.split_at(at);
        weight += of_values(outside);
        rest = behind_string(inside.get(1..).unwrap_or_default());
    }
    weight + of_values(rest)
}

fn of_values(outside: &[u8]) -> u64 {
    let of = |byte: &u8| match byte {
        b'{' => OBJECT,
        b'[' => LIST,
        b',' => VALUE,
        _ => 0,
    };
    outside.iter().map(of).sum()
}

/// What is behind the end of a string.
fn behind_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        let ends = rest.get(at) == Some(&b'"');
        rest = rest.get(at + if ends { 1 } else { 2 }..).unwrap_or_default();
        if ends {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use hoodoo_runtime::error::ErrorKind;

    #[test]
    fn values_are_weighed_and_strings_are_not() {
        assert_eq!(weight(br#"{"a{[,\"{": [1, {}], "b\\": "{{{"}"#), 2 * OBJECT + LIST + 2 * VALUE);
        assert_eq!(weight(br#""no end {"#), 0);
        let columns: Vec<String> =
            (0..40_000).map(|n| format!(r#"{{"name":"c{n}","type":["null","int"],"default":null}}"#)).collect();
        let schema = format!(r#"{{"type":"record","name":"r","fields":[{}]}}"#, columns.join(","));
        let parsed: serde_json::Value = parse(schema.as_bytes(), "a schema").unwrap();
        assert_eq!(parsed.get("fields").and_then(|fields| fields.as_array()).unwrap().len(), 40_000);
    }

    #[test]
    fn many_empty_values_are_refused() {
        for value in ["{},", r#"{"":0},"#, "[{}],"] {
            let bomb = format!("[{}0]", value.repeat((4 << 20) / value.len()));
            let error = parse::<serde_json::Value>(bomb.as_bytes(), "a bomb").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{value}");
            assert!(error.message().contains("far more values"));
        }
        assert!(parse::<serde_json::Value>(b"{", "no JSON").is_err());
    }
}
