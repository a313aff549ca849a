//! File ids of Hudi's bucket index: the number of the bucket in eight digits takes the place of the first eight characters
//! of a random UUID, as in `00000031-d412-491c-9d6d-9167be27f717-0`.

use super::names::new_file_id;

/// Digits of a bucket in a file id.
const DIGITS: usize = 8;
/// How the ids of buckets below ten thousand begin. There are hardly ever more in a partition, and only one of 430,000
/// random UUIDs begins like that.
const USUAL: &str = "0000";

/// A new file id for a bucket.
pub fn new_bucket_file_id(bucket: u32) -> String {
    let random = new_file_id(0);
    format!("{bucket:08}{}", random.get(DIGITS..).unwrap_or_default())
}

/// What follows the bucket in the ids of file groups that several writers begin at once.
const SHARED: &str = "-0000-0000-0000-000000000000-0";

/// The file id of a bucket whose file group is begun by whoever comes first
/// (`hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL`).
pub fn shared_file_id(bucket: u32) -> String {
    format!("{bucket:08}{SHARED}")
}

/// Whether a file id is that of a shared file group.
pub fn is_shared_file_id(file_id: &str) -> bool {
    file_id.get(DIGITS..) == Some(SHARED) && bucket_of_file_id(file_id).is_some()
}

/// The bucket that a file id names; `None` if it does not begin with eight digits. Hudi's row writer leaves the ordinal at
/// the end out.
pub fn bucket_of_file_id(file_id: &str) -> Option<u32> {
    let digits = file_id.get(..DIGITS)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// Whether a file id is, in all likelihood, that of a bucket.
pub fn is_bucket_file_id(file_id: &str) -> bool {
    file_id.starts_with(USUAL) && bucket_of_file_id(file_id).is_some()
}

/// Whether these file ids, of all file groups of a partition, are those of buckets. One id alone tells nothing: now and then
/// a random one looks like that of a bucket.
pub fn are_bucket_file_ids<'a>(file_ids: impl IntoIterator<Item = &'a str>) -> bool {
    let mut count = 0;
    file_ids.into_iter().all(|id| {
        count += 1;
        is_bucket_file_id(id)
    }) && count > 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_new_id_names_its_bucket() {
        let id = new_bucket_file_id(31);
        assert!(id.starts_with("00000031-") && id.ends_with("-0") && id.len() == 38, "{id}");
        assert_eq!(bucket_of_file_id(&id), Some(31));
        assert_ne!(new_bucket_file_id(31), id);
        assert!(is_bucket_file_id(&id));
    }

    #[test]
    fn ids_without_eight_digits_name_none() {
        assert_eq!(bucket_of_file_id("00000031-d412-491c-9d6d-9167be27f717"), Some(31));
        assert_eq!(bucket_of_file_id("12345678-d412-491c-9d6d-9167be27f717-0"), Some(12_345_678));
        for id in ["9997495f-d412-491c-9d6d-9167be27f717-0", "0000031", "", "äöüß-0", "0000003\u{661}-0"] {
            assert_eq!(bucket_of_file_id(id), None, "{id}");
            assert!(!is_bucket_file_id(id), "{id}");
        }
        assert!(!is_bucket_file_id("12345678-d412-491c-9d6d-9167be27f717-0"));
    }

    #[test]
    fn one_id_may_be_chance() {
        let (one, other) = (new_bucket_file_id(3), new_bucket_file_id(4));
        assert!(are_bucket_file_ids([one.as_str(), &other]));
        assert!(!are_bucket_file_ids([one.as_str()]) && !are_bucket_file_ids([]));
        assert!(!are_bucket_file_ids([one.as_str(), &other, "9997495f-d412-491c-9d6d-9167be27f717-0"]));
    }
}
