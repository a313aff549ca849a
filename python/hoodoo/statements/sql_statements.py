"""UPDATE, DELETE, MERGE INTO and ALTER TABLE as SQL text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.statements.alter import AlterStatement, parse_alter
from hoodoo.statements.sql import SqlReader, parsed, query_in_using

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.statements.expressions import Expression, Side

__all__ = ["DeleteStatement", "MergeClause", "MergeStatement", "Statement", "UpdateStatement", "parse_statement"]


@dataclass(frozen=True)
class UpdateStatement:
    """UPDATE: the name of the table, new values by column, and the condition."""

    table: str
    assignments: Mapping[str, Expression]
    where: Expression | None


@dataclass(frozen=True)
class DeleteStatement:
    """DELETE FROM: the name of the table, and the condition."""

    table: str
    where: Expression | None


@dataclass(frozen=True)
class MergeClause:
    """A WHEN of a merge: the method of `MergeBuilder` that adds it, its values and its condition."""

    method: str
    values: Mapping[str, Expression] | None
    condition: Expression | None


@dataclass(frozen=True)
class MergeStatement:
    """MERGE INTO.

    Attributes:
        table: The name of the table.
        source: The name of the source, or its query.
        is_query: Whether the source is a query.
        on: The condition.
        clauses: The clauses.
    """

    table: str
    source: str
    is_query: bool
    on: Expression
    clauses: list[MergeClause] = field(default_factory=list)


Statement: TypeAlias = UpdateStatement | DeleteStatement | MergeStatement | AlterStatement

_STATEMENTS = "UPDATE, DELETE FROM, MERGE INTO, ALTER TABLE"

# What the classes of sqlglot may say here; anything else would be left out.
_KNOWN = {
    "Update": {"this", "expressions", "where"},
    "Delete": {"this", "where"},
    "Merge": {"this", "using", "on", "whens", "expressions"},
    "When": {"matched", "source", "condition", "then"},
    "Table": {"this", "db", "catalog", "alias"},
    "Subquery": {"this", "alias"},
}


def parse_statement(text: Any) -> Statement:
    """Return a statement.

    Args:
        text: One UPDATE, DELETE FROM, MERGE INTO or ALTER TABLE in the dialect of Spark.

    Returns:
        The statement.

    Raises:
        InvalidOptionError: The text is no SQL statement.
        UnsupportedError: It is another statement, or has something that is not supported; the error names it.
        MissingDependencyError: sqlglot is not installed.

    Examples:
        >>> parse_statement("DELETE FROM trips WHERE fare < 0").table
        'trips'
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidOptionError(f"the statement is empty: expected one of {_STATEMENTS}")
    first_word = text.split(maxsplit=1)[0].upper()
    if first_word == "ALTER":
        # sqlglot reads half of its forms.
        return parse_alter(text)
    if first_word == "CALL":
        raise UnsupportedError(
            f"{text.strip()!r} is not supported: call the function of hoodoo.procedures with that name"
        )
    return _Reader(text).statement(parsed(text, "one statement"))


