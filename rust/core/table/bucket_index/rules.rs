//! How many buckets a partition has: `regex,buckets;regex,buckets…`, of which the first that is found in the partition path
//! counts.

use regex::Regex;

use crate::error::{Error, Result};

/// The option with the rules.
pub(super) const EXPRESSIONS: &str = "hoodie.bucket.index.partition.expressions";

/// Numbers of buckets by partition path.
#[derive(Debug, Clone)]
pub(super) struct BucketRules {
    rules: Vec<(Regex, u32)>,
    /// Where no rule matches.
    default: u32,
}

/// A table may say any number, and some writes go over all buckets of a partition.
const MAX_BUCKETS: u32 = 1 << 20;

impl BucketRules {
    /// Reads expressions.
    ///
    /// # Errors
    /// `InvalidOption`, with the rule.
    pub(super) fn new(expressions: &str, default: u32) -> Result<Self> {
        if default > MAX_BUCKETS {
            return Err(Error::invalid_option(format!("{default} buckets in a partition are more than {MAX_BUCKETS}")));
        }
        let rules = expressions.split(';').map(str::trim).filter(|rule| !rule.is_empty());
        Ok(Self { rules: rules.map(rule).collect::<Result<_>>()?, default })
    }

    /// How many buckets a partition has.
    pub(super) fn buckets_in(&self, partition: &str) -> u32 {
        let found = self.rules.iter().find(|(pattern, _)| pattern.is_match(partition));
        found.map_or(self.default, |(_, buckets)| *buckets)
    }
}

fn rule(text: &str) -> Result<(Regex, u32)> {
    let wrong = |why: String| {
        Error::invalid_option(format!("the rule '{text}' in {EXPRESSIONS} {why}"))
            .remedy("Write regex,buckets;regex,buckets… with patterns that have neither commas nor semicolons")
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let [pattern, buckets] = parts.as_slice() else {
        return Err(wrong("is not a pattern, a comma and a number".to_owned()));
    };
    let buckets: u32 = buckets.parse().map_err(|_| wrong(format!("has '{buckets}' for a number of buckets")))?;
    if buckets == 0 || buckets > MAX_BUCKETS {
        return Err(wrong(format!("has {buckets} buckets")));
    }
    let pattern =
        Regex::new(pattern).map_err(|e| wrong("has a pattern that cannot be used".to_owned()).caused_by(e))?;
    Ok((pattern, buckets))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_first_rule_that_is_found_counts() {
        let rules = BucketRules::new("part=(p1|p2),4; p3$,8;p,16", 2).unwrap();
        let of = |partition| rules.buckets_in(partition);
        assert_eq!((of("part=p1"), of("x/part=p2/y"), of("p3"), of("ap3b"), of(""), of("q")), (4, 4, 8, 16, 2, 2));
        assert_eq!(BucketRules::new("", 7).unwrap().buckets_in("p"), 7);
    }

    #[test]
    fn rules_that_cannot_be_used_are_named() {
        for bad in ["p", "p,", "p,x", "p,0", "p,-1", "a{1,2},3", "(,3", "p,4294967295", "p,1048577", "(?=a),3"] {
            let e = BucketRules::new(&format!("ok,1;{bad}"), 2).unwrap_err();
            assert!(e.to_string().contains(bad), "{bad}: {e}");
        }
        assert!(BucketRules::new("", MAX_BUCKETS).is_ok());
        assert!(BucketRules::new("", MAX_BUCKETS + 1).is_err());
    }
}
