//! Writes with another index to a table of a bucket index.
//!
//! Rows of keys that are stored go to their file groups, whatever finds them. A new key would go to a group with a random
//! id, or into the group of another bucket, and no writer with a bucket index could write to its partition any more. Hudi
//! lets that happen. The table does not say what index its writers have, but the ids of its file groups tell.

use crate::error::{Error, Result};
use crate::file_group::{FileSlice, is_bucket_file_id};
use crate::table::commit_metadata::read_write_metadata;
use crate::table::{HudiTable, TableView};

/// Whether the newest commit wrote to file groups of a bucket index, and to no others.
///
/// # Errors
/// `Corrupt` for metadata that cannot be read; `Storage`.
pub(in crate::write) fn is_newest_of_buckets(view: &TableView) -> Result<bool> {
    let Some(newest) = view.timeline().completed_writes().next_back() else { return Ok(false) };
    let metadata = read_write_metadata(view.storage(), view.timeline(), newest)?;
    let mut ids =
        metadata.partition_to_write_stats.values().flatten().filter_map(|stat| stat.file_id.as_deref()).peekable();
    Ok(ids.peek().is_some() && ids.all(is_bucket_file_id))
}

/// Refuses new rows of a write with another index for a partition whose file groups are of a bucket index. For one without
/// file groups the newest commit tells: see [`is_newest_of_buckets`].
///
/// # Errors
/// `InvalidOption`; those of [`is_newest_of_buckets`].
pub(in crate::write) fn refuse_new_rows(
    table: &HudiTable,
    partition: &str,
    slices: &[FileSlice],
    is_newest_of_buckets: impl FnOnce() -> Result<bool>,
) -> Result<()> {
    let are_of_buckets = match slices {
        [] => is_newest_of_buckets()?,
        slices => slices.iter().all(|slice| is_bucket_file_id(&slice.file_id)),
    };
    if !are_of_buckets {
        return Ok(());
    }
    Err(Error::invalid_option("the table has a bucket index, and the write has new rows without hoodie.index.type=BUCKET")
        .with("table", table.storage().uri())
        .with("partition", partition)
        .remedy(
            "Set hoodie.index.type=BUCKET, with hoodie.bucket.index.num.buckets and hoodie.bucket.index.hash.field as the \
             table's other writers have them. To give the bucket index up, write all rows anew with insert_overwrite_table",
        ))
}
