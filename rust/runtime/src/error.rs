//! The one error type of the crate.
//!
//! Callers match on [`ErrorKind`], never on the message. A message says what was wrong; the context names the table,
//! the instant, the file and the offset; the remedy says what to do next.

use std::fmt;

use hoodoo_hfile::HFileError;

use crate::visible::visible;

/// What kind of failure this is. Each kind is one Python exception class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// There is no Hudi table at the location.
    TableNotFound,
    /// An option or argument has a value that cannot be used, or that contradicts the table.
    InvalidOption,
    /// Data and table schema do not fit, or the data break a rule of the table (null key, …).
    Schema,
    /// A file of the table is truncated, damaged or not what its name says.
    Corrupt,
    /// Another writer got in between; trying again may succeed.
    Conflict,
    /// A feature that is not supported.
    Unsupported,
    /// The storage failed (permissions, disk full, network, …).
    Storage,
    /// A file or object is not there. Mostly caught inside the crate; reaches users as a storage error.
    NotFound,
    /// A file or object that was to be created is already there.
    AlreadyExists,
    /// The table lock could not be acquired, or was lost.
    Lock,
    /// The call was interrupted; nothing was committed.
    Interrupted,
    /// A bug in hoodoo: a violated invariant.
    Internal,
}

/// An error with its kind, what it is about, and what to do next.
pub struct Error {
    inner: Box<Inner>,
}

struct Inner {
    kind: ErrorKind,
    message: String,
    context: Vec<(&'static str, String)>,
    remedy: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
    transient: bool,
    outdated_plan: bool,
    waits_for_clustering: bool,
}

/// Result with this crate's [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

macro_rules! constructors {
    ($($(#[$doc:meta])* $name:ident => $kind:ident),* $(,)?) => {
        $($(#[$doc])* pub fn $name(message: impl Into<String>) -> Self { Self::new(ErrorKind::$kind, message) })*
    };
}

impl Error {
    /// An error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            inner: Box::new(Inner {
                kind,
                message: message.into(),
                context: Vec::new(),
                remedy: None,
                source: None,
                transient: false,
                outdated_plan: false,
                waits_for_clustering: false,
            }),
        }
    }

    constructors! {
        /// No table at the location.
        table_not_found => TableNotFound,
        /// An unusable option or argument.
        invalid_option => InvalidOption,
        /// Data do not fit the table.
        schema => Schema,
        /// A damaged file.
        corrupt => Corrupt,
        /// Another writer got in between.
        conflict => Conflict,
        /// A feature that is not supported.
        unsupported => Unsupported,
        /// The storage failed.
        storage => Storage,
        /// A file is missing.
        not_found => NotFound,
        /// A file is already there.
        already_exists => AlreadyExists,
        /// The table lock could not be acquired.
        lock => Lock,
        /// The call was interrupted.
        interrupted => Interrupted,
    }

    /// A value that an option does not take.
    pub fn invalid_value(option: &str, value: impl fmt::Display, expected: &str) -> Self {
        Self::invalid_option(format!("invalid value '{value}' for {option}: expected {expected}"))
    }

    /// A violated invariant: a bug in hoodoo, not an error of the caller.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
            .remedy("This is a bug in hoodoo; nothing was committed. Please report it with this message")
    }

