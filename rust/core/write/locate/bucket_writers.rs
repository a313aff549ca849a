//! Writes with another index to a table of a bucket index.
//!
//! Rows of keys that are stored go to their file groups, whatever finds them. A new key would go to a group with a random
//! id, or into the group of another bucket, and no writer with a bucket index could write to its partition any more. Hudi
//! lets that happen. The table does not say what index its writers have, but the ids of its file groups tell.

use crate::error::{Error, Result};
use crate::file_group::{FileSlice, are_bucket_file_ids};
use crate::table::HudiTable;

/// Refuses new rows of a write with another index for a partition whose file groups are of a bucket index. A single file
/// group tells nothing: its random id may look like that of a bucket.
///
/// # Errors
/// `InvalidOption`.
pub(in crate::write) fn refuse_new_rows(table: &HudiTable, partition: &str, slices: &[FileSlice]) -> Result<()> {
    if !are_bucket_file_ids(slices.iter().map(|slice| slice.file_id.as_str())) {
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
