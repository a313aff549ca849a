"""`hoodie.properties` cut short: refused, or as good as whole."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema([("id", pa.int64()), ("v", pa.int64())])
FIXTURES = Path(__file__).parents[1] / "fixtures" / "tables"
# One of each version and order of lines.
REAL = [
    "quickstart_trips_table__mor__avro__v6_trips_8i1u",
    "sample_table__cow__v6_complexkeygen_hivestyle",
    "sample_table__cow__v9_timebasedkeygen_nonhivestyle",
    "sample_table__mor__avro__v9_txns_simple_overwrite",
]


def _properties(table: Path) -> Path:
    return table / ".hoodie" / "hoodie.properties"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "t"
    table = hoodoo.Table.create(str(path), SCHEMA, name="t", record_key="id", ordering=["v"])
    table.insert({"id": [1, 2], "v": [5, 5]})
    return path


def _refused(table: Path, content: bytes) -> bool:
    _properties(table).write_bytes(content)
    try:
        hoodoo.Table(str(table))
    except hoodoo.CorruptFileError as error:
        assert "hoodie.properties" in str(error)  # noqa: PT017
        return True
    return False


def test_no_cut_of_ours_is_taken(table: Path) -> None:
    whole = _properties(table).read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    cuts = [*ends[2:-1:3], ends[-2], ends[-2] + 9, len(whole) - 4, len(whole) - 1]
    assert [n for n in cuts if not _refused(table, whole[:n])] == []
    assert not _refused(table, whole)


@pytest.mark.parametrize("name", REAL)
def test_no_cut_of_hudis_is_taken(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(FIXTURES / f"{name}.zip") as archive:
        archive.extractall(tmp_path)
    (file,) = (
        p for p in tmp_path.rglob("hoodie.properties") if "metadata" not in p.parts and "__MACOSX" not in p.parts
    )
    table = file.parents[1]
    whole = file.read_bytes()
    ends = [n + 1 for n, byte in enumerate(whole) if byte == ord("\n")]
    cuts = [*ends[-7:-1], len(whole) // 2, len(whole) - 1]
    assert [whole[:n][-60:] for n in cuts if not _refused(table, whole[:n])] == []
    assert not _refused(table, whole)


def test_zeros_are_refused(table: Path) -> None:
    whole = _properties(table).read_bytes()
    middle = len(whole) // 2
    assert _refused(table, whole[:middle] + bytes(5) + whole[middle + 5 :])
    assert _refused(table, bytes(len(whole)))


def test_a_cut_file_gives_way_to_its_backup(table: Path) -> None:
    file = _properties(table)
    whole = file.read_bytes()
    shutil.copy(file, file.with_name("hoodie.properties.backup"))
    file.write_bytes(whole[: len(whole) * 2 // 3])
    opened = hoodoo.Table(str(table))
    opened.upsert({"id": [1], "v": [1]})
    rows = opened.to_arrow(columns=["id", "v"]).sort_by("id").to_pylist()
    assert rows == [{"id": 1, "v": 5}, {"id": 2, "v": 5}]
    assert file.read_bytes() == whole


def test_a_file_of_another_tool_is_taken(table: Path) -> None:
    """Without a comment of Hudi's and without a checksum."""
    lines = _properties(table).read_text("latin-1").splitlines()
    lines = [line for line in lines if not line.startswith(("#", "hoodie.table.checksum"))]
    assert not _refused(table, "\n".join(lines).encode("latin-1"))


def test_a_zone_that_nobody_means_is_refused(table: Path) -> None:
    # Hudi refuses it too. Taken for LOCAL, commits of this machine would be before or after those of others.
    whole = _properties(table).read_text()
    zone = "hoodie.table.timeline.timezone="
    (line,) = (line for line in whole.splitlines() if line.startswith(zone))
    _properties(table).write_text(whole.replace(line, f"{zone}Europe/Paris"))
    with pytest.raises(hoodoo.UnsupportedError, match=r"Europe/Paris in hoodie.properties is neither UTC nor LOCAL"):
        hoodoo.Table(str(table))
    _properties(table).write_text(whole.replace(line, f"{zone}local"))
    assert hoodoo.Table(str(table)).to_arrow().num_rows == 2
