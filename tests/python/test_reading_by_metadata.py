"""Reads through metadata tables that Hudi wrote: rows are those of a listing, whatever is wrong with it."""

from __future__ import annotations

import datetime as dt
import logging
import re
import shutil
import zipfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from hoodoo import Table
from tests.pairs import others_later

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"
LISTED = {"hoodie.metadata.enable": "false"}
BY_INDEX = {"hoodie.metadata.record.index.enable": "true"}
UNSKIPPED = {"hoodie.enable.data.skipping": "false"}
OTHERS = (
    "cow__v9_timebasedkeygen_epochmillis",
    "cow__v9_timebasedkeygen_nonhivestyle",
    "cow__v9_txns_nonpart_meta",
    "cow__v9_txns_simple_meta",
    "cow__v9_txns_simple_overwrite",
    "mor__avro__v9_timebasedkeygen_nonhivestyle",
    "mor__avro__v9_txns_simple_meta",
    "mor__avro__v9_txns_simple_overwrite",
)
# The others take 14 seconds each.
_SMALL = [name for name in OTHERS if not name.endswith("_meta")]
AT = dt.datetime(2026, 1, 1, 9, tzinfo=dt.timezone.utc)
FILTERS: tuple[list[tuple[str, str, Any]], ...] = (
    [("id", "=", "k0004")],
    [("id", "in", ["k0012", "k0059", "no such key"])],
    [("id", "=", "no such key")],
    [("ts", "=", 5)],
    [("ts", ">", 4)],
    [("name", "=", "n110")],
    [("name", "<", "n2")],
    [("price", "<", -5.0)],
    [("price", ">=", 80.0)],
    [("amount", "=", Decimal("-1.25"))],
    [("amount", ">", Decimal("9.00"))],
    [("day", "<", dt.date(1970, 1, 4))],
    [("at", "=", AT)],
    [("at", ">", AT + dt.timedelta(hours=40))],
    [("part", "=", "p2"), ("ts", "<", 3)],
    [("ts", ">", 100)],
)


def unpacked(name: str, tmp_path: Path) -> Path:
    if name in {"cow", "mor"}:
        with zipfile.ZipFile(FIXTURES / "metadata_table" / f"{name}.zip") as archive:
            archive.extractall(tmp_path / name)
        return tmp_path / name
    with zipfile.ZipFile(FIXTURES / "tables" / f"sample_table__{name}.zip") as archive:
        archive.extractall(tmp_path)
    (properties,) = tmp_path.glob("*/.hoodie/hoodie.properties")
    return properties.parents[1]


@pytest.fixture(params=["cow", "mor"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpacked(request.param, tmp_path)


@pytest.fixture
def mor(tmp_path: Path) -> Path:
    return unpacked("mor", tmp_path)


def rows(path: Path, options: dict[str, str] | None = None, **query: Any) -> list[dict[str, Any]]:
    found = Table(path, options=options).to_arrow(**query).to_pylist()
    return sorted(found, key=lambda row: (row["_hoodie_record_key"], row["_hoodie_partition_path"]))


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "hoodoo" and r.levelno >= logging.WARNING]


def skipped(
    caplog: pytest.LogCaptureFixture, path: Path, filters: Any, options: dict[str, str] | None = None
) -> dict[str, int]:
    """How many file slices a scan left out, by reason."""
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "hoodoo"):
        rows(path, options, filters=filters)
    (said,) = [r.getMessage() for r in caplog.records if "planned a scan" in r.getMessage()]
    return {name: int(count) for name, count in re.findall(r"(by_\w+): (\d+)", said)}


@pytest.mark.parametrize("filters", [None, *FILTERS], ids=str)
def test_rows_are_those_of_a_listing(path: Path, filters: Any, caplog: pytest.LogCaptureFixture):
    expected = rows(path, LISTED, filters=filters)
    for options in (None, UNSKIPPED, BY_INDEX):
        assert rows(path, options, filters=filters) == expected
    assert warnings_of(caplog) == []


