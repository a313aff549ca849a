//! What an engine offers that lists and deletes many files in tasks.

use super::listing::FileMeta;
use hoodoo_runtime::error::Result;

/// An engine, such as Spark, that lists folders and deletes files of a table in tasks, one for each chunk.
pub trait FileTasks: Send + Sync {
    /// The files in folders, or all files below them, in any order. A folder that is missing is empty.
    ///
    /// # Errors
    /// Those of the tasks.
    fn list(&self, chunks: &[&[String]], recursive: bool) -> Result<Vec<FileMeta>>;

    /// Deletes files. Returns for each file, in order, whether it was there.
    ///
    /// # Errors
    /// Those of the tasks. Some files may be deleted then.
    fn delete(&self, chunks: &[&[String]]) -> Result<Vec<bool>>;
}
