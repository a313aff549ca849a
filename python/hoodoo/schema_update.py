"""Changing the columns of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo import _native
from hoodoo.arguments import optional_text, text
from hoodoo.commit import Commit
from hoodoo.exceptions import InvalidOptionError

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["SchemaUpdate", "TableSchemaUpdates"]

_Edit = tuple[str, str, "pa.DataType | None", "str | None", "bool | None", "str | None"]
_COLUMN = "'price', or 'address.city' for a field of a struct"


class SchemaUpdate:
    """Changes of a table's columns that become one commit; see `Table.update_schema`.

    Columns go by their name. Fields of structs go by their path: `address.city`, `items.element.price` in a list,
    `tags.value.weight` in the values of a map. Each change sees those before it.

    Attributes:
        commit: The commit; None before the end of the `with` block, and if there was nothing to change.
    """

    commit: Commit | None

    def __init__(self, native: _native.NativeTable) -> None:
        """Begin. `Table.update_schema` makes it."""
        self._native = native
        self._edits: list[_Edit] = []
        self.commit = None

    def add_column(
        self,
        name: str,
        data_type: pa.DataType | str,
        *,
        doc: str | None = None,
        first: bool = False,
        after: str | None = None,
    ) -> SchemaUpdate:
        """Add a column. It may be null, and is null in all rows that are there.

        Args:
            name: The column, or the path of a field of a struct.
            data_type: A pyarrow type or its name.
            doc: What it is for.
            first: Whether it comes in front of the others.
            after: The column behind which it comes; by default it is the last.

        Returns:
            This update.

        Raises:
            InvalidOptionError: The type is none of Arrow's, or both `first` and `after` are given.
        """
        self._edits.append(
            ("add", text(name, "name", _COLUMN), _type(data_type), _doc(doc), None, _place(first, after))
        )
        return self

    def rename_column(self, name: str, new_name: str) -> SchemaUpdate:
        """Give a column another name. Its values stay.

        Args:
            name: The column, or the path of a field of a struct.
            new_name: Its name from now on, without the path.

        Returns:
            This update.
        """
        new = text(new_name, "new_name", "'cost'")
        self._edits.append(("rename", text(name, "name", _COLUMN), None, new, None, None))
        return self

    def drop_column(self, name: str) -> SchemaUpdate:
        """Remove a column. A column that gets the same name later does not have its values.

        Args:
            name: The column, or the path of a field of a struct.

        Returns:
            This update.
        """
        self._edits.append(("drop", text(name, "name", _COLUMN), None, None, None, None))
        return self

    def change_column(
        self,
        name: str,
        data_type: pa.DataType | str | None = None,
        *,
        nullable: bool | None = None,
        doc: str | None = None,
    ) -> SchemaUpdate:
        """Change the type of a column, allow null, or say what it is for.

        Types become wider, as in Hudi: int32 to int64; integers to float; float to double; each of these to string or
        decimal; dates and decimals to string; strings to dates or decimals; decimals to wider ones.

        Args:
            name: The column, or the path of a field of a struct.
            data_type: Its type from now on, a pyarrow type or its name.
            nullable: True to allow null in a column that has not allowed it.
            doc: What it is for.

        Returns:
            This update.

        Raises:
            InvalidOptionError: The type is none of Arrow's.
        """
        new = None if data_type is None else _type(data_type)
        self._edits.append(("change", text(name, "name", _COLUMN), new, _doc(doc), nullable, None))
        return self

    def move_column(self, name: str, *, first: bool = False, after: str | None = None) -> SchemaUpdate:
        """Move a column. Fields stay in their struct.

        Args:
            name: The column, or the path of a field of a struct.
            first: Whether it comes in front of the others.
            after: The column behind which it comes.

        Returns:
            This update.

        Raises:
            InvalidOptionError: Not exactly one of `first` and `after` is given.
        """
        place = _place(first, after)
        if place is None:
            raise InvalidOptionError("a column is moved somewhere: give first=True or after='another column'")
        self._edits.append(("move", text(name, "name", _COLUMN), None, None, None, place))
        return self

    def __enter__(self) -> SchemaUpdate:  # noqa: PYI034 - Self needs Python 3.11
        """Return this update."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Commit the changes, unless the block failed."""
        if kind is None and self._edits:
            done = _native.update_schema(self._native, self._edits)
            self.commit = None if done is None else Commit.from_native(done)


def _type(given: pa.DataType | str) -> pa.DataType:
    try:
        return given if isinstance(given, pa.DataType) else pa.field("column", given).type
    except (TypeError, ValueError, pa.ArrowException) as error:
        raise InvalidOptionError(
            f"'{given}' is no type of Arrow: expected pa.int64() or 'int64' for instance"
        ) from error


def _doc(given: str | None) -> str | None:
    return optional_text(given, "doc", "'what the column is for'")


def _place(first: bool, after: str | None) -> str | None:
    if first and after is not None:
        raise InvalidOptionError("a column has one place: give first or after")
    return "" if first else optional_text(after, "after", "'another column'")


class TableSchemaUpdates:
    """Changes of the columns of a `Table`."""

    _native: _native.NativeTable

    def update_schema(self) -> SchemaUpdate:
        """Add, rename, drop, widen and move columns: all changes of a `with` block are one commit.

        Readers see all of them or none. Rows are not written anew: files of before are read by the ids of their fields
        (Hudi's schema on read), so that a renamed column keeps its values and a dropped one does not come back. Readers
        of real Hudi need `hoodie.schema.on.read.enable=true` for that. Columns that are added at the end and numbers
        that are widened need no ids, and the table gets none for them.

        Returns:
            The update, with the methods `add_column`, `rename_column`, `drop_column`, `change_column` and
            `move_column`. An exception in the block discards it.

        Raises:
            SchemaError: At the end of the block: a column is not there, or is there already, or its type does not take
                all values. Nothing has changed then.
            UnsupportedError: Record keys, partitions, the order of records or an index go by the column; or a column
                has a type that Hudi cannot read in a schema with field ids (timestamps without zone, or in
                milliseconds).
            ConflictError: Another writer commits without the table lock.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-update-schema/t", {"id": pa.int64(), "n": pa.int32()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1], "n": [7]})
            >>> with t.update_schema() as update:
            ...     _ = update.rename_column("n", "count").change_column("count", pa.int64())
            ...     _ = update.add_column("note", pa.string(), after="id")
            >>> t.to_arrow(columns=["id", "note", "count"]).to_pylist()
            [{'id': 1, 'note': None, 'count': 7}]
        """
        return SchemaUpdate(self._native)
