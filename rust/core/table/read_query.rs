//! Which query a read is: what the caller asks for, and else what the options say.

use super::Options;
use crate::error::{Error, Result};

const QUERY_TYPE: &str = "hoodie.datasource.query.type";
const AS_OF: &str = "as.of.instant";
const BEGIN: &str = "hoodie.datasource.read.begin.instanttime";
const END: &str = "hoodie.datasource.read.end.instanttime";
const FORMAT: &str = "hoodie.datasource.query.incremental.format";

/// What a caller names; what is left open follows from the options.
#[derive(Debug, Clone, Default)]
pub struct QueryRequest {
    /// A value of `hoodie.datasource.query.type`.
    pub query: Option<String>,
    /// The table as it was at this instant.
    pub as_of: Option<String>,
    /// Completion time after which a commit counts.
    pub since: Option<String>,
    /// Completion time of the last commit that counts.
    pub until: Option<String>,
    /// What an incremental query gives: a value of `hoodie.datasource.query.incremental.format`.
    pub mode: Option<String>,
}

/// A query that can be planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadQuery {
    /// The newest rows, or those of an instant.
    Snapshot {
        /// The table as it was at this instant.
        as_of: Option<String>,
        /// Base files only.
        read_optimized: bool,
    },
    /// Rows that were written in a range of time.
    Incremental {
        /// Completion time after which a commit counts.
        since: String,
        /// Completion time of the last commit that counts.
        until: Option<String>,
    },
    /// Every change of a row that was made in a range of time.
    ChangeData {
        /// Completion time after which a commit counts.
        since: String,
        /// Completion time of the last commit that counts.
        until: Option<String>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Snapshot,
    ReadOptimized,
    Incremental,
}

impl Kind {
    fn parse(name: &str) -> Result<Self> {
        let remedy = "Use snapshot, read_optimized or incremental";
        match name.trim().to_ascii_lowercase().as_str() {
            // What `hoodie.datasource.view.type` called it.
            "snapshot" | "realtime" => Ok(Self::Snapshot),
            "read_optimized" => Ok(Self::ReadOptimized),
            "incremental" => Ok(Self::Incremental),
            "cdc" => Err(Error::unsupported("queries of type 'cdc' are not supported")
                .remedy(format!("Use incremental, with {FORMAT}=cdc"))),
            _ => {
                Err(Error::invalid_option(format!("invalid value '{name}' for {QUERY_TYPE}: no query type"))
                    .remedy(remedy))
            }
        }
    }
}

