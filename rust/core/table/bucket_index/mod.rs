//! Hudi's bucket index with the engine `SIMPLE`: the bucket of a record key is computed, and a partition has a file group
//! for each bucket that has records.
//!
//! Hudi stores neither the number of buckets nor the hash fields in a table: each writer has to be told the same. Where the
//! table has a hashing config ([`hashing_config`]), it tells how many buckets its partitions have.

mod hash;
mod hashing_config;
mod rules;

use arrow::array::StringArray;
use serde::{Deserialize, Serialize};

use self::hashing_config::HashingConfig;
use self::rules::{BucketRules, EXPRESSIONS};
use super::config::list;
use super::keygen::KeyGenConfig;
use super::{HudiTable, Options};
use crate::error::{Error, Result};
use crate::timeline::Timeline;

/// The option with the number of buckets of a partition.
pub(crate) const NUM_BUCKETS: &str = "hoodie.bucket.index.num.buckets";
const HASH_FIELD: &str = "hoodie.bucket.index.hash.field";
const ENGINE: &str = "hoodie.index.bucket.engine";
const RULE: &str = "hoodie.bucket.index.partition.rule.type";
/// Buckets of a partition, unless something else is said.
const DEFAULT_BUCKETS: u32 = 256;

/// What decides in which bucket a record is, as text that crosses processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketSettings {
    /// The fields of the record key that are hashed; none: all of them.
    hash_fields: Vec<String>,
    /// Buckets of the partitions that no expression matches.
    buckets: u32,
    /// `regex,buckets;…` of partition paths.
    expressions: String,
}

impl BucketSettings {
    /// The settings of a job: those of its options, or else of the hashing config that the table has.
    ///
    /// # Errors
    /// `InvalidOption`; `Unsupported` for what the options ask for and is not there; `Corrupt`; `Storage`.
    pub(crate) fn of_table(table: &HudiTable, keys: &KeyGenConfig, timeline: &Timeline) -> Result<Self> {
        let options = table.options();
        check_engine(options)?;
        if keys.generates_keys() {
            return Err(Error::unsupported(
                "the bucket index needs record keys, and those of this table are generated",
            )
            .with("table", table.storage().uri())
            .remedy(
                "Create the table with hoodie.datasource.write.recordkey.field, or use another hoodie.index.type",
            ));
        }
        let hash_fields = hash_fields(options, &keys.record_key_fields)?;
        let (buckets, expressions) = (given_buckets(options)?, given_expressions(options)?);
        let stored = match (buckets, &expressions) {
            (Some(_), Some(_)) => None,
            _ => HashingConfig::newest(table.storage(), timeline)?,
        };
        let buckets = buckets.or(stored.as_ref().map(|stored| stored.buckets)).unwrap_or(DEFAULT_BUCKETS);
        let expressions = expressions.or(stored.map(|stored| stored.expressions)).unwrap_or_default();
        Ok(Self { hash_fields, buckets, expressions })
    }
}

/// Tells buckets of record keys.
#[derive(Debug, Clone)]
pub(crate) struct BucketIndex {
    settings: BucketSettings,
    rules: BucketRules,
}

impl BucketIndex {
    /// An index with these settings.
    ///
    /// # Errors
    /// `InvalidOption` for expressions that cannot be used.
    pub(crate) fn new(settings: BucketSettings) -> Result<Self> {
        let rules = BucketRules::new(&settings.expressions, settings.buckets)?;
        Ok(Self { settings, rules })
    }

    /// The settings that it was made from.
    pub(crate) fn settings(&self) -> &BucketSettings {
        &self.settings
    }

    /// An index of so many buckets, of whole keys.
    #[cfg(test)]
    pub(crate) fn of_buckets(buckets: u32) -> Self {
        let settings = BucketSettings { hash_fields: Vec::new(), buckets, expressions: String::new() };
        let rules = BucketRules::new("", buckets).unwrap_or_else(|e| unreachable!("{e}"));
        Self { settings, rules }
    }

    /// How many buckets a partition has.
    pub(crate) fn buckets_in(&self, partition: &str) -> u32 {
        self.rules.buckets_in(partition)
    }

    /// The hashes of record keys: the bucket is the remainder by the number of buckets.
    pub(crate) fn hashes(&self, keys: &StringArray) -> Vec<u32> {
        hash::hashes(keys, &self.settings.hash_fields)
    }

