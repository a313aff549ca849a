"""Files with rows: Parquet, CSV, JSON lines and Arrow, read as a stream and written from one."""

from __future__ import annotations

import base64
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from hoodoo import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

__all__ = ["FORMATS", "open_rows", "write_rows"]

FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".jsonl": "json",
    ".ndjson": "json",
    ".json": "json",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
"""The format of a file by the end of its name."""

# Types of a CSV or JSON file are told by this many bytes at its beginning.
_FIRST_BLOCK = 16 << 20


def format_of(path: Path, given: str | None = None) -> str:
    """Return the format of a file.

    Args:
        path: The file.
        given: The format that the caller named, if any.

    Returns:
        `parquet`, `csv`, `json` or `arrow`.

    Raises:
        InvalidOptionError: The format is not known.
    """
    names = sorted(set(FORMATS.values()))
    if given is not None:
        if given not in names:
            raise InvalidOptionError(f"invalid format {given!r}: expected {', '.join(names)}")
        return given
    found = FORMATS.get(path.suffix.lower())
    if found is None:
        raise InvalidOptionError(f"the format of {path} is not told by its name: add --format {'|'.join(names)}")
    return found


def open_rows(path: Path, given: str | None, schema: pa.Schema | None) -> pa.RecordBatchReader:
    """Open a file with rows. Parquet, CSV and Arrow files are streamed.

    Args:
        path: The file.
        given: Its format; by default that of its name.
        schema: The columns of the table, which give the types of columns in CSV and JSON files.

    Returns:
        A reader. It raises an InvalidOptionError that names the file where it is damaged.

    Raises:
        InvalidOptionError: The file does not exist, is damaged, or has another format.
    """
    kind = format_of(path, given)
    with _naming(path, kind):
        columns, batches = _OPENERS[kind](path, schema)
    return pa.RecordBatchReader.from_batches(columns, _named(batches, path, kind))


def _named(batches: Iterable[pa.RecordBatch], path: Path, kind: str) -> Iterator[pa.RecordBatch]:
    with _naming(path, kind):
        yield from batches


@contextmanager
def _naming(path: Path, kind: str) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split())
        remedy = (
            "name its format by --format, or give the columns of the table other types"
            if path.is_file()
            else "name a file"
        )
        raise InvalidOptionError(f"cannot read {path} as {kind}: {why}; {remedy}") from error


Opened = tuple[pa.Schema, "Iterable[pa.RecordBatch]"]


def _open_parquet(path: Path, _: pa.Schema | None) -> Opened:
    from pyarrow import parquet  # noqa: PLC0415 - only for its files

    file = parquet.ParquetFile(path)
    return file.schema_arrow, file.iter_batches()


