"""ALTER TABLE as SQL text: changes of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.statements.sql_tokens import Tokens
from hoodoo.statements.sql_types import read_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from hoodoo.commit import Commit
    from hoodoo.schema_update import SchemaUpdate
    from hoodoo.table import Table

__all__ = ["AlterStatement", "ColumnChange", "parse_alter"]

_EXPECTED = (
    "Expected ALTER TABLE name, then ADD COLUMNS (name type, …), RENAME COLUMN name TO name, DROP COLUMNS (name, …), "
    "or ALTER COLUMN name TYPE type | COMMENT 'string' | DROP NOT NULL | FIRST | AFTER name"
)


@dataclass(frozen=True)
class ColumnChange:
    """A change of a column.

    Attributes:
        method: The method of `SchemaUpdate` that makes it.
        column: The column, or the path of a field.
        new_name: Its name from now on.
        data_type: Its type from now on.
        doc: What it is for.
        nullable: True if it may be null from now on.
        first: Whether it comes in front of the others.
        after: The column behind which it comes.
    """

    method: str
    column: tuple[str, ...]
    new_name: str | None = None
    data_type: pa.DataType | None = None
    doc: str | None = None
    nullable: bool | None = None
    first: bool = False
    after: str | None = None


@dataclass(frozen=True)
class AlterStatement:
    """ALTER TABLE: the name of the table, and the changes of its columns in their order."""

    table: str
    changes: list[ColumnChange]

    def execute(self, table: Table) -> Commit:
        """Make the changes, as one commit.

        Args:
            table: The table. Names of its columns go in any case, as in Spark.

        Returns:
            The commit.

        Raises:
            SchemaError: A column is not there, or is there already, or its type does not take all values.
            UnsupportedError: The column cannot be changed in this way.
        """
        columns = list(table.schema)
        with table.update_schema() as update:
            for change in self.changes:
                _add(update, change, columns)
        if update.commit is None:
            raise InvalidOptionError("the statement changes no column")
        return update.commit


def _add(update: SchemaUpdate, change: ColumnChange, columns: list[pa.Field]) -> None:
    path, first = _known(change.column, columns), change.first
    name, after = ".".join(path), change.after
    if after is not None:
        after = _known((*path[:-1], after), columns)[-1]
    if change.method == "add_column":
        if change.data_type is None:
            raise InvalidOptionError(f"the column {name!r} has no type")
        update.add_column(name, change.data_type, doc=change.doc, first=first, after=after)
    elif change.method == "rename_column":
        update.rename_column(name, change.new_name or "")
    elif change.method == "drop_column":
        update.drop_column(name)
    elif change.method == "move_column":
        update.move_column(name, first=first, after=after)
    else:
        update.change_column(name, change.data_type, nullable=change.nullable, doc=change.doc)


def _known(path: tuple[str, ...], fields: list[pa.Field]) -> tuple[str, ...]:
    """The path of a column as the table writes it, as far as it is there."""
    found: list[str] = []
    for position, name in enumerate(path):
        same = [field for field in fields if field.name == name]
        same = same or [field for field in fields if field.name.lower() == name.lower()]
        if len(same) != 1:
            return (*found, *path[position:])
        found.append(same[0].name)
        fields = _inside(same[0].type)
    return tuple(found)


def _inside(data_type: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(data_type):
        return [data_type.key_field.with_name("key"), data_type.item_field.with_name("value")]
    if pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        return [data_type.value_field.with_name("element")]
    return list(data_type) if pa.types.is_struct(data_type) else []


def parse_alter(text: str) -> AlterStatement:
    """Return an ALTER TABLE.

    Args:
        text: The statement, in the dialect of Spark.

    Returns:
        The statement.

    Raises:
        InvalidOptionError: The text is no such statement.
        UnsupportedError: It changes something else than columns, or has something that is not supported; the error
            names it.
        MissingDependencyError: sqlglot is not installed.

    Examples:
        >>> [change.method for change in parse_alter("ALTER TABLE t ADD COLUMNS (a int, b string AFTER id)").changes]
        ['add_column', 'add_column']
    """
    tokens = Tokens(text, _EXPECTED)
    tokens.expect("ALTER")
    if not tokens.take("TABLE"):
        raise UnsupportedError(f"ALTER {tokens.name().upper()} is not supported: {_EXPECTED}")
    table = ".".join(tokens.names())
    if tokens.take("ADD", "COLUMNS") or tokens.take("ADD", "COLUMN"):
        changes = _listed(tokens, lambda: _added(tokens))
    elif tokens.take("RENAME", "COLUMN"):
        changes = [_renamed(tokens)]
    elif tokens.take("DROP", "COLUMNS") or tokens.take("DROP", "COLUMN"):
        changes = _listed(tokens, lambda: ColumnChange("drop_column", _path(tokens)))
    elif (
        tokens.take("ALTER", "COLUMN")
        or tokens.take("CHANGE", "COLUMN")
        or tokens.take("ALTER")
        or tokens.take("CHANGE")
    ):
        changes = _changed(tokens)
    else:
        raise _unsupported(tokens)
    if not tokens.is_end:
        raise tokens.invalid("the end")
    return AlterStatement(table, changes)


def _unsupported(tokens: Tokens) -> Exception:
    for words in (
        ("SET", "TBLPROPERTIES"), ("UNSET", "TBLPROPERTIES"), ("RENAME", "TO"), ("ADD", "PARTITION"),
        ("DROP", "PARTITION"), ("REPLACE", "COLUMNS"), ("SET", "LOCATION"), ("RECOVER", "PARTITIONS"),
        ("ADD", "CONSTRAINT"), ("ADD", "IF"), ("DROP", "IF"),
    ):  # fmt: skip
        if tokens.follows(*words):
            return UnsupportedError(f"ALTER TABLE … {' '.join(words)} is not supported. {_EXPECTED}")
    return tokens.invalid("a change of columns")


def _listed(tokens: Tokens, read: Callable[[], ColumnChange]) -> list[ColumnChange]:
    """What stands in brackets or not, with commas."""
    if tokens.follows("IF", "EXISTS") or tokens.follows("IF", "NOT", "EXISTS"):
        raise UnsupportedError(f"IF [NOT] EXISTS in {tokens.text!r} is not supported: look at the table's schema first")
    in_brackets = tokens.take("(")
    found = [read()]
    while tokens.take(","):
        found.append(read())
    if in_brackets:
        tokens.expect(")")
    return found


def _added(tokens: Tokens) -> ColumnChange:
    column, data_type = _path(tokens), read_type(tokens)
    doc, first, after = None, False, None
    while True:
        if tokens.follows("NOT", "NULL"):
            raise UnsupportedError(
                f"NOT NULL in {tokens.text!r} is not supported: a new column is null in the rows that are there"
            )
        if tokens.follows("DEFAULT"):
            raise UnsupportedError(f"DEFAULT in {tokens.text!r} is not supported: add the column, then UPDATE it")
        if tokens.take("COMMENT"):
            doc = tokens.string()
        elif tokens.take("FIRST"):
            first = True
        elif tokens.take("AFTER"):
            after = tokens.name()
        else:
            return ColumnChange("add_column", column, data_type=data_type, doc=doc, first=first, after=after)


def _renamed(tokens: Tokens) -> ColumnChange:
    column = _path(tokens)
    tokens.expect("TO")
    return ColumnChange("rename_column", column, new_name=tokens.name())


def _changed(tokens: Tokens) -> list[ColumnChange]:
    """Spark's ALTER COLUMN name TYPE type, and Hive's CHANGE COLUMN name new_name type."""
    column = _path(tokens)
    found: list[ColumnChange] = []
    if not any(tokens.follows(*words) for words in (*_ACTIONS, *_NOT_THERE)):
        new_name = tokens.name()
        if new_name.lower() != column[-1].lower():
            raise UnsupportedError(
                f"a new name is not supported in {tokens.text!r}: use RENAME COLUMN {'.'.join(column)} TO {new_name}"
            )
        found.append(ColumnChange("change_column", column, data_type=read_type(tokens)))
    while not tokens.is_end:
        if tokens.take("TYPE"):
            found.append(ColumnChange("change_column", column, data_type=read_type(tokens)))
        elif tokens.take("COMMENT"):
            found.append(ColumnChange("change_column", column, doc=tokens.string()))
        elif tokens.take("DROP", "NOT", "NULL"):
            found.append(ColumnChange("change_column", column, nullable=True))
        elif tokens.take("FIRST"):
            found.append(ColumnChange("move_column", column, first=True))
        elif tokens.take("AFTER"):
            found.append(ColumnChange("move_column", column, after=tokens.name()))
        elif any(tokens.follows(*words) for words in _NOT_THERE):
            raise UnsupportedError(f"this change of a column is not supported: {tokens.text!r}. {_EXPECTED}")
        else:
            raise tokens.invalid("a change of the column")
    if not found:
        raise tokens.invalid("a change of the column")
    return found


_ACTIONS = (("TYPE",), ("COMMENT",), ("DROP", "NOT", "NULL"), ("FIRST",), ("AFTER",))
_NOT_THERE = (("SET", "NOT", "NULL"), ("SET", "DEFAULT"), ("DROP", "DEFAULT"), (",",))


def _path(tokens: Tokens) -> tuple[str, ...]:
    names = tokens.names()
    for name in names:
        if "." in name:
            raise UnsupportedError(f"the name `{name}` in {tokens.text!r} has a dot, which Hudi's columns cannot have")
    return tuple(names)
