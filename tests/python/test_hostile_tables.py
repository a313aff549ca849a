"""Tables that somebody made to hurt: links, plans and paths that lead out of the table change nothing out of it.

Beside each table is a folder that every operation must leave as it was: names, contents, times.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo
from hoodoo import Table

_SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
_OPTIONS = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.enable": "false",
    "hoodoo.storage.sync": "false",
}
# As long as the real names that they are put in the place of.
_FAILED = "20200101000000000"
_PENDING = "20200102000000000"


def _rows(ts: int, *parts: str) -> pa.Table:
    return pa.table({"id": [f"k-{p}" for p in parts], "ts": [ts] * len(parts), "part": list(parts)}, schema=_SCHEMA)


def _open(path: Path, **more: str) -> Table:
    return Table(str(path), options={**_OPTIONS, **{key.replace("__", "."): value for key, value in more.items()}})


@pytest.fixture(scope="module")
def copy_on_write(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("made") / "table", "COPY_ON_WRITE")


@pytest.fixture(scope="module")
def merge_on_read(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("made") / "table", "MERGE_ON_READ")


def _make(path: Path, table_type: str) -> Path:
    """Makes a table with commits, a history, a clean, a rollback and, of the second kind, log files."""
    keys = {"record_key": "id", "partition_by": ["part"], "ordering": ["ts"]}
    table = Table.create(str(path), _SCHEMA, name="t", table_type=table_type, options=_OPTIONS, **keys)  # type: ignore[arg-type]
    table.insert(_rows(0, "p0", "p1", "two/levels"))
    failed = path / ".hoodie" / "timeline" / f"{_FAILED}.{_action(table)}.requested"
    failed.touch()
    failed.with_suffix("").with_suffix(".inflight" if _action(table) == "commit" else ".deltacommit.inflight").touch()
    marker = path / ".hoodie" / ".temp" / _FAILED / "p0" / f"f_0-0-0_{_FAILED}.parquet.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    for ts in range(1, 6):
        table.upsert(_rows(ts, "p0", "p1"))
    return path


def _action(table: Table) -> str:
    return "commit" if table.options["hoodie.table.type"] == "COPY_ON_WRITE" else "deltacommit"


class Hostile:
    """A copy of the table, with the folder beside it."""

    def __init__(self, made: Path, folder: Path) -> None:
        self.table = Path(shutil.copytree(made, folder / "table", symlinks=True))
        self.canary = folder / "canary"
        (self.canary / "keep" / "below").mkdir(parents=True)
        for name in ("keep.parquet", "keep/below/data", f"keep/f_0-0-0_{_FAILED}.parquet"):
            (self.canary / name).write_text("as it was")

    @property
    def timeline(self) -> Path:
        return self.table / ".hoodie" / "timeline"

    def link(self, place: str, *, of: str = "keep") -> None:
        """Puts a link to something beside the table."""
        path = self.table / place
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(self.canary / of)

    def move(self, place: str) -> None:
        """Moves a part of the table out of it, and puts a link in its place."""
        target = self.canary / "moved"
        (self.table / place).rename(target)
        (self.table / place).symlink_to(target)

    def last(self, pattern: str) -> Path:
        """The last file of the timeline with such a name."""
        return max(self.timeline.glob(pattern))

    def reopen(self, action: str, old: str, new: str) -> None:
        """Takes back the completion of an action, and puts other words of the same length into its plan."""
        plan = self.last(f"*.{action}.requested")
        for done in self.timeline.glob(f"{plan.name.split('.')[0]}_*.{action}"):
            done.unlink()
        self.patch(plan, old, new)

    def patch(self, file: Path, old: str, new: str) -> None:
        """Puts other words of the same length into a file."""
        content = file.read_bytes()
        assert old.encode() in content, f"{old} is not in {file.name}"
        assert len(old) == len(new)
        file.write_bytes(content.replace(old.encode(), new.encode()))

    def state(self) -> dict[str, tuple[int, bytes]]:
        """What is beside the table."""
        found = {}
        for path in [self.canary, *self.canary.rglob("*")]:
            content = path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.canary))] = (os.lstat(path).st_mtime_ns, content)
        return found


def _of_length(path: str, length: int) -> str:
    """The same path, as long as another one."""
    assert len(path) <= length
    return "/" * ((length - len(path)) % 2) + "./" * ((length - len(path)) // 2) + path


def _file_of(plan: Path, partition: str) -> str:
    """A path of a file of this partition that a plan names."""
    content = plan.read_bytes()
    end = content.index(b".parquet", content.index(f"/{partition}/".encode())) + len(b".parquet")
    begin = max(content.rfind(b"file:/", 0, end), content.rfind(b"/tmp/", 0, end))
    begin = begin if content.rfind(b"file:/", 0, end) < 0 else content.rfind(b"file:/", 0, end)
    return content[begin:end].decode()


def _clean_plan_out(h: Hostile) -> None:
    old = _file_of(h.last("*.clean.requested"), "p0")
    h.reopen("clean", old, _of_length("../canary/keep.parquet", len(old)))


def _clean_plan_up(h: Hostile) -> None:
    old = _file_of(h.last("*.clean.requested"), "p0")
    h.reopen("clean", old, _of_length("p0/../../canary/p0/keep.parquet", len(old)))


def _rollback_plan(h: Hostile) -> None:
    file = f"p0/f_0-0-0_{_PENDING}.parquet"
    _markers(h, file)
    _open(h.table, hoodie__archive__automatic="false").upsert(_rows(8, "p1"))
    h.reopen("rollback", file, _of_length("../canary/keep.parquet", len(file)))


def _linked_markers(h: Hostile) -> None:
    _markers(h)
    h.link(f".hoodie/.temp/{_PENDING}")


def _markers(h: Hostile, *lines: str) -> None:
    """A failed write whose markers name these files."""
    instant = _PENDING
    action = "commit" if list(h.timeline.glob("*.commit")) else "deltacommit"
    (h.timeline / f"{instant}.{action}.requested").touch()
    (h.timeline / f"{instant}{'' if action == 'commit' else '.deltacommit'}.inflight").touch()
    folder = h.table / ".hoodie" / ".temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED")
    (folder / "MARKERS0").write_text("".join(f"{line}.marker.CREATE\n" for line in lines))


def _direct_marker(h: Hostile) -> None:
    _markers(h)
    folder = h.table / ".hoodie" / ".temp" / _PENDING
    marker = folder / ".hoodie" / "hoodie.properties.marker.MERGE"
    marker.parent.mkdir()
    marker.touch()


def _property(key: str, value: str) -> Callable[[Hostile], None]:
    def change(h: Hostile) -> None:
        file = h.table / ".hoodie" / "hoodie.properties"
        lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
        file.write_text("\n".join([*lines, f"{key}={value}", ""]))

    return change


def _manifest(name: str) -> Callable[[Hostile], None]:
    def change(h: Hostile) -> None:
        for manifest in (h.timeline / "history").glob("manifest_*"):
            manifest.write_text(f'{{"files": [{{"fileName": "{name}", "fileLen": 9}}]}}')

    return change


def _commit_path(new: str) -> Callable[[Hostile], None]:
    def change(h: Hostile) -> None:
        for commit in [*h.timeline.glob("*_*.commit"), *h.timeline.glob("*_*.deltacommit")]:
            content = commit.read_bytes()
            begin = content.find(b"p0/")
            if begin >= 0:
                end = min(e for e in (content.find(b"\0", begin), content.find(b"\2", begin)) if e > 0)
                old = content[begin:end].decode("latin-1")
                commit.write_bytes(content.replace(old.encode("latin-1"), _of_length(new, len(old)).encode()))

    return change


def _plan_of(schedule: Callable[[Table], str | None], pattern: str, new: str) -> Callable[[Hostile], None]:
    def change(h: Hostile) -> None:
        table = _open(h.table, **{"hoodie.compact.inline.max.delta.commits": "1"})
        assert schedule(table) is not None
        plan = h.last(pattern)
        content = plan.read_bytes()
        end = content.index(b".parquet") + len(b".parquet")
        begin = end - 40
        old = content[begin:end].decode("latin-1")
        h.patch(plan, old, _of_length(new, len(old)))

    return change


def _linked_file(pattern: str) -> Callable[[Hostile], None]:
    def change(h: Hostile) -> None:
        found = sorted(h.table.glob(pattern))
        assert found
        for number, file in enumerate(found):
            shutil.move(file, h.canary / f"moved{number}")
            file.symlink_to(h.canary / f"moved{number}")

    return change


_TABLES: dict[str, Callable[[Hostile], None]] = {
    "link: .hoodie": lambda h: h.move(".hoodie"),
    "link: timeline": lambda h: h.move(".hoodie/timeline"),
    "link: history": lambda h: h.move(".hoodie/timeline/history"),
    "link: markers": lambda h: h.link(".hoodie/.temp"),
    "link: markers of an old write": lambda h: h.link(f".hoodie/.temp/{_FAILED}"),
    "link: markers of an old write, to the root": lambda h: h.link(f".hoodie/.temp/{_FAILED}", of=".."),
    "link: below markers": lambda h: h.link(f".hoodie/.temp/{_FAILED}/p0/deeper"),
    "link: markers of a failed write": _linked_markers,
    "link: heartbeats": lambda h: h.link(".hoodie/.heartbeat"),
    "link: a heartbeat": lambda h: h.link(f".hoodie/.heartbeat/{_FAILED}", of="keep.parquet"),
    "link: aux": lambda h: h.link(".hoodie/.aux"),
    "link: schema": lambda h: h.link(".hoodie/.schema"),
    "link: metadata table": lambda h: h.link(".hoodie/metadata"),
    "link: in the metadata table": lambda h: h.link(".hoodie/metadata/files"),
    "link: partition": lambda h: h.move("p0"),
    "link: first level of a partition": lambda h: h.move("two"),
    "link: second level of a partition": lambda h: h.move("two/levels"),
    "link: partition to be": lambda h: h.link("new"),
    "link: partition, to the table": lambda h: (h.table / "new").symlink_to(h.table),
    "link: partition metadata": _linked_file("p0/.hoodie_partition_metadata"),
    "link: base files": _linked_file("p0/*.parquet"),
    "link: log files": _linked_file("p0/.*.log.*"),
    "link: completed instants": _linked_file(".hoodie/timeline/*_*"),
    "link: pending instants": _linked_file(".hoodie/timeline/*.requested"),
    "link: properties": _linked_file(".hoodie/hoodie.properties"),
    "link: backup of properties": lambda h: h.link(".hoodie/hoodie.properties.backup", of="keep.parquet"),
    "link: unfinished properties": lambda h: h.link(".hoodie/hoodie.properties#1", of="keep.parquet"),
    "link: checksum": lambda h: h.link(".hoodie/.hoodie.properties.crc", of="keep.parquet"),
    "link: manifests": _linked_file(".hoodie/timeline/history/manifest_*"),
    "link: version of the history": _linked_file(".hoodie/timeline/history/_version_"),
    "link: files of the history": _linked_file(".hoodie/timeline/history/*.parquet"),
    "plan: clean, a path beside the table": _clean_plan_out,
    "plan: clean, a path up and down": _clean_plan_up,
    "plan: clustering": _plan_of(lambda t: t.schedule_clustering(), "*.clustering.requested", "../canary/keep.parquet"),
    "plan: compaction": _plan_of(lambda t: t.schedule_compaction(), "*.compaction.requested", "../canary/keep.parquet"),
    "plan: rollback": _rollback_plan,
    "markers: up": lambda h: _markers(h, "../canary/keep.parquet", "p0/../../canary/keep.parquet"),
    "markers: absolute": lambda h: _markers(h, str(h.canary / "keep.parquet"), "/etc/hostname"),
    "markers: metadata": lambda h: _markers(h, ".hoodie/hoodie.properties", "p0/.hoodie_partition_metadata"),
    "marker: metadata": _direct_marker,
    "commits: paths": _commit_path("../canary/keep.parquet"),
    "commits: absolute paths": _commit_path("//canary/keep.parquet"),
    "property: timeline": _property("hoodie.timeline.path", "../.."),
    "property: timeline beside": _property("hoodie.timeline.path", "../../canary"),
    "property: absolute timeline": _property("hoodie.timeline.path", "/tmp"),
    "property: history": _property("hoodie.timeline.history.path", "../../../canary"),
    "property: old history": _property("hoodie.archivelog.folder", "../../canary"),
    "property: definitions of indexes": _property("hoodie.table.index.defs.path", "../canary/new/index.json"),
    "property: base of a bootstrap": _property("hoodie.bootstrap.base.path", "../canary"),
    "manifest: up": _manifest("../../../../canary/keep.parquet"),
    "manifest: a name that looks right": _manifest("../../../../canary/1_2_0.parquet"),
}


def _operations(path: Path) -> list[tuple[str, Callable[[], object]]]:
    def table() -> Table:
        return _open(path, **{"hoodie.clustering.plan.strategy.small.file.limit": "999999999"})

    return [
        ("read", lambda: table().to_arrow()),
        ("verify", lambda: table().verify()),
        ("upsert", lambda: table().upsert(_rows(9, "p0", "new"))),
        ("delete", lambda: table().delete(_rows(9, "p0"))),
        ("upsert elsewhere", lambda: table().upsert(_rows(9, "p1"))),
        ("compact", lambda: table().compact()),
        ("cluster", lambda: table().cluster()),
        ("delete_partitions", lambda: table().delete_partitions(["p0", "two/levels", "new"])),
        ("upsert again", lambda: table().upsert(_rows(10, "p1", "p0"))),
        ("insert_overwrite_table", lambda: table().insert_overwrite_table(_rows(11, "p0"))),
        ("insert", lambda: table().insert(_rows(12, "p1"))),
        ("index", lambda: table().index("column_stats")),
        ("archive", lambda: table().archive()),
        ("changes", lambda: table().changes("0").read_all()),
        ("verify at the end", lambda: table().verify()),
    ]


@pytest.mark.parametrize("name", _TABLES)
def test_nothing_beside_the_table_changes(copy_on_write: Path, merge_on_read: Path, tmp_path: Path, name: str) -> None:
    with_logs = any(word in name for word in ("log", "compaction", "marker", "commits"))
    hostile = Hostile(merge_on_read if with_logs else copy_on_write, tmp_path)
    _TABLES[name](hostile)
    before = hostile.state()
    for operation, run in _operations(hostile.table):
        with contextlib.suppress(hoodoo.HudiError):
            run()
        assert hostile.state() == before, operation


@pytest.mark.parametrize("place", [".hoodie", ".hoodie/timeline", ".hoodie/timeline/history", ".hoodie/.temp", "p0"])
def test_links_are_refused_unless_allowed(copy_on_write: Path, tmp_path: Path, place: str) -> None:
    hostile = Hostile(copy_on_write, tmp_path)
    hostile.move(place)
    before = hostile.state()
    rows = _open(hostile.table).to_arrow().num_rows
    with pytest.raises(hoodoo.UnsupportedError, match="symbolic link") as caught:
        _open(hostile.table).upsert(_rows(9, "p0"))
    assert f"link={hostile.table / place}" in str(caught.value)
    assert "hoodoo.storage.follow.links=true" in str(caught.value)
    assert hostile.state() == before
    # Nothing of the write is left that would stand in the way.
    allowed = _open(hostile.table, hoodoo__storage__follow__links="true")
    allowed.upsert(_rows(9, "p0"))
    assert allowed.to_arrow().num_rows == rows
    assert allowed.verify().ok


def test_the_table_itself_may_be_behind_a_link(copy_on_write: Path, tmp_path: Path) -> None:
    shutil.copytree(copy_on_write, tmp_path / "real" / "table")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "table").symlink_to(tmp_path / "real" / "table")
    for path in (tmp_path / "link" / "table", tmp_path / "table"):
        _open(path).upsert(_rows(9, "p0", "p1"))
        assert _open(path).verify().ok


@pytest.mark.parametrize("value", ["../..", "..", "/tmp", "a/../../b", "./x", "a//b"])
@pytest.mark.parametrize("key", ["hoodie.timeline.path", "hoodie.timeline.history.path"])
def test_folders_of_the_timeline_stay_below_it(copy_on_write: Path, tmp_path: Path, key: str, value: str) -> None:
    hostile = Hostile(copy_on_write, tmp_path)
    _property(key, value)(hostile)
    with pytest.raises(hoodoo.UnsupportedError, match=key):
        _open(hostile.table)


@pytest.mark.parametrize(
    "path", ["../canary/index.json", "/tmp/index.json", "a/../../canary/index.json", "s3://b/index.json"]
)
def test_definitions_of_indexes_stay_in_the_table(copy_on_write: Path, tmp_path: Path, path: str) -> None:
    hostile = Hostile(copy_on_write, tmp_path)
    _property("hoodie.table.index.defs.path", path)(hostile)
    before = hostile.state()
    with pytest.raises(hoodoo.CorruptFileError, match="is not a path in this table"):
        Table(hostile.table, {**_OPTIONS, "hoodie.metadata.enable": "true"}).index("column_stats")
    assert hostile.state() == before
    assert not Path("/tmp/index.json").exists()


def test_a_table_names_no_code_to_run(merge_on_read: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of mergers are those that the caller names, and not those that the properties or a commit name."""
    hostile = Hostile(merge_on_read, tmp_path)
    (tmp_path / "evil_merger.py").write_text("raise SystemExit('run')")
    monkeypatch.syspath_prepend(str(tmp_path))
    for key in (
        "hoodie.write.record.merge.custom.implementation.classes",
        "hoodie.datasource.write.record.merger.impls",
    ):
        _property(key, "evil_merger.Evil")(hostile)
    _property("hoodie.compaction.payload.class", "evil_merger.Evil")(hostile)
    _property("hoodie.record.merge.mode", "CUSTOM")(hostile)
    _property("hoodie.record.merge.strategy.id", "00000000-0000-0000-0000-000000000000")(hostile)
    for operation in (lambda t: t.to_arrow(), lambda t: t.upsert(_rows(9, "p0")), lambda t: t.compact()):
        with pytest.raises(hoodoo.UnsupportedError):
            operation(_open(hostile.table))
    assert "evil_merger" not in sys.modules


def test_the_hashing_config_of_a_table_is_bounded(tmp_path: Path) -> None:
    """A write that does not block others goes over all buckets of a partition."""
    options = {
        **_OPTIONS,
        "hoodie.index.type": "BUCKET",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
    }
    keys = {"record_key": "id", "partition_by": ["part"], "ordering": ["ts"]}
    Table.create(str(tmp_path), _SCHEMA, name="t", table_type="MERGE_ON_READ", options=_OPTIONS, **keys)  # type: ignore[arg-type]
    config = tmp_path / ".hoodie/.bucket_index/partition_bucket_index_meta/00000000000000000.hashing_config"
    config.parent.mkdir(parents=True)
    for expressions, buckets in (("", 0xFFFF_FFFF), ("p,2147483647", 2)):
        config.write_text(json.dumps({"expressions": expressions, "defaultBucketNumber": buckets, "rule": "regex"}))
        with pytest.raises(hoodoo.InvalidOptionError, match="buckets"):
            Table(tmp_path, options).upsert(_rows(1, "p0"))
