"""Bad input changes nothing: a typed error that says what to do, and the table reads as before."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from tests.rows import Row, arrow_rows

SCHEMA = pa.schema(
    [("id", pa.string()), ("ts", pa.int64()), ("part", pa.string()), ("val", pa.string()), ("num", pa.int64())]
)
OPTIONS = {
    "hoodie.table.name": "strict",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "part",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.metadata.enable": "false",
}
ROWS: list[Row] = [{"id": f"k{n}", "ts": 10, "part": f"p{n % 2}", "val": f"v{n}", "num": n} for n in range(6)]
WRITES = ("insert", "bulk_insert", "upsert", "delete", "insert_overwrite", "insert_overwrite_table")


def _batch(*rows: Row, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=schema)


def _good(**changes: object) -> Row:
    return {"id": "k1", "ts": 11, "part": "p1", "val": "changed", "num": 1, **changes}


def _files(table: Path) -> dict[str, bytes]:
    """Gives what a reader may look at: all but the timeline's traces of writes that failed."""
    kept = {}
    for path in sorted(table.rglob("*")):
        name = str(path.relative_to(table))
        pending = ".hoodie/timeline" in name and (name.endswith((".requested", ".inflight")))
        rolled_back = ".rollback" in name
        if path.is_file() and not pending and not rolled_back and not name.endswith(".crc"):
            kept[name] = path.read_bytes()
    return kept


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A table of six rows in two partitions and two commits."""
    path = tmp_path / "table"
    hoodoo.write(_batch(*ROWS), str(path), operation="insert", options=OPTIONS)
    hoodoo.write(_batch(_good(id="k0", part="p0")), str(path), operation="upsert", options=OPTIONS)
    return path


def _refused(
    table: Path,
    write: Callable[[], object],
    kind: type[hoodoo.HudiError] | tuple[type[hoodoo.HudiError], ...],
    *words: str,
) -> hoodoo.HudiError:
    """Checks that the write fails with this kind of error, names the words, and leaves the table as it was."""
    before, files = arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True), _files(table)
    with pytest.raises(kind) as caught:
        write()
    assert isinstance(caught.value, hoodoo.HudiError)
    for word in words:
        assert word in str(caught.value)
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True) == before
    after = _files(table)
    assert {n: b for n, b in after.items() if n in files} == files
    # And the table takes the next good write, which removes whatever the failed one left behind.
    hoodoo.write(_batch(_good(id="k5", val="next")), str(table), operation="upsert", options=OPTIONS)
    left = [n for n in after if n not in files and n.endswith((".parquet", ".marker.CREATE", ".marker.MERGE"))]
    assert not [n for n in left if (table / n).exists()]
    assert not hoodoo.Table(str(table)).verify().problems
    return caught.value


def _write(table: Path, data: Any, operation: str = "upsert", **options: str) -> Callable[[], object]:
    return lambda: hoodoo.write(data, str(table), operation=operation, options={**OPTIONS, **options})


# --- rows ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", WRITES)
@pytest.mark.parametrize("key", [None, ""])
def test_null_or_empty_key(table: Path, operation: str, key: str | None) -> None:
    rows = _batch(_good(), _good(id=key))
    _refused(table, _write(table, rows, operation), hoodoo.SchemaError, "id")


@pytest.mark.parametrize("operation", WRITES)
def test_missing_key_column(table: Path, operation: str) -> None:
    rows = _batch(_good()).drop_columns(["id"])
    _refused(table, _write(table, rows, operation), hoodoo.SchemaError, "id")


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "insert_overwrite"])
@pytest.mark.parametrize("column", ["ts", "part", "val"])
def test_missing_column(table: Path, operation: str, column: str) -> None:
    """Ordering, partition or plain: Hudi refuses a batch that lacks a column of the table."""
    rows = _batch(_good()).drop_columns([column])
    _refused(table, _write(table, rows, operation), hoodoo.SchemaError, column)


def test_missing_columns_may_be_filled_when_told(table: Path) -> None:
    rows = _batch(_good()).drop_columns(["val"])
    _write(table, rows, **{"hoodie.write.set.null.for.missing.columns": "true"})()
    changed = [r for r in arrow_rows(hoodoo.Table(str(table)).to_arrow()) if r["id"] == "k1"]
    assert [r["val"] for r in changed] == [None]


def test_delete_needs_no_ordering_column(table: Path) -> None:
    commit = hoodoo.write(_batch(_good()).select(["id", "part"]), str(table), operation="delete", options=OPTIONS)
    assert commit.deleted == 1


@pytest.mark.parametrize(
    "kind",
    [pa.bool_(), pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.binary(), pa.date32()],
    ids=str,
)
def test_a_type_that_does_not_fit(table: Path, kind: pa.DataType) -> None:
    rows = _batch(_good()).drop_columns(["num"]).append_column("num", pa.nulls(1, kind))
    _refused(table, _write(table, rows), hoodoo.SchemaError, "num")


def test_a_narrower_column_does_not_narrow_the_table(table: Path) -> None:
    """As Hudi does: a batch of narrower values is widened, the table's type stays."""
    narrow = pa.schema([f if f.name != "num" else pa.field("num", pa.int32()) for f in SCHEMA])
    _write(table, _batch(_good(num=7), schema=narrow))()
    read = hoodoo.Table(str(table)).to_arrow()
    assert read.schema.field("num").type == pa.int64()
    assert [r["num"] for r in arrow_rows(read) if r["id"] == "k1"] == [7]


