//! Local folders on which the processes of a machine lock what belongs to a table.

use std::path::PathBuf;

use hoodoo_storage::Storage;

/// Returns the folder to lock for a folder of the table: that folder itself on a local disk, a temporary folder named after
/// it for an object store. `None` for a table in memory, and if the folder cannot be created: then processes of this
/// machine do not wait for each other.
pub(super) fn machine_folder(storage: &Storage, folder: &str) -> Option<PathBuf> {
    let uri = storage.uri();
    match storage.is_remote() {
        false => storage.local_path(folder),
        true if uri.starts_with("memory:") => None,
        true => temporary_folder(uri, folder),
    }
}

fn temporary_folder(uri: &str, folder: &str) -> Option<PathBuf> {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let location = format!("{uri}/{folder}");
    let name =
        format!("{:08x}-{}", crc32fast::hash(location.as_bytes()), location.chars().map(plain).collect::<String>());
    let name: String = name.chars().take(200).collect();
    let path = std::env::temp_dir().join(format!("hoodoo-writer-leases-{}", user())).join(name);
    std::fs::create_dir_all(&path).ok()?;
    Some(path)
}

/// Part of the folder name, because the folder of one user cannot be opened by another.
fn user() -> String {
    #[cfg(unix)]
    return rustix::process::getuid().as_raw().to_string();
    #[cfg(not(unix))]
    return std::env::var("USERNAME").unwrap_or_default();
}
