//! Versions of the history: which files make it up, and how a new version is published.
//!
//! A version is never changed. A new one is written in full and then named in `_version_`, so that a reader who holds
//! an older one goes on with its files until they are cleaned, some versions later.

use std::cmp::Reverse;
use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::TimelineConfig;
use hoodoo_runtime::error::{Error, Result};
use hoodoo_runtime::parallel::run_parallel;
use hoodoo_storage::{FileMeta, Storage, optional};

/// Names the current version.
pub(super) const VERSION_FILE: &str = "_version_";
/// Before the number in the name of a manifest.
pub(super) const MANIFEST_PREFIX: &str = "manifest_";

/// A file of the history: archived instants between two requested times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct HistoryFile {
    /// Name within the folder.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Smallest requested time in it.
    pub min: String,
    /// Largest requested time in it.
    pub max: String,
    /// Level in the tree; archiving writes level 0, each compaction one level more.
    pub level: u32,
}

impl HistoryFile {
    /// The file of that name, `<min>_<max>_<level>.parquet`; `None` for a name of another form.
    pub(crate) fn parse(name: &str, size: u64) -> Option<Self> {
        let (times, level) = name.strip_suffix(".parquet")?.rsplit_once('_')?;
        let (min, max) = times.split_once('_')?;
        let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(min) || !digits(max) || !digits(level) {
            return None;
        }
        Some(Self { name: name.to_owned(), size, min: min.to_owned(), max: max.to_owned(), level: level.parse().ok()? })
    }

    /// The name of a file with these instants.
    pub(crate) fn name_of(min: &str, max: &str, level: u32) -> String {
        format!("{min}_{max}_{level}.parquet")
    }
}

/// One version of the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Its number; 0 when nothing was ever archived.
    pub version: u64,
    /// Its files, by requested times.
    pub files: Vec<HistoryFile>,
}

impl Snapshot {
    /// The files of one level, oldest first.
    pub fn level(&self, level: u32) -> Vec<HistoryFile> {
        self.files.iter().filter(|f| f.level == level).cloned().collect()
    }

    /// The version after this one, without `removed` and with `added`.
    #[must_use]
    pub fn next(&self, removed: &[HistoryFile], added: Option<HistoryFile>) -> Self {
        let gone: HashSet<&str> = removed.iter().map(|f| f.name.as_str()).collect();
        let mut files: Vec<HistoryFile> =
            self.files.iter().filter(|f| !gone.contains(f.name.as_str())).cloned().chain(added).collect();
        files.sort_by(by_times);
        Self { version: self.version + 1, files }
    }
}

fn by_times(a: &HistoryFile, b: &HistoryFile) -> std::cmp::Ordering {
    (&a.min, &a.max, &a.name).cmp(&(&b.min, &b.max, &b.name))
}

#[derive(Debug, Serialize, Deserialize)]
struct Manifest {
    #[serde(default)]
    files: Vec<ManifestFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct ManifestFile {
    #[serde(rename = "fileName")]
    name: String,
    #[serde(rename = "fileLen", default)]
    length: u64,
}

/// The history's folder.
#[derive(Debug, Clone)]
pub(crate) struct HistoryFolder {
    storage: Storage,
    folder: String,
}

impl HistoryFolder {
    /// The folder of a table.
    pub(crate) fn new(storage: &Storage, config: &TimelineConfig) -> Self {
        Self { storage: storage.clone(), folder: config.history_folder.clone() }
    }

    /// The storage that it is on.
    pub(crate) fn storage(&self) -> &Storage {
        &self.storage
    }

    /// Its path.
    pub(crate) fn folder(&self) -> &str {
        &self.folder
    }

    /// Path of a file in it.
    pub(crate) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// The current version.
    ///
    /// # Errors
    /// `Corrupt` for a manifest that is no manifest; `Storage`.
    pub(crate) fn load(&self) -> Result<Snapshot> {
        let version = optional(self.storage.read(&self.path(VERSION_FILE)))?;
        let current = version.and_then(|b| std::str::from_utf8(&b).ok().and_then(|s| s.trim().parse::<u64>().ok()));
        if let Some(n) = current
            && let Some(snapshot) = self.read(n)?
        {
            return Ok(snapshot);
        }
        // Hudi rewrites the version file by delete and create; in the gap, and when its manifest was cleaned since, the
        // newest manifest counts. It may vanish too when versions come fast.
        for _ in 0..3 {
            let Some(newest) = self.versions()?.first().copied() else { return Ok(Snapshot::default()) };
            if let Some(snapshot) = self.read(newest)? {
                return Ok(snapshot);
            }
        }
        Err(Error::conflict("the history of the timeline changed faster than it could be read")
            .with("table", self.storage.uri())
            .remedy("Read again"))
    }

