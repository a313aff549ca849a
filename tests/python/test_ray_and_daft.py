"""Ray Data and Daft read a table. Neither is among the packages of the tests: these run where they are installed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hoodoo import MissingDependencyError, SchemaError, Table
from tests.dataframes import KINDS, make_table


@pytest.fixture(scope="module", params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return make_table(tmp_path_factory.mktemp("tables"), request.param)


@pytest.mark.parametrize("name", ["ray", "daft"])
def test_without_the_package_the_error_names_the_extra(table: Table, name: str, monkeypatch: pytest.MonkeyPatch):
    for module in (name, f"{name}.data"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingDependencyError, match=rf"hoodoo\[{name}\]"):
        getattr(table, f"to_{name}")()


def test_ray_reads_file_slices_in_tasks(table: Table, tmp_path: Path):
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, ignore_reinit_error=True)
    full = table.to_arrow()
    dataset = table.to_ray(columns=["id", "name"])
    read = sorted((row["id"], row["name"]) for row in dataset.take_all())
    assert read == sorted(zip(full["id"].to_pylist(), full["name"].to_pylist(), strict=True))
    assert table.to_ray().schema().names == full.schema.names
    with pytest.raises(SchemaError, match="nope"):
        table.to_ray(columns=["nope"])
    empty = Table.create(tmp_path, full.schema.remove(0), name="t", record_key="id")
    assert empty.to_ray().count() == 0


def test_daft_pushes_columns_and_filters_down(table: Table):
    daft = pytest.importorskip("daft")
    full, frame = table.to_arrow(), table.to_daft()
    assert frame.column_names == full.schema.names
    assert frame.count_rows() == full.num_rows
    assert sorted(frame.select("id").to_pydict()["id"]) == sorted(full["id"].to_pylist())
    conditions = ["id > 100", "small = 7 or name = 'name 03'", "small is null", "not flag", "part = 'p1' and id < 80"]
    conditions += ["name is null", "starts_with(name, 'name 1')", "day >= date '2024-01-20'", "price > 12.50"]
    rows = daft.from_arrow(full)
    for condition in conditions:
        expected = sorted(rows.where(condition).select("id", "day").to_pydict()["id"])
        assert sorted(frame.where(condition).select("id", "day").to_pydict()["id"]) == expected, condition
        assert 0 < len(expected) < full.num_rows, condition
    assert len(frame.where("small > 3").limit(7).to_pydict()["id"]) == 7
    assert table.upsert(frame.select(*full.schema.names[5:])).updated == full.num_rows


def test_daft_does_not_open_files_without_matching_rows(tmp_path: Path):
    pytest.importorskip("daft")
    table = make_table(tmp_path, "copy-on-write")
    expected = table.to_arrow(filters=[("part", "=", "p1")]).num_rows
    for file in Path(table.uri).glob("p[023]/*.parquet"):
        file.unlink()
    assert table.to_daft().where("part = 'p1'").count_rows() == expected
    with pytest.raises(Exception, match="is missing"):
        table.to_daft().to_pydict()
