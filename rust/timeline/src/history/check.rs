//! Whether the files of the history are what its manifest says.

use std::collections::HashSet;

use arrow::array::AsArray;

use super::HistoryReader;
use super::entry::{LoadMode, TimeRange};
use super::manifest::{HistoryFile, HistoryFolder, MANIFEST_PREFIX, VERSION_FILE, manifest_version};
use crate::TimelineConfig;
use hoodoo_runtime::error::{Error, ErrorKind, Result};
use hoodoo_runtime::parallel::run_parallel;
use hoodoo_storage::Storage;

/// Something that is wrong with a file of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryFault {
    /// The file.
    pub path: String,
    /// What is wrong with it.
    pub message: String,
    /// Whether readers find all instants nevertheless.
    pub is_harmless: bool,
}

/// Looks at the version file, the current manifest and every file that it names: how many files, and what is wrong with
/// them. `names_are_times`: the name of each file has the least and the greatest time of its rows. `is_active` tells
/// whether the active timeline has an instant of a requested time.
///
/// # Errors
/// `Storage`.
pub fn faults(
    storage: &Storage,
    config: &TimelineConfig,
    names_are_times: bool,
    is_active: &dyn Fn(&str) -> bool,
    threads: usize,
) -> Result<(u64, Vec<HistoryFault>)> {
    // An archiver may publish a version and clean up old ones meanwhile: what is still so at a second look is so.
    let first = look(storage, config, names_are_times, is_active, threads)?;
    if first.1.is_empty() {
        return Ok(first);
    }
    look(storage, config, names_are_times, is_active, threads)
}

fn look(
    storage: &Storage,
    config: &TimelineConfig,
    names_are_times: bool,
    is_active: &dyn Fn(&str) -> bool,
    threads: usize,
) -> Result<(u64, Vec<HistoryFault>)> {
    let folder = HistoryFolder::new(storage, config);
    let listed = storage.list(folder.folder())?.files;
    let newest = listed.iter().filter_map(|f| manifest_version(f.name())).max();
    let has_files = listed.iter().any(|f| f.name().ends_with(".parquet"));
    let mut faults = Vec::new();
    let mut tell = |name: &str, message: String, is_harmless: bool| {
        faults.push(HistoryFault { path: folder.path(name), message, is_harmless });
    };
    let current = match read(&folder, VERSION_FILE)? {
        Err(message) => {
            return Ok((0, vec![HistoryFault { path: folder.path(VERSION_FILE), message, is_harmless: false }]));
        }
        Ok(None) if newest.is_none() && !has_files => return Ok((0, faults)),
        Ok(None) => {
            tell(VERSION_FILE, "the file is missing; readers use the newest manifest".to_owned(), newest.is_some());
            newest
        }
        Ok(Some(bytes)) => {
            let number = std::str::from_utf8(&bytes).ok().and_then(|text| text.trim().parse::<u64>().ok());
            if number.is_none() {
                tell(VERSION_FILE, "the file holds no number".to_owned(), false);
            }
            number.or(newest)
        }
    };
    let Some(current) = current else { return Ok((0, faults)) };
    let name = format!("{MANIFEST_PREFIX}{current}");
    let files = match read(&folder, &name)? {
        Ok(None) => Err("the current manifest is missing".to_owned()),
        Ok(Some(bytes)) if has_files && bytes.iter().all(u8::is_ascii_whitespace) => {
            Err("the current manifest is empty, and there are history files".to_owned())
        }
        Ok(Some(bytes)) => {
            super::parse_manifest(&bytes).map_err(|e| format!("the current manifest cannot be read: {e}"))
        }
        Err(message) => Err(message),
    };
    let files = match files {
        Ok(files) => files,
        Err(message) => {
            tell(&name, message, false);
            return Ok((0, faults));
        }
    };
    if let Some(newest) = newest.filter(|newest| *newest > current) {
        let is_harmless = was_never_published(&folder, newest, &files, is_active)?;
        tell(VERSION_FILE, format!("the file says {current}, but there is a {MANIFEST_PREFIX}{newest}"), is_harmless);
    }
    let there: HashSet<(&str, u64)> = listed.iter().map(|f| (f.name(), f.size)).collect();
    let checked = files.len() as u64;
    let reader = HistoryReader::new(storage, config).with_threads(1);
    let found = run_parallel(files, threads, |file| {
        let message = check_file(&reader, &file, names_are_times, &there)?;
        Ok(message.map(|message| HistoryFault { path: folder.path(&file.name), message, is_harmless: false }))
    })?;
    faults.extend(found.into_iter().flatten());
    Ok((checked, faults))
}

/// Whether a manifest is that of an archiver which died before it named it: all that it adds is still elsewhere.
fn was_never_published(
    folder: &HistoryFolder,
    version: u64,
    current: &[HistoryFile],
    is_active: &dyn Fn(&str) -> bool,
) -> Result<bool> {
    let Ok(Some(bytes)) = read(folder, &format!("{MANIFEST_PREFIX}{version}"))? else { return Ok(false) };
    let Ok(files) = super::parse_manifest(&bytes) else { return Ok(false) };
    Ok(files.iter().filter(|f| !current.contains(f)).all(|f| f.level > 0 || is_active(&f.min) && is_active(&f.max)))
}

/// The content of a small file; what is wrong with it as text.
fn read(folder: &HistoryFolder, name: &str) -> Result<std::result::Result<Option<bytes::Bytes>, String>> {
    match folder.storage().read_if_exists(&folder.path(name)) {
        Ok(content) => Ok(Ok(content)),
        Err(e) if e.kind() == ErrorKind::Corrupt => Ok(Err(format!("the file cannot be read: {e}"))),
        Err(e) => Err(e),
    }
}

fn check_file(
    reader: &HistoryReader,
    file: &HistoryFile,
    names_are_times: bool,
    there: &HashSet<(&str, u64)>,
) -> Result<Option<String>> {
    if !there.contains(&(file.name.as_str(), file.size)) {
        return Ok(Some(match there.iter().find(|(name, _)| *name == file.name) {
            Some((_, stored)) => format!("the file has {stored} bytes, but its manifest says {}", file.size),
            None => "the current manifest names this file, but it is missing".to_owned(),
        }));
    }
    match times_of(reader, file) {
        Ok(None) => Ok(Some("the file has no rows".to_owned())),
        Ok(Some((min, max))) if names_are_times && (min != file.min || max != file.max) => {
            Ok(Some(format!("the file has instants from {min} to {max}, which does not match its name")))
        }
        Ok(_) => Ok(None),
        Err(e) if matches!(e.kind(), ErrorKind::Storage | ErrorKind::Conflict) => Err(e),
        Err(e) => Ok(Some(format!("the file cannot be read: {e}"))),
    }
}

/// Reads all of a file: the least and the greatest requested time.
fn times_of(reader: &HistoryReader, file: &HistoryFile) -> Result<Option<(String, String)>> {
    let mut times: Option<(String, String)> = None;
    for batch in reader.open_files(vec![file.clone()], &TimeRange::all(), LoadMode::Full)? {
        let batch = batch?;
        let column = batch.column(0).as_string_opt::<i32>();
        let column = column.ok_or_else(|| Error::corrupt("the times of a history file are no strings"))?;
        for time in column.iter() {
            let time = time.ok_or_else(|| Error::corrupt("a row of a history file has no time"))?;
            let (min, max) = times.get_or_insert_with(|| (time.to_owned(), time.to_owned()));
            if time < min.as_str() {
                time.clone_into(min);
            } else if time > max.as_str() {
                time.clone_into(max);
            }
        }
    }
    Ok(times)
}
