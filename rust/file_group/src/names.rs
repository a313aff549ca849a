//! Names of data files.
//!
//! | file | name |
//! |---|---|
//! | base | `<fileId>_<writeToken>_<instant>.<parquet, orc, hfile>` |
//! | log | `.<fileId>_<instant>.log.<version>_<writeToken>` |
//! | change data log | `.<fileId>_<instant>.log.<version>_<writeToken>.cdc` |
//!
//! A file id has no dot and no underscore. The write token tells which task attempt wrote the file.

use serde::{Deserialize, Serialize};

use hoodoo_storage::FileMeta;

/// Whether a path relative to the table's base can be that of a data file. What a marker or a plan names is deleted some
/// day: nothing out of the table, nor of its metadata.
pub fn is_data_path(path: &str) -> bool {
    let (partition, name) = path.rsplit_once('/').unwrap_or(("", path));
    !matches!(name, "" | "." | "..") && !name.starts_with(".hoodie") && is_partition_path(partition)
}

/// Whether a text can be the path of a partition.
pub fn is_partition_path(partition: &str) -> bool {
    let mut levels = partition.split('/');
    let in_metadata = partition == ".hoodie" || partition.starts_with(".hoodie/");
    partition.is_empty() || !in_metadata && !levels.any(|level| matches!(level, "" | "." | ".."))
}

/// A base file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseFile {
    /// The file group.
    pub file_id: String,
    /// Task partition, stage and attempt of the writer.
    pub write_token: String,
    /// Requested time of the write.
    pub instant: String,
    /// Path relative to the table's base.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

impl BaseFile {
    /// Extensions of base files.
    pub(crate) const EXTENSIONS: [&'static str; 3] = ["parquet", "orc", "hfile"];

    /// Recognises a base file in a listing.
    pub fn parse(file: &FileMeta) -> Option<Self> {
        let name = file.name();
        let (stem, extension) = name.rsplit_once('.')?;
        if name.starts_with('.') || !Self::EXTENSIONS.contains(&extension) {
            return None;
        }
        let mut parts = stem.split('_');
        let (file_id, write_token, instant) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || file_id.is_empty() || !is_instant(instant) {
            return None;
        }
        Some(Self {
            file_id: file_id.to_owned(),
            write_token: write_token.to_owned(),
            instant: instant.to_owned(),
            path: file.path.clone(),
            size: file.size,
        })
    }

    /// The name of a base file.
    pub fn file_name(file_id: &str, write_token: &str, instant: &str) -> String {
        format!("{file_id}_{write_token}_{instant}.parquet")
    }

    /// The last part of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// A log file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogFile {
    /// The file group.
    pub file_id: String,
    /// Tables of version 8 and 9: requested time of the delta commit; version 6: base instant of the slice.
    pub instant: String,
    /// Number of the file within its instant.
    pub version: u32,
    /// Task partition, stage and attempt of the writer; old files have none.
    pub write_token: String,
    /// Path relative to the table's base.
    pub path: String,
    /// Size in bytes.
    pub size: u64,
}

impl LogFile {
    /// The name of a log file.
    pub fn file_name(file_id: &str, instant: &str, version: u32, write_token: &str) -> String {
        format!(".{file_id}_{instant}.log.{version}_{write_token}")
    }

    /// Puts the log files of a slice into the order in which they are merged.
    pub fn sort(logs: &mut [Self]) {
        logs.sort_by(|a, b| (&a.instant, a.version, &a.write_token).cmp(&(&b.instant, b.version, &b.write_token)));
    }

