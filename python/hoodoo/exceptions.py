"""What can go wrong: one base class, one subclass for each kind of failure; and the category of warnings."""

from __future__ import annotations

__all__ = [
    "ConflictError",
    "CorruptFileError",
    "HudiError",
    "HudiWarning",
    "InternalError",
    "InvalidOptionError",
    "LockError",
    "SchemaError",
    "StorageError",
    "TableNotFoundError",
    "UnsupportedError",
]


class HudiError(Exception):
    """Base of all errors of hoodoo.

    The message names the table, the instant and the file where there are any, and says what to do next.

    Attributes:
        context: The same facts for programs, such as `table`, `instant`, `file`, `column`.
        retryable: Whether the same call may succeed when it is made again.
        outdated_plan: Whether another writer changed what the write was planned from, so that the same write, planned
            from the table as it is now, may succeed.
    """

    context: dict[str, str]
    retryable: bool
    outdated_plan: bool

    def __init__(self, message: str = "") -> None:
        """Makes an error without context."""
        super().__init__(message)
        self.context = {}
        self.retryable = False
        self.outdated_plan = False


class TableNotFoundError(HudiError, FileNotFoundError):
    """There is no Hudi table at the location."""


class InvalidOptionError(HudiError, ValueError):
    """An option or argument cannot be used, or contradicts the table."""


class SchemaError(HudiError, ValueError):
    """The data do not fit the table: types, missing columns, null keys."""


class CorruptFileError(HudiError):
    """A file of the table is truncated or damaged."""


class ConflictError(HudiError):
    """Another writer got in between. Trying again may succeed."""


class UnsupportedError(HudiError, NotImplementedError):
    """A feature of Hudi that hoodoo does not have."""


class StorageError(HudiError, OSError):
    """The storage failed: permissions, a full disk, the network."""


class LockError(HudiError, TimeoutError):
    """The table lock could not be had or was lost, or clocks are too far apart. Trying again may succeed."""


class InternalError(HudiError, RuntimeError):
    """A bug in hoodoo: something that must hold does not. Nothing was committed; please report it."""


class HudiWarning(UserWarning):
    """Something that was asked for and not done: an option without effect, a service that failed behind a commit."""
