//! Tables of a bucket index are not clustered: the records of a bucket belong into its one file group.

use super::group::PartitionSlices;
use crate::error::{Error, Result};
use crate::file_group::are_bucket_file_ids;
use crate::table::{HudiTable, has_bucket_index};

/// Refuses to plan a clustering of a bucket index, whether the options say that the table has one or the ids of all file
/// groups of a partition.
///
/// # Errors
/// `Unsupported`.
pub(super) fn refuse_buckets<'a>(
    table: &HudiTable,
    partitions: impl IntoIterator<Item = &'a PartitionSlices>,
) -> Result<()> {
    let are_of_buckets =
        |found: &PartitionSlices| are_bucket_file_ids(found.slices.iter().map(|slice| slice.file_id.as_str()));
    if has_bucket_index(table.options()) || partitions.into_iter().any(are_of_buckets) {
        return Err(buckets_not_supported().with("table", table.storage().uri()));
    }
    Ok(())
}

/// The error of a clustering of a bucket index.
pub(crate) fn buckets_not_supported() -> Error {
    Error::unsupported("clustering a table with a bucket index (hoodie.index.type=BUCKET)").remedy(
        "Leave hoodie.clustering.inline out. Its files grow with the rows of a bucket: for smaller or larger ones, write all \
         rows anew with insert_overwrite_table and another hoodie.bucket.index.num.buckets",
    )
}
