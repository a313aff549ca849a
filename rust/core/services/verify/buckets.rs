//! Checks the ids of file groups in the partitions of a bucket index: each bucket has one file group at most, and there are
//! no others. Where the options say that the table has such an index, a bucket beyond their number is an error too: a write
//! with these options refuses it.

use std::collections::HashMap;

use super::listing::Listing;
use super::{Report, file_groups};
use crate::error::{ErrorKind, Result};
use crate::file_group::{FileSlice, bucket_of_file_id, is_bucket_file_id, is_partition_metadata, join};
use crate::table::{BucketIndex, BucketSettings, HudiTable, NUM_BUCKETS, TableView, has_bucket_index};

const REWRITE: &str =
    "Read the rows of the partition, and write them anew with insert_overwrite and hoodie.index.type=BUCKET";

/// Checks every partition of a bucket index: all of them where the options say that the table has one, or else those in
/// which most ids are such, and more than one.
pub(super) fn check(table: &HudiTable, view: &TableView, listing: &Listing, report: &mut Report) -> Result<()> {
    let has_buckets = has_bucket_index(table.options());
    let index = if has_buckets { given_index(table, view)? } else { None };
    for (partition, files) in listing {
        if !files.iter().any(|file| is_partition_metadata(file.name())) {
            continue;
        }
        let slices = view.latest_of(file_groups(view, partition, files)?);
        let of_buckets = slices.iter().filter(|slice| is_bucket_file_id(&slice.file_id)).count();
        if has_buckets || (of_buckets > 1 && of_buckets * 2 > slices.len()) {
            check_partition(&slices, index.as_ref().map(|index| index.buckets_in(partition)), report);
        }
    }
    Ok(())
}

/// The index that the options describe; `None` for a kind whose buckets cannot be counted.
fn given_index(table: &HudiTable, view: &TableView) -> Result<Option<BucketIndex>> {
    match BucketSettings::of_table(table, &table.key_config()?, view.timeline()) {
        Ok(settings) => BucketIndex::new(settings).map(Some),
        Err(e) if e.kind() == ErrorKind::Unsupported => Ok(None),
        Err(e) => Err(e),
    }
}

fn check_partition(slices: &[FileSlice], buckets: Option<u32>, report: &mut Report) {
    let mut known: HashMap<u32, &str> = HashMap::new();
    for slice in slices {
        let subject = join(&slice.partition, &slice.file_id);
        let Some(bucket) = bucket_of_file_id(&slice.file_id) else {
            let message = "a file group that is of no bucket, in a partition of a bucket index";
            report.error(subject, message, REWRITE);
            continue;
        };
        if let Some(buckets) = buckets.filter(|buckets| bucket >= *buckets) {
            let message =
                format!("a file group of bucket {bucket}, and {NUM_BUCKETS} says that there are {buckets} buckets");
            report.error(&subject, message, REWRITE);
        }
        if let Some(other) = known.insert(bucket, &slice.file_id) {
            report.error(subject, format!("bucket {bucket} has another file group too, {other}"), REWRITE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_has_one_file_group() {
        let slice = |id: &str| FileSlice {
            partition: "p".into(),
            file_id: id.into(),
            base_instant: "1".into(),
            base: None,
            logs: Vec::new(),
        };
        let problems_of = |ids: &[&str], buckets| {
            let mut report = Report::default();
            check_partition(&ids.iter().map(|id| slice(id)).collect::<Vec<_>>(), buckets, &mut report);
            report.problems.into_iter().map(|problem| problem.subject).collect::<Vec<_>>()
        };
        let problems = |ids: &[&str]| problems_of(ids, None);
        assert!(problems(&["00000001-a", "00000002-a"]).is_empty());
        assert_eq!(problems(&["00000001-a", "00000001-b"]), ["p/00000001-b"]);
        assert_eq!(problems(&["00000001-a", "9997495f-a"]), ["p/9997495f-a"]);
        assert!(problems_of(&["00000001-a", "00000002-a"], Some(3)).is_empty());
        assert_eq!(problems_of(&["00000001-a", "00000002-a"], Some(2)), ["p/00000002-a"]);
    }
}
