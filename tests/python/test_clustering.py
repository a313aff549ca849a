"""Clusterings that are carried out: rows, order, sizes, commits, other writers, left-overs."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodoo
from hoodoo import ConflictError, CorruptFileError, HudiError, InvalidOptionError, _native

SMALL = {"hoodie.parquet.small.file.limit": "0"}
TARGET = "hoodie.clustering.plan.strategy.target.file.max.bytes"
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("a", pa.int64()),
        ("b", pa.float64()),
        ("c", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("more", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)


def rows(first: int, count: int, seed: int = 0, parts: int = 1) -> pa.Table:
    rng = random.Random(f"{first} {seed}")
    maybe = lambda value: None if rng.random() < 0.1 else value  # noqa: E731
    return pa.Table.from_pylist(
        [
            {
                "id": f"k{first + i:07d}",
                "part": f"p{rng.randrange(parts)}",
                "a": maybe(rng.randrange(-1000, 1000)),
                "b": maybe(rng.choice([0.0, -0.0, 1.5, -2.25, rng.random(), float("inf")])),
                "c": maybe(f"text {rng.randrange(300)}"),
                "at": maybe(rng.randrange(10**15)),
                "more": maybe({"x": maybe(rng.randrange(50)), "y": maybe("y" * rng.randrange(5))}),
            }
            for i in range(count)
        ],
        schema=SCHEMA,
    )


def make(uri: Path | str, files: int, size: int = 300, parts: int = 1, **more: Any) -> hoodoo.Table:
    options = {**SMALL, **more.pop("options", {})}
    partition: dict[str, Any] = {"partition_by": "part"} if parts > 1 else {}
    table = hoodoo.Table.create(uri, SCHEMA, name="t", record_key="id", options=options, **partition, **more)
    for number in range(files):
        table.insert(rows(number * size, size, parts=parts))
    return table


META = ["_hoodie_commit_time", "_hoodie_commit_seqno", "_hoodie_record_key", "_hoodie_partition_path"]


def content(table: hoodoo.Table) -> list[dict[str, Any]]:
    """All rows with the meta columns that stay, in an order of their own."""
    data = table.to_arrow(columns=[*META, *SCHEMA.names])
    return sorted(data.to_pylist(), key=repr)


def data_files(table: hoodoo.Table, root: Path) -> list[Path]:
    return [root / s.base_file for s in table.file_slices() if s.base_file]


def sort_key(row: dict[str, Any], columns: list[str]) -> list[tuple[bool, Any]]:
    return [(row[c] is not None, 0 if row[c] is None else row[c]) for c in columns]


def is_sorted(values: list[dict[str, Any]], columns: list[str]) -> bool:
    keys = [sort_key(v, columns) for v in values]
    return keys == sorted(keys)


@pytest.mark.parametrize("version", ["8", "9"])
@pytest.mark.parametrize("parts", [1, 3])
def test_rows_stay_and_are_sorted(tmp_path: Path, parts: int, version: str):
    table = make(tmp_path / "t", 5, parts=parts, options={"hoodie.write.table.version": version})
    before = content(table)
    done = table.cluster(sort_by=["a", "c"])
    assert done is not None
    assert done.operation == "CLUSTER"
    assert sum(map(len, done.replaced.values())) == 5 * parts
    assert len(done.files) == parts
    assert content(table) == before
    for file in data_files(table, tmp_path / "t"):
        read = pq.read_table(file, partitioning=None)
        assert is_sorted(read.to_pylist(), ["a", "c"])
        assert set(read["_hoodie_file_name"].to_pylist()) == {file.name}
        metadata = pq.read_metadata(file)
        names = [metadata.schema.column(s.column_index).path for s in metadata.row_group(0).sorting_columns]
        assert names == ["a", "c"]
        assert b"org.apache.hudi.bloomfilter" in metadata.metadata
        assert metadata.metadata[b"hoodie_min_record_key"] <= metadata.metadata[b"hoodie_max_record_key"]
    assert table.verify().ok
    assert table.pending_clusterings() == ()
    assert [i.action for i in table.timeline.instants()][-1] == "replacecommit"


def test_the_commit_tells_what_was_done(tmp_path: Path):
    table = make(tmp_path / "t", 3)
    done = table.cluster(sort_by="a")
    assert done is not None
    metadata = table.timeline.metadata(done.instant)
    assert metadata["operationType"] == "CLUSTER"
    assert set(metadata["partitionToReplaceFileIds"]) == {""}
    (stat,) = metadata["partitionToWriteStats"][""]
    assert (stat["prevCommit"], stat["numWrites"], stat["numInserts"]) == ("null", 900, 900)
    assert stat["fileSizeInBytes"] == (tmp_path / "t" / stat["path"]).stat().st_size
    told = json.loads(metadata["extraMetadata"]["hoodoo.clustering.files"])
    file = told[stat["path"]]
    assert file["milliseconds"] >= 0
    read = table.to_arrow()
    assert file["columns"]["id"] == {"min": "k0000000", "max": "k0000899"}
    assert file["columns"]["a"] == {"min": None, "max": str(pc.max(read["a"]).as_py())}


def test_no_order_no_change_of_order(tmp_path: Path):
    table = make(tmp_path / "t", 4)
    keys = [s.file_id for s in table.file_slices()]
    before = content(table)
    done = table.cluster()
    assert done is not None
    assert sorted(done.replaced[""]) == sorted(keys)
    assert len(done.files) == 1
    assert content(table) == before
    assert table.verify().ok


def test_chunks_are_copied_where_nothing_changes(tmp_path: Path):
    """Row groups of a fair size go over byte for byte, but for the name of the file."""
    root = tmp_path / "t"
    schema = pa.schema([("id", pa.int64()), ("v", pa.float64())])
    table = hoodoo.Table.create(root, schema, name="t", record_key="id", options=SMALL)
    rng = random.Random(1)
    for part in range(3):
        ids = range(part * 40_000, part * 40_000 + 40_000)
        table.insert(pa.table({"id": list(ids), "v": [rng.random() for _ in ids]}, schema=schema))
    chunks = set()
    for file in data_files(table, root):
        column = pq.read_metadata(file).row_group(0).column(6)
        assert column.path_in_schema == "v"
        start = column.dictionary_page_offset or column.data_page_offset
        chunks.add(file.read_bytes()[start : start + column.total_compressed_size])
    before = sorted(table.to_arrow(columns=["_hoodie_commit_seqno", "id", "v"]).to_pylist(), key=repr)
    done = table.cluster()
    assert done is not None
    (file,) = data_files(table, root)
    metadata = pq.read_metadata(file)
    assert metadata.num_row_groups == 3
    whole = file.read_bytes()
    assert all(chunk in whole for chunk in chunks)
    assert sorted(table.to_arrow(columns=["_hoodie_commit_seqno", "id", "v"]).to_pylist(), key=repr) == before
    assert set(pq.read_table(file, columns=["_hoodie_file_name"])[0].to_pylist()) == {file.name}
    # The footer knows all keys: each is found for an update.
    updated = table.upsert(pa.table({"id": [5, 40_005, 119_999], "v": [1.0, 2.0, 3.0]}, schema=schema))
    assert (updated.updated, updated.inserted) == (3, 0)
    assert table.verify().ok


@pytest.mark.parametrize("sort_by", [None, "a"])
def test_files_end_at_the_target(tmp_path: Path, sort_by: str | None):
    table = hoodoo.Table.create(tmp_path / "t", SCHEMA, name="t", record_key="id", options=SMALL)
    for number in range(6):
        table.insert(rows(number * 8000, 8000))
    before = content(table)
    target = 200_000
    more: dict[str, Any] = {"sort_by": sort_by} if sort_by else {}
    done = table.cluster(options={TARGET: target}, **more)
    assert done is not None
    sizes = [(tmp_path / "t" / f).stat().st_size for f in done.files]
    assert len(sizes) > 4
    off = [abs(size - target) / target for size in sizes[:-1]]
    assert max(off) < 0.05, sizes
    assert sizes[-1] < target * 1.05
    assert content(table) == before
    if sort_by:
        ends = [pq.read_table(tmp_path / "t" / f, columns=["a"])["a"].to_pylist() for f in done.files]
        flat = [{"a": v} for values in ends for v in values]
        assert is_sorted(flat, ["a"]), "the files follow each other"


@pytest.mark.parametrize("layout", ["ZORDER", "HILBERT"])
def test_curves_make_compact_files(tmp_path: Path, layout: str):
    schema = pa.schema([("id", pa.int64()), ("x", pa.int32()), ("y", pa.int64())])
    root = tmp_path / "t"
    table = hoodoo.Table.create(root, schema, name="t", record_key="id", options=SMALL)
    points = [(x, y) for x in range(-100, 100) for y in range(-100, 100)]
    random.Random(3).shuffle(points)
    for part in range(4):
        some = points[part * 10_000 : part * 10_000 + 10_000]
        ids = range(part * 10_000, part * 10_000 + 10_000)
        table.insert(pa.table([pa.array(ids), [p[0] for p in some], [p[1] for p in some]], schema=schema))
    size = sum(f.stat().st_size for f in data_files(table, root))
    done = table.cluster(sort_by=["x", "y"], options={"hoodie.layout.optimize.strategy": layout, TARGET: size // 15})
    assert done is not None
    assert len(done.files) >= 14
    areas = []
    for file in data_files(table, root):
        read = pq.read_table(file, columns=["x", "y"])
        width = [pc.max(read[c]).as_py() - pc.min(read[c]).as_py() for c in ("x", "y")]
        areas.append(width[0] * width[1])
        assert pq.read_metadata(file).row_group(0).sorting_columns == (), "no column is sorted by itself"
    # All points fill 200 x 200; a file of a fifteenth of them need not be much larger than that part of it.
    limit = 2.2 if layout == "HILBERT" else 3.5
    assert sum(areas) < limit * 200 * 200, areas
    assert sorted(zip(*table.to_arrow(columns=["x", "y"]).to_pydict().values(), strict=True)) == sorted(points)


@pytest.mark.parametrize("strategy", ["SIZE", "OVERLAP", "KEY_RANGE", "COMMIT_TIME", "RANDOM", "SINGLE_FILE"])
def test_planning_again_finds_nothing(tmp_path: Path, strategy: str):
    table = make(tmp_path / "t", 4, parts=2)
    before = content(table)
    more: dict[str, Any] = {"sort_by": "a"} if strategy == "OVERLAP" else {}
    assert table.cluster(strategy=strategy, **more) is not None or strategy == "KEY_RANGE"
    assert table.cluster(strategy=strategy, **more) is None
    assert content(table) == before


def padded(rows_: pa.Table, size: int) -> bytes:
    """The rows as a Parquet file of so many bytes: those that its commit names."""
    sink = io.BytesIO()
    pq.write_table(rows_.replace_schema_metadata(), sink, compression="zstd", store_schema=False)
    content = sink.getvalue()
    # A footer is found from the end: what is before it may be anything.
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert len(content) <= size
    return content[:footer] + bytes(size - len(content)) + content[footer:]


def test_sorted_files_are_merged(tmp_path: Path):
    """What a clustering sorted is not sorted again: its files say so, and what they say is looked at."""
    root = tmp_path / "t"
    table = make(root, 2)
    table.cluster(sort_by="a")
    table.insert(rows(5000, 300))
    before = content(table)
    table.cluster(sort_by="a")
    (file,) = data_files(table, root)
    assert is_sorted(pq.read_table(file).to_pylist(), ["a"])
    assert content(table) == before
    # A file that lies about its order is found out, and nothing is lost.
    lying = pq.read_table(file)
    metadata = pq.read_metadata(file)
    text = metadata.metadata[b"hoodoo.sorted.by"]
    assert text == b"a"
    table.insert(rows(9000, 300))
    shuffled = lying.take(pa.array(random.Random(1).sample(range(lying.num_rows), lying.num_rows)))
    Path(file).write_bytes(padded(shuffled, Path(file).stat().st_size))
    # Another writer's footer is not believed: the rows are sorted.
    assert table.cluster(sort_by="a") is not None
    (file,) = data_files(table, root)
    assert is_sorted(pq.read_table(file).to_pylist(), ["a"])


def mor(uri: Path, **more: Any) -> hoodoo.Table:
    options = {"hoodie.compact.inline": "false", **more.pop("options", {})}
    table = make(uri, 3, table_type="MERGE_ON_READ", options=options, **more)
    table.upsert(rows(100, 400, seed=1))
    table.delete(rows(0, 50))
    return table


@pytest.mark.parametrize("sort_by", [None, "c"])
@pytest.mark.parametrize("fmt", ["avro", "parquet"])
def test_logs_are_merged(tmp_path: Path, fmt: str, sort_by: str | None):
    table = mor(tmp_path / "t", options={"hoodie.logfile.data.block.format": fmt})
    before = content(table)
    assert len(before) == 850
    more: dict[str, Any] = {"sort_by": sort_by} if sort_by else {}
    done = table.cluster(**more)
    assert done is not None
    assert done.inserted == 850
    (left,) = table.file_slices()
    assert left.log_files == ()
    assert content(table) == before
    assert table.verify().ok


def test_a_group_of_deleted_rows_becomes_nothing(tmp_path: Path):
    table = make(tmp_path / "t", 2, table_type="MERGE_ON_READ", options={"hoodie.compact.inline": "false"})
    table.delete(rows(0, 600))
    done = table.cluster()
    assert done is not None
    assert done.files == ()
    assert table.file_slices() == []
    assert table.to_arrow().num_rows == 0
    table.insert(rows(0, 10))
    assert table.to_arrow().num_rows == 10


def test_without_meta_columns(tmp_path: Path):
    table = make(tmp_path / "t", 3, options={"hoodie.populate.meta.fields": "false"})
    before = sorted(table.to_arrow(columns=SCHEMA.names).to_pylist(), key=repr)
    for sort_by in (None, "a"):
        assert table.cluster(sort_by=sort_by) is not None
        assert sorted(table.to_arrow(columns=SCHEMA.names).to_pylist(), key=repr) == before
        table.insert(rows(7000, 5))
        before = sorted(table.to_arrow(columns=SCHEMA.names).to_pylist(), key=repr)


def test_evolved_columns(tmp_path: Path):
    root = tmp_path / "t"
    table = hoodoo.Table.create(
        root, pa.schema([("id", pa.int64()), ("n", pa.int32())]), name="t", record_key="id", options=SMALL
    )
    table.insert(pa.table({"id": [1, 2], "n": pa.array([5, 3], pa.int32())}))
    wider = pa.table({"id": [3], "n": pa.array([1 << 40], pa.int64()), "new": ["x"]})
    table.insert(wider)
    for sort_by in (None, "n"):
        assert table.cluster(sort_by=sort_by) is not None
        found = table.to_arrow(columns=["id", "n", "new"]).to_pylist()
        assert sorted(found, key=lambda r: r["id"]) == [
            {"id": 1, "n": 5, "new": None},
            {"id": 2, "n": 3, "new": None},
            {"id": 3, "n": 1 << 40, "new": "x"},
        ]


def test_nested_columns_sort(tmp_path: Path):
    table = make(tmp_path / "t", 3)
    table.cluster(sort_by="more.x")
    found = table.to_arrow(columns=["more"])["more"].to_pylist()
    assert is_sorted([{"x": (m or {}).get("x")} for m in found], ["x"])


def test_time_travel_and_changes(tmp_path: Path):
    table = make(tmp_path / "t", 2)
    commits = [i.requested for i in table.timeline.instants()]
    rows_then = table.to_arrow(as_of=commits[0]).num_rows
    done = table.cluster(sort_by="a")
    assert done is not None
    assert table.to_arrow(as_of=commits[0]).num_rows == rows_then == 300
    assert table.changes(done.completed).read_all().num_rows == 0
    last = table.timeline.instants()[1].completed
    assert last is not None
    assert table.changes(last).read_all().num_rows == 0, "a clustering changes nothing"
    table.upsert(rows(0, 7, seed=9))
    assert table.changes(done.completed).read_all().num_rows == 7


def test_replaced_files_are_cleaned_and_archived(tmp_path: Path):
    root = tmp_path / "t"
    options = {
        "hoodie.clean.commits.retained": "1",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.metadata.enable": "false",
    }
    table = make(root, 3, options=options)
    old = set(data_files(table, root))
    table.cluster(sort_by="a")
    for seed in range(8):
        table.upsert(rows(0, 3, seed=seed))
    assert not any(f.exists() for f in old)
    assert len(content(table)) == 900
    assert "replacecommit" not in [i.action for i in table.timeline.instants()], "it went to the history"
    assert table.verify().ok


@pytest.mark.parametrize("write", ["upsert", "delete"])
def test_updates_of_planned_groups_are_refused(tmp_path: Path, write: str):
    table = make(tmp_path / "t", 2)
    before = content(table)
    planned = table.schedule_clustering(sort_by="a")
    with pytest.raises(ConflictError, match="pending clustering"):
        getattr(table, write)(rows(0, 5, seed=1))
    assert content(table) == before
    # New rows go elsewhere.
    table.upsert(rows(10_000, 5))
    assert len(table.file_slices()) == 3
    before = content(table)
    assert table.cluster(instant=planned) is not None
    assert content(table) == before
    assert getattr(table, write)(rows(0, 5, seed=1)) is not None


ALLOW = {
    "hoodie.clustering.updates.strategy": "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("roll_back", [True, False])
def test_writers_may_win(tmp_path: Path, kind: str, roll_back: bool):
    options = {**ALLOW, "hoodie.clustering.rollback.pending.replacecommit.on.conflict": str(roll_back).lower()}
    table = make(tmp_path / "t", 2, table_type=kind, options=options)
    planned = table.schedule_clustering(sort_by="a")
    table.upsert(rows(0, 5, seed=1))
    before = content(table)
    if roll_back:
        assert table.pending_clusterings() == ()
    else:
        with pytest.raises(ConflictError, match="after its clustering was planned"):
            table.cluster(instant=planned)
        assert table.pending_clusterings() == (), "it could never be carried out"
    assert content(table) == before
    assert table.cluster(sort_by="a") is not None
    assert content(table) == before


def test_a_write_that_a_clustering_overtakes_fails_whole(tmp_path: Path):
    """Two processes at once: whoever comes second fails, or sees what the first did."""
    uri = tmp_path / "t"
    table = make(uri, 2)
    script = """
