"""SQL text as expressions: the dialect is that of Spark, read by sqlglot."""

from __future__ import annotations

import itertools
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.extras import import_extra
from hoodoo.statements.expressions import Call, Case, Cast, Column, Constant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hoodoo.statements.expressions import Expression, Side

__all__ = ["SqlReader", "parse_sql", "query_in_using"]

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)

# Classes of sqlglot with a left and a right side.
_BINARY = {
    "And": "and", "Or": "or", "EQ": "=", "NEQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=",
    "NullSafeEQ": "<=>", "Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%", "IntDiv": "div",
    "Like": "like", "DPipe": "concat", "Nullif": "nullif",
}  # fmt: skip
_UNARY = {
    "Not": "not", "Neg": "neg", "Abs": "abs", "Upper": "upper", "Lower": "lower", "Length": "length",
}  # fmt: skip
_MANY = {"Coalesce": "coalesce", "Greatest": "greatest", "Least": "least", "Concat": "concat"}
# What classes of sqlglot may say.
_ARGUMENTS = {
    "this", "expression", "expressions", "to", "low", "high", "ifs", "default", "true", "false", "start", "length",
    "position", "table", "db", "quoted", "is_string", "safe", "query", "ignore_nulls", "negate", "decimals", "coalesce",
}  # fmt: skip
_TRIMS = {"LEADING": "ltrim", "TRAILING": "rtrim", "BOTH": "trim", "": "trim"}
_TYPES = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(), "BIGINT": pa.int64(),
    "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "TEXT": pa.string(), "VARCHAR": pa.string(), "DATE": pa.date32(),
    "BINARY": pa.binary(), "TIMESTAMPTZ": pa.timestamp("us", "UTC"), "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPNTZ": pa.timestamp("us"),
}  # fmt: skip


def parse_sql(text: str, names: Mapping[str, Side] | None = None) -> Expression:
    """Return a condition or a value in SQL as an expression.

    Args:
        text: The SQL, such as `fare * 1.1` or `city in ('sf', 'la') and fare > 0`.
        names: The inputs by the names that qualify columns.

    Returns:
        The expression.

    Raises:
        InvalidOptionError: The text is no SQL expression.
        UnsupportedError: The expression has something that is not supported; the error names it.
        MissingDependencyError: sqlglot is not installed.

    Examples:
        >>> from hoodoo.statements.expressions import text_of
        >>> text_of(parse_sql("s.ts > t.ts and not deleted", {"s": "source", "t": "target"}))
        '(source.ts > target.ts) and not(deleted)'
    """
    return SqlReader(text, names).expression(parsed(text, "an expression"))


def parsed(text: str, what: str) -> Any:
    """Return what sqlglot reads: one expression or statement.

    Args:
        text: The SQL.
        what: What is expected, for the message.

    Raises:
        InvalidOptionError: It is not SQL, or more than one statement.
        MissingDependencyError: sqlglot is not installed.
    """
    import_extra("sqlglot", "sql", "SQL text")
    import sqlglot  # noqa: PLC0415 - an optional package
    from sqlglot.errors import SqlglotError  # noqa: PLC0415 - as above

    try:
        found = [tree for tree in sqlglot.parse(text, read="spark") if tree is not None]
        tokens = sqlglot.tokenize(text, read="spark")
    except SqlglotError as error:
        reason = str(error).split("\n", maxsplit=1)[0].replace("\x1b[4m", "").replace("\x1b[0m", "")
        reason = re.sub(r"<class '[\w.]*\.(\w+)'>", r"\1", reason)
        raise InvalidOptionError(f"invalid SQL {text!r}: {reason} Expected {what}") from error
    except RecursionError as error:
        raise UnsupportedError(f"SQL of {len(text)} characters is nested too deeply") from error
    if len(found) != 1:
        raise InvalidOptionError(f"invalid SQL {text!r}: expected {what}, got {len(found)}")
    _refuse_doubled_quotes(text, tokens)
    return found[0]


def query_in_using(text: str) -> tuple[int, int] | None:
    """Return where the query after USING begins and ends in a statement; None when there is none.

    Args:
        text: A statement that sqlglot reads.

    Examples:
        >>> text = "merge into t using (select (1) as id) s on t.id = s.id"
        >>> text[slice(*query_in_using(text))]
        'select (1) as id'
    """
    import sqlglot  # noqa: PLC0415 - an optional package

    return _in_using(sqlglot.tokenize(text, read="spark"))