def test_a_new_column_that_must_not_be_null(table: Path) -> None:
    """Rows that are stored already have no value for it."""
    rows = _batch(_good()).append_column(pa.field("must", pa.int32(), nullable=False), pa.array([1], pa.int32()))
    _refused(table, _write(table, rows), hoodoo.SchemaError, "must")


def test_a_column_that_cannot_be_held(table: Path) -> None:
    rows = _batch(_good()).append_column("odd", pa.array([1], pa.duration("s")))
    _refused(table, _write(table, rows), (hoodoo.SchemaError, hoodoo.UnsupportedError), "odd")


@pytest.mark.parametrize("name", ["val", "VAL"])
def test_duplicate_column(table: Path, name: str) -> None:
    rows = _batch(_good()).append_column(name, pa.array(["again"]))
    _refused(table, _write(table, rows), hoodoo.SchemaError, name)


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "upsert", "delete", "insert_overwrite"])
def test_empty_batch_changes_no_row(table: Path, operation: str) -> None:
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True)
    commit = hoodoo.write(_batch(), str(table), operation=operation, options=OPTIONS)
    assert (commit.inserted, commit.updated, commit.deleted) == (0, 0, 0)
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True) == before
    assert not hoodoo.Table(str(table)).verify().problems


def test_a_batch_that_breaks_off(table: Path) -> None:
    """The producer fails in the middle: its error arrives, nothing of its rows."""

    def batches() -> object:
        yield from _batch(*(_good(id=f"n{n}") for n in range(100))).to_batches()
        raise ValueError("the source is gone")

    source = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    with pytest.raises(ValueError, match="the source is gone"):
        _write(table, source, "insert")()
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before


def test_something_that_is_no_table(table: Path) -> None:
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    with pytest.raises((TypeError, hoodoo.HudiError)):
        hoodoo.write(object(), str(table), operation="upsert", options=OPTIONS)  # type: ignore[arg-type]
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before


# --- options ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.datasource.write.recordkey.field", "val"),
        ("hoodie.datasource.write.partitionpath.field", "val"),
        ("hoodie.table.ordering.fields", "num"),
        ("hoodie.table.name", "another"),
        ("hoodie.datasource.write.hive_style_partitioning", "true"),
        ("hoodie.datasource.write.partitionpath.urlencode", "true"),
        ("hoodie.write.record.merge.mode", "COMMIT_TIME_ORDERING"),
        ("hoodie.datasource.write.keygenerator.class", "org.apache.hudi.keygen.ComplexKeyGenerator"),
        ("hoodie.populate.meta.fields", "false"),
    ],
)
def test_option_that_contradicts_the_table(table: Path, option: str, value: str) -> None:
    write = _write(table, _batch(_good()), **{option: value})
    _refused(table, write, hoodoo.InvalidOptionError, value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.clean.commits.retained", "many"),
        ("hoodie.clean.commits.retained", "0"),
        ("hoodie.clean.policy", "KEEP_ALL"),
        ("hoodie.clean.fileversions.retained", "0"),
        ("hoodie.index.type", "NO_SUCH_INDEX"),
        ("hoodie.parquet.max.file.size", "-1"),
        ("hoodie.datasource.write.operation", "no_such_operation"),
        ("hoodie.parquet.compression.codec", "no_such_codec"),
    ],
)
def test_option_that_makes_no_sense(table: Path, option: str, value: str) -> None:
    if option == "hoodie.datasource.write.operation":
        write = _write(table, _batch(_good()), operation=value)
    else:
        write = _write(table, _batch(_good()), **{option: value})
    _refused(table, write, (hoodoo.InvalidOptionError, hoodoo.UnsupportedError), value)


def test_unknown_option_warns_once(table: Path) -> None:
    with pytest.warns(match=r"hoodie\.no\.such\.option"):
        _write(table, _batch(_good()), **{"hoodie.no.such.option": "1"})()


# --- the place -------------------------------------------------------------------------------------------------