import sys

import hoodoo

assert hoodoo.Table(sys.argv[1]).cluster(sort_by=sys.argv[2]) is not None
"""
    original = hoodoo.Table(uri)
    before = content(original)
    for turn in range(6):
        other = subprocess.Popen([sys.executable, "-c", script, str(uri), "ac"[turn % 2]])
        done = 0
        while other.poll() is None:
            with contextlib.suppress(ConflictError):
                original.upsert(rows(0, 5, seed=100 * turn + done))
                done += 1
        found = original.to_arrow(columns=["id"])["id"].to_pylist()
        assert len(found) == len(set(found)) == len(before)
        for plan in original.pending_clusterings():
            original.rollback_clustering(plan.instant)
        # The newest values are those of the last write that did not fail.
        if done:
            wanted = rows(0, 5, seed=100 * turn + done - 1).to_pylist()
            stored = table.to_arrow(columns=SCHEMA.names, filters=[("id", "<", "k0000005")])
            assert stored.sort_by("id").to_pylist() == wanted
    assert table.verify().ok


def test_plans_that_lost_their_files(tmp_path: Path):
    root = tmp_path / "t"
    table = make(root, 2, options={"hoodie.metadata.enable": "false"})
    planned = table.schedule_clustering()
    assert planned is not None
    gone = data_files(table, root)[0]
    gone.rename(gone.with_suffix(".away"))
    with pytest.raises((ConflictError, CorruptFileError)):
        table.cluster(instant=planned)
    gone.with_suffix(".away").rename(gone)
    assert len(content(table)) == 600


def test_a_plan_is_rolled_back(tmp_path: Path):
    root = tmp_path / "t"
    table = make(root, 2)
    before = content(table)
    planned = table.schedule_clustering(sort_by="a")
    assert planned is not None
    # A try of Hudi that died: inflight, a file of its, markers of the timeline server.
    timeline = root / ".hoodie" / "timeline"
    (timeline / f"{planned}.clustering.inflight").write_bytes(b"")
    left = root / f"0a5c3e9e-0000-4000-8000-000000000000-0_0-1-2_{planned}.parquet"
    left.write_bytes(data_files(table, root)[0].read_bytes())
    markers = root / ".hoodie" / ".temp" / planned
    markers.mkdir(parents=True)
    (markers / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (markers / "MARKERS0").write_text(f"{left.name}.marker.CREATE\n")
    assert content(table) == before
    table.rollback_clustering(planned)
    assert table.pending_clusterings() == ()
    assert not left.exists()
    assert not markers.exists()
    assert content(table) == before
    with pytest.raises(InvalidOptionError, match="no pending clustering"):
        table.rollback_clustering(planned)
    assert table.upsert(rows(0, 5, seed=2)).updated == 5


def test_a_try_that_died_is_begun_anew(tmp_path: Path):
    root = tmp_path / "t"
    table = make(root, 2)
    before = content(table)
    planned = table.schedule_clustering(sort_by="a")
    assert planned is not None
    (root / ".hoodie" / "timeline" / f"{planned}.clustering.inflight").write_bytes(b"")
    left = root / f"0a5c3e9e-0000-4000-8000-000000000000-0_0-1-2_{planned}.parquet"
    left.write_bytes(b"half a file")
    done = table.cluster()
    assert done is not None
    assert done.instant == planned
    assert not left.exists()
    assert content(table) == before


def test_inline(tmp_path: Path):
    options = {
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "3",
        "hoodie.clustering.plan.strategy.sort.columns": "a",
    }
    root = tmp_path / "t"
    table = make(root, 7, options=options)
    actions = [i.action for i in table.timeline.instants()]
    assert actions == [*["commit"] * 3, "replacecommit", *["commit"] * 3, "replacecommit", "commit"]
    assert len(content(table)) == 7 * 300
    sorted_files = [f for f in data_files(table, root) if b"hoodoo.sorted.by" in pq.read_metadata(f).metadata]
    assert len(sorted_files) == 1
    assert table.verify().ok


def test_inline_plans_of_others_are_finished(tmp_path: Path):
    root = tmp_path / "t"
    planner = make(root, 2)
    assert planner.schedule_clustering(sort_by="a") is not None
    table = hoodoo.Table(root, options={"hoodie.clustering.inline": "true"})
    table.insert(rows(5000, 10))
    assert table.pending_clusterings() == ()
    assert len(content(table)) == 610


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"hoodie.clustering.execution.strategy.class": "x.SparkConsistentBucketClusteringExecutionStrategy"},
            "Consistent",
        ),
        ({"hoodie.layout.optimize.strategy": "ROUND"}, "ROUND"),
        ({TARGET: "0"}, "target.file.max.bytes"),
    ],
)
def test_what_is_not_supported_is_refused_by_name(tmp_path: Path, options: dict[str, str], message: str):
    table = make(tmp_path / "t", 2)
    with pytest.raises(HudiError, match=message):
        table.cluster(sort_by=["a", "c"], options=options)
    assert table.pending_clusterings() == ()
    assert len(content(table)) == 600


def test_a_curve_through_a_nested_column_is_refused(tmp_path: Path):
    table = make(tmp_path / "t", 2)
    with pytest.raises(InvalidOptionError, match="do not support columns of type Struct"):
        table.cluster(sort_by=["a", "more"], options={"hoodie.layout.optimize.strategy": "ZORDER"})
    assert table.pending_clusterings() == ()
    assert len(content(table)) == 600


def test_on_s3_and_in_memory():
    table = make("memory://clustering/t", 3)
    before = content(table)
    assert table.cluster(sort_by="a") is not None
    assert content(table) == before


def _random_table(root: Path, rng: random.Random) -> tuple[hoodoo.Table, list[str]]:
    """A table after some writes, and the columns by which its rows can be compared."""
    kind = rng.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
    parts = rng.choice([1, 1, 3])
    options = {
        **SMALL,
        "hoodie.write.table.version": rng.choice(["8", "9"]),
        "hoodie.populate.meta.fields": rng.choice(["true", "true", "false"]),
        "hoodie.logfile.data.block.format": rng.choice(["avro", "parquet"]),
        "hoodie.compact.inline": "false",
        "hoodie.parquet.compression.codec": rng.choice(["zstd", "gzip", "snappy"]),
    }
    table = make(root, 0, parts=parts, table_type=kind, options=options)
    at = 0
    for _ in range(rng.randrange(1, 7)):
        count = rng.choice([1, 20, 400, 1500])
        what = rng.choice(["insert", "insert", "upsert", "delete"]) if at else "insert"
        if what == "insert":
            table.insert(rows(at, count, parts=parts))
            at += count
        elif what == "upsert":
            # Rows that stay in their partition.
            some = table.to_arrow(columns=SCHEMA.names)
            some = some.take(pa.array(rng.sample(range(some.num_rows), min(some.num_rows, count)), pa.int64()))
            fresh = rows(0, some.num_rows, seed=at)
            for name in ("a", "b", "c", "at", "more"):
                some = some.set_column(SCHEMA.get_field_index(name), SCHEMA.field(name), fresh[name])
            if some.num_rows:
                table.upsert(some)
        else:
            some = table.to_arrow(columns=SCHEMA.names)
            some = some.take(pa.array(rng.sample(range(some.num_rows), min(some.num_rows // 2, count)), pa.int64()))
            if some.num_rows:
                table.delete(some)
    populated = options["hoodie.populate.meta.fields"] == "true"
    return table, [*(META if populated else []), *SCHEMA.names]


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow] if n >= 40 else []) for n in range(200)])
def test_random_tables(tmp_path: Path, seed: int):
    """Any table, any options: the same rows, sorted, in files of the wanted size; and then there is nothing to do."""
    rng, root = random.Random(seed), tmp_path / "t"
    table, columns = _random_table(root, rng)
    multiset = lambda: sorted(table.to_arrow(columns=columns).to_pylist(), key=repr)  # noqa: E731
    before = multiset()
    sort_by = rng.choice([None, ["a"], ["b", "a"], ["c"], ["at", "c", "id"], ["more.x", "a"]])
    layout = rng.choice(["LINEAR", "LINEAR", "ZORDER", "HILBERT"])
    if sort_by and len(sort_by) > 1 and "more.x" in sort_by:
        layout = "LINEAR"
    strategy = rng.choice(
        ["SIZE", "SIZE", "COMMIT_TIME", "RANDOM", "SINGLE_FILE", "OVERLAP" if sort_by else "KEY_RANGE"]
    )
    target = rng.choice([30_000, 100_000, 1 << 30])
    more = {
        TARGET: target,
        "hoodie.layout.optimize.strategy": layout,
        "hoodie.clustering.plan.strategy.max.bytes.per.group": rng.choice([60_000, 1 << 31]),
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled": rng.choice(["true", "false"]),
        "hoodoo.memory.budget": rng.choice([50_000, 1 << 30]),
        "hoodoo.threads": rng.choice([1, 2]),
    }
    done = table.cluster(sort_by=sort_by, strategy=strategy, options=more)
    assert multiset() == before
    assert table.verify().ok
    for path in done.files if done else ():
        read = pq.read_table(root / path, partitioning=None).to_pylist()
        assert (root / path).stat().st_size <= target * 1.05 or len(read) == 1 or target < 60_000
        if sort_by and (layout == "LINEAR" or len(sort_by) == 1):
            flat = [{**r, "more.x": (r["more"] or {}).get("x")} for r in read]
            assert is_sorted(flat, sort_by)
    replanned = table.cluster(sort_by=sort_by, strategy=strategy, options=more)
    if replanned is not None:
        # Only where the cap on groups left something for a later plan.
        assert done is not None
        for _ in range(20):
            if table.cluster(sort_by=sort_by, strategy=strategy, options=more) is None:
                break
        else:
            pytest.fail("there is always something to do")
    assert multiset() == before


@pytest.mark.parametrize("sort_by", ["a", "", "b,c"])
def test_large_groups_are_divided_among_tasks(tmp_path: Path, sort_by: str):
    root = tmp_path / "t"
    table = make(root, 5, size=3000)
    table.cluster(sort_by="a", strategy="SINGLE_FILE")
    table.insert(rows(20_000, 3000))
    before = content(table)
    options = {
        TARGET: "60000",
        "hoodoo.clustering.task.bytes": "1",
        "hoodie.clustering.plan.strategy.sort.columns": sort_by,
    }
    native = hoodoo.Table(root, options=options)._native
    job = _native.NativeClustering.begin(native, None, True)
    assert job is not None
    portions = job.groups
    assert len(portions) > 4
    done = [_native.cluster_group(native, job.instant, text, f"{n}-0-0") for n, text in enumerate(portions)]
    # A task that was run twice leaves nothing behind.
    _native.cluster_group(native, job.instant, portions[0], "0-0-1")
    job.commit(done)
    assert content(table) == before
    assert table.verify().ok
    if sort_by:
        ranges = []
        for file in data_files(table, root):
            read = pq.read_table(file).to_pylist()
            assert is_sorted(read, sort_by.split(","))
            ranges.append([sort_key(read[at], sort_by.split(",")) for at in (0, -1)])
        ranges.sort()
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(ranges)), "files do not overlap"
    with pytest.raises(HudiError):
        _native.cluster_group(native, job.instant, portions[0], "0-0-2")
