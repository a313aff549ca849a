"""Filters of pyarrow: which columns they read, and what a scan can prune by.

pyarrow's expressions have no public form but Substrait's, in Protocol Buffers. The few messages that filters consist of
are read here; what is not known is left to pyarrow, which applies the whole filter to each batch.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from hoodoo.pruning import NEGATED, SWAPPED, Pruning, all_of, any_of, compare, decimal_scalar, is_in, is_null

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["SubstraitFilter"]

_Message: TypeAlias = dict[int, list[Any]]

# Numbers of fields in substrait/extended_expression.proto, extensions.proto and algebra.proto.
_EXTENSIONS, _REFERRED, _EXPRESSION = 2, 3, 1
_FUNCTION_EXTENSION, _ANCHOR, _FUNCTION_NAME = 3, 2, 3
_LITERAL, _SELECTION, _FUNCTION, _IF_THEN, _OR_LIST = 1, 2, 3, 6, 8
_FUNCTION_REFERENCE, _ARGUMENTS, _VALUE = 1, 4, 3
_CAST = 11
_NULL_LITERAL, _NULLABLE = 29, 50

_OPERATORS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


class SubstraitFilter:
    """An expression of pyarrow in the columns of a schema.

    Args:
        expression: The expression.
        schema: The columns.

    Raises:
        ArrowException: Substrait has no form of it, or it does not fit the columns.

    Examples:
        >>> import pyarrow.compute as pc
        >>> schema = pa.schema({"a": pa.int64(), "s": pa.string()})
        >>> found = SubstraitFilter((pc.field("a") > 1) & pc.starts_with(pc.field("s"), "x"), schema)
        >>> found.fields, found.pruning()[1][0][:2]
        ([0, 1], ('>', 'a'))
    """

    def __init__(self, expression: pa.compute.Expression, schema: pa.Schema) -> None:
        """Read the expression."""
        whole = _message(bytes(expression.to_substrait(schema, allow_arrow_extensions=True)))
        self._schema = schema
        self._functions = dict(_functions(whole))
        self._root = _message(_message(whole[_REFERRED][0])[_EXPRESSION][0])

    @property
    def fields(self) -> list[int]:
        """Numbers of the columns of the schema that the expression reads, in the order it names them."""
        return list(dict.fromkeys(_references(self._root)))

    def pruning(self) -> Pruning | None:
        """Return what a scan can prune by, or None for nothing."""
        return self._prune(self._root, negated=False)

    def _prune(self, node: _Message, *, negated: bool) -> Pruning | None:
        """A filter that matches where the node is true; or, negated, where it is false."""
        if _FUNCTION in node:
            return self._prune_function(_message(node[_FUNCTION][0]), negated=negated)
        if _OR_LIST in node:
            return self._prune_list(_message(node[_OR_LIST][0]), negated=negated)
        if _IF_THEN in node:
            return self._prune_condition(_message(node[_IF_THEN][0]), negated=negated)
        field = self._field(node)
        if field is not None and pa.types.is_boolean(field.type):
            return compare("=", field, pa.scalar(not negated))
        return None

    def _prune_function(self, call: _Message, *, negated: bool) -> Pruning | None:
        name = self._functions.get(call.get(_FUNCTION_REFERENCE, [0])[0], "")
        arguments = [_message(_message(argument)[_VALUE][0]) for argument in call.get(_ARGUMENTS, [])]
        if name in ("and", "or"):
            parts = [self._prune(argument, negated=negated) for argument in arguments]
            return all_of(parts) if (name == "and") != negated else any_of(parts)
        if name == "not":
            return self._prune(arguments[0], negated=not negated)
        if name in ("is_null", "is_not_null"):
            field = self._field(arguments[0])
            return None if field is None else is_null(field, negated=(name == "is_not_null") != negated)
        if name in _OPERATORS:
            return self._prune_comparison(_OPERATORS[name], arguments, negated=negated)
        return None

    def _prune_comparison(self, operator: str, sides: list[_Message], *, negated: bool) -> Pruning | None:
        field, value = self._field(sides[0]), _literal(sides[1])
        if field is None:
            operator, field, value = SWAPPED[operator], self._field(sides[1]), _literal(sides[0])
        if field is None or value is None:
            return None
        if negated and pa.types.is_floating(field.type) and operator in (">", ">="):
            # NaN is not larger than anything to pyarrow, and larger than everything to the core.
            return None
        return compare(NEGATED[operator] if negated else operator, field, value)

    def _prune_list(self, node: _Message, *, negated: bool) -> Pruning | None:
        field = self._field(_message(node[1][0]))
        values = [_literal(_message(option)) for option in node.get(2, [])]
        if field is None or any(value is None or not value.is_valid for value in values):
            # pyarrow finds null in a list that has null.
            return None
        found = [value for value in values if value is not None]
        if negated:
            # pyarrow does not find null in a list, so that null is among the values that are in none. Nor does it find
            # the other zero, which the core takes for equal.
            is_float = pa.types.is_floating(field.type)
            unlike = [compare("!=", field, value) for value in found if not (is_float and value.as_py() == 0)]
            return any_of([is_null(field, negated=False), all_of(unlike)])
        return is_in(field, found)

    def _prune_condition(self, node: _Message, *, negated: bool) -> Pruning | None:
        """`if_else(condition, value, null)`, which is how DuckDB asks for one of several values."""
        clauses = node.get(1, [])
        otherwise = _message(node[2][0]) if 2 in node else {}  # noqa: PLR2004
        if len(clauses) != 1 or _NULL_LITERAL not in _message(otherwise.get(_LITERAL, [b""])[0]):
            return None
        return self._prune(_message(_message(clauses[0])[2][0]), negated=negated)

    def _field(self, node: _Message) -> pa.Field | None:
        """The column that a node is; None for a field of one, and for everything else."""
        found = list(_path(node)) if _SELECTION in node else []
        return self._schema.field(found[0]) if len(found) == 1 and found[0] >= 0 else None


def _functions(whole: _Message) -> Iterator[tuple[int, str]]:
    for extension in whole.get(_EXTENSIONS, []):
        for function in _message(extension).get(_FUNCTION_EXTENSION, []):
            declared = _message(function)
            name = declared[_FUNCTION_NAME][0].decode()
            yield declared.get(_ANCHOR, [0])[0], name.split(":", 1)[0]


def _references(node: _Message) -> Iterator[int]:
    """The columns that an expression reads, in all its parts."""
    if _SELECTION in node:
        path = list(_path(node))
        if not path or path[0] < 0:
            raise pa.ArrowNotImplementedError("a reference to something else than a column")
        yield path[0]
        return
    for part in _parts(node):
        yield from _references(_message(part))


def _parts(node: _Message) -> Iterator[bytes]:
    """The expressions that an expression is made of."""
    if _FUNCTION in node:
        for argument in _message(node[_FUNCTION][0]).get(_ARGUMENTS, []):
            yield from _message(argument).get(_VALUE, [])
    elif _OR_LIST in node:
        yield from itertools.chain.from_iterable(_message(node[_OR_LIST][0]).values())
    elif _IF_THEN in node:
        condition = _message(node[_IF_THEN][0])
        for clause in condition.get(1, []):
            yield from itertools.chain.from_iterable(_message(clause).values())
        yield from condition.get(2, [])
    elif _CAST in node:
        yield from _message(node[_CAST][0]).get(2, [])
    elif _LITERAL not in node:
        raise pa.ArrowNotImplementedError(f"an expression of the kind {sorted(node)}")


def _path(node: _Message) -> Iterator[int]:
    """The numbers of a field in the fields around it, outermost first; nothing for other references."""
    selection = _message(node[_SELECTION][0])
    segment = _message(selection[1][0]) if 1 in selection and 3 not in selection else {}  # noqa: PLR2004
    while segment:
        if set(segment) != {2}:
            # An element of a list or a map: the column around it is what counts.
            yield -1
            return
        inner = _message(segment[2][0])
        yield inner.get(1, [0])[0]
        segment = _message(inner[2][0]) if 2 in inner else {}  # noqa: PLR2004


def _decimal(value: bytes) -> pa.Scalar:
    found = _message(value)
    return decimal_scalar(int.from_bytes(found[1][0], "little", signed=True), found.get(3, [0])[0])


_PRECISIONS = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def _precise(zone: str | None) -> Callable[[bytes], pa.Scalar]:
    def read(value: bytes) -> pa.Scalar:
        found = _message(value)
        unit = _PRECISIONS[found.get(1, [0])[0]]
        return pa.scalar(_signed(found.get(2, [0])[0]), pa.timestamp(unit, zone))

    return read


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


_LITERALS: dict[int, Callable[[Any], pa.Scalar]] = {
    1: lambda value: pa.scalar(bool(value)),
    2: lambda value: pa.scalar(_signed(value), pa.int64()),
    3: lambda value: pa.scalar(_signed(value), pa.int64()),
    5: lambda value: pa.scalar(_signed(value), pa.int64()),
    7: lambda value: pa.scalar(_signed(value), pa.int64()),
    10: lambda value: pa.scalar(struct.unpack("<f", value)[0], pa.float32()),
    11: lambda value: pa.scalar(struct.unpack("<d", value)[0], pa.float64()),
    12: lambda value: pa.scalar(value.decode(), pa.string()),
    13: lambda value: pa.scalar(value, pa.binary()),
    14: lambda value: pa.scalar(_signed(value), pa.timestamp("us")),
    16: lambda value: pa.scalar(_signed(value), pa.int32()).cast(pa.date32()),
    24: _decimal,
    27: lambda value: pa.scalar(_signed(value), pa.timestamp("us", "UTC")),
    34: _precise(None),
    35: _precise("UTC"),
}


def _literal(node: _Message) -> pa.Scalar | None:
    """The value that a node is; a null of no type for null, and None for everything else."""
    if _LITERAL not in node:
        return None
    found = {number: value for number, value in _message(node[_LITERAL][0]).items() if number != _NULLABLE}
    if len(found) != 1:
        # A variation of the type, such as an unsigned integer.
        return None
    number, values = found.popitem()
    if number == _NULL_LITERAL:
        return pa.scalar(None)
    read = _LITERALS.get(number)
    return None if read is None else read(values[-1])


def _message(data: bytes) -> _Message:
    """The fields of a message, by number: integers, and bytes of everything else."""
    found: _Message = {}
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        number, kind = tag >> 3, tag & 7
        value: Any
        if kind == 0:
            value, position = _varint(data, position)
        elif kind in _FIXED:
            value, position = data[position : position + _FIXED[kind]], position + _FIXED[kind]
        elif kind == _LENGTH_DELIMITED:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        else:
            raise pa.ArrowNotImplementedError(f"a field of the kind {kind}")
        found.setdefault(number, []).append(value)
    return found


_FIXED = {1: 8, 5: 4}
_LENGTH_DELIMITED = 2


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the last byte
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