    /// One version, or `None` when it is not there (any more).
    fn read(&self, version: u64) -> Result<Option<Snapshot>> {
        let path = self.path(&format!("{MANIFEST_PREFIX}{version}"));
        let Some(bytes) = optional(self.storage.read(&path))? else { return Ok(None) };
        let files = parse(&bytes).map_err(|e| e.with("table", self.storage.uri()).with("file", path))?;
        Ok(Some(Snapshot { version, files }))
    }

    /// Numbers of the manifests that are there, newest first.
    fn versions(&self) -> Result<Vec<u64>> {
        Ok(versions_in(&self.storage.list(&self.folder)?.files))
    }

    /// Publishes a version. The caller holds the table lock.
    pub(crate) fn publish(&self, snapshot: &Snapshot) -> Result<()> {
        let files = snapshot.files.iter().map(|f| ManifestFile { name: f.name.clone(), length: f.size }).collect();
        let text = serde_json::to_string_pretty(&Manifest { files })
            .map_err(|e| Error::corrupt("a history manifest cannot be written").caused_by(e))?;
        let path = self.path(&format!("{MANIFEST_PREFIX}{}", snapshot.version));
        // What is named has to be there after a power cut, and all of it before instants are deleted that it has now.
        self.storage.sync()?;
        // One of that number that no version file names is left from a writer that died in between.
        self.storage.replace(&path, text)?;
        self.storage.replace(&self.path(VERSION_FILE), snapshot.version.to_string())?;
        self.storage.sync()
    }

    /// Removes versions but the newest `keep` up to the `current` one, and then the files that none of these names. A newer
    /// one is left from a writer that was killed before anybody knew of it. The caller holds the lock.
    pub(crate) fn clean(&self, current: u64, keep: usize) -> Result<usize> {
        // One look is enough: nobody else changes the history meanwhile.
        let listed = self.storage.list(&self.folder)?.files;
        let versions: Vec<u64> = versions_in(&listed).into_iter().filter(|version| *version <= current).collect();
        let (kept, old) = versions.split_at(keep.clamp(1, versions.len().max(1)).min(versions.len()));
        if old.is_empty() {
            return Ok(0);
        }
        let at_once = if self.storage.is_remote() { kept.len() } else { 1 };
        let named: HashSet<String> = run_parallel(kept.to_vec(), at_once, |version| self.read(version))?
            .into_iter()
            .flatten()
            .flat_map(|snapshot| snapshot.files.into_iter().map(|f| f.name))
            .collect();
        // Versions first: none of those that are left may name a file that is gone.
        let manifests: Vec<String> = old.iter().map(|v| self.path(&format!("{MANIFEST_PREFIX}{v}"))).collect();
        self.storage.delete_all(&manifests)?;
        let is_unnamed = |f: &&FileMeta| f.name().ends_with(".parquet") && !named.contains(f.name());
        let unnamed: Vec<&str> = listed.iter().filter(is_unnamed).map(|f| f.path.as_str()).collect();
        self.storage.delete_all(&unnamed)?;
        Ok(manifests.len() + unnamed.len())
    }
}

/// Numbers of the manifests in a listing, newest first.
fn versions_in(listed: &[FileMeta]) -> Vec<u64> {
    let mut versions: Vec<u64> = listed.iter().filter_map(|f| manifest_version(f.name())).collect();
    versions.sort_by_key(|v| Reverse(*v));
    versions
}

pub(super) fn manifest_version(name: &str) -> Option<u64> {
    name.strip_prefix(MANIFEST_PREFIX)?.parse().ok()
}

/// The files that a manifest names. An empty file names none.
fn parse(bytes: &[u8]) -> Result<Vec<HistoryFile>> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Vec::new());
    }
    // A list would pass for a manifest without files.
    if bytes.iter().find(|b| !b.is_ascii_whitespace()) != Some(&b'{') {
        return Err(Error::corrupt("a history manifest is no JSON object"));
    }
    let manifest: Manifest = serde_json::from_slice(bytes)
        .map_err(|e| Error::corrupt("a history manifest is not valid JSON").caused_by(e))?;
    let mut files = Vec::with_capacity(manifest.files.len());
    for ManifestFile { name, length } in manifest.files {
        files
            .push(HistoryFile::parse(&name, length).ok_or_else(|| {
                Error::corrupt("a history manifest names a file of no known form").with("name", name)
            })?);
    }
    files.sort_by(by_times);
    Ok(files)
}

