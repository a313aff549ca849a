"""Other libraries read a table through its Arrow stream, its dataset and its lazy frame, and see the same rows."""

from __future__ import annotations

import copy
import pickle
import shutil
import subprocess
import sys
from pathlib import Path

import datafusion
import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

import hoodoo
from hoodoo import InvalidOptionError, SchemaError, Table, UnsupportedError
from tests.dataframes import KINDS, make_table, rows


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_table(tmp_path_factory.mktemp("tables"), request.param)


@pytest.fixture
def partitioned(tmp_path: Path) -> Table:
    return make_table(tmp_path, "merge-on-read")


def sorted_rows(data: pa.Table) -> list[tuple[object, ...]]:
    """Rows that can be compared: NaN equals NaN, and types that only differ in their layout do not matter."""
    names = ["id", "part", "small", "name", "score", "day", "at", "price", "flag", "raw"]
    values = data.sort_by("id").select(names).to_pylist()
    return [tuple("NaN" if value != value else value for value in row.values()) for row in values]  # noqa: PLR0124


def test_pyarrow_takes_a_table(table: Table):
    full = table.to_arrow()
    assert pa.schema(table) == full.schema
    assert sorted_rows(pa.table(table)) == sorted_rows(full)
    assert pa.table(table)["inner"] == full["inner"]
    assert pa.RecordBatchReader.from_stream(table).read_all().num_rows == full.num_rows
    # Other types than those of the table are cast by the reader.
    wanted = pa.schema([field.with_type(pa.int64()) if field.name == "small" else field for field in full.schema])
    assert pa.table(table, schema=wanted)["small"] == full["small"].cast(pa.int64())


def test_a_table_without_meta_columns_has_none_in_its_stream(tmp_path: Path):
    options = {"hoodie.populate.meta.fields": "false"}
    plain = Table.create(tmp_path, {"id": pa.int64()}, name="t", record_key="id", options=options)
    assert pa.schema(plain) == pa.table(plain).schema == pa.schema({"id": pa.int64()})
    plain.insert({"id": [1]})
    assert pa.schema(plain) == pa.table(plain).schema == plain.to_arrow().schema
    assert plain.to_dataset().to_table().to_pylist() == [{"id": 1}]


def test_a_stream_reads_no_file_before_its_first_batch(partitioned: Table):
    reader = pa.RecordBatchReader.from_stream(partitioned)
    for file in Path(partitioned.uri).glob("p*/*.parquet"):
        file.unlink()
    with pytest.raises(pa.ArrowException, match="a file of the table is missing"):
        reader.read_all()


def test_each_stream_is_a_new_scan_of_one_snapshot(partitioned: Table):
    before = partitioned.to_arrow().num_rows
    first = pa.RecordBatchReader.from_stream(partitioned)
    partitioned.insert(rows(range(1000, 1010)))
    assert first.read_all().num_rows == before
    assert pa.table(partitioned).num_rows == before + 10


def test_polars_takes_a_table(table: Table):
    full = table.to_arrow()
    assert sorted_rows(pl.DataFrame(table).to_arrow()) == sorted_rows(full)
    assert sorted_rows(table.to_polars().collect().to_arrow()) == sorted_rows(full)
    assert table.to_polars().collect_schema().names() == full.schema.names
    assert table.to_polars().collect(engine="streaming")["inner"].to_list() == full["inner"].to_pylist()
    assert pl.scan_pyarrow_dataset(table.to_dataset()).select("id").collect().height == full.num_rows


def test_duckdb_takes_a_table_and_its_dataset(table: Table):
    full, dataset, trips = table.to_arrow(), table.to_dataset(), table
    assert sorted_rows(duckdb.sql("from trips").to_arrow_table()) == sorted_rows(full)
    assert sorted_rows(duckdb.sql("from dataset").to_arrow_table()) == sorted_rows(full)
    # Both sides of a join are scans of their own.
    assert trips is table
    joined = "select count(*) from trips a join dataset b using (id)"
    assert duckdb.sql(joined).fetchall() == [(full.num_rows,)]
    assert dataset.count_rows() == full.num_rows


