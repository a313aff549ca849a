"""Expressions: what conditions and values of statements become, whatever form they are given in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

__all__ = [
    "Call",
    "Case",
    "Cast",
    "Column",
    "Constant",
    "Expression",
    "Foreign",
    "Side",
    "conjuncts",
    "nodes",
    "text_of",
]

Side: TypeAlias = Literal["target", "source"]
"""The two inputs of a merge."""


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes:
        name: Its name, in the case in which it was written.
        side: The input that it was qualified with; None for a bare name.
    """

    name: str
    side: Side | None = None


@dataclass(frozen=True)
class Constant:
    """A literal.

    Attributes:
        value: Its value.
        exact: Whether it is of a list of conditions, and is compared as `fitting.fitted` says.
    """

    value: pa.Scalar
    exact: bool = False


@dataclass(frozen=True)
class Call:
    """An operator or a function, by the name that `functions` has for it."""

    name: str
    arguments: tuple[Expression, ...]


@dataclass(frozen=True)
class Cast:
    """SQL's CAST."""

    value: Expression
    data_type: pa.DataType


@dataclass(frozen=True)
class Case:
    """SQL's CASE: the value of the first branch whose condition is true."""

    branches: tuple[tuple[Expression, Expression], ...]
    otherwise: Expression


@dataclass(frozen=True)
class Foreign:
    """An expression of pyarrow or polars, which that library evaluates."""

    library: Literal["pyarrow", "polars"]
    expression: Any


Expression: TypeAlias = Column | Constant | Call | Cast | Case | Foreign


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the expressions that an expression is made of."""
    if isinstance(expression, Call):
        return expression.arguments
    if isinstance(expression, Cast):
        return (expression.value,)
    if isinstance(expression, Case):
        return (*(part for branch in expression.branches for part in branch), expression.otherwise)
    return ()


def nodes(expression: Expression) -> Iterator[Expression]:
    """Return an expression and all that are in it."""
    yield expression
    for child in children(expression):
        yield from nodes(child)


def conjuncts(expression: Expression) -> Iterator[Expression]:
    """Return the conditions that must all be true.

    Examples:
        >>> a, b, c = (Column(name) for name in "abc")
        >>> [part.name for part in conjuncts(Call("and", (Call("and", (a, b)), c)))]
        ['a', 'b', 'c']
    """
    if isinstance(expression, Call) and expression.name == "and":
        for argument in expression.arguments:
            yield from conjuncts(argument)
    else:
        yield expression


def _python_value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        # Python has no date after the year 9999, and no time of nanoseconds without pandas.
        return str(scalar.value)


_INFIX = {"and", "or", "=", "!=", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "like", "||"}


def text_of(  # noqa: PLR0911 - one for each kind
    expression: Expression,
) -> str:
    """Return an expression as SQL, for messages.

    Examples:
        >>> import pyarrow as pa
        >>> text_of(Call("<", (Column("fare", "target"), Constant(pa.scalar(3)))))
        'target.fare < 3'
    """
    if isinstance(expression, Column):
        return f"{expression.side}.{expression.name}" if expression.side else expression.name
    if isinstance(expression, Constant):
        value = _python_value(expression.value)
        return "null" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
    if isinstance(expression, Cast):
        return f"cast({text_of(expression.value)} as {expression.data_type})"
    if isinstance(expression, Case):
        whens = " ".join(f"when {text_of(c)} then {text_of(v)}" for c, v in expression.branches)
        return f"case {whens} else {text_of(expression.otherwise)} end"
    if isinstance(expression, Foreign):
        return str(expression.expression)
    parts = [text_of(argument) for argument in expression.arguments]
    if expression.name in _INFIX and len(parts) == 2:  # noqa: PLR2004 - left and right
        return f" {expression.name} ".join(
            f"({part})" if isinstance(a, Call) and a.name in _INFIX else part
            for part, a in zip(parts, expression.arguments, strict=True)
        )
    return f"{expression.name}({', '.join(parts)})"