def test_no_table_here(tmp_path: Path) -> None:
    with pytest.raises(hoodoo.TableNotFoundError) as caught:
        hoodoo.Table(str(tmp_path / "nothing"))
    assert str(tmp_path / "nothing") in str(caught.value)
    assert not (tmp_path / "nothing").exists()


def test_foreign_folder(tmp_path: Path) -> None:
    """A folder with other people's files is no table, and does not become one by accident."""
    (tmp_path / "data.csv").write_text("a,b\n1,2\n")
    with pytest.raises(hoodoo.TableNotFoundError):
        hoodoo.Table(str(tmp_path)).to_arrow()
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize("operation", ["delete"])
def test_nothing_to_delete_from(tmp_path: Path, operation: str) -> None:
    with pytest.raises(hoodoo.TableNotFoundError):
        hoodoo.write(_batch(_good()), str(tmp_path / "t"), operation=operation, options=OPTIONS)
    assert not (tmp_path / "t" / ".hoodie").exists()


@pytest.mark.parametrize(
    "missing", ["hoodie.datasource.write.recordkey.field", "hoodie.datasource.write.partitionpath.field"]
)
def test_creating_with_a_column_that_is_not_there(tmp_path: Path, missing: str) -> None:
    with pytest.raises(hoodoo.HudiError, match="nowhere"):
        hoodoo.write(_batch(_good()), str(tmp_path / "t"), operation="upsert", options={**OPTIONS, missing: "nowhere"})
    with pytest.raises(hoodoo.TableNotFoundError):
        hoodoo.Table(str(tmp_path / "t"))


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.index.type", "HBASE"),
        ("hoodie.clean.policy", "KEEP_ALL"),
        ("hoodie.compact.inline", "perhaps"),
        ("hoodie.write.concurrency.mode", "EVERYBODY"),
        ("hoodie.write.concurrency.mode", "OPTIMISTIC_CONCURRENCY_CONTROL"),
        ("hoodie.parquet.compression.codec", "no_such_codec"),
        ("hoodie.logfile.data.block.format", "text"),
        ("hoodie.index.bucket.engine", "CONSISTENT_HASHING"),
        ("hoodie.bucket.index.num.buckets", "0"),
    ],
)
def test_creating_with_an_option_with_which_no_write_goes_on(tmp_path: Path, option: str, value: str) -> None:
    index = {"hoodie.index.type": "BUCKET"} if "bucket" in option else {}
    options = {**OPTIONS, **index, "hoodie.datasource.write.table.type": "MERGE_ON_READ", option: value}
    refused = pytest.raises((hoodoo.InvalidOptionError, hoodoo.UnsupportedError), match=f"(?i){value}")
    with refused:
        hoodoo.write(_batch(_good()), str(tmp_path / "t"), operation="upsert", options=options)
    with refused:
        hoodoo.Table.create(
            str(tmp_path / "t"), _batch(_good()).schema, name="strict", record_key="id", options=options
        )
    assert not (tmp_path / "t").exists()


def test_creating_over_a_table(table: Path) -> None:
    def create() -> None:
        hoodoo.Table.create(str(table), SCHEMA, name="strict", record_key="id", partition_by=["part"], ordering=["ts"])

    _refused(table, create, hoodoo.HudiError, str(table))


@pytest.mark.parametrize("keep", [0.0, 0.5, 0.95])
def test_truncated_properties(table: Path, keep: float) -> None:
    properties = table / ".hoodie" / "hoodie.properties"
    whole = properties.read_bytes()
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    properties.write_bytes(whole[: int(len(whole) * keep)])
    files = _files(table)
    # What is cut off may be a key that has a default; but nothing may be misread, and nothing written.
    try:
        read = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    except hoodoo.HudiError as error:
        assert "hoodie.properties" in str(error)  # noqa: PT017  # either outcome is right
        with pytest.raises(hoodoo.HudiError):
            _write(table, _batch(_good()))()
        assert _files(table) == files
    else:
        assert read == before
    properties.write_bytes(whole)
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before


def test_properties_come_back_from_their_backup(table: Path) -> None:
    """A writer that died between deleting and rewriting them left the backup: readers use it, writers restore it."""
    properties = table / ".hoodie" / "hoodie.properties"
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    properties.rename(properties.with_name("hoodie.properties.backup"))
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before
    _write(table, _batch(_good(val="after")))()
    assert properties.exists()
    assert any(r["val"] == "after" for r in arrow_rows(hoodoo.Table(str(table)).to_arrow()))


def _data_files(table: Path) -> list[Path]:
    return sorted(table.glob("p*/*.parquet"), key=lambda p: p.name.rsplit("_", 1)[-1])


