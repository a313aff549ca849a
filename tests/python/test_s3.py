"""Tables in an object store: on S3, against a server that the test starts, and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pytest

import hoodoo
from hoodoo import InvalidOptionError, Table
from hoodoo.distributed.read import read_table
from hoodoo.filters import Filters
from tests.local_executor import LocalExecutor
from tests.rows import arrow_rows
from tests.s3_server import BUCKET, WRONG_KEY, Request, S3Server

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("val", pa.string())])
MIB = 1 << 20
Options = Mapping[str, str]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def s3(server: S3Server) -> Iterator[S3Server]:
    yield server
    server.before = None


@pytest.fixture(params=[pytest.param("s3", marks=pytest.mark.s3), "memory"])
def place(request: pytest.FixtureRequest) -> tuple[str, Options]:
    """A location where there is nothing, with its storage options."""
    name = uuid.uuid4().hex
    if request.param == "memory":
        return f"memory://{name}/t", {}
    return f"s3://{BUCKET}/{name}/t", request.getfixturevalue("server").storage_options


def _rows(*rows: tuple[str, str, int, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], schema=SCHEMA)


def _create(uri: str, storage_options: Options, **more: str) -> Table:
    return Table.create(
        uri,
        SCHEMA,
        name="t",
        record_key="id",
        partition_by="part",
        ordering="ts",
        options=more,
        storage_options=storage_options,
    )


def _values(data: pa.Table | pa.RecordBatchReader) -> dict[str, str]:
    return {row["id"]: row["val"] for row in arrow_rows(data)}


def _paths(s3: S3Server, uri: str) -> list[str]:
    prefix = uri.split(f"{BUCKET}/")[1]
    return [key.removeprefix(prefix + "/") for key in s3.keys(prefix)]


def _prefix(uri: str) -> str:
    return uri.split(f"{BUCKET}/")[1]


def test_every_operation(place: tuple[str, Options]):
    uri, storage_options = place
    table = _create(uri, storage_options)
    first = table.insert(_rows(("a", "p1", 1, "a1"), ("b", "p1", 1, "b1"), ("c", "p2", 1, "c1")))
    assert (first.inserted, table.uri) == (3, uri)
    second = table.upsert(_rows(("a", "p1", 2, "a2"), ("b", "p1", 0, "late"), ("d", "p3", 1, "d1")))
    assert (second.inserted, second.updated) == (1, 1)
    assert _values(table.to_arrow()) == {"a": "a2", "b": "b1", "c": "c1", "d": "d1"}

    third = table.delete(["c"])
    assert third.deleted == 1
    fourth = table.insert_overwrite(_rows(("e", "p3", 1, "e1")))
    assert list(fourth.replaced) == ["p3"]

    again = Table(uri, storage_options=storage_options)
    assert _values(again.to_arrow()) == {"a": "a2", "b": "b1", "e": "e1"}
    assert _values(again.to_arrow(filters=[("part", "=", "p3")])) == {"e": "e1"}
    assert _values(again.to_arrow(filters=[("val", ">=", "b"), ("part", "!=", "p3")])) == {"b": "b1"}
    assert _values(again.to_arrow(as_of=first.instant)) == {"a": "a1", "b": "b1", "c": "c1"}
    assert _values(again.changes(first.completed)) == {"a": "a2", "e": "e1"}
    assert _values(again.changes(first.completed, second.completed)) == {"a": "a2", "d": "d1"}
    report = again.verify()
    assert report.ok, report.problems


def test_cleaning_takes_the_files_away(place: tuple[str, Options]):
    uri, storage_options = place
    _create(uri, storage_options)
    table = Table(uri, {"hoodie.clean.commits.retained": "2"}, storage_options)
    commits = [table.upsert(_rows(("a", "p1", n, f"a{n}"))) for n in range(5)]
    assert table.timeline.instants("clean", "completed")
    metadata = table.timeline.metadata(table.timeline.instants("clean", "completed")[0])
    assert metadata["totalFilesDeleted"] == 1
    report = table.verify()
    assert report.ok, report.problems
    # After the fourth and the fifth commit one file goes: two commits, and what ran before them, need the rest.
    assert report.checked["data files"] == 3, report.checked
    assert [_values(table.to_arrow(as_of=c.instant)) for c in commits[2:]] == [{"a": f"a{n}"} for n in range(2, 5)]
    for commit in commits[:2]:
        with pytest.raises(InvalidOptionError, match="cleaned"):
            table.to_arrow(as_of=commit.instant)


def test_going_back(place: tuple[str, Options]):
    uri, storage_options = place
    _create(uri, storage_options)
    table = Table(uri, {"hoodie.clean.automatic": "false"}, storage_options)
    table.upsert(_rows(("a", "p1", 1, "a1"), ("b", "p2", 1, "b1")))
    saved = table.savepoint()
    table.upsert(_rows(("a", "p1", 2, "a2")))
    table.insert_overwrite(_rows(("c", "p2", 3, "c3")))
    newest = table.upsert(_rows(("d", "p3", 4, "d4")))
    table.rollback(newest.instant)
    assert _values(table.to_arrow()) == {"a": "a2", "c": "c3"}
    assert len(table.clean(dry_run=True).files) == 0
    one = Table(uri, {"hoodie.clean.fileversions.retained": "1"}, storage_options)
    assert one.clean().files == ()
    assert len(table.restore(saved.instant).undone) == 2
    assert _values(table.to_arrow()) == {"a": "a1", "b": "b1"}
    table.delete_savepoint(saved.instant)
    table.upsert(_rows(("a", "p1", 5, "a5")))
    assert len(one.clean().files) == 1
    assert table.verify().problems == ()


@pytest.mark.s3
def test_a_failed_write_is_rolled_back(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    table = _create(uri, s3.storage_options)
    table.insert(_rows(("a", "p1", 1, "a1")))
    base = table.file_slices()[0].base_file
    assert base is not None
    # What a writer leaves that dies in the middle: an instant in flight, a marker, a data file.
    failed = "20200101000000000"
    half = f"p1/{uuid.uuid4()}-0_0-0-0_{failed}.parquet"
    at = _prefix(uri)
    content = s3.client.get_object(Bucket=BUCKET, Key=f"{at}/{base}")["Body"].read()
    left = {
        f".hoodie/timeline/{failed}.commit.requested": b"",
        f".hoodie/timeline/{failed}.inflight": b"",
        f".hoodie/.temp/{failed}/{half}.marker.CREATE": b"",
        half: content,
    }
    for path, body in left.items():
        s3.client.put_object(Bucket=BUCKET, Key=f"{at}/{path}", Body=body)

    assert _values(table.to_arrow()) == {"a": "a1"}
    assert table.verify().problems
    table.upsert(_rows(("b", "p1", 1, "b1")))
    assert _values(table.to_arrow()) == {"a": "a1", "b": "b1"}
    assert not set(left) & set(_paths(s3, uri))
    rolled_back = table.timeline.metadata(table.timeline.instants("rollback", "completed")[0])
    assert rolled_back["commitsRollback"] == [failed]
    report = table.verify()
    assert not report.problems


@pytest.mark.s3
def test_the_scheme_of_hadoop(s3: S3Server):
    name = uuid.uuid4().hex
    table = _create(f"s3a://{BUCKET}/{name}/t", s3.storage_options)
    table.insert(_rows(("a", "p1", 1, "a1")))
    for scheme in ("s3", "s3a", "s3n"):
        assert _values(Table(f"{scheme}://{BUCKET}/{name}/t/", storage_options=s3.storage_options).to_arrow()) == {
            "a": "a1"
        }


@pytest.mark.s3
def test_settings_from_the_environment(s3: S3Server, monkeypatch: pytest.MonkeyPatch):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.endpoint)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "right")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    # Machines of Amazon's have this one; it is no endpoint of a store.
    monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254")
    _create(uri, {}).insert(_rows(("a", "p1", 1, "a1")))
    assert _values(Table(uri).to_arrow()) == {"a": "a1"}
    # What the caller gives is stronger, in whichever of its spellings.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", WRONG_KEY)
    for spelling in ("aws_endpoint", "aws_endpoint_url", "AWS_ENDPOINT", "endpoint"):
        options = {spelling: s3.endpoint, "access_key_id": "right"}
        assert _values(Table(uri, storage_options=options).to_arrow()) == {"a": "a1"}


@pytest.mark.s3
def test_what_is_wrong_is_told(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    _create(uri, s3.storage_options).insert(_rows(("a", "p1", 1, "a1")))
    wrong = {**s3.storage_options, "aws_access_key_id": WRONG_KEY}
    with pytest.raises(hoodoo.StorageError, match=r"not allowed.*Check.*credentials in storage_options"):
        Table(uri, storage_options=wrong)
    with pytest.raises(hoodoo.StorageError, match=r"Check.*credentials in storage_options"):
        _create(f"{uri}2", wrong)
    with pytest.raises(hoodoo.StorageError, match=r"(?s)no such bucket.*table=s3://nowhere/t.*Create it"):
        Table("s3://nowhere/t", storage_options=s3.storage_options)
    with pytest.raises(hoodoo.StorageError, match=r"(?s)no such bucket.*table=s3://nowhere/t.*Create it"):
        _create("s3://nowhere/t", s3.storage_options)
    with pytest.raises(hoodoo.TableNotFoundError, match="nothing-here"):
        Table(f"s3://{BUCKET}/nothing-here", storage_options=s3.storage_options)
    plain = {key: value for key, value in s3.storage_options.items() if key != "aws_allow_http"}
    with pytest.raises(hoodoo.InvalidOptionError, match="aws_allow_http=true"):
        Table(uri, storage_options=plain)
    nobody = {**s3.storage_options, "aws_endpoint": "http://127.0.0.1:9"}
    with pytest.raises(hoodoo.StorageError, match="endpoint"):
        Table(uri, storage_options=nobody)


RACER = """
import sys, pyarrow as pa, hoodoo
uri, number, *options = sys.argv[1:]
storage_options = dict(option.split("=", 1) for option in options)
schema = pa.schema([("id", pa.string()), ("n" + number, pa.int64())])
print("ready", flush=True)
sys.stdin.readline()
try:
    hoodoo.Table.create(uri, schema, name="n" + number, record_key="id", storage_options=storage_options)
    print("won", flush=True)