    /// The hash of one record key.
    pub(crate) fn hash(&self, key: &str) -> u32 {
        hash::hash(key, &self.settings.hash_fields)
    }
}

/// Whether options say that the table has a bucket index.
pub(crate) fn has_bucket_index(options: &Options) -> bool {
    options.get("hoodie.index.type").is_some_and(|index| index.trim().eq_ignore_ascii_case("BUCKET"))
}

/// Checks the options of a bucket index.
///
/// # Errors
/// `Unsupported` for consistent hashing; `InvalidOption`.
pub(crate) fn check_bucket_options(options: &Options) -> Result<()> {
    check_engine(options)?;
    given_buckets(options).map(drop)
}

fn check_engine(options: &Options) -> Result<()> {
    match options.get(ENGINE).unwrap_or("SIMPLE").trim().to_ascii_uppercase().as_str() {
        "SIMPLE" => Ok(()),
        "CONSISTENT_HASHING" => Err(Error::unsupported(format!("writing with {ENGINE}=CONSISTENT_HASHING"))
            .remedy("Write to such a table with Hudi, or use SIMPLE for a new one")),
        other => Err(Error::invalid_value(ENGINE, other, "SIMPLE")),
    }
}

fn given_buckets(options: &Options) -> Result<Option<u32>> {
    let Some(given) = options.get(NUM_BUCKETS) else { return Ok(None) };
    match given.trim().parse() {
        // Hudi's numbers are those of Java.
        Ok(buckets @ 1..=0x7fff_ffff) => Ok(Some(buckets)),
        _ => Err(Error::invalid_value(NUM_BUCKETS, given, "a number from 1")),
    }
}

fn given_expressions(options: &Options) -> Result<Option<String>> {
    let Some(given) = options.get(EXPRESSIONS).map(str::trim).filter(|given| !given.is_empty()) else {
        return Ok(None);
    };
    match options.get(RULE).unwrap_or("regex") {
        rule if rule.eq_ignore_ascii_case("regex") => Ok(Some(given.to_owned())),
        other => Err(Error::invalid_value(RULE, other, "regex")),
    }
}

fn hash_fields(options: &Options, key_fields: &[String]) -> Result<Vec<String>> {
    let Some(given) = options.get(HASH_FIELD) else { return Ok(key_fields.to_vec()) };
    let fields = list(Some(given));
    match fields.iter().find(|field| !key_fields.contains(field)) {
        None => Ok(fields),
        Some(other) => {
            Err(Error::invalid_option(format!("{HASH_FIELD} names '{other}', which is not in the record key"))
                .remedy(format!("Name some of {}", key_fields.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn options(pairs: &[(&str, &str)]) -> Options {
        Options::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()).unwrap()
    }

    #[test]
    fn wrong_values_are_errors() {
        for value in ["0", "-1", "x", "", "2147483648"] {
            let e = given_buckets(&options(&[(NUM_BUCKETS, value)])).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::InvalidOption, "{value}");
        }
        assert_eq!(given_buckets(&options(&[(NUM_BUCKETS, " 8 ")])).unwrap(), Some(8));
        let kind = |value| check_engine(&options(&[(ENGINE, value)])).unwrap_err().kind();
        assert_eq!(kind("CONSISTENT_HASHING"), ErrorKind::Unsupported);
        assert_eq!(kind("other"), ErrorKind::InvalidOption);
        assert!(check_engine(&options(&[(ENGINE, "simple")])).is_ok());
        assert!(given_expressions(&options(&[(EXPRESSIONS, "a,1"), (RULE, "glob")])).is_err());
        assert_eq!(given_expressions(&options(&[(RULE, "glob")])).unwrap(), None);
    }

    #[test]
    fn hash_fields_are_of_the_key() {
        let key = ["a".to_owned(), "b".to_owned()];
        assert_eq!(hash_fields(&options(&[]), &key).unwrap(), key);
        assert_eq!(hash_fields(&options(&[(HASH_FIELD, " b ")]), &key).unwrap(), ["b"]);
        assert!(hash_fields(&options(&[(HASH_FIELD, "")]), &key).unwrap().is_empty());
        assert!(hash_fields(&options(&[(HASH_FIELD, "b,c")]), &key).unwrap_err().to_string().contains("'c'"));
    }
}