@pytest.mark.parametrize("harm", ["truncated", "garbage", "empty", "bad footer"])
def test_corrupt_parquet(table: Path, harm: str) -> None:
    """Reading and merging name the file; the write leaves the table as it was."""
    victim = _data_files(table)[-1]
    whole = victim.read_bytes()
    harmed = {
        "truncated": whole[: len(whole) // 2],
        "garbage": os.urandom(len(whole)),
        "empty": b"",
        "bad footer": whole[:-8] + b"\xff\xff\xff\x7fPAR1",
    }[harm]
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    victim.write_bytes(harmed)
    with pytest.raises(hoodoo.CorruptFileError) as caught:
        hoodoo.Table(str(table)).to_arrow()
    assert victim.name in str(caught.value)
    with pytest.raises(hoodoo.HudiError):
        _write(table, _batch(_good(id="k0", part=victim.parent.name)))()
    victim.write_bytes(whole)
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.9])
def test_corrupt_commit_metadata(table: Path, keep: float) -> None:
    commit = max(p for p in (table / ".hoodie" / "timeline").iterdir() if p.name.endswith(".commit"))
    whole = commit.read_bytes()
    commit.write_bytes(whole[: int(len(whole) * keep)])
    with pytest.raises(hoodoo.HudiError):
        hoodoo.Table(str(table)).timeline.metadata(commit.name.split("_")[0])
    commit.write_bytes(whole)


def test_missing_data_file(table: Path) -> None:
    """A file that the timeline knows and the folder does not: `verify` says so."""
    _data_files(table)[-1].unlink()
    problems = hoodoo.Table(str(table)).verify().problems
    assert problems


def test_files_of_no_commit_are_reported(table: Path) -> None:
    source = _data_files(table)[-1]
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    # Of no commit. (A time before the first commit would be that of an archived one, to Hudi as well.)
    between = int(source.stem.rsplit("_", 1)[1]) + 1
    orphan = source.with_name(f"99999999-0000-0000-0000-000000000000-0_0-0-0_{between}.parquet")
    shutil.copy(source, orphan)
    future = source.with_name(f"{source.name.split('_')[0]}_0-0-0_29990101000000000.parquet")
    shutil.copy(source, future)
    names = str(hoodoo.Table(str(table)).verify().problems)
    assert future.name in names
    assert orphan.name in names
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before
    future.unlink()
    orphan.unlink()
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_folder(table: Path) -> None:
    folders = [p for p in [table, *table.rglob("*")] if p.is_dir()]
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    for folder in folders:
        folder.chmod(0o555)
    try:
        with pytest.raises(hoodoo.StorageError):
            _write(table, _batch(_good()))()
        assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before
    finally:
        for folder in folders:
            folder.chmod(0o755)


def test_a_partition_that_cannot_be_made(table: Path) -> None:
    """A plain file stands where the folder of the new partition ought to be (root cannot write there either)."""
    (table / "p9").write_text("in the way")
    rows = _batch(_good(id="n1", part="p9"), _good())
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow())
    with pytest.raises(hoodoo.StorageError):
        _write(table, rows)()
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow()) == before
    (table / "p9").unlink()
    _write(table, rows)()
    assert len(arrow_rows(hoodoo.Table(str(table)).to_arrow())) == len(before) + 1
    assert not hoodoo.Table(str(table)).verify().problems


_FULL_DISK = """
import resource, signal, sys
import hoodoo, pyarrow as pa
uri, limit = sys.argv[1], int(sys.argv[2])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
options = {options!r}
n = 20000
rows = pa.table({{
    "id": [f"n{{i}}" for i in range(n)], "ts": pa.array([99] * n, pa.int64()), "part": ["p0"] * n,
    "val": [f"{{i * 7919 % 104729:x}}" * 4 for i in range(n)], "num": pa.array(range(n), pa.int64()),
}})
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    hoodoo.write(rows, uri, operation="upsert", options=options)
except hoodoo.StorageError as error:
    print("StorageError", error)
    sys.exit(0)
sys.exit(3)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs a limit on the size of files")
@pytest.mark.parametrize("limit", [0, 4096, 60_000])
def test_full_disk(table: Path, limit: int) -> None:
    """A limit on the size of files stands in for a full disk: writing past it fails, in the middle of a file."""
    before = arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True)
    done = subprocess.run(
        [sys.executable, "-c", _FULL_DISK.format(options=OPTIONS), str(table), str(limit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert arrow_rows(hoodoo.Table(str(table)).to_arrow(), meta=True) == before
    _write(table, _batch(_good(val="after")))()
    assert any(r["val"] == "after" for r in arrow_rows(hoodoo.Table(str(table)).to_arrow()))
    assert not hoodoo.Table(str(table)).verify().problems
