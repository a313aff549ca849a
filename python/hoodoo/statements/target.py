"""The table that a statement changes: its columns, its keys, and its rows as a scan gives them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import CorruptFileError, InvalidOptionError, SchemaError, UnsupportedError
from hoodoo.options import split_list
from hoodoo.statements.evaluate import HUDI_COLUMNS
from hoodoo.statements.expressions import Call, Case, Cast, Column, Foreign, nodes
from hoodoo.statements.pushdown import scan_filter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from hoodoo import _native
    from hoodoo.statements.expressions import Expression, Side

__all__ = ["Target", "columns_in", "qualified", "scanned"]

_EVENT_TIME = "EVENT_TIME_ORDERING"


@dataclass(frozen=True)
class Target:
    """A table with key columns.

    Attributes:
        native: The table.
        schema: Its columns, without Hudi's.
        keys: The columns of the record key.
        partitions: The partition columns.
        ordering: The columns that order rows of a key; none where the later commit wins.
    """

    native: _native.NativeTable
    schema: pa.Schema
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    ordering: tuple[str, ...]

    @classmethod
    def of(cls, native: _native.NativeTable, statement: str) -> Target:
        """Look at a table.

        Args:
            native: The table.
            statement: What is done, for the message.

        Raises:
            UnsupportedError: The table has no key columns.
        """
        options = native.properties()
        keys = _top_level(split_list(options.get("hoodie.table.recordkey.fields")))
        if not keys:
            raise UnsupportedError(
                f"{statement} needs a table with key columns, and {native.uri} has generated keys. Write its rows "
                "again with insert_overwrite, or create a table with a record key"
            )
        partitions = _top_level(split_list(options.get("hoodie.table.partition.fields")))
        ordering = split_list(
            options.get("hoodie.table.ordering.fields") or options.get("hoodie.table.precombine.field")
        )
        mode = options.get("hoodie.record.merge.mode", _EVENT_TIME if ordering else "").upper()
        return cls(native, native.schema(), keys, partitions, tuple(ordering) if mode == _EVENT_TIME else ())

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that say which row is meant: those of the key, and the partition columns."""
        return tuple(dict.fromkeys((*self.keys, *self.partitions)))

    def field(self, name: str, what: str) -> pa.Field:
        """Return the column of a name, in any case if that is unambiguous.

        Raises:
            SchemaError: There is none.
        """
        if name in self.schema.names:
            return self.schema.field(name)
        same = [known for known in self.schema.names if known.lower() == name.lower()]
        if len(same) != 1:
            known = ", ".join(self.schema.names)
            raise SchemaError(f"{what} names the column {name!r}, which the table does not have. Columns: {known}")
        return self.schema.field(same[0])

    def named(self, values: Mapping[str, Expression], what: str) -> dict[str, Expression]:
        """Return values by the names that columns have in the table.

        Raises:
            SchemaError: A column does not exist.
            InvalidOptionError: Two of the names are those of one column.
        """
        found: dict[str, Expression] = {}
        for given, value in values.items():
            name = self.field(given, what).name
            if name in found:
                raise InvalidOptionError(f"the column {name!r} comes twice in {what}: give it once")
            found[name] = value
        return found

    def assigned(self, values: Mapping[str, Expression], what: str) -> dict[str, Expression]:
        """Return new values by the names that columns have in the table.

        Raises:
            SchemaError: A column does not exist.
            InvalidOptionError: Two of the names are those of one column, or a column says which row it is, and cannot
                change.
        """
        found = self.named(values, what)
        for name in found:
            if name in self.identity:
                kind = "record key" if name in self.keys else "partition"
                raise InvalidOptionError(
                    f"{what} changes the {kind} column {name!r}, which Hudi does not allow either. Leave it out; to "
                    "move a row, delete it and insert it again"
                )
        return found

    def batches(
        self, conditions: Sequence[Expression], columns: Sequence[str] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Return the rows of the newest snapshot for which conditions may be true."""
        wanted = self.schema.names if columns is None else list(columns)
        yield from scanned(self.native, wanted, conditions)


def scanned(
    native: _native.NativeTable, columns: Sequence[str], conditions: Sequence[Expression] = ()
) -> Iterator[pa.RecordBatch]:
    """Return rows of the newest snapshot for which conditions may be true.

    Raises:
        CorruptFileError: A file cannot be read.
    """
    reader = native.scan(list(columns), scan_filter(conditions), None, "snapshot")
    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:
        # A stream crosses the border as C structures, which keep the message of an error and not its kind.
        raise CorruptFileError(str(error)) from error


def _top_level(names: Iterable[str]) -> tuple[str, ...]:
    """The columns of fields such as `a.b`, or `ts:timestamp` of a custom key generator."""
    return tuple(dict.fromkeys(name.split(":", 1)[0].split(".", 1)[0] for name in names))


def columns_in(expressions: Iterable[Expression | None], known: Sequence[str], side: Side = "target") -> list[str]:
    """Return the columns of one input that expressions look at: all of them where another library looks at them.

    Hudi's own columns are among them, by their exact names, where an expression names them.
    """
    hudi = [name for name in HUDI_COLUMNS if name not in known]
    lower = {name.lower(): name for name in known}
    found: set[str] = set()
    for expression in expressions:
        for node in () if expression is None else nodes(expression):
            if isinstance(node, Foreign):
                return list(known)
            if isinstance(node, Column) and node.side in {None, side}:
                exact = node.name in known or node.name in hudi
                found.add(node.name if exact else lower.get(node.name.lower(), ""))
    return [name for name in (*known, *hudi) if name in found]


def qualified(expression: Expression, schemas: Mapping[Side, pa.Schema]) -> Expression:
    """Return an expression whose columns have the names and the sides that they have in the inputs.

    Args:
        expression: The expression.
        schemas: The columns of each input.

    Raises:
        SchemaError: A column does not exist, or exists in both inputs.
    """
    if isinstance(expression, Column):
        return _qualified_column(expression, schemas)
    if isinstance(expression, Call):
        return Call(expression.name, tuple(qualified(a, schemas) for a in expression.arguments))
    if isinstance(expression, Cast):
        return Cast(qualified(expression.value, schemas), expression.data_type)
    if isinstance(expression, Case):
        branches = tuple((qualified(c, schemas), qualified(v, schemas)) for c, v in expression.branches)
        return Case(branches, qualified(expression.otherwise, schemas))
    return expression


def _qualified_column(column: Column, schemas: Mapping[Side, pa.Schema]) -> Column:
    sides = {side: schema for side, schema in schemas.items() if column.side in {None, side}}
    exact = [Column(column.name, side) for side, schema in sides.items() if column.name in schema.names]
    any_case = [
        Column(name, side)
        for side, schema in sides.items()
        for name in schema.names
        if name.lower() == column.name.lower()
    ]
    found = exact or any_case
    if len(found) == 1:
        return found[0]
    if found:
        options = " or ".join(f"{c.side}.{c.name}" for c in found)
        raise SchemaError(f"the column {column.name!r} is ambiguous: write {options}")
    known = ", ".join(f"{side}.{name}" for side, schema in sides.items() for name in schema.names)
    raise SchemaError(f"the column {column.name!r} does not exist here. Columns: {known}")