@pytest.mark.parametrize("name", others_later(OTHERS, *_SMALL, "mor__avro__v9_txns_simple_meta"))
def test_tables_of_other_origin_are_read(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = unpacked(name, tmp_path)
    expected = rows(path, LISTED)
    assert rows(path) == expected
    # In some of them, rows of several partitions share a key, of which the index knows one.
    keys = [row["_hoodie_record_key"] for row in expected]
    ways = [None, BY_INDEX] if len(keys) == len(set(keys)) else [None]
    plain = (one for row in expected for one in row.items() if not isinstance(one[1], list | dict | None))
    # Rows share many of their values.
    for column, value in dict.fromkeys(plain):
        filters = [(column, "=", value)]
        listed = rows(path, LISTED, filters=filters)
        assert all(rows(path, options, filters=filters) == listed for options in ways), filters
    assert warnings_of(caplog) == []


def test_values_of_a_secondary_index_are_looked_up(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    path = unpacked("cow__v9_txns_simple_meta", tmp_path)
    for name in {row["merchant_name"] for row in rows(path)} - {None}:
        filters = [("merchant_name", "=", name)]
        assert skipped(caplog, path, filters, BY_INDEX)["by_keys"] > 0
        assert skipped(caplog, path, filters)["by_keys"] == 0
    assert skipped(caplog, path, [("merchant_name", "=", "nobody")], BY_INDEX)["by_keys"] == 5


def test_earlier_states_are_those_of_a_listing(path: Path):
    table = Table(path)
    for instant in table.timeline.instants():
        if instant.action in {"commit", "deltacommit", "replacecommit"} and instant.state == "completed":
            as_of: dict[str, Any] = {"as_of": instant.requested}
            try:
                expected = rows(path, LISTED, **as_of)
            except Exception as error:  # noqa: BLE001 - whatever it is, the other read fails alike
                with pytest.raises(type(error)):
                    rows(path, **as_of)
                continue
            assert rows(path, **as_of) == expected
            filters = [("ts", "<", 6)]
            assert rows(path, filters=filters, **as_of) == rows(path, LISTED, filters=filters, **as_of)


def test_changes_are_those_of_a_listing(path: Path):
    for filters in (None, [("ts", ">", 4)], [("id", "=", "k0012")]):
        found = [Table(path, options=options).changes("0", filters=filters).read_all() for options in (None, LISTED)]
        by_key = [sorted(one.to_pylist(), key=lambda row: row["_hoodie_record_key"]) for one in found]
        assert by_key[0] == by_key[1]


def test_files_are_skipped_by_keys_and_by_statistics(path: Path, caplog: pytest.LogCaptureFixture):
    files = len(Table(path).file_slices())
    assert skipped(caplog, path, [("ts", ">", 100)])["by_statistics"] == files
    assert 0 < skipped(caplog, path, [("ts", ">", 1), ("id", "<", "k0040")])["by_statistics"] < files
    assert skipped(caplog, path, [("id", "=", "k0004")], BY_INDEX)["by_keys"] == files
    assert 0 < skipped(caplog, path, [("id", "=", "k0012")], BY_INDEX)["by_keys"] < files
    assert skipped(caplog, path, [("id", "=", "k0012")])["by_keys"] == 0


def test_slices_are_those_of_a_listing(path: Path):
    found, expected = (Table(path, options=options).file_slices() for options in (None, LISTED))
    assert found == expected


# What is wrong with a metadata table, and words of the warning.
def newest(path: Path, pattern: str) -> Path:
    return max((path / ".hoodie/metadata").glob(pattern), key=lambda file: file.name)


def without_log(path: Path) -> None:
    newest(path, "files/.*.log.*").unlink()


def with_truncated_base_file(path: Path) -> None:
    file = max((path / ".hoodie/metadata/files").glob("*.hfile"), key=lambda file: file.name.rsplit("_", 1)[1])
    file.write_bytes(file.read_bytes()[:-100])


def with_stale_property(path: Path) -> None:
    shutil.rmtree(path / ".hoodie/metadata")


def behind(path: Path) -> None:
    """A writer that did not keep it up to date."""
    instant = max((path / ".hoodie/timeline").glob("*_*.*"), key=lambda file: file.name).name.split("_")[0]
    for file in [*(path / ".hoodie/metadata/.hoodie/timeline").glob(f"{instant}*")]:
        file.unlink()
    for file in [*(path / ".hoodie/metadata").glob(f"*/.*_{instant}.log.*")]:
        file.unlink()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (without_log, "it is missing"),
        (with_truncated_base_file, "bytes"),
        (with_stale_property, "hoodie.properties"),
        (behind, "does not have it"),
    ],
)
def test_a_metadata_table_that_cannot_be_used_is_left_alone(
    damage: Callable[[Path], None], words: str, path: Path, caplog: pytest.LogCaptureFixture
):
    expected = rows(path)
    damage(path)
    table = Table(path)
    for filters in (None, [("ts", ">", 4)], [("id", "=", "k0012")]):
        assert rows(path, filters=filters) == rows(path, LISTED, filters=filters)
    caplog.clear()
    assert table.to_arrow().num_rows == len(expected)
    assert table.to_arrow(filters=[("ts", ">", 4)]).num_rows < len(expected)
    (said,) = warnings_of(caplog)
    assert words in said
    assert "the folders of the table are listed" in said
    assert "hoodie.metadata.enable=false" in said


@pytest.mark.parametrize("partition", ["column_stats", "record_index"])
def test_an_index_that_cannot_be_used_skips_nothing(partition: str, path: Path, caplog: pytest.LogCaptureFixture):
    for file in (path / ".hoodie/metadata" / partition).glob("*.hfile"):
        file.write_bytes(file.read_bytes()[:-100])
    filters = [("ts", ">", 4)] if partition == "column_stats" else [("id", "=", "k0012")]
    expected = rows(path, LISTED, filters=filters)
    assert rows(path, None if partition == "column_stats" else BY_INDEX, filters=filters) == expected
    (said,) = warnings_of(caplog)
    assert partition in said
