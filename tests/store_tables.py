"""Tables in the object stores that the tests start, for the tests of Google Cloud Storage and Azure."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pyarrow as pa

from hoodoo import Table
from tests.memory_s3 import Answer
from tests.memory_stores import MemoryStore
from tests.rows import arrow_rows

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("val", pa.string())])


def rows(*given: tuple[str, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in given], schema=SCHEMA)


def create(store: MemoryStore, kind: str = "COPY_ON_WRITE", **more: str) -> Table:
    uri = store.uri(f"{uuid.uuid4().hex}/a table")
    Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind,
        storage_options=store.storage_options,
    )
    return Table(uri, more, store.storage_options)


def values(data: pa.Table | pa.RecordBatchReader) -> dict[str, str]:
    return {row["id"]: row["val"] for row in arrow_rows(data)}


def status(code: int, times: int) -> tuple[list[str], Callable[[str, str], Answer | None]]:
    """A failure for the first requests, and the list in which they are counted."""
    failed: list[str] = []

    def fail(method: str, path: str) -> Answer | None:
        if len(failed) >= times:
            return None
        failed.append(f"{method} {path}")
        return code, {}, b"<Error><Code>Busy</Code></Error>"

    return failed, fail
