"""Random histories: a table's rules, and the operations that are run on it, as plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from tests.model.naive_table import DELETED, NaiveTable, Rules
from tests.rows import Row

_ORDERINGS = ((), ("ts",), ("ordinal",), ("label",), ("weight",), ("ts", "label"))
_INDEXES = ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "GLOBAL_SIMPLE")
_WIDTHS = (pa.int32(), pa.int64(), pa.float64())
_PLACES = ("north", "south west", None)
_ADDED = {
    "extra_text": pa.string(),
    "extra_list": pa.list_(pa.int64()),
    "extra_struct": pa.struct([("x", pa.int32()), ("y", pa.string())]),
}


@dataclass(frozen=True)
class Step:
    """One commit: the operation, its rows, and the schema they come in."""

    operation: str
    rows: list[Row]
    schema: pa.Schema
    reopen: bool
    places: tuple[str, ...] = ()

    @property
    def table(self) -> pa.Table:
        """The rows as Arrow."""
        return pa.Table.from_pylist(self.rows, schema=self.schema)


@dataclass(frozen=True)
class History:
    """The table to make and the commits to run on it."""

    rules: Rules
    options: dict[str, str]
    steps: list[Step] = field(default_factory=list)

    def __repr__(self) -> str:
        """Spells the history so that a failing one can be read."""
        lines = [f"{self.rules}", f"{self.options}"]
        lines += [f"{s.operation} {s.places or ''} {s.schema.names} {s.rows}" for s in self.steps]
        return "History(\n  " + "\n  ".join(lines) + "\n)"


@dataclass
class _Columns:
    """The schema as it grows."""

    width: int = 0
    added: list[str] = field(default_factory=list)

    @property
    def schema(self) -> pa.Schema:
        fixed = [
            ("id", pa.string()),
            ("sub", pa.int32()),
            ("ts", pa.int64()),
            ("ordinal", pa.int32()),
            ("label", pa.string()),
            ("weight", pa.float64()),
            ("place", pa.string()),
            ("val", pa.string()),
            ("num", _WIDTHS[self.width]),
            (DELETED, pa.bool_()),
        ]
        return pa.schema([*fixed, *((name, _ADDED[name]) for name in self.added)])


@st.composite
def rows(draw: st.DrawFn, columns: _Columns, *, marked: bool) -> Row:
    """Draws a row: few keys, so that they meet; few ordering values, so that they tie."""
    row: dict[str, Any] = {
        "id": f"k{draw(st.integers(0, 5))}",
        "sub": draw(st.sampled_from((0, 1, None))),
        "ts": draw(st.integers(0, 4)),
        "ordinal": draw(st.integers(0, 3)),
        "label": draw(st.sampled_from(("", "10", "9", "é", "\U0001f600"))),
        "weight": draw(st.sampled_from((-1.5, 0.0, 2.25, float("inf")))),
        "place": draw(st.sampled_from(_PLACES)),
        "val": draw(st.none() | st.text("ab\u00e9 /", max_size=3)),
        "num": draw(st.none() | st.integers(-3, 3)),
        DELETED: draw(st.sampled_from((None, False, True, True))) if marked else draw(st.sampled_from((None, False))),
    }
    for name in columns.added:
        row[name] = draw(_ADDED_VALUES[name])
    return row


_ADDED_VALUES = {
    "extra_text": st.none() | st.text("xyz", max_size=2),
    "extra_list": st.none() | st.lists(st.integers(0, 3), max_size=2),
    "extra_struct": st.none() | st.fixed_dictionaries({"x": st.none() | st.integers(0, 3), "y": st.just("s")}),
}


@st.composite
def _tables(draw: st.DrawFn, versions: tuple[int, ...]) -> tuple[Rules, dict[str, str]]:
    index = draw(st.sampled_from(_INDEXES))
    rules = Rules(
        keys=draw(st.sampled_from((("id",), ("id", "sub")))),
        partition=draw(st.sampled_from(("place", "place", None))),
        ordering=draw(st.sampled_from(_ORDERINGS)),
        global_index=index.startswith("GLOBAL"),
    )
    options = {
        "hoodie.table.name": "history",
        "hoodie.metadata.enable": "false",
        "hoodie.index.type": index,
        "hoodie.write.table.version": str(draw(st.sampled_from(versions))),
        "hoodie.datasource.write.recordkey.field": ",".join(rules.keys),
        "hoodie.datasource.write.hive_style_partitioning": draw(st.sampled_from(("true", "false"))),
        # Several files in a partition, small files to fill, or one that takes all.
        "hoodie.parquet.small.file.limit": draw(st.sampled_from(("0", "104857600"))),
        "hoodie.parquet.max.file.size": draw(st.sampled_from(("2048", "125829120"))),
        "hoodie.clean.automatic": draw(st.sampled_from(("true", "false"))),
        "hoodie.clean.commits.retained": str(draw(st.integers(1, 3))),
    }
    if rules.partition:
        options["hoodie.datasource.write.partitionpath.field"] = rules.partition
    if rules.ordering:
        options["hoodie.table.ordering.fields"] = ",".join(rules.ordering)
    return rules, options


_OPERATIONS = (
    *("upsert",) * 5,
    *("insert", "bulk_insert", "delete") * 2,
    "insert_overwrite",
    "insert_overwrite_table",
    "delete_partitions",
)


@st.composite
def histories(draw: st.DrawFn, *, longest: int = 7, versions: tuple[int, ...] = (9, 9, 8)) -> History:
    """Draws a table and a history of it; the first commit creates it."""
    rules, options = draw(_tables(versions))
    columns = _Columns()
    model = NaiveTable(rules)
    steps: list[Step] = []
    for number in range(draw(st.integers(2, longest))):
        operation = draw(st.sampled_from(("insert", "bulk_insert", "upsert") if number == 0 else _OPERATIONS))
        if number and operation != "delete_partitions":
            _evolve(draw, columns)
        step = _step(draw, operation, columns, model)
        steps.append(step)
        run(model, step)
    return History(rules, options, steps)


def _evolve(draw: st.DrawFn, columns: _Columns) -> None:
    change = draw(st.integers(0, 9))
    missing = [name for name in _ADDED if name not in columns.added]
    if change == 0 and missing:
        columns.added.append(draw(st.sampled_from(missing)))
    if change == 1 and columns.width < len(_WIDTHS) - 1:
        columns.width += 1


def _step(draw: st.DrawFn, operation: str, columns: _Columns, model: NaiveTable) -> Step:
    reopen = draw(st.booleans())
    if operation == "delete_partitions":
        if model.rules.partition is None:
            operation = "upsert"
        else:
            places = tuple(
                draw(st.lists(st.sampled_from(("north", "south west")), min_size=1, max_size=2, unique=True))
            )
            return Step(operation, [], columns.schema, reopen, places)
    marked = operation in ("upsert", "insert")
    # An empty insert_overwrite_table means "empty the table": too dangerous to meet by chance.
    least = 1 if operation == "insert_overwrite_table" else 0
    batch = draw(st.lists(rows(columns, marked=marked), min_size=least, max_size=6))
    if model.rules.global_index and operation != "delete" and not _no_copies(operation, batch, model):
        # What a global index does with copies of a key in several partitions is nobody's contract.
        operation = "upsert"
    if operation in ("upsert", "delete"):
        # Of a key's copies Hudi changes the first one of each file, and the model knows no files.
        batch = [row for row in batch if model.copies(row) < 2]
    return Step(operation, batch, columns.schema, reopen)


def _no_copies(operation: str, batch: list[Row], model: NaiveTable) -> bool:
    if operation == "upsert":
        return True
    keys = [model.rules.key(row) for row in batch]
    if len(set(keys)) < len(keys):
        return False
    gone = {model.rules.place(row) for row in batch} if operation == "insert_overwrite" else set()
    left = [r for r in model.stored if model.rules.place(r) not in gone and operation != "insert_overwrite_table"]
    return not set(keys) & {model.rules.key(row) for row in left}


def run(model: NaiveTable, step: Step) -> None:
    """Runs a step on the model."""
    if step.operation not in ("delete", "delete_partitions"):
        # What is deleted brings no columns; an empty batch of an other operation does.
        model.columns = step.schema.names
    if step.operation == "delete_partitions":
        model.delete_partitions(step.places)
    else:
        model.apply(step.operation, step.rows)