def test_pandas_takes_a_table(table: Table):
    pandas = pytest.importorskip("pandas")
    full = table.to_arrow()
    frame = (
        pandas.DataFrame.from_arrow(table) if hasattr(pandas.DataFrame, "from_arrow") else pa.table(table).to_pandas()
    )
    assert sorted(frame["id"]) == sorted(full["id"].to_pylist())
    assert table.to_dataset().to_table(columns=["id"]).to_pandas().shape == (full.num_rows, 1)


def test_datafusion_takes_a_table_and_its_dataset(table: Table):
    full, context = table.to_arrow(), datafusion.SessionContext()
    context.from_arrow(table, "stream")
    context.register_dataset("dataset", table.to_dataset())
    for name in ("stream", "dataset"):
        assert sorted_rows(context.sql(f"select * from {name}").to_arrow_table()) == sorted_rows(full)


def test_the_methods_of_a_dataset(table: Table):
    full, dataset = table.to_arrow(), table.to_dataset()
    assert dataset.schema == full.schema
    assert dataset.to_table().drop_columns("score") == full.drop_columns("score")
    assert pa.Table.from_batches(dataset.to_batches(columns=["id", "day"])) == full.select(["id", "day"])
    assert dataset.head(5, columns=["id"]) == full.select(["id"]).slice(0, 5)
    assert dataset.take([3, 1], columns=["id"]) == full.select(["id"]).take([3, 1])
    assert dataset.count_rows() == full.num_rows
    assert dataset.count_rows(pc.field("small") > 3) == full.filter(pc.field("small") > 3).num_rows
    assert dataset.to_table(columns=["id", "name", "id"]).column_names == ["id", "name", "id"]
    twice = {"twice": pc.field("small") * 2, "x": pc.field("inner", "x")}
    assert dataset.to_table(columns=twice) == ds.dataset(full).to_table(columns=twice)
    assert dataset.filter(pc.field("id") < 9).filter(pc.field("id") > 3).to_table(columns=["id"]).to_pylist() == [
        row for row in full.select(["id"]).to_pylist() if 3 < row["id"] < 9
    ]
    assert max(batch.num_rows for batch in dataset.to_batches(batch_size=10)) == 10
    assert dataset.sort_by("id").to_table()["id"].to_pylist() == sorted(full["id"].to_pylist())
    assert dataset.scanner(columns=["id"]).projected_schema == pa.schema([full.schema.field("id")])


def test_datasets_are_joined_in_memory(tmp_path: Path):
    left = Table.create(tmp_path / "left", {"id": pa.int64(), "a": pa.int64()}, name="t", record_key="id")
    left.insert({"id": [1, 2, 3], "a": [10, 20, 30]})
    right = pa.table({"id": [2, 3], "b": ["x", "y"]})
    joined = left.to_dataset().filter(pc.field("a") > 10).join(ds.dataset(right), "id", join_type="inner")
    assert joined.to_table().sort_by("id").select(["id", "a", "b"]).to_pylist() == [
        {"id": 2, "a": 20, "b": "x"},
        {"id": 3, "a": 30, "b": "y"},
    ]
    other = Table.create(tmp_path / "right", right.schema, name="t", record_key="id")
    other.insert(right)
    columns = {"hoodie.populate.meta.fields": "false"}
    plain = Table.create(tmp_path / "plain", left.schema, name="t", record_key="id", options=columns)
    plain.insert(left.scan(columns=["id", "a"]))
    assert plain.to_dataset().join(other.to_dataset(), "id", join_type="inner").count_rows() == 2
    nearest = plain.to_dataset().join_asof(ds.dataset(right), on="id", by=[], tolerance=-1)
    assert nearest.to_table()["b"].to_pylist() == [None, "x", "y"]