/// Reads a manifest's bytes: for tests that feed it anything.
#[doc(hidden)]
pub fn parse_manifest(bytes: &[u8]) -> Result<Vec<HistoryFile>> {
    parse(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::TimeZone;
    use hoodoo_format::instant::Layout;
    use hoodoo_storage::StorageOptions;

    fn folder(name: &str) -> HistoryFolder {
        let storage = Storage::open(&format!("memory://{name}/t"), &StorageOptions::new()).unwrap();
        let config = TimelineConfig {
            layout: Layout::V2,
            folder: "t".into(),
            history_folder: "t/history".into(),
            zone: TimeZone::Utc,
            was_version_6: false,
        };
        HistoryFolder::new(&storage, &config)
    }

    fn file(name: &str) -> HistoryFile {
        HistoryFile::parse(name, 1).unwrap()
    }

    #[test]
    fn names_have_a_form() {
        let f = file("10_20_3.parquet");
        assert_eq!((f.min.as_str(), f.max.as_str(), f.level), ("10", "20", 3));
        assert_eq!(HistoryFile::name_of(&f.min, &f.max, f.level), f.name);
        for odd in ["", "10_20.parquet", "a_20_0.parquet", "10_20_x.parquet", "../1_2_0.parquet", "1_2_0.parquet.crc"] {
            assert_eq!(HistoryFile::parse(odd, 1), None, "{odd}");
        }
    }

    #[test]
    fn a_version_is_published_and_found_without_its_version_file() {
        let folder = folder("manifest-1");
        assert_eq!(folder.load().unwrap(), Snapshot::default());
        let one = Snapshot::default().next(&[], Some(file("10_20_0.parquet")));
        folder.publish(&one).unwrap();
        let two = one.next(&[], Some(file("30_40_0.parquet")));
        folder.publish(&two).unwrap();
        assert_eq!(folder.load().unwrap(), two);
        folder.storage().delete(&folder.path(VERSION_FILE)).unwrap();
        assert_eq!(folder.load().unwrap(), two);
        let three = two.next(&one.files, Some(file("10_40_1.parquet")));
        assert_eq!((three.version, three.files.len()), (3, 2));
    }

    #[test]
    fn cleaning_keeps_what_the_kept_versions_name() {
        let folder = folder("manifest-2");
        let mut snapshot = Snapshot::default();
        for i in 0..6u32 {
            let name = format!("{i}0_{i}5_0.parquet");
            folder.storage().replace(&folder.path(&name), "x").unwrap();
            snapshot = snapshot.next(&snapshot.files.clone(), Some(file(&name)));
            folder.publish(&snapshot).unwrap();
        }
        folder.storage().replace(&folder.path("99_99_0.parquet"), "stray").unwrap();
        assert_eq!(folder.clean(6, 9).unwrap(), 0);
        folder.storage().replace(&folder.path("manifest_7"), "").unwrap();
        assert_eq!(folder.clean(6, 2).unwrap(), 4 + 4 + 1);
        let left: Vec<String> =
            folder.storage().list("t/history").unwrap().files.iter().map(|f| f.name().to_owned()).collect();
        assert_eq!(
            left,
            ["40_45_0.parquet", "50_55_0.parquet", VERSION_FILE, "manifest_5", "manifest_6", "manifest_7"]
        );
        assert_eq!(folder.load().unwrap(), snapshot);
    }

    #[test]
    fn odd_manifests_are_errors() {
        assert_eq!(parse(b" \n").unwrap(), []);
        assert_eq!(parse(br#"{"files":[],"more":1}"#).unwrap(), []);
        for odd in [&b"{"[..], b"[]", br#"{"files":[{"fileLen":1}]}"#, br#"{"files":[{"fileName":"x"}]}"#, b"\xff"] {
            assert!(parse(odd).is_err());
        }
    }
}
