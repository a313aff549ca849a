//! Java `.properties` text: `hoodie.properties`, `.hoodie_partition_metadata`.
//!
//! Order of the entries is kept, so that a rewrite changes only what was meant to change. The escapes are those of
//! `java.util.Properties`: backslash pairs, `\uXXXX`, a backslash at the end of a line goes on in the next.

use std::fmt::Write as _;

use hoodoo_runtime::error::{Error, Result};

/// Largest properties text that is accepted, in bytes. Real ones hold a few kilobytes, a table schema included.
const MAX_LEN: usize = 64 << 20;

/// An ordered list of key-value pairs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<(String, String)>,
}

impl Properties {
    /// No entries.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the text. The last value of a repeated key wins, as in Java.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if bytes.len() > MAX_LEN {
            return Err(Error::corrupt(format!("a properties file of {} bytes is not plausible", bytes.len())));
        }
        // Java reads ISO-8859-1; UTF-8 written by other tools is accepted where it is valid.
        let text: String = match std::str::from_utf8(bytes) {
            Ok(text) => text.to_owned(),
            Err(_) => bytes.iter().map(|b| char::from(*b)).collect(),
        };
        let mut out = Self::new();
        let mut lines = text.split(['\n', '\r']);
        while let Some(line) = lines.next() {
            let line = line.trim_start_matches([' ', '\t', '\x0c']);
            if line.is_empty() || line.starts_with(['#', '!']) {
                continue;
            }
            let mut logical = line.to_owned();
            while ends_in_continuation(&logical) {
                logical.pop();
                match lines.next() {
                    Some(next) => logical.push_str(next.trim_start_matches([' ', '\t', '\x0c'])),
                    None => break,
                }
            }
            let (key, value) = split_entry(&logical);
            out.set(unescape(key)?, unescape(value)?);
        }
        Ok(out)
    }

    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The value of `key` when it is there and not empty.
    pub fn get_non_empty(&self, key: &str) -> Option<&str> {
        self.get(key).filter(|v| !v.is_empty())
    }

    /// Sets a value, in place when the key is already there.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<String>) {
        let (key, value) = (key.into(), value.into());
        match self.entries.iter_mut().find(|(k, _)| *k == key) {
            Some(entry) => entry.1 = value,
            None => self.entries.push((key, value)),
        }
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|(k, _)| k != key);
    }

    /// All entries in file order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries.iter().map(|(k, v)| (k.as_str(), v.as_str()))
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The text as Java would store it, headed by comment lines.
    pub fn to_text(&self, comments: &[&str]) -> String {
        let mut out = String::new();
        for comment in comments {
            let _ = writeln!(out, "#{comment}");
        }
        for (key, value) in &self.entries {
            escape(key, true, &mut out);
            out.push('=');
            escape(value, false, &mut out);
            out.push('\n');
        }
        out
    }
}

fn ends_in_continuation(line: &str) -> bool {
    line.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// Splits at the first unescaped `=`, `:` or blank, as Java does.
fn split_entry(line: &str) -> (&str, &str) {
    let mut escaped = false;
    for (i, c) in line.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match c {
            '\\' => escaped = true,
            '=' | ':' | ' ' | '\t' | '\x0c' => {
                let (key, rest) = line.split_at(i);
                let rest = rest.trim_start_matches([' ', '\t', '\x0c']);
                let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
                return (key, rest.trim_start_matches([' ', '\t', '\x0c']));
            }
            _ => {}
        }
    }
    (line, "")
}

fn unescape(text: &str) -> Result<String> {
    if !text.contains('\\') {
        return Ok(text.to_owned());
    }
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut buffer = [0u16; 2];
    while let Some(c) = chars.next() {
        let c = if c != '\\' {
            c
        } else {
            match chars.next() {
                Some('u') => {
                    let hex: String = chars.by_ref().take(4).collect();
                    let unit = u16::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 4);
                    units.push(unit.ok_or_else(|| Error::corrupt(format!("malformed \\u escape '\\u{hex}'")))?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some(other) => other,
                None => break,
            }
        };
        units.extend_from_slice(c.encode_utf16(&mut buffer));
    }
    Ok(String::from_utf16_lossy(&units))
}

fn escape(text: &str, is_key: bool, out: &mut String) {
    for (i, c) in text.chars().enumerate() {
        match c {
            ' ' if i == 0 || is_key => out.push_str("\\ "),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\x0c' => out.push_str("\\f"),
            '\\' | '=' | ':' | '#' | '!' => {
                out.push('\\');
                out.push(c);
            }
            ' '..='~' => out.push(c),
            _ => {
                let mut buffer = [0u16; 2];
                for unit in c.encode_utf16(&mut buffer) {
                    let _ = write!(out, "\\u{unit:04X}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_what_java_writes() {
        let text = b"#note\n#date\nhoodie.table.partition.fields=part\\:SIMPLE,t\\:TIMESTAMP\n a : b\nk\\ 1 v \\\n   w\nu=\\u00E4\\uD83D\\uDE00\nempty=\n";
        let p = Properties::parse(text).unwrap();
        assert_eq!(p.get("hoodie.table.partition.fields"), Some("part:SIMPLE,t:TIMESTAMP"));
        assert_eq!(p.get("a"), Some("b"));
        assert_eq!(p.get("k 1"), Some("v w"));
        assert_eq!(p.get("u"), Some("ä😀"));
        assert_eq!(p.get("empty"), Some(""));
        assert_eq!(p.get_non_empty("empty"), None);
    }

    #[test]
    fn bad_escape_is_corrupt() {
        assert!(Properties::parse(b"a=\\u12").is_err());
    }

    proptest! {
        #[test]
        fn any_text_round_trips(pairs in proptest::collection::vec((".{1,12}", ".{0,20}"), 0..8)) {
            let mut p = Properties::new();
            for (k, v) in &pairs { p.set(k.clone(), v.clone()); }
            let back = Properties::parse(p.to_text(&["x"]).as_bytes()).unwrap();
            prop_assert_eq!(p, back);
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Properties::parse(&bytes);
        }
    }
}