except hoodoo.HudiError as error:
    print(type(error).__name__, error, flush=True)
"""


@pytest.mark.s3
def test_of_eight_processes_one_creates_the_table(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    options = [f"{key}={value}" for key, value in s3.storage_options.items()]
    command = [sys.executable, "-c", RACER, uri]
    racers = [
        subprocess.Popen([*command, str(n), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=120)[0].strip() for racer in racers]
    winners = [n for n, text in enumerate(said) if text == "won"]
    assert len(winners) == 1, said
    assert all("there is" in text or "already" in text for text in said if text != "won"), said
    table = Table(uri, storage_options=s3.storage_options)
    assert table.options["hoodie.table.name"] == f"n{winners[0]}"
    assert table.schema.names == ["id", f"n{winners[0]}"]


@pytest.mark.s3
def test_an_instant_that_is_taken_is_not_overwritten(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    table = _create(uri, s3.storage_options)
    table.insert(_rows(("a", "p1", 1, "a1")))
    taken: list[str] = []

    def somebody_else(method: str, key: str, query: str) -> None:
        del query
        if method == "PUT" and key.endswith(".commit") and not taken:
            taken.append(key)
            s3.client.put_object(Bucket=BUCKET, Key=key, Body=b"of somebody else")

    s3.before = somebody_else
    with pytest.raises(hoodoo.HudiError):
        table.upsert(_rows(("a", "p1", 2, "a2")))
    s3.before = None
    assert taken
    assert s3.client.get_object(Bucket=BUCKET, Key=taken[0])["Body"].read() == b"of somebody else"


@pytest.mark.s3
@pytest.mark.parametrize("metadata", ["true", "false"])
def test_the_timeline_is_only_ever_created(s3: S3Server, metadata: str):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    with s3.recorded() as requests:
        Table.create(uri, SCHEMA, name="t", record_key="id", partition_by="part", storage_options=s3.storage_options)
        # One that is made changes the properties.
        options = {"hoodie.clean.commits.retained": "1", "hoodie.metadata.enable": metadata}
        table = Table(uri, options, s3.storage_options)
        for n in range(4):
            table.upsert(_rows(("a", "p1", n, f"a{n}"), ("b", "p2", n, "b")))
        table.delete_partitions(["p2"])
    puts = [r for r in requests if r.method == "PUT"]
    timeline = [r for r in puts if "/.hoodie/timeline/" in r.key]
    assert len(timeline) >= 5 * 3
    properties = [r for r in puts if r.key.endswith("/hoodie.properties")] if metadata == "false" else []
    for request in [*timeline, *properties]:
        assert request.only_if_absent, request


def _numbers(rows: int) -> pa.Table:
    """Rows that no codec makes smaller: about 100 bytes each."""
    rng = np.random.default_rng(1)
    columns = {f"c{n}": rng.random(rows) for n in range(12)}
    return pa.table({"id": [f"{n:08d}" for n in range(rows)], **columns})


@pytest.mark.s3
def test_a_large_file_appears_when_it_is_whole(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    data = _numbers(250_000)
    table = Table.create(uri, data.schema, name="t", record_key="id", storage_options=s3.storage_options)
    parts: list[str] = []
    seen: list[str] = []

    def look(method: str, key: str, query: str) -> None:
        if method == "PUT" and "partNumber" in query:
            parts.append(key)
            seen.extend(path for path in s3.keys(_prefix(uri)) if path.endswith(".parquet"))

    s3.before = look
    commit = table.bulk_insert(data)
    s3.before = None
    assert commit.bytes_written > 2 * 8 * MIB
    assert len(commit.files) == 1
    assert len(parts) == -(-commit.bytes_written // (8 * MIB))
    assert set(parts) == {f"{_prefix(uri)}/{commit.files[0]}"}
    assert not seen
    assert table.to_arrow(columns=["id"]).num_rows == data.num_rows
    assert not s3.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads")


@pytest.mark.s3
def test_a_small_file_is_one_request(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    table = _create(uri, s3.storage_options)
    with s3.recorded() as requests:
        commit = table.insert(_rows(("a", "p1", 1, "a1")))
    asked = [r for r in requests if r.key.endswith(commit.files[0])]
    assert [r.method for r in asked] == ["PUT"]


@pytest.mark.s3
def test_reading_fetches_what_it_needs(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    data = _numbers(250_000)
    options = {"hoodie.parquet.block.size": str(4 * MIB), "hoodie.parquet.page.size": str(64 << 10)}
    Table.create(uri, data.schema, name="t", record_key="id", storage_options=s3.storage_options)
    table = Table(uri, options, s3.storage_options)
    size = table.bulk_insert(data, sort_by="id").bytes_written
    assert size > 20 * MIB

    def fetched(read: Callable[[], object]) -> tuple[int, int]:
        with s3.recorded() as requests:
            read()
        parquet = [r for r in requests if r.key.endswith(".parquet")]
        assert all(r.status == 206 for r in parquet)
        return len(parquet), sum(r.sent for r in parquet)

    def point() -> None:
        rows = table.to_arrow(filters=[("id", "=", "00123456")]).to_pylist()
        assert [row["id"] for row in rows] == ["00123456"]

    requests, amount = fetched(point)
    print(f"file {size:,}; point read: {requests} requests, {amount:,} bytes")
    assert requests <= 20
    assert amount < size / 4
    requests, amount = fetched(lambda: table.to_arrow(columns=["c3"]))
    print(f"one column: {requests} requests, {amount:,} bytes")
    assert amount < size / 2
    requests, amount = fetched(table.to_arrow)
    print(f"all: {requests} requests, {amount:,} bytes")
    assert requests <= 25
    assert amount < size * 1.25


READS: dict[str, Callable[[Table, Filters | None, str], pa.Table]] = {
    "read": lambda table, filters, _: table.to_arrow(filters=filters),
    "stream": lambda table, filters, _: table.scan(filters=filters).read_all(),
    "read optimized": lambda table, filters, _: table.to_arrow(filters=filters, query="read_optimized"),
    "time travel": lambda table, filters, first: table.to_arrow(filters=filters, as_of=first),
    "incremental": lambda table, filters, _: table.changes("0", filters=filters).read_all(),
}


def _looks(requests: list[Request]) -> Counter[tuple[str, str]]:
    """How often each folder is listed, and each file of the timeline and of the properties is read.

    Without the statistics in the metadata table, which only filters ask for.
    """

    def is_look(request: Request) -> bool:
        if "list-type" in request.query:
            return "_stats" not in request.query
        return "/t/.hoodie/timeline/" in request.key or request.key.endswith("/t/.hoodie/hoodie.properties")

    return Counter((request.key, request.query) for request in requests if is_look(request))


@pytest.mark.s3
@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_read_with_filters_looks_at_the_table_once(s3: S3Server, table_type: str, metadata: str):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    _create(uri, s3.storage_options, **{"hoodie.table.type": table_type})
    options = {"hoodie.metadata.enable": metadata}
    table = Table(uri, options, s3.storage_options)
    first = table.insert(_rows(("a", "p1", 1, "a1"), ("b", "p2", 1, "b1"))).instant
    table.upsert(_rows(("a", "p1", 2, "a2"), ("c", "p2", 2, "c2")))

    def read_in_tasks(table: Table, filters: Filters | None, _: str) -> pa.Table:
        storage = s3.storage_options
        splits = read_table(LocalExecutor(), table.uri, filters=filters, options=options, storage_options=storage)
        return pa.concat_tables(splits)

    for name, read in {**READS, "tasks": read_in_tasks}.items():
        looks, rows = [], []
        for filters in (None, [("ts", ">=", 0)]):
            # A new handle, which has cached nothing.
            reader = Table(uri, options, s3.storage_options)
            with s3.recorded() as requests:
                rows.append(_values(read(reader, filters, first)))
            looks.append(_looks(requests))
        assert rows[0] == rows[1] != {}, name
        assert looks[0], name
        assert looks[1] == looks[0], (name, looks[1] - looks[0])


@pytest.mark.s3
def test_a_read_in_tasks_reads_the_properties_once_in_each_process(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    _create(uri, s3.storage_options).insert(_rows(("a", "p1", 1, "a1"), ("b", "p2", 1, "b1")))
    with s3.recorded() as requests:
        splits = read_table(LocalExecutor(), uri, storage_options=s3.storage_options)
    assert len(splits) == 2
    properties = [r for r in requests if r.key.endswith("/t/.hoodie/hoodie.properties")]
    # The driver, and each task.
    assert len(properties) == 1 + len(splits)


@pytest.mark.s3
@pytest.mark.parametrize("name", ["record_index", "column_stats"])
def test_an_index_lists_the_folders_before_the_lock_and_under_it(s3: S3Server, name: str):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    table = _create(uri, s3.storage_options)
    table.insert(_rows(("a", "p1", 1, "a1"), ("b", "p2", 1, "b1")))
    with s3.recorded() as requests:
        done = table.index(name)
    assert name in done.partitions
    listed = Counter(r.query for r in requests if "list-type" in r.query and "%2F.hoodie" not in r.query)
    assert len(listed) == 3
    assert set(listed.values()) == {2}, listed


@pytest.mark.s3
def test_the_markers_of_a_write_go_in_one_request(s3: S3Server):
    uri = f"s3://{BUCKET}/{uuid.uuid4().hex}/t"
    table = _create(uri, s3.storage_options)
    rows = _rows(*[(f"k{n}", f"p{n}", 1, "v") for n in range(40)])
    with s3.recorded() as requests:
        table.insert(rows)
    deletes = [r for r in requests if r.method == "DELETE" or (r.method == "POST" and r.query.startswith("delete"))]
    assert 1 <= len(deletes) <= 3
    assert not [path for path in _paths(s3, uri) if "/.temp/" in path]


def test_memory_tables_of_one_name_are_one_table():
    name = uuid.uuid4().hex
    _create(f"memory://{name}/a", {}).insert(_rows(("a", "p1", 1, "a1")))
    assert _values(Table(f"memory://{name}/a/").to_arrow()) == {"a": "a1"}
    for other in (f"memory://{name}/b", f"memory://{name}x/a"):
        with pytest.raises(hoodoo.TableNotFoundError):
            Table(other)
    assert not os.path.exists("memory:")  # noqa: PTH110  # a relative folder of that name is what is meant