def test_the_fragments_of_a_dataset_have_all_rows_between_them(table: Table):
    full, dataset = table.to_arrow(), table.to_dataset()
    fragments = list(dataset.get_fragments())
    assert len(fragments) == len(table.file_slices())
    assert pa.concat_tables(fragment.to_table(columns=["id"]) for fragment in fragments) == full.select(["id"])
    assert sum(fragment.count_rows() for fragment in fragments) == full.num_rows
    assert sum(fragment.head(1).num_rows for fragment in fragments) == len(fragments)
    narrow = dataset.filter(pc.field("id") < 20)
    kept = list(narrow.get_fragments(pc.field("small") > 0))
    assert len(kept) < len(fragments)
    rows_of_fragments = sum(fragment.count_rows(filter=pc.field("small") > 0) for fragment in kept)
    assert rows_of_fragments == full.filter((pc.field("id") < 20) & (pc.field("small") > 0)).num_rows


def test_pyarrow_writes_a_dataset_elsewhere(table: Table, tmp_path: Path):
    ds.write_dataset(table.to_dataset(), tmp_path / "copy", format="parquet")
    ds.write_dataset(table, tmp_path / "stream", format="parquet")
    for name in ("copy", "stream"):
        assert sorted_rows(ds.dataset(tmp_path / name).to_table()) == sorted_rows(table.to_arrow())


def test_a_table_can_be_pickled_and_copied(table: Table, tmp_path: Path):
    for other in (pickle.loads(pickle.dumps(table)), copy.copy(table), copy.deepcopy(table)):
        assert sorted_rows(other.to_arrow()) == sorted_rows(table.to_arrow())
        assert other.uri == table.uri
    made = Table.create(str(tmp_path / "made"), {"id": pa.int64()}, name="made", record_key="id")
    first = made.insert({"id": [1]})
    made.insert({"id": [2]})
    # The options that were given hold there too.
    before = Table(made.uri, options={"as.of.instant": first.instant})
    assert pickle.loads(pickle.dumps(before)).to_arrow(columns=["id"]).to_pylist() == [{"id": 1}]
    assert pickle.loads(pickle.dumps(made)).count() == 2
    shutil.rmtree(tmp_path / "made")
    with pytest.raises(hoodoo.TableNotFoundError):
        pickle.loads(pickle.dumps(made))


def test_a_dataset_and_a_lazy_frame_can_be_pickled(table: Table):
    dataset = pickle.loads(pickle.dumps(table.to_dataset().filter(pc.field("id") < 9)))
    assert dataset.count_rows() == table.to_arrow(filters=[("id", "<", 9)]).num_rows
    frame = pickle.loads(pickle.dumps(table.to_polars().filter(pl.col("id") < 9)))
    assert frame.collect().height == dataset.count_rows()


def test_a_table_without_commits_has_no_rows(tmp_path: Path):
    empty = Table.create(tmp_path, {"id": pa.int64()}, name="t", record_key="id")
    dataset, frame = empty.to_dataset(), empty.to_polars()
    empty.insert({"id": [1]})
    assert dataset.to_table().num_rows == frame.collect().height == dataset.count_rows(pc.field("id") > 0) == 0
    assert list(dataset.get_fragments()) == []
    assert pa.table(empty).num_rows == 1


def test_time_travel_and_read_optimized(tmp_path: Path):
    table = make_table(tmp_path, "merge-on-read")
    writes = [instant.requested for instant in table.timeline.instants(action="deltacommit")]
    dataset = table.to_dataset(as_of=writes[0])
    assert dataset.instant == writes[0]
    assert dataset.count_rows() == table.to_arrow(as_of=writes[0]).num_rows
    assert table.to_polars(as_of=writes[1]).collect().height == table.to_arrow(as_of=writes[1]).num_rows
    optimized = table.to_arrow(query="read_optimized")
    assert table.to_dataset(query="read_optimized").to_table(columns=["id", "name"]) == optimized.select(["id", "name"])
    condition = pc.field("small") > 3
    read = table.to_dataset(query="read_optimized").count_rows(condition)
    assert read == optimized.filter(condition).num_rows != table.to_dataset().count_rows(condition)