class _Reader:
    """Reads a statement that sqlglot has read."""

    def __init__(self, text: str) -> None:
        self._text = text

    def statement(self, tree: Any) -> Statement:
        kind = type(tree).__name__
        if kind not in {"Update", "Delete", "Merge"}:
            named = kind.upper() if kind != "Command" else str(tree.this).upper()
            raise UnsupportedError(f"{named} is not supported: expected one of {_STATEMENTS}")
        self._check(tree)
        if kind == "Merge":
            return self._merge(tree)
        name, known = self._table(tree.this)
        reader = SqlReader(self._text, dict.fromkeys(known, "target"))
        where = tree.args.get("where")
        condition = None if where is None else reader.expression(where.this)
        if kind == "Delete":
            return DeleteStatement(name, condition)
        return UpdateStatement(name, self._assignments(tree.expressions, reader, known), condition)

    def _check(self, tree: Any) -> None:
        kind = type(tree).__name__
        given = {name for name, value in tree.args.items() if value not in (None, False, [])}
        for name in sorted(given - _KNOWN[kind]):
            raise UnsupportedError(f"{name.strip('_').upper()} in {self._text!r} is not supported")

    def _table(self, tree: Any) -> tuple[str, list[str]]:
        """The name of a table, and the names that qualify its columns."""
        if type(tree).__name__ != "Table":
            raise UnsupportedError(f"`{tree.sql('spark')}` in {self._text!r} is not supported: expected a table")
        self._check(tree)
        parts = [part.name for part in (tree.args.get("catalog"), tree.args.get("db"), tree.this) if part is not None]
        return ".".join(parts), [tree.alias or parts[-1]]

    def _assignments(self, trees: list[Any], reader: SqlReader, known: list[str]) -> dict[str, Expression]:
        if not trees:
            raise InvalidOptionError(f"nothing is assigned in {self._text!r}: expected SET column = value")
        found: dict[str, Expression] = {}
        for tree in trees:
            column = tree.this
            if type(tree).__name__ != "EQ" or type(column).__name__ != "Column" or column.args.get("db") is not None:
                raise UnsupportedError(
                    f"the assignment `{tree.sql('spark')}` is not supported: expected column = value"
                )
            if column.table and column.table.lower() not in {name.lower() for name in known}:
                raise InvalidOptionError(
                    f"the assignment `{tree.sql('spark')}` names no column of the table: write {known[0]}.…"
                )
            if column.name in found:
                raise InvalidOptionError(f"the column {column.name!r} is assigned twice")
            found[column.name] = reader.expression(tree.expression)
        return found

    def _merge(self, tree: Any) -> MergeStatement:
        name, known = self._table(tree.this)
        using = tree.args["using"]
        is_query = type(using).__name__ == "Subquery"
        if is_query:
            self._check(using)
            if not using.alias:
                raise InvalidOptionError("the query after USING has no name: write USING (…) AS source")
            # As it was written: versions of Spark read some of it differently.
            query = query_in_using(self._text)
            source = using.this.sql(dialect="spark") if query is None else self._text[slice(*query)]
            others = [using.alias]
        else:
            source, others = self._table(using)
        if known[0].lower() == others[0].lower():
            raise InvalidOptionError(f"the table and the source are both {known[0]!r}: give one of them an alias")
        sides: dict[str, Side] = {known[0]: "target", others[0]: "source"}
        reader = SqlReader(self._text, sides)
        whens = tree.args.get("whens")
        trees = tree.expressions if whens is None else whens.expressions
        clauses = [self._clause(when, reader, known) for when in trees]
        return MergeStatement(name, source, is_query, reader.expression(tree.args["on"]), clauses)

    def _clause(self, tree: Any, reader: SqlReader, known: list[str]) -> MergeClause:
        self._check(tree)
        condition = tree.args.get("condition")
        met = None if condition is None else reader.expression(condition)
        group = _group(tree)
        then = tree.args["then"]
        kind = type(then).__name__
        if kind == "Var" and str(then.this).upper() == "DELETE" and group != "not_matched":
            return MergeClause(f"when_{group}_delete", None, met)
        if kind == "Update" and group != "not_matched":
            stars = [type(e).__name__ == "Star" for e in then.expressions]
            if stars == [True] and group == "matched":
                return MergeClause("when_matched_update_all", None, met)
            if not any(stars):
                return MergeClause(f"when_{group}_update", self._assignments(then.expressions, reader, known), met)
        if kind == "Insert" and group == "not_matched":
            if type(then.this).__name__ == "Star":
                return MergeClause("when_not_matched_insert_all", None, met)
            return MergeClause("when_not_matched_insert", self._inserted(then, reader), met)
        raise UnsupportedError(f"`{tree.sql('spark')}` in {self._text!r} is not supported")

    def _inserted(self, then: Any, reader: SqlReader) -> dict[str, Expression]:
        columns = [] if then.this is None else list(then.this.expressions)
        values = [] if then.expression is None else list(then.expression.expressions)
        if not columns or len(columns) != len(values):
            raise InvalidOptionError(
                f"the INSERT of a merge has {len(columns)} columns and {len(values)} values: name a column for "
                "each value"
            )
        found: dict[str, Expression] = {}
        for column, value in zip(columns, values, strict=True):
            if column.name in found:
                raise InvalidOptionError(f"the INSERT of a merge names the column {column.name!r} twice")
            found[column.name] = reader.expression(value)
        return found


def _group(tree: Any) -> Literal["matched", "not_matched", "not_matched_by_source"]:
    if tree.args.get("matched"):
        return "matched"
    return "not_matched_by_source" if tree.args.get("source") else "not_matched"
