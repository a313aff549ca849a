//! What is said about options before anything is done: what is refused, and what is asked for and not done.

use std::collections::BTreeMap;

use super::options::{KEYS, LOCK_PROVIDER, OPEN, OptionKey, Side, Support, find};
use crate::error::{Error, Result};
use crate::timeline::LockProviderKind;

const METADATA: &str = "hoodie.metadata.enable";

/// What options are given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// A table, which is read and written with them.
    Table,
    /// A read.
    Read,
    /// A write, or a table service.
    Write,
}

/// Which options become entries of the commit metadata (`DataSourceWriteOptions.COMMIT_METADATA_KEYPREFIX`).
const COMMIT_ENTRIES: &str = "hoodie.datasource.write.commitmeta.key.prefix";

/// How the keys of options begin that become entries of the commit metadata.
pub(super) fn commit_entry_prefix(given: &BTreeMap<String, String>) -> &str {
    given.get(COMMIT_ENTRIES).map(String::as_str).filter(|prefix| !prefix.is_empty()).unwrap_or("_")
}

/// Refuses what is known and would change the data if it were ignored, all of it at once. The keys that nobody knows.
///
/// # Errors
/// `Unsupported` naming each option that is not supported; `InvalidOption`.
pub(super) fn check(given: &BTreeMap<String, String>) -> Result<Vec<String>> {
    let (mut unknown, mut refused) = (Vec::new(), Vec::new());
    for (key, value) in given {
        match find(key) {
            Some(known) if known.name == LOCK_PROVIDER => {
                if let Err(e) = LockProviderKind::parse(value) {
                    refused.push(e);
                }
            }
            Some(OptionKey { support: Support::Only(values), .. })
                if !values.iter().any(|v| v.eq_ignore_ascii_case(value)) =>
            {
                refused.push(not_supported(key, value, values));
            }
            Some(_) => {}
            // Settings of timestamp key generators and of record mergers are read by these themselves.
            None if OPEN.iter().any(|prefix| key.starts_with(prefix)) => {}
            None if key.starts_with(commit_entry_prefix(given)) => {}
            None => unknown.push(key.clone()),
        }
    }
    match all_of(refused) {
        Some(error) => Err(error),
        None => Ok(unknown),
    }
}

fn not_supported(key: &str, value: &str, values: &[&str]) -> Error {
    Error::unsupported(format!("option {key}={value} is not supported")).remedy(match values {
        [] | [""] => format!("Leave {key} out"),
        _ => format!("Leave {key} out, or set it to {}", values.join(" or ")),
    })
}

/// One error of several.
fn all_of(mut refused: Vec<Error>) -> Option<Error> {
    if refused.len() < 2 {
        return refused.pop();
    }
    let kind = refused.first().map(Error::kind)?;
    let strings: Vec<String> = refused.iter().map(ToString::to_string).collect();
    Some(Error::new(kind, format!("{} options cannot be used: {}", strings.len(), strings.join("; "))))
}

/// What the options ask for and do not get, as text: keys that nobody knows, those that are for reads and given to a
/// write or the other way round, and services that are not there.
pub(super) fn warnings(given: &BTreeMap<String, String>, unknown: &[String], used: Use) -> Vec<String> {
    let mut out = Vec::new();
    if !unknown.is_empty() {
        out.push(format!("hoodoo ignores unknown options: {}", unknown.join(", ")));
    }
    let (mut misplaced, mut absent) = (Vec::new(), Vec::new());
    let no_metadata = given.get(METADATA).is_some_and(|value| value.eq_ignore_ascii_case("false"));
    for (key, value) in given {
        let Some(known) = find(key) else { continue };
        let side = known.side();
        if matches!((used, side), (Use::Read, Side::Write) | (Use::Write, Side::Read)) {
            misplaced.push(key.as_str());
            continue;
        }
        // Without a metadata table nobody builds its indexes, nor does Hudi.
        let is_moot = no_metadata && key.starts_with("hoodie.metadata.");
        let Some(asked) = known.absent.filter(|_| !is_moot && (used != Use::Read || side == Side::Read)) else {
            continue;
        };
        if !asked.silent.iter().any(|v| v.eq_ignore_ascii_case(value.trim())) {
            absent.push(format!("{key}={value}: {}", asked.way));
        }
    }
    if !misplaced.is_empty() {
        let (of, on) = if used == Use::Read { ("writes", "reads") } else { ("reads", "writes") };
        out.push(format!("these options are for {of} and have no effect on {on}: {}", misplaced.join(", ")));
    }
    out.extend(absent);
    out.extend(KEYS.iter().filter_map(|known| contradiction(given, known)));
    out
}