MISTAKES = {
    "a column that is not there": (lambda d: d.to_table(columns=["nope"]), SchemaError, "no columns 'nope'"),
    "a filter on one": (lambda d: d.to_table(filter=pc.field("nope") > 1), SchemaError, "nope"),
    "a filter of another type": (lambda d: d.to_table(filter=pc.field("id") > "x"), SchemaError, "do not fit"),
    "a filter that is no condition": (lambda d: d.count_rows(pc.field("name")), SchemaError, "no condition"),
    "a list of conditions": (lambda d: d.to_table(filter=[("id", ">", 1)]), InvalidOptionError, "Table.scan"),
    "one column": (lambda d: d.to_table(columns="id"), InvalidOptionError, "list of names"),
    "no expression": (lambda d: d.to_table(columns={"a": 3}), SchemaError, "Expression"),
    "an unknown setting": (lambda d: d.scanner(speed=3), InvalidOptionError, "speed"),
    "settings of a format": (lambda d: d.scanner(fragment_scan_options=1), UnsupportedError, "file format"),
    "another schema": (lambda d: d.replace_schema(pa.schema({"a": pa.int8()})), UnsupportedError, "Select or cast"),
    "a part of another dataset": (lambda d: ds.dataset([d]).to_table(), UnsupportedError, "scanner"),
    "a scanner of pyarrow": (lambda d: ds.Scanner.from_dataset(d).to_table(), UnsupportedError, "own dataset"),
    "division by zero": (
        lambda d: d.to_table(columns={"a": pc.divide(pc.field("id"), 0)}),
        InvalidOptionError,
        "divide by zero",
    ),
    "rows behind the last": (lambda d: d.take([10**6]), InvalidOptionError, "(?i)out of"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_errors_that_say_what_to_do(table: Table, mistake: str):
    call, error, message = MISTAKES[mistake]
    with pytest.raises(error, match=message):
        call(table.to_dataset())


def test_a_query_of_changes_is_no_dataset(tmp_path: Path):
    options = {"hoodie.table.cdc.enabled": "true"}
    Table.create(tmp_path, {"id": pa.int64()}, name="t", record_key="id", options=options).insert({"id": [1]})
    cdc = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": "cdc",
        "hoodie.datasource.read.begin.instanttime": "0",
    }
    with pytest.raises(UnsupportedError, match=r"Table\.changes"):
        Table(tmp_path, options=cdc).to_dataset()


HALF_READ = {
    "head of a stream": "pyarrow.dataset.Scanner.from_batches(table).head(1)",
    "scanner": "table.to_dataset().scanner().to_reader().read_next_batch()",
    "lazy frame": "table.to_polars().head(1).collect()",
}


def test_python_ends_while_rows_are_read(tmp_path: Path):
    table = Table.create(tmp_path, {"id": pa.int64(), "part": pa.string()}, name="t", partition_by="part")
    table.bulk_insert({"id": list(range(6000)), "part": [f"p{n % 60}" for n in range(6000)]})
    started = {}
    for name, expression in HALF_READ.items():
        code = f"import hoodoo, pyarrow.dataset; table = hoodoo.Table({str(tmp_path)!r}); kept = {expression}"
        started[name] = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    for name, process in started.items():
        _, errors = process.communicate(timeout=120)
        assert (process.returncode, errors) == (0, ""), name


def test_importing_hoodoo_imports_no_other_library():
    code = (
        "import sys, hoodoo; print({'polars', 'duckdb', 'pandas', 'pyarrow.dataset', 'datafusion'} & set(sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


def test_without_polars_the_error_names_the_extra(table: Table, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(hoodoo.MissingDependencyError, match=r"hoodoo\[polars\]"):
        table.to_polars()


def test_a_table_that_is_gone(partitioned: Table):
    dataset = partitioned.to_dataset()
    shutil.rmtree(partitioned.uri)
    with pytest.raises(hoodoo.TableNotFoundError):
        dataset.to_table()
    with pytest.raises(hoodoo.TableNotFoundError):
        pa.table(partitioned)
