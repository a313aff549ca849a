"""Bloom filters of the metadata table: base files that lack a key are left out, and never one that has it."""

from __future__ import annotations

import logging
import random
import re
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import Table
from tests.s3_server import BUCKET, S3Server

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
FILES = 70
EACH = 4
FILTERS = {"hoodie.metadata.index.bloom.filter.enable": "true"}
# In the middle of the keys, so that the ranges of most files have it.
INSIDE = "8" + "0" * 15
INDEX = {"hoodie.index.type": "GLOBAL_BLOOM"}


def _key(number: int) -> str:
    """Keys in no order: the range of each file has nearly all of them."""
    return f"{random.Random(number).getrandbits(64):016x}"


def _rows(numbers: list[int], value: int) -> pa.Table:
    parts = [f"p{number % FILES:03}" for number in numbers]
    return pa.table({"id": [_key(n) for n in numbers], "part": parts, "v": [value] * len(numbers)}, schema=SCHEMA)


def _create(uri: str, table_type: str = "COPY_ON_WRITE", storage: dict[str, str] | None = None) -> Table:
    options = INDEX | FILTERS | {"hoodie.clean.automatic": "false"}
    return Table.create(
        uri, SCHEMA, name="t", record_key="id", partition_by="part", table_type=table_type, options=options,
        storage_options=storage,
    )  # fmt: skip


def _contents(table: Table, filters: list[tuple[str, str, str]] | None = None) -> dict[str, int]:
    read = table.to_arrow(columns=["id", "v"], filters=filters).to_pylist()
    found = {row["id"]: row["v"] for row in read}
    assert len(found) == len(read), "keys are there twice"
    return found


def _skipped(caplog: pytest.LogCaptureFixture, table: Table, key: str) -> int:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "hoodoo"):
        table.to_arrow(filters=[("id", "=", key)])
    (said,) = [r.getMessage() for r in caplog.records if "planned a scan" in r.getMessage()]
    found = re.search(r"by_keys: (\d+)", said)
    assert found, said
    return int(found[1])


def test_files_without_the_key_are_not_opened() -> None:
    server = S3Server()
    try:
        rows = {_key(number): 1 for number in range(FILES * EACH)}
        for use, most in (("true", 4), ("false", 10_000)):
            uri = f"s3://{BUCKET}/bloom-{use}"
            _create(uri, storage=server.storage_options).bulk_insert(_rows(list(range(FILES * EACH)), 1))
            # A handle that has not read these files before.
            table = Table(uri, INDEX | {"hoodie.bloom.index.use.metadata": use}, server.storage_options)
            with server.recorded() as log:
                table.upsert(_rows([7, 1000], 2))
            opened = {r.key for r in log if r.method == "GET" and r.key.endswith(".parquet")}
            assert len(opened) <= most, opened
            assert len(opened) >= (FILES if use == "false" else 1)
            assert _contents(table) == rows | {_key(7): 2, _key(1000): 2}
    finally:
        server.close()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_no_key_is_missed(tmp_path: Path, table_type: str, caplog: pytest.LogCaptureFixture) -> None:
    table = _create(str(tmp_path / "t"), table_type)
    numbers = list(range(FILES * EACH))
    table.bulk_insert(_rows(numbers, 0))
    wanted = {_key(number): 0 for number in numbers}
    chance = random.Random(table_type)
    for turn in range(1, 4):
        changed = [*chance.sample(numbers, 5), 1000 + turn]
        table.upsert(_rows(changed, turn))
        wanted |= {_key(number): turn for number in changed}
        gone = _key(chance.choice(changed))
        table.delete([gone])
        del wanted[gone]
        assert _contents(table) == wanted
        for key in [*chance.sample(sorted(wanted), 5), gone, INSIDE]:
            expected = {key: wanted[key]} if key in wanted else {}
            assert _contents(table, filters=[("id", "=", key)]) == expected
        if turn == 2:
            table.cluster()
    assert not table.verify().problems
    # At least the files of partitions that no upsert met have no log files.
    assert _skipped(caplog, table, INSIDE) > FILES // 2
    assert _skipped(caplog, Table(table.uri, {"hoodie.enable.data.skipping": "false"}), INSIDE) == 0


def test_a_filter_that_is_not_there_leaves_nothing_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    table = _create(str(tmp_path / "t"))
    table.bulk_insert(_rows(list(range(FILES * EACH)), 0))
    assert _skipped(caplog, table, INSIDE) > FILES // 2
    # Log files that are cut short.
    shards = list((tmp_path / "t/.hoodie/metadata/bloom_filters").glob(".*.log.*"))
    assert shards
    for shard in shards:
        shard.write_bytes(shard.read_bytes()[:-100])
    table = Table(table.uri)
    assert _contents(table, filters=[("id", "=", _key(3))]) == {_key(3): 0}
    assert _skipped(caplog, table, _key(3)) == 0
