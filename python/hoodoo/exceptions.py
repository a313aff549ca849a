"""Errors and warnings: one base class, and one subclass for each kind of failure."""

from __future__ import annotations

__all__ = [
    "CatalogError",
    "ConflictError",
    "CorruptFileError",
    "HudiError",
    "HudiWarning",
    "InternalError",
    "InvalidOptionError",
    "LockError",
    "MissingDependencyError",
    "SchemaError",
    "StorageError",
    "TableNotFoundError",
    "UnsupportedError",
]


class HudiError(Exception):
    """Base class of all errors of hoodoo.

    The message names the table, the instant and the file that the error is about, and says what to do next.

    Attributes:
        context: The same facts for programs: strings by name, such as `table`, `instant`, `file`, `column`.
        retryable: Whether the same call may succeed when you repeat it.
        outdated_plan: Whether another writer changed the file slices that the write was planned from. The same write
            may succeed when it is planned again.
    """

    context: dict[str, str]
    retryable: bool
    outdated_plan: bool

    def __init__(self, message: str = "") -> None:
        """Make an error without context."""
        super().__init__(message)
        self.context = {}
        self.retryable = False
        self.outdated_plan = False


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at the location."""


class InvalidOptionError(HudiError, ValueError):
    """An option or argument is invalid, or contradicts the table."""


class SchemaError(HudiError, ValueError):
    """The data do not match the table: wrong types, missing columns, null keys."""


class CorruptFileError(HudiError):
    """A file of the table is missing, truncated or damaged."""


class ConflictError(HudiError):
    """Another writer changed the same file groups. A retry may succeed."""


class UnsupportedError(HudiError, NotImplementedError):
    """A feature of Hudi that hoodoo does not support."""


class MissingDependencyError(UnsupportedError, ImportError):
    """A feature needs a package that is not installed. The message names the extra of hoodoo that installs it."""


class StorageError(HudiError, OSError):
    """The storage failed: permissions, a full disk, the network."""


class LockError(HudiError, TimeoutError):
    """The table lock timed out or was lost, or clocks are too far apart. A retry may succeed."""


class CatalogError(HudiError):
    """A catalog (a Hive Metastore, AWS Glue) cannot be reached, or refused a request. The table itself is as it was."""


class InternalError(HudiError, RuntimeError):
    """A bug in hoodoo: something that must hold does not. Nothing was committed; please report it."""


class HudiWarning(UserWarning):
    """A request that had no effect: an option without effect, a table service that failed after a commit."""
