//! Options as a job gives them, checked.

use std::collections::BTreeMap;

use super::option_checks::{self, Use};
use super::options::find;
use crate::error::{Error, Result};

/// Parts of the names of Hudi's options that hold credentials, which are never stored.
const CREDENTIALS: [&str; 4] = ["access.key", "secret", "token", "password"];

fn is_credential(key: &str) -> bool {
    key.starts_with("hoodie.") && CREDENTIALS.iter().any(|part| key.contains(part))
}

/// Options as a job gives them, checked.
#[derive(Debug, Clone, Default)]
pub struct Options {
    given: BTreeMap<String, String>,
    unknown: Vec<String>,
}

impl Options {
    /// Checks the options: refuses what is known and would change the data if it were ignored, all of it in one error.
    pub fn new(given: BTreeMap<String, String>) -> Result<Self> {
        let unknown = option_checks::check(&given)?;
        Ok(Self { given, unknown })
    }

    /// What they ask for and do not get where they are used, as text to warn with.
    pub fn warnings(&self, used: Use) -> Vec<String> {
        option_checks::warnings(&self.given, &self.unknown, used)
    }

    /// The same options with others on top.
    pub fn with(&self, more: &BTreeMap<String, String>) -> Result<Self> {
        let mut given = self.given.clone();
        for (key, value) in more {
            // A new value under one spelling replaces an old one under another.
            if let Some(known) = find(key) {
                given.remove(known.name);
                for alias in known.aliases {
                    given.remove(*alias);
                }
            }
            given.insert(key.clone(), value.clone());
        }
        Self::new(given)
    }

    /// Keys that nobody here knows; worth one warning.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Entries of the commit metadata that the job gives: options whose keys begin with `_`, or with
    /// `hoodie.datasource.write.commitmeta.key.prefix`. Credentials are none, whatever the prefix is.
    pub fn commit_entries(&self) -> impl Iterator<Item = (String, String)> {
        let prefix = option_checks::commit_entry_prefix(&self.given);
        let entries = self.given.iter().filter(move |(key, _)| key.starts_with(prefix) && !is_credential(key));
        entries.map(|(key, value)| (key.clone(), value.clone()))
    }

    /// What was given, as it was spelled.
    pub fn given(&self) -> &BTreeMap<String, String> {
        &self.given
    }

    /// The value of a key under any of its spellings.
    pub fn get(&self, name: &str) -> Option<&str> {
        let known = find(name);
        let spellings = std::iter::once(name)
            .chain(known.iter().flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().copied())));
        spellings.into_iter().find_map(|s| self.given.get(s)).map(String::as_str)
    }

    /// A boolean.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(v) if v.eq_ignore_ascii_case("true") => Ok(true),
            Some(v) if v.eq_ignore_ascii_case("false") => Ok(false),
            Some(v) => Err(bad(name, v, "true or false")),
        }
    }

    /// A number.
    pub fn number<T: std::str::FromStr>(&self, name: &str, default: T) -> Result<T> {
        match self.get(name) {
            None => Ok(default),
            Some(v) => v.trim().parse().map_err(|_| bad(name, v, "a number")),
        }
    }
}

fn bad(name: &str, value: &str, wanted: &str) -> Error {
    Error::invalid_option(format!("option {name} is '{value}'")).remedy(format!("Set it to {wanted}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::options::KEYS;
    use super::*;
    use crate::error::ErrorKind;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn every_spelling_is_heard_and_is_unique() {
        let o = options(&[("hoodie.datasource.write.precombine.field", "ts"), ("x.y", "1")]).unwrap();
        assert_eq!(o.get("hoodie.table.ordering.fields"), Some("ts"));
        assert_eq!(o.unknown(), ["x.y"]);
        let mut all: Vec<&str> =
            KEYS.iter().flat_map(|k| std::iter::once(k.name).chain(k.aliases.iter().copied())).collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|w| matches!(w, [a, b] if a != b)), "a spelling stands for two keys");
    }

    #[test]
    fn what_cannot_be_ignored_is_refused() {
        let e = options(&[("hoodie.allow.operation.metadata.field", "true")]).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(options(&[("hoodie.allow.operation.metadata.field", "FALSE")]).is_ok());
    }

    #[test]
    fn later_options_win_under_any_spelling() {
        let o = options(&[("hoodie.table.ordering.fields", "a")]).unwrap();
        let more = [("hoodie.datasource.write.precombine.field".to_owned(), "b".to_owned())].into();
        assert_eq!(o.with(&more).unwrap().get("hoodie.table.ordering.fields"), Some("b"));
    }

    #[test]
    fn values_are_checked() {
        let o = options(&[("hoodie.clean.automatic", "yes"), ("hoodie.clean.commits.retained", "x")]).unwrap();
        assert!(o.flag("hoodie.clean.automatic", true).is_err());
        assert!(o.number("hoodie.clean.commits.retained", 10u32).is_err());
        assert_eq!(o.number("hoodoo.threads", 3usize).unwrap(), 3);
    }
}
