"""Upserts and deletes leave out base files by the key ranges in the metadata table, and never one that has a key."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
# Java orders letters behind the surrogates in another way; long strings have no statistics in Parquet.
ODD = ["", "é", "\ue000", "\U0001f600", "\uffff", "z" * 3000, "y" * 5000, "\x00", "a\ue000b", "a\U0001f600b"]
FILES = 70


def _rows(keys: dict[str, tuple[str, int]]) -> pa.Table:
    ids = list(keys)
    parts, values = [keys[key][0] for key in ids], [keys[key][1] for key in ids]
    return pa.table({"id": ids, "part": parts, "v": values}, schema=SCHEMA)


def _create(uri: str, table_type: str, index: str, storage: dict[str, str] | None = None, **more: str) -> Table:
    options = {"hoodie.index.type": index, "hoodie.clean.automatic": "false", "hoodie.compact.inline": "false", **more}
    Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        table_type=table_type,
        options=options,
        storage_options=storage,
    )
    return Table(uri, options, storage)


def _contents(table: Table) -> dict[str, tuple[str, int]]:
    read = table.to_arrow(columns=["id", "part", "v"]).to_pylist()
    found = {row["id"]: (row["part"], row["v"]) for row in read}
    assert len(found) == len(read), "keys are there twice"
    return found


def test_files_that_cannot_have_the_key_are_not_opened() -> None:
    server = S3Server()
    try:
        rows = {f"k{n:03}-{at}": (f"p{n:03}", 1) for n in range(FILES) for at in range(3)}
        for use, most in (("true", 4), ("false", 10_000)):
            uri = f"s3://{BUCKET}/{use}"
            table = _create(uri, "COPY_ON_WRITE", "GLOBAL_BLOOM", server.storage_options)
            table.bulk_insert(_rows(rows))
            # A handle that has not read these files before.
            options = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.use.metadata": use}
            table = Table(uri, options, server.storage_options)
            with server.recorded() as log:
                table.upsert(_rows({"k007-1": ("p007", 2), "new": ("p008", 2)}))
            opened = {r.key for r in log if r.method == "GET" and r.key.endswith(".parquet")}
            assert len(opened) <= most, opened
            assert len(opened) >= (FILES if use == "false" else 1)
            assert _contents(table) == rows | {"k007-1": ("p007", 2), "new": ("p008", 2)}
    finally:
        server.close()


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_no_key_is_missed(tmp_path: Path, table_type: str, index: str) -> None:
    chance = random.Random(f"{table_type} {index}")
    table = _create(str(tmp_path / "t"), table_type, index)
    letters = ["a", "b", "é", "\ue000", "\U0001f600", "~", " "]
    wanted: dict[str, tuple[str, int]] = {}
    while len(wanted) < 300:
        key = chance.choice(ODD) if chance.random() < 0.05 else "".join(chance.choices(letters, k=chance.randint(1, 6)))
        if key:
            wanted[key] = (f"p{chance.randrange(FILES):02}", 0)
    table.bulk_insert(_rows(wanted))
    for turn in range(1, 5):
        changed = {key: (wanted[key][0], turn) for key in chance.sample(sorted(wanted), 60)}
        changed |= {f"new {turn} {n}": (f"p{n:02}", turn) for n in range(5)}
        table.upsert(_rows(changed))
        wanted |= changed
        assert _contents(table) == wanted
        gone = chance.sample(sorted(wanted), 10)
        table.delete(gone)
        for key in gone:
            del wanted[key]
        assert _contents(table) == wanted
        if turn == 2:
            table.cluster()
    assert not table.verify().problems