    /// Recognises a log file in a listing. Change-data-capture logs are not part of a slice.
    pub fn parse(file: &FileMeta) -> Option<Self> {
        let rest = file.name().strip_prefix('.')?;
        let (head, tail) = rest.split_once(".log.")?;
        let (file_id, instant) = head.split_once('_')?;
        let (version, write_token) = tail.split_once('_').unwrap_or((tail, ""));
        if file_id.is_empty() || file_id.contains('.') || !is_instant(instant) || write_token.ends_with(CHANGE_DATA) {
            return None;
        }
        Some(Self {
            file_id: file_id.to_owned(),
            instant: instant.to_owned(),
            version: version.parse().ok()?,
            write_token: write_token.to_owned(),
            path: file.path.clone(),
            size: file.size,
        })
    }
}

/// The requested time in the name of a data file, base or log.
pub fn data_file_instant(file: &FileMeta) -> Option<String> {
    BaseFile::parse(file).map(|b| b.instant).or_else(|| LogFile::parse(file).map(|l| l.instant))
}

/// The end of the name of a change data log.
const CHANGE_DATA: &str = ".cdc";

/// The name of a change data log.
pub fn change_log_name(file_id: &str, instant: &str, version: u32, write_token: &str) -> String {
    LogFile::file_name(file_id, instant, version, write_token) + CHANGE_DATA
}

/// Recognises a change data log in a listing. It is no log file of a slice, but goes with the slice whose base file it is
/// about.
pub fn parse_change_log(file: &FileMeta) -> Option<LogFile> {
    let path = file.path.strip_suffix(CHANGE_DATA)?.to_owned();
    Some(LogFile { path: file.path.clone(), ..LogFile::parse(&FileMeta { path, ..file.clone() })? })
}

/// The requested time in the name of any file that a write made: a data file or a change data log.
pub fn written_at(file: &FileMeta) -> Option<String> {
    data_file_instant(file).or_else(|| parse_change_log(file).map(|log| log.instant))
}

/// Whether a name is that of a partition metadata file.
pub fn is_partition_metadata(name: &str) -> bool {
    matches!(
        name,
        ".hoodie_partition_metadata" | ".hoodie_partition_metadata.parquet" | ".hoodie_partition_metadata.orc"
    )
}

/// The path of a file in a partition.
pub fn join(partition: &str, name: &str) -> String {
    if partition.is_empty() { name.to_owned() } else { format!("{partition}/{name}") }
}

/// A new file id: a random UUID, and the ordinal of the file among those that one writer made of it.
pub fn new_file_id(ordinal: usize) -> String {
    format!("{}-{ordinal}", hoodoo_runtime::simulated::uuid())
}

fn is_instant(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn file(path: &str) -> FileMeta {
        FileMeta { path: path.into(), size: 1, modified_ms: 0 }
    }

    #[test]
    fn base_files_are_recognised() {
        let b = BaseFile::parse(&file("city=a/f-0_1-2-3_20260101000000000.parquet")).unwrap();
        assert_eq!(
            (b.file_id.as_str(), b.write_token.as_str(), b.instant.as_str()),
            ("f-0", "1-2-3", "20260101000000000")
        );
        assert_eq!(b.name(), BaseFile::file_name("f-0", "1-2-3", "20260101000000000"));
        for other in ["a.parquet", ".f_1_2.parquet.crc", "f_1_2.parquet#1", "f_1_x.parquet", "f_1_2_3.parquet"] {
            assert_eq!(BaseFile::parse(&file(other)), None, "{other}");
        }
    }

    #[test]
    fn log_files_are_recognised() {
        let l = LogFile::parse(&file("p/.f-0_2026.log.3_0-1-2")).unwrap();
        assert_eq!(
            (l.file_id.as_str(), l.instant.as_str(), l.version, l.write_token.as_str()),
            ("f-0", "2026", 3, "0-1-2")
        );
        assert!(LogFile::parse(&file("p/.f-0_2026.log.3")).is_some());
        let changes = file("p/.f-0_2026.log.3_0-1-2.cdc");
        assert!(LogFile::parse(&changes).is_none() && parse_change_log(&file("p/.f-0_2026.log.3_0-1-2")).is_none());
        let parsed = parse_change_log(&changes).unwrap();
        assert_eq!(changes.name(), change_log_name(&parsed.file_id, &parsed.instant, 3, &parsed.write_token));
        assert!(LogFile::parse(&file("p/.f-0_2026.log.3.crc")).is_none());
    }
}