/// A warning of an option that is given under several spellings with different values.
fn contradiction(given: &BTreeMap<String, String>, known: &OptionKey) -> Option<String> {
    let spellings = std::iter::once(known.name).chain(known.aliases.iter().copied());
    let mut values = spellings.filter_map(|spelling| given.get_key_value(spelling));
    let (used, value) = values.next()?;
    let (other, ignored) = values.find(|(_, other)| other.trim() != value.trim())?;
    Some(format!("{used}={value} and {other}={ignored} are the same option: {used} is used, {other} is ignored"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::Options;
    use super::*;
    use crate::error::ErrorKind;

    fn options(pairs: &[(&str, &str)]) -> Result<Options> {
        Options::new(pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn spellings_that_contradict_each_other_are_warned_of() {
        let (one, other) = ("hoodie.table.ordering.fields", "hoodie.datasource.write.precombine.field");
        let found = options(&[(one, "id"), (other, "ts")]).unwrap().warnings(Use::Write);
        assert_eq!(found, [format!("{one}=id and {other}=ts are the same option: {one} is used, {other} is ignored")]);
        assert!(options(&[(one, "ts"), (other, "ts")]).unwrap().warnings(Use::Write).is_empty());
    }

    #[test]
    fn all_that_is_refused_is_named_at_once() {
        let bad = [
            ("hoodie.datasource.write.insert.drop.duplicates", "true"),
            ("hoodie.allow.operation.metadata.field", "true"),
            ("hoodie.write.lock.provider", "org.example.Lock"),
        ];
        let e = options(&bad).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(bad.iter().all(|(key, _)| e.to_string().contains(key)), "{e}");
    }

    #[test]
    fn what_is_not_done_is_said_and_what_is_off_is_not() {
        let warned_of = |pairs: &[(&str, &str)], used| options(pairs).unwrap().warnings(used);
        for key in ["hoodie.clean.async.enabled", "hoodie.archive.async", "hoodie.clustering.async.enabled"] {
            let warned = warned_of(&[(key, "true")], Use::Write);
            assert!(matches!(warned.as_slice(), [text] if text.contains(key)), "{warned:?}");
            assert!(warned_of(&[(key, "False")], Use::Write).is_empty());
        }
        assert!(warned_of(&[("hoodie.precommit.validators", "")], Use::Table).is_empty());
        assert_eq!(warned_of(&[("hoodie.precommit.validators", "x.Y")], Use::Table).len(), 1);
    }

    #[test]
    fn options_of_the_other_side_are_said() {
        let warned_of = |key: &str, used| options(&[(key, "snapshot")]).unwrap().warnings(used).len();
        assert_eq!(warned_of("hoodie.datasource.query.type", Use::Write), 1);
        assert_eq!(warned_of("hoodie.datasource.write.operation", Use::Read), 1);
        for key in ["hoodie.datasource.query.type", "hoodie.datasource.write.operation"] {
            assert_eq!(warned_of(key, Use::Table), 0);
        }
        assert_eq!(warned_of("hoodie.table.recordkey.fields", Use::Read), 0);
        assert_eq!(warned_of("hoodie.datasource.write.recordkey.field", Use::Read), 0);
    }
}
