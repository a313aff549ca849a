//! Checks that `hoodie.properties` is complete.
//!
//! Hudi's `hoodie.table.checksum` is one of the table's name only, so a file that was cut short still agrees with it. But
//! Hudi, and hoodoo, begin the file with a comment that names them, end each line, and always write some properties.
//! Which others must have been there shows in the order of the lines: Java writes them by the hash of the key. Files of
//! other tools have none of these marks, and are taken as they are.

use crate::error::{Error, Result};
use crate::format::properties::Properties;

/// How the first comment begins when Hudi or hoodoo wrote the file.
const WRITERS: [&str; 4] = ["Properties saved on ", "Updated at ", "Properties saved by hoodoo", "Updated by hoodoo"];
/// What Hudi writes into every table.
const ALWAYS: [&str; 5] = [
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.timeline.layout.version",
    "hoodie.table.checksum",
];
/// And from version 8 on, upgraded tables included.
const ALWAYS_SINCE_8: [&str; 3] = ["hoodie.table.initial.version", "hoodie.timeline.path", "hoodie.record.merge.mode"];

const ORDERING: [&str; 2] = ["hoodie.table.ordering.fields", "hoodie.table.precombine.field"];
const HIVE_STYLE: &str = "hoodie.datasource.write.hive_style_partitioning";
const URL_ENCODE: &str = "hoodie.datasource.write.partitionpath.urlencode";
const META_FIELDS: &str = "hoodie.populate.meta.fields";
pub(super) const ZONE: &str = "hoodie.table.timeline.timezone";

/// Fails for a truncated file.
///
/// # Errors
/// `Corrupt`.
pub(super) fn check(bytes: &[u8], properties: &Properties) -> Result<()> {
    if bytes.contains(&0) {
        return Err(cut("hoodie.properties has zero bytes".to_owned()));
    }
    if !is_of_known_writer(bytes) {
        return Ok(());
    }
    if !bytes.ends_with(b"\n") {
        return Err(cut("hoodie.properties ends in the middle of a line".to_owned()));
    }
    let is_since_8 = matches!(properties.get("hoodie.table.version").map(str::trim), Some("8" | "9"));
    let always = ALWAYS.iter().chain(if is_since_8 { ALWAYS_SINCE_8.as_slice() } else { &[] });
    let missing = always.copied().find(|key| properties.get_non_empty(key).is_none());
    match missing.or_else(|| lost(properties)) {
        Some(key) => Err(cut(format!("hoodie.properties has no {key}, which its writer always writes"))),
        None => Ok(()),
    }
}

fn cut(message: String) -> Error {
    Error::corrupt(message).remedy(
        "The file was truncated or edited: restore it from a backup, or add the missing lines (an empty value says \
         that there is none)",
    )
}

fn is_of_known_writer(bytes: &[u8]) -> bool {
    let mut comments = bytes.split(|b| *b == b'\n').map_while(|line| line.strip_prefix(b"#"));
    comments.any(|comment| WRITERS.iter().any(|writer| comment.starts_with(writer.as_bytes())))
}

/// A property that goes with another one that is there, and whose line would have been behind the last line.
fn lost(properties: &Properties) -> Option<&'static str> {
    let has = |key: &str| properties.get(key).is_some();
    let by_event_time =
        properties.get("hoodie.record.merge.mode").is_some_and(|m| m.eq_ignore_ascii_case("EVENT_TIME_ORDERING"));
    let [ordering, _] = ORDERING;
    let pairs = [
        // Whoever asks for this mode without a column to order by gets it, so that the order of the lines decides.
        (by_event_time && !ORDERING.iter().any(|key| has(key)), ordering),
        // Spark's writers, Flink's and SQL give these together.
        (has(HIVE_STYLE) && !has(URL_ENCODE) && !has(ZONE), URL_ENCODE),
        (has(URL_ENCODE) && !has(HIVE_STYLE), HIVE_STYLE),
        (has(ZONE) && !has(META_FIELDS), META_FIELDS),
    ];
    let mut lost = pairs.iter().filter(|(goes_missing, _)| *goes_missing).map(|(_, key)| *key).peekable();
    lost.peek()?;
    let keys: Vec<&str> = properties.iter().map(|(key, _)| key).collect();
    lost.find(|key| Order::all().any(|order| order.is_behind(key, &keys)))
}

/// An order in which some Java writes properties.
#[derive(Clone, Copy)]
enum Order {
    /// Java 9 to 17: by slot in a `ConcurrentHashMap` of this size.
    Concurrent(u32),
    /// Java 8: by slot in a `Hashtable` of this size, from its end.
    Table(u32),
    /// From Java 18 on.
    Sorted,
}