impl ReadQuery {
    /// Settles what is read. What the caller names wins over the options; what contradicts itself is refused, for rows
    /// of another query than the one that was meant look like an answer.
    ///
    /// # Errors
    /// `InvalidOption` for contradictions, unknown query types and formats, and an incremental query without beginning;
    /// `Unsupported` for the query type `cdc`.
    pub fn resolve(options: &Options, asked: QueryRequest) -> Result<Self> {
        let QueryRequest { query, as_of, since, until, mode } = asked;
        let by_range = (since.is_some() || until.is_some()).then(|| "incremental".to_owned());
        let named = query.or(by_range);
        let kind = Kind::parse(named.as_deref().or(options.get(QUERY_TYPE)).unwrap_or("snapshot"))?;
        let option = |key: &str| options.get(key).filter(|value| !value.is_empty()).map(str::to_owned);
        if kind == Kind::Incremental {
            if as_of.is_some() || option(AS_OF).is_some() {
                return Err(Error::invalid_option(format!(
                    "an incremental query reads no state of an instant ({AS_OF})"
                ))
                .remedy("Leave as_of out, or read a snapshot"));
            }
            let since = since.or_else(|| option(BEGIN)).ok_or_else(|| {
                Error::invalid_option("an incremental query needs a time to begin at")
                    .remedy(format!("Pass since, or set {BEGIN}; 0 reads all commits"))
            })?;
            let until = until.or_else(|| option(END));
            let format = mode.or_else(|| option(FORMAT)).unwrap_or_else(|| "latest_state".into());
            return match format.trim().to_ascii_lowercase().as_str() {
                "latest_state" => Ok(Self::Incremental { since, until }),
                "cdc" => Ok(Self::ChangeData { since, until }),
                _ => Err(Error::invalid_value(FORMAT, format, "latest_state or cdc")),
            };
        }
        if since.is_some() || until.is_some() {
            return Err(Error::invalid_option("since and until are for incremental queries")
                .remedy("Pass query='incremental', or leave them out"));
        }
        if let Some(key) = [BEGIN, END].into_iter().find(|key| named.is_none() && option(key).is_some()) {
            return Err(Error::invalid_option(format!("{key} is for incremental queries, and this is none"))
                .remedy(format!("Set {QUERY_TYPE}=incremental, or leave {key} out")));
        }
        let as_of = as_of.or_else(|| option(AS_OF));
        Ok(Self::Snapshot { as_of, read_optimized: kind == Kind::ReadOptimized })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::error::ErrorKind;

    fn resolve(options: &[(&str, &str)], asked: QueryRequest) -> Result<ReadQuery> {
        let given = options.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        ReadQuery::resolve(&Options::new(given)?, asked)
    }

    fn named(query: &str) -> QueryRequest {
        QueryRequest { query: Some(query.to_owned()), ..QueryRequest::default() }
    }

    fn changes(since: &str, until: Option<&str>) -> ReadQuery {
        ReadQuery::Incremental { since: since.to_owned(), until: until.map(str::to_owned) }
    }

    #[test]
    fn options_are_heard_and_the_caller_wins() {
        let range = [("hoodie.datasource.view.type", "Incremental"), (BEGIN, "1"), (END, "5")];
        assert_eq!(resolve(&range, QueryRequest::default()).unwrap(), changes("1", Some("5")));
        let later = QueryRequest { since: Some("3".into()), ..QueryRequest::default() };
        assert_eq!(resolve(&range, later.clone()).unwrap(), changes("3", Some("5")));
        assert_eq!(resolve(&[], later).unwrap(), changes("3", None));
        let newest = ReadQuery::Snapshot { as_of: None, read_optimized: false };
        assert_eq!(resolve(&range, named("snapshot")).unwrap(), newest);
        assert_eq!(resolve(&[("hoodie.datasource.view.type", "realtime")], QueryRequest::default()).unwrap(), newest);
        let then = resolve(&[(AS_OF, "20260101")], named("read_optimized")).unwrap();
        assert_eq!(then, ReadQuery::Snapshot { as_of: Some("20260101".into()), read_optimized: true });
    }

    #[test]
    fn contradictions_and_unknown_queries_are_refused() {
        let kind = |options: &[(&str, &str)], asked| resolve(options, asked).unwrap_err().kind();
        assert_eq!(kind(&[], named("cdc")), ErrorKind::Unsupported);
        assert_eq!(kind(&[], named("newest")), ErrorKind::InvalidOption);
        assert_eq!(kind(&[], named("incremental")), ErrorKind::InvalidOption);
        assert_eq!(kind(&[(BEGIN, "1")], QueryRequest::default()), ErrorKind::InvalidOption);
        let ranged = QueryRequest { since: Some("1".into()), ..named("snapshot") };
        assert_eq!(kind(&[], ranged), ErrorKind::InvalidOption);
        let both = QueryRequest { since: Some("1".into()), as_of: Some("2".into()), ..QueryRequest::default() };
        assert_eq!(kind(&[], both), ErrorKind::InvalidOption);
        assert_eq!(kind(&[(FORMAT, "newest"), (BEGIN, "1")], named("incremental")), ErrorKind::InvalidOption);
    }

    #[test]
    fn the_format_of_an_incremental_query_is_asked_for_or_an_option() {
        let range = [(BEGIN, "1"), (FORMAT, "CDC")];
        let changes = ReadQuery::ChangeData { since: "1".into(), until: None };
        assert_eq!(resolve(&range, named("incremental")).unwrap(), changes);
        let latest = QueryRequest { mode: Some("latest_state".into()), ..named("incremental") };
        let incremental = ReadQuery::Incremental { since: "1".into(), until: None };
        assert_eq!(resolve(&range, latest).unwrap(), incremental);
    }
}