    /// Adds a named piece of context (`table`, `instant`, `file`, `offset`, `column`, …).
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl fmt::Display) -> Self {
        if !self.inner.context.iter().any(|(n, _)| *n == name) {
            self.inner.context.push((name, value.to_string()));
        }
        self
    }

    /// Says what the user can do next.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.inner.remedy = Some(remedy.into());
        self
    }

    /// Keeps the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        self.inner.source = Some(source.into());
        self
    }

    /// Marks a transient failure: an overloaded server, a broken connection.
    #[must_use]
    pub fn transient(mut self) -> Self {
        self.inner.transient = true;
        self
    }

    /// Marks a conflict that a new plan, made from the table as it is now, may not have.
    #[must_use]
    pub fn outdated_plan(mut self) -> Self {
        self.inner.outdated_plan = true;
        self
    }

    /// Whether the write may succeed with a new plan.
    pub fn is_outdated_plan(&self) -> bool {
        self.inner.outdated_plan
    }

    /// Marks a conflict with a clustering that is planned, and that may be carried out just now.
    #[must_use]
    pub fn waits_for_clustering(mut self) -> Self {
        self.inner.waits_for_clustering = true;
        self
    }

    /// Whether the write may succeed when a clustering has been completed.
    pub fn is_waiting_for_clustering(&self) -> bool {
        self.inner.waits_for_clustering
    }

    /// The kind, for matching.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The bare message, without context and remedy.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The named context values, in the order they were added.
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.inner.context
    }

    /// Whether the same call may succeed when it is tried again.
    pub fn is_retryable(&self) -> bool {
        self.inner.transient || matches!(self.inner.kind, ErrorKind::Conflict | ErrorKind::Lock)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&visible(&self.inner.message, true))?;
        if !self.inner.context.is_empty() {
            f.write_str(" [")?;
            for (i, (name, value)) in self.inner.context.iter().enumerate() {
                if i > 0 {
                    f.write_str(", ")?;
                }
                write!(f, "{name}={}", visible(value, false))?;
            }
            f.write_str("]")?;
        }
        if let Some(source) = &self.inner.source {
            write!(f, ": {}", visible(&source.to_string(), true))?;
        }
        if let Some(remedy) = &self.inner.remedy {
            write!(f, ". {}", visible(remedy, true))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.inner.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.source.as_ref().map(|s| &**s as &(dyn std::error::Error + 'static))
    }
}

impl From<arrow::error::ArrowError> for Error {
    fn from(e: arrow::error::ArrowError) -> Self {
        match e {
            // Errors of our own that crossed an Arrow stream keep their kind.
            arrow::error::ArrowError::ExternalError(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::schema("an Arrow stream failed").caused_by(other),
            },
            other => Error::schema("an Arrow operation failed").caused_by(other),
        }
    }
}

impl From<Error> for arrow::error::ArrowError {
    fn from(e: Error) -> Self {
        arrow::error::ArrowError::ExternalError(Box::new(e))
    }
}

impl From<HFileError> for Error {
    fn from(e: HFileError) -> Self {
        let offset = e.offset();
        let error = match e {
            // Errors of our own that a source of an HFile returned keep their kind.
            HFileError::Source(inner) => match inner.downcast::<Error>() {
                Ok(own) => return *own,
                Err(other) => Error::storage("an HFile cannot be read").caused_by(other),
            },
            HFileError::Io(inner) => match inner.downcast::<Error>() {
                Ok(own) => return own,
                Err(inner) => Error::storage("an HFile cannot be written").caused_by(inner),
            },
            HFileError::Unsupported { feature, value } => {
                Error::unsupported(format!("the {feature} {value} of an HFile is not supported"))
            }
            HFileError::TooLong { .. } => Error::schema(e.to_string()),
            HFileError::UnsortedKeys { .. } | HFileError::ReservedName(_) => Error::internal(e.to_string()),
            HFileError::Corrupt { message, .. } => Error::corrupt(message),
            HFileError::ChecksumMismatch { .. } => Error::corrupt("a block of an HFile does not have its checksum"),
            HFileError::TooLarge { bytes, limit, .. } => {
                Error::corrupt("a block of an HFile is too large").with("bytes", bytes).with("limit", limit)
            }
            other => Error::corrupt(other.to_string()),
        };
        match offset {
            Some(offset) => error.with("block_at", offset),
            None => error,
        }
    }
}

impl From<parquet::errors::ParquetError> for Error {
    fn from(e: parquet::errors::ParquetError) -> Self {
        match e {
            parquet::errors::ParquetError::External(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => match other.downcast::<std::io::Error>() {
                    Ok(io) if io.kind() == std::io::ErrorKind::NotFound => {
                        Error::not_found("a Parquet file is gone").caused_by(io)
                    }
                    Ok(io) => match io.downcast::<Error>() {
                        Ok(own) => own,
                        Err(io) => Error::storage("reading or writing a Parquet file failed").caused_by(io),
                    },
                    Err(other) => Error::storage("reading or writing a Parquet file failed").caused_by(other),
                },
            },
            other => Error::corrupt("a Parquet file could not be read or written").caused_by(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_commands_no_terminal() {
        let error =
            Error::corrupt("a file of \u{1b}[2J").with("file", "p\n0/\u{9b}31m").caused_by("\u{7}").remedy("a\nb");
        assert_eq!(error.to_string(), "a file of \\u{1b}[2J [file=p\\n0/\\u{9b}31m]: \\u{7}. a\nb");
        assert_eq!(error.context(), [("file", "p\n0/\u{9b}31m".to_owned())]);
    }

    #[test]
    fn errors_of_hfiles_have_kinds() {
        let corrupt = HFileError::Corrupt { message: "damaged".into(), offset: Some(7) };
        let unsupported = HFileError::Unsupported { feature: "compression codec", value: "SNAPPY".to_owned() };
        for (error, kind, text) in [
            (corrupt, ErrorKind::Corrupt, "damaged [block_at=7]"),
            (
                HFileError::ChecksumMismatch { offset: 8 },
                ErrorKind::Corrupt,
                "a block of an HFile does not have its checksum [block_at=8]",
            ),
            (
                HFileError::TooLarge { bytes: 3, limit: 2, offset: 9 },
                ErrorKind::Corrupt,
                "a block of an HFile is too large [bytes=3, limit=2, block_at=9]",
            ),
            (unsupported, ErrorKind::Unsupported, "the compression codec SNAPPY of an HFile is not supported"),
        ] {
            let error = Error::from(error);
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
        }
    }

    #[test]
    fn errors_of_the_source_of_an_hfile_keep_their_kind() {
        let own = Error::not_found("no such file").with("file", "f.hfile");
        let error = Error::from(HFileError::Source(Box::new(own)));
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::NotFound, "no such file [file=f.hfile]"));
        let other = Error::from(HFileError::Source("broken".into()));
        assert_eq!((other.kind(), other.to_string().as_str()), (ErrorKind::Storage, "an HFile cannot be read: broken"));
    }
}