def _open_csv(path: Path, schema: pa.Schema | None) -> Opened:
    from pyarrow import csv  # noqa: PLC0415

    types = None if schema is None else {field.name: field.type for field in schema}
    # Only an empty cell is null: NA is a country, and NaN a number.
    convert = csv.ConvertOptions(
        column_types=types, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    reader = csv.open_csv(path, csv.ReadOptions(block_size=_FIRST_BLOCK), convert_options=convert)
    return reader.schema, reader


def _open_json(path: Path, schema: pa.Schema | None) -> Opened:
    from pyarrow import json  # noqa: PLC0415

    def read(types: pa.Schema | None) -> pa.Table:
        parse = None if types is None else json.ParseOptions(explicit_schema=types)
        return json.read_json(path, json.ReadOptions(block_size=_FIRST_BLOCK), parse)

    if schema is None:
        table = read(None)
        return table.schema, table.to_batches()
    # As `write_rows` writes them. pyarrow takes numbers of days for dates, and the characters for bytes.
    bytes_written = pa.schema([pa.field(f.name, pa.string()) if _is_bytes(f.type) else f for f in schema])
    written = pa.schema([pa.field(f.name, pa.string()) if pa.types.is_date(f.type) else f for f in bytes_written])
    try:
        table = read(written)
    except pa.ArrowInvalid:
        table = read(bytes_written)
    # Columns that the file does not have are null in it, and not given.
    names = _json_names(path)
    table = table.select([name for name in table.column_names if name in names])
    for field in schema:
        if field.name in names and written.field(field.name) != field:
            at = table.schema.get_field_index(field.name)
            table = table.set_column(at, field, _from_strings(table[field.name], field))
    return table.schema, table.to_batches()


def _is_bytes(kind: pa.DataType) -> bool:
    return any((pa.types.is_binary(kind), pa.types.is_large_binary(kind), pa.types.is_fixed_size_binary(kind)))


def _from_strings(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if not pa.types.is_string(column.type) or not _is_bytes(field.type):
        return column.cast(field.type)
    try:
        values = [None if one is None else base64.b64decode(one, validate=True) for one in column.to_pylist()]
    except ValueError as error:
        raise pa.ArrowInvalid(f"column {field.name!r} holds bytes, which JSON has in base64: {error}") from error
    return pa.chunked_array([pa.array(values, field.type)])


def _json_names(path: Path) -> set[str]:
    from pyarrow import json  # noqa: PLC0415

    return set(json.read_json(path, json.ReadOptions(block_size=_FIRST_BLOCK)).column_names)


def _open_arrow(path: Path, _: pa.Schema | None) -> Opened:
    from pyarrow import ipc  # noqa: PLC0415

    source = pa.memory_map(str(path))
    try:
        file = ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        stream = ipc.open_stream(source)
        return stream.schema, stream
    return file.schema, (file.get_batch(n) for n in range(file.num_record_batches))


_OPENERS: dict[str, Callable[[Path, pa.Schema | None], Opened]] = {
    "parquet": _open_parquet,
    "csv": _open_csv,
    "json": _open_json,
    "arrow": _open_arrow,
}


def write_rows(path: Path, given: str | None, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Write rows to a file.

    Args:
        path: The file; an existing one is replaced.
        given: Its format; by default that of its name.
        schema: The columns.
        batches: The rows.

    Returns:
        The number of rows.

    Raises:
        InvalidOptionError: The format is not known, or cannot hold the columns.
    """
    kind = format_of(path, given)
    rows = 0
    try:
        with _writer(kind, path, schema) as write:
            for batch in batches:
                write(batch)
                rows += batch.num_rows
    except pa.ArrowInvalid as error:
        raise InvalidOptionError(f"cannot write {path} as {kind}: {' '.join(str(error).split())}") from error
    return rows


@contextmanager
def _writer(kind: str, path: Path, schema: pa.Schema) -> Iterator[Callable[[pa.RecordBatch], Any]]:
    from pyarrow import csv, ipc, parquet  # noqa: PLC0415

    if kind == "json":
        import json  # noqa: PLC0415

        from hoodoo.cli.output import plain  # noqa: PLC0415

        def write(batch: pa.RecordBatch) -> None:
            _refuse_no_numbers(batch)
            file.writelines(json.dumps(plain(row)) + "\n" for row in batch.to_pylist())

        with path.open("w", encoding="utf-8") as file:
            yield write
        return
    makers: dict[str, Callable[[str, pa.Schema], Any]] = {
        "parquet": parquet.ParquetWriter,
        "csv": csv.CSVWriter,
        "arrow": ipc.new_file,
    }
    with makers[kind](str(path), schema) as writer:
        yield writer.write_batch if kind == "parquet" else writer.write


def _refuse_no_numbers(batch: pa.RecordBatch) -> None:
    for field, column in zip(batch.schema, batch.columns, strict=True):
        if pa.types.is_floating(field.type) and pc.any(pc.invert(pc.is_finite(column))).as_py():
            raise InvalidOptionError(
                f"column {field.name!r} holds NaN or an infinity, which JSON does not have. Write Parquet, CSV or Arrow"
            )
