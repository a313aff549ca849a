"""One state of a table that other libraries read, as often as they like, while writers go on."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import _native
from hoodoo.exceptions import (
    CorruptFileError,
    HudiError,
    InvalidOptionError,
    SchemaError,
    StorageError,
    UnsupportedError,
)
from hoodoo.lazy_reader import lazy_reader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hoodoo.pruning import Pruning
    from hoodoo.table_ref import TableRef

__all__ = ["Snapshot"]

_WRITES = ("commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering")


@dataclass(frozen=True)
class Snapshot:
    """File slices of a table that stay the same whatever is committed.

    Attributes:
        table: The table.
        schema: The columns of the rows.
        units: What is read, in the order of the rows: one string for each file slice.
        as_of: The newest instant that is seen; None if there is none.
        query: The query, as `Table.scan` takes it.
        written_by: Return only rows of these instants; all rows when None.
        writes: Requested times of the commits that are seen, as far as they were on the active timeline.
    """

    table: TableRef
    schema: pa.Schema
    units: tuple[str, ...]
    as_of: str | None
    query: str | None
    written_by: list[str] | None
    writes: frozenset[str]

    @classmethod
    def pin(cls, table: TableRef, as_of: str | None, query: str | None) -> Snapshot:
        """Look at the table as it is now, or was at an instant.

        Args:
            table: The table.
            as_of: See `Table.scan`.
            query: See `Table.scan`.

        Returns:
            The snapshot. No data file was read for it.

        Raises:
            InvalidOptionError: `as_of` or `query` is invalid, or the cleaner removed a file of that snapshot.
            UnsupportedError: The query is `cdc`.
        """
        native = table.open()
        # Before the plan: a commit that completes in between counts as one that came later.
        instants = native.instants()
        units, schema, pinned, written_by = _native.plan_read(native, query, as_of)
        if units and pinned is None:
            raise UnsupportedError(
                f"the query of the options of {table.uri} is cdc, which has no snapshot: read it with Table.changes"
            )
        return cls(table, schema, tuple(units), pinned, query, written_by, _writes(instants, pinned))

    def pruned(self, pruning: Pruning | None, native: _native.NativeTable | None = None) -> tuple[str, ...]:
        """Return the units that may have rows for a filter.

        Args:
            pruning: The filter; None for every row.
            native: The table, where it was opened just now.

        Returns:
            Some of the units.

        Raises:
            InvalidOptionError: The cleaner removed a file of the snapshot.
        """
        if pruning is None or self.as_of is None or self.written_by is not None:
            return self.units
        native = native or self.table.open()
        wanted, *_ = _native.plan_read(native, self.query, self.as_of, None, None, [], lambda _: pruning)
        # A commit that was requested before and completed after, or was rolled back: now other slices have that time.
        if not self._is_unchanged(native.instants()):
            return self.units
        kept = frozenset(wanted)
        return tuple(unit for unit in self.units if unit in kept) if kept <= set(self.units) else self.units

    def _is_unchanged(self, instants: Sequence[_native.InstantRow]) -> bool:
        return _writes(instants, self.as_of) == self._active_writes(instants)

    def _active_writes(self, instants: Sequence[_native.InstantRow]) -> set[str]:
        """The commits that are seen, without those that were archived."""
        first = min((requested for requested, _, action, _ in instants if action in _WRITES), default="")
        return {requested for requested in self.writes if requested >= first}

    def stream(
        self, columns: Sequence[str] | None, pruning: Pruning | None = None, units: Sequence[str] | None = None
    ) -> pa.RecordBatchReader:
        """Start to read rows: threads read ahead a few batches.

        Args:
            columns: The columns; all columns when None.
            pruning: Leave out rows that do not match this; see `hoodoo.pruning`.
            units: Read only these units. Default: those that may have such rows.

        Returns:
            A reader, which has errors of Arrow; `explained` makes ours of them.

        Raises:
            InvalidOptionError: The cleaner removed a file of the snapshot.
            SchemaError: The columns of the table at this time are others by now.
        """
        names = None if columns is None else list(columns)
        schema = self.schema if names is None else pa.schema([self.schema.field(name) for name in names])
        native = self.table.open()
        wanted = self.pruned(pruning, native) if units is None else units
        if not wanted:
            return schema.empty_table().to_reader()
        late = None if pruning is None else (lambda _: pruning)
        rows = _native.read_units(native, list(wanted), names, late, self.as_of, self.written_by)
        if rows.schema != schema:
            raise SchemaError(
                f"the columns of {self.table.uri} as of {self.as_of} changed since the snapshot was taken: a commit "
                "that began before it completed after it, or it was rolled back. Take a new one"
            )
        return rows

    def batches(self, columns: Sequence[str] | None, pruning: Pruning | None = None) -> Iterator[pa.RecordBatch]:
        """Read rows. Nothing is read before the first batch is asked for.

        Args:
            columns: See `stream`.
            pruning: See `stream`.

        Yields:
            Batches of the columns.

        Raises:
            HudiError: As `stream`, and any error of reading the files.
        """
        with self.errors():
            yield from self.stream(columns, pruning)

    def reader(self) -> pa.RecordBatchReader:
        """Return all rows as a reader that has read nothing yet."""
        return lazy_reader(self.schema, lambda: self.batches(None))

    def explained(self, error: BaseException) -> HudiError:
        """Return an error of ours for one of a stream, which has lost its kind on the way through C.

        Args:
            error: The error that reading the stream raised.

        Returns:
            The error: that the snapshot was cleaned, if that is why.
        """
        if isinstance(error, HudiError):
            return error
        message = str(error)
        if not message.startswith(_OF_THE_CORE):
            return InvalidOptionError(f"Arrow failed on the rows of {self.table.uri}: {message}")
        try:
            native = self.table.open()
            # A snapshot whose files were cleaned is an error.
            _native.plan_read(native, self.query, self.as_of)
            gone = self._active_writes(native.instants()) - _writes(native.instants(), self.as_of)
        except HudiError as refused:
            return refused
        if gone:
            return InvalidOptionError(
                f"the table {self.table.uri} cannot be read as of {self.as_of} any more: the commit {min(gone)} was "
                "rolled back. Take a new snapshot"
            )
        message = message.removeprefix(_OF_THE_CORE)
        return StorageError(message) if message.startswith(_OF_THE_STORAGE) else CorruptFileError(message)

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Raise errors of ours where reading a stream raises those of Arrow."""
        try:
            yield
        except HudiError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise self.explained(error) from error


_OF_THE_CORE = "External error: "
_OF_THE_STORAGE = ("reading", "listing")


def _writes(instants: Sequence[_native.InstantRow], until: str | None) -> frozenset[str]:
    """Requested times of completed commits up to an instant."""
    completed = (requested for requested, _, action, state in instants if state == "COMPLETED" and action in _WRITES)
    return frozenset(requested for requested in completed if until is None or requested <= until)