def _in_using(tokens: list[Any]) -> tuple[int, int] | None:
    depth = 0
    begin: int | None = None
    before = ""
    for token in tokens:
        kind = token.token_type.name
        if kind == "L_PAREN":
            if depth == 0 and before == "USING":
                begin = token.end + 1
            depth += 1
        elif kind == "R_PAREN":
            depth -= 1
            if depth == 0 and begin is not None:
                return begin, token.start
        before = kind
    return None


def _refuse_doubled_quotes(text: str, tokens: list[Any]) -> None:
    """Refuse two quotes within a string: a quote to Spark 4 and to other databases, nothing to Spark 3.5.

    A query after USING is passed to Spark, which reads it as it does.
    """
    left_out = _in_using(tokens) or (0, 0)
    for one, other in itertools.pairwise(tokens):
        both = one.token_type.name == other.token_type.name == "STRING"
        if both and other.start == one.end + 1 and not left_out[0] <= one.start < left_out[1]:
            string = text[one.start : other.end + 1]
            raise UnsupportedError(
                f"two quotes within the string {string} are not supported: some versions of Spark read a quote, others "
                "nothing: "
                r"write \' for a quote, or concat(…) for strings that follow each other"
            )


class SqlReader:
    """Makes expressions of what sqlglot read.

    Args:
        text: The whole SQL, for messages.
        names: The inputs by the names that qualify columns, in any case.
    """

    def __init__(self, text: str, names: Mapping[str, Side] | None = None) -> None:
        """Take the names."""
        self._text = text
        self._names = {name.lower(): side for name, side in (names or {}).items()}

    def expression(self, tree: Any) -> Expression:
        """Return an expression.

        Raises:
            UnsupportedError: It is not supported.
        """
        given = {name for name, value in tree.args.items() if value not in (None, False, [])}
        if given - _ARGUMENTS:
            # Versions of sqlglot differ in where they put what: nothing that is not known here is left out.
            raise self._unsupported(tree)
        found = self._plain(tree)
        return Call("not", (found,)) if "negate" in given else found

    def _plain(self, tree: Any) -> Expression:
        kind = type(tree).__name__
        if kind in _BINARY:
            return Call(_BINARY[kind], (self.expression(tree.this), self.expression(tree.expression)))
        if kind in _UNARY:
            return self._unary(_UNARY[kind], tree)
        if kind in _MANY:
            first = [] if tree.this is None else [tree.this]
            return Call(_MANY[kind], tuple(self.expression(part) for part in [*first, *tree.expressions]))
        if kind in self._others:
            return self._others[kind](self, tree)
        raise self._unsupported(tree)

    def _unsupported(self, tree: Any) -> UnsupportedError:
        named = tree.sql(dialect="spark") if hasattr(tree, "sql") else str(tree)
        return UnsupportedError(f"`{named}` in {self._text!r} is not supported: see the page on statements for what is")

    def _unary(self, name: str, tree: Any) -> Expression:
        if name == "length" and tree.args.get("binary"):
            raise self._unsupported(tree)
        if name == "neg" and type(tree.this).__name__ == "Literal" and not tree.this.is_string:
            return self._number(f"-{tree.this.this}", tree)
        return Call(name, (self.expression(tree.this),))

    def _literal(self, tree: Any) -> Expression:
        return (
            Constant(pa.scalar(str(tree.this), pa.string())) if tree.is_string else self._number(str(tree.this), tree)
        )

    def _number(self, digits: str, tree: Any) -> Expression:
        if "e" in digits.lower():
            return Constant(pa.scalar(float(digits), pa.float64()))
        if "." in digits:
            return Constant(pa.scalar(Decimal(digits)))
        number = int(digits)
        for (smallest, largest), data_type in ((_INT, pa.int32()), (_LONG, pa.int64())):
            if smallest <= number <= largest:
                return Constant(pa.scalar(number, data_type))
        raise self._unsupported(tree)

    def _column(self, tree: Any) -> Expression:
        if tree.args.get("db") is not None or type(tree.this).__name__ != "Identifier":
            raise self._unsupported(tree)
        if not tree.table:
            return Column(tree.name)
        side = self._names.get(tree.table.lower())
        if side is None:
            known = ", ".join(self._names) or "none: leave the name out"
            raise InvalidOptionError(f"unknown table {tree.table!r} in {tree.sql('spark')!r}. Names of tables: {known}")
        return Column(tree.name, side)

    def _is(self, tree: Any) -> Expression:
        kind, value = type(tree.expression).__name__, self.expression(tree.this)
        if kind == "Null":
            return Call("is_null", (value,))
        if kind == "Boolean":
            return Call("<=>", (value, self.expression(tree.expression)))
        raise self._unsupported(tree)

    def _in(self, tree: Any) -> Expression:
        if tree.args.get("query") is not None or not tree.expressions:
            raise self._unsupported(tree)
        return Call("in", tuple(self.expression(part) for part in [tree.this, *tree.expressions]))

    def _between(self, tree: Any) -> Expression:
        if tree.args.get("symmetric"):
            raise self._unsupported(tree)
        value, low, high = (self.expression(tree.args[name]) for name in ("this", "low", "high"))
        return Call("and", (Call(">=", (value, low)), Call("<=", (value, high))))

    def _case(self, tree: Any) -> Expression:
        subject = None if tree.this is None else self.expression(tree.this)
        branches = []
        for branch in tree.args.get("ifs") or []:
            condition = self.expression(branch.this)
            met = condition if subject is None else Call("=", (subject, condition))
            branches.append((met, self.expression(branch.args["true"])))
        return Case(tuple(branches), self._or_null(tree.args.get("default")))

    def _if(self, tree: Any) -> Expression:
        branch = (self.expression(tree.this), self.expression(tree.args["true"]))
        return Case((branch,), self._or_null(tree.args.get("false")))

    def _or_null(self, tree: Any) -> Expression:
        return _null() if tree is None else self.expression(tree)

    def _cast(self, tree: Any) -> Expression:
        if tree.args.get("format") or (tree.args.get("safe") and type(tree).__name__ == "TryCast"):
            raise self._unsupported(tree)
        return Cast(self.expression(tree.this), self._type(tree))

    def _type(self, tree: Any) -> pa.DataType:
        name = getattr(tree.to.this, "name", "")
        if name == "DECIMAL":
            digits = [int(part.this.this) for part in tree.to.expressions] or [10, 0]
            return pa.decimal128(*digits)
        if name not in _TYPES or tree.to.expressions:
            raise self._unsupported(tree)
        return _TYPES[name]

    def _trim(self, tree: Any) -> Expression:
        position = str(tree.args.get("position") or "").upper()
        if tree.expression is not None or position not in _TRIMS:
            raise self._unsupported(tree)
        return Call(_TRIMS[position], (self.expression(tree.this),))

    def _substring(self, tree: Any) -> Expression:
        parts = [tree.this, tree.args.get("start"), tree.args.get("length")]
        return Call("substring", tuple(self.expression(part) for part in parts if part is not None))

    def _rounding(self, tree: Any) -> Expression:
        if tree.args.get("decimals") is not None or tree.args.get("to") is not None:
            raise self._unsupported(tree)
        return Call(type(tree).__name__.lower(), (self.expression(tree.this),))

    def _anonymous(self, tree: Any) -> Expression:
        name, arguments = str(tree.this).lower(), tuple(self.expression(part) for part in tree.expressions)
        if name == "isnull" and len(arguments) == 1:
            return Call("is_null", arguments)
        if name == "isnotnull" and len(arguments) == 1:
            return Call("not", (Call("is_null", arguments),))
        raise self._unsupported(tree)

    _others: Mapping[str, Callable[[SqlReader, Any], Expression]] = {
        "Paren": lambda self, tree: self.expression(tree.this),
        "Boolean": lambda self, tree: Constant(pa.scalar(bool(tree.this))),  # noqa: ARG005 - as the others
        "Null": lambda self, tree: _null(),  # noqa: ARG005 - as the others
        "Literal": _literal,
        "Column": _column,
        "Is": _is,
        "In": _in,
        "Between": _between,
        "Case": _case,
        "If": _if,
        "Cast": _cast,
        "TryCast": _cast,
        "Trim": _trim,
        "Substring": _substring,
        "Floor": _rounding,
        "Ceil": _rounding,
        "Anonymous": _anonymous,
    }


def _null() -> Constant:
    # Made when it is needed: with its first scalar, pyarrow imports pandas where that is installed.
    return Constant(pa.scalar(None, pa.null()))