impl Order {
    fn all() -> impl Iterator<Item = Self> {
        let concurrent = [16, 32, 64, 128, 256].map(Self::Concurrent);
        concurrent.into_iter().chain([11, 23, 47, 95, 191].map(Self::Table)).chain([Self::Sorted])
    }

    fn is_ordered(self, one: &str, next: &str) -> bool {
        match self {
            Self::Concurrent(size) => {
                let slot = |key: &str| (hash(key) ^ (hash(key) >> 16)) & (size - 1);
                slot(one) <= slot(next)
            }
            Self::Table(size) => (hash(one) & 0x7fff_ffff) % size >= (hash(next) & 0x7fff_ffff) % size,
            Self::Sorted => one <= next,
        }
    }

    /// Whether keys are in this order, and a further one would come behind the last of them.
    fn is_behind(self, key: &str, keys: &[&str]) -> bool {
        keys.is_sorted_by(|one, next| self.is_ordered(one, next))
            && keys.last().is_some_and(|last| self.is_ordered(last, key))
    }
}

/// Java's `String.hashCode`.
fn hash(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash: u32, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lines(order: &str, keys: &[&str]) -> String {
        keys.iter().fold(format!("#{order}\n#date\n"), |text, key| {
            let value = match *key {
                "hoodie.table.version" => "9",
                "hoodie.record.merge.mode" => "EVENT_TIME_ORDERING",
                _ => "x",
            };
            text + key + "=" + value + "\n"
        })
    }

    fn verdict(text: &str) -> Result<()> {
        check(text.as_bytes(), &Properties::parse(text.as_bytes()).unwrap())
    }

    /// The lines of a table of Spark SQL with 25 properties, in their order.
    const LINES: [&str; 24] = [
        "hoodie.table.keygenerator.type",
        "hoodie.table.type",
        "hoodie.table.create.schema",
        "hoodie.timeline.layout.version",
        "hoodie.timeline.history.path",
        "hoodie.table.checksum",
        "hoodie.datasource.write.drop.partition.columns",
        "hoodie.table.format",
        "hoodie.datasource.write.hive_style_partitioning",
        "hoodie.table.metadata.partitions.inflight",
        "hoodie.table.index.defs.path",
        "hoodie.keygen.timebased.output.dateformat",
        "hoodie.database.name",
        "hoodie.datasource.write.partitionpath.urlencode",
        "hoodie.record.merge.mode",
        "hoodie.table.version",
        "hoodie.table.initial.version",
        "hoodie.table.metadata.partitions",
        "hoodie.table.partition.fields",
        "hoodie.archivelog.folder",
        "hoodie.table.name",
        "hoodie.table.recordkey.fields",
        "hoodie.timeline.path",
        "hoodie.table.ordering.fields",
    ];

    #[test]
    fn no_line_of_a_table_of_hudi_goes_missing_at_the_end() {
        assert!(verdict(&lines("Updated at 2026-04-03T18:38:39.837037Z", &LINES)).is_ok());
        for kept in 0..LINES.len() {
            let text = lines("Updated at 2026-04-03T18:38:39.837037Z", LINES.get(..kept).unwrap());
            assert!(verdict(&text).is_err(), "{kept}");
        }
    }

    #[test]
    fn a_line_is_whole() {
        let text = lines("Properties saved on x", &LINES);
        let cut = verdict(text.strip_suffix('\n').unwrap()).unwrap_err();
        assert!(cut.to_string().contains("middle of a line"), "{cut}");
        assert!(verdict(&text.replace("=x", "=\0")).is_err());
    }

    #[test]
    fn event_time_without_an_ordering_column_is_as_hudi_wrote_it() {
        // `hoodie.table.base.file.format` comes behind the ordering column in all orders of this size.
        let keys: Vec<&str> = LINES.iter().copied().filter(|k| !ORDERING.contains(k)).collect();
        let mut with_format = keys.clone();
        with_format.push("hoodie.table.base.file.format");
        assert!(verdict(&lines("Updated at x", &keys)).is_err());
        assert!(verdict(&lines("Updated at x", &with_format)).is_ok());
    }

    #[test]
    fn files_of_other_tools_are_taken_as_they_are() {
        assert!(verdict("hoodie.table.name=t\nhoodie.table.version=9").is_ok());
        assert!(verdict("# ours\nhoodie.table.name=t").is_ok());
    }
}
