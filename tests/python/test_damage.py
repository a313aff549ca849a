"""Damaged files of every kind: what is read is right, or an error, or `verify()` names what is wrong."""

from __future__ import annotations

import collections
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import hoodoo

SCHEMA = pa.schema([("id", pa.int64()), ("part", pa.string()), ("v", pa.int64())])
Rows = list[tuple[int, str, int]]


def _rows(table: Path) -> Rows:
    read = hoodoo.Table(str(table)).to_arrow(columns=["id", "part", "v"])
    return sorted(zip(*(read[name].to_pylist() for name in ("id", "part", "v")), strict=True))


def _batch(ids: range, v: int) -> pa.Table:
    ids_ = list(ids)
    return pa.table({"id": ids_, "part": [f"p{i % 2}" for i in ids_], "v": [v] * len(ids_)}, schema=SCHEMA)


def _make(path: Path, table_type: str, *, partitioned: bool, archived: bool) -> Path:
    options = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    table = hoodoo.Table.create(
        str(path),
        SCHEMA,
        name="t",
        record_key="id",
        ordering=["v"],
        partition_by=["part"] if partitioned else None,
        table_type=table_type,
    )
    table = hoodoo.Table(str(path), options=options) if archived else table
    table.insert(_batch(range(8), 0))
    for v in range(1, 9 if archived else 4):
        table.upsert(_batch(range(v % 4, 8, 4), v))
    if archived:
        table.archive()
    return path


def _snapshot(folder: Path) -> dict[Path, bytes]:
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def _put_back(folder: Path, files: dict[Path, bytes]) -> None:
    for path in [p for p in folder.rglob("*") if not p.is_dir() and p.relative_to(folder) not in files]:
        path.unlink()
    for name, content in files.items():
        path = folder / name
        if path.exists() and not path.is_file():
            path.unlink()
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)


def _kind(path: Path) -> str:
    name = path.name
    kinds = {
        "properties": name == "hoodie.properties",
        "history": "history" in path.parts and name.endswith(".parquet"),
        "manifest": "history" in path.parts,
        "instant": "timeline" in path.parts,
        "partition metadata": name == ".hoodie_partition_metadata",
        "log": ".log." in name,
        "base": name.endswith(".parquet"),
    }
    return next((kind for kind, is_it in kinds.items() if is_it), "other")


def _delete(path: Path, _others: list[Path], _rng: random.Random) -> None:
    path.unlink()


def _truncate(path: Path, _others: list[Path], rng: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(max(len(content), 1))])


def _empty(path: Path, _others: list[Path], _rng: random.Random) -> None:
    path.write_bytes(b"")


def _zero(path: Path, _others: list[Path], rng: random.Random) -> None:
    content = path.read_bytes()
    start = rng.choice([0, rng.randrange(max(len(content), 1))])
    path.write_bytes(content[:start] + bytes(len(content) - start))


def _append(path: Path, _others: list[Path], rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.randbytes(rng.randrange(1, 100)))


def _swap(path: Path, others: list[Path], rng: random.Random) -> None:
    other = rng.choice(others or [path])
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def _pipe(path: Path, _others: list[Path], _rng: random.Random) -> None:
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[Callable[[Path, list[Path], random.Random], None]] = [
    _delete,
    _truncate,
    _empty,
    _zero,
    _append,
    _swap,
    _pipe,
]


def _verdict(table: Path, wanted: Rows) -> str:
    """`right`, `refused`, `seen` by verify, or `unseen`."""
    try:
        if _rows(table) == wanted:
            return "right"
    except hoodoo.HudiError:
        return "refused"
    try:
        problems = hoodoo.Table(str(table)).verify().problems
    except hoodoo.HudiError:
        return "seen"
    return "seen" if any(p.severity == "error" for p in problems) else "unseen"


def _damage(tmp_path: Path, count: int, seed: int) -> dict[str, collections.Counter[str]]:
    rng = random.Random(seed)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    unseen = []
    kinds = [
        (kind, partitioned, archived)
        for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")
        for partitioned in (False, True)
        for archived in (False, True)
    ]
    for number, (table_type, partitioned, archived) in enumerate(kinds):
        table = _make(tmp_path / f"t{number}", table_type, partitioned=partitioned, archived=archived)
        wanted, files = _rows(table), _snapshot(table)
        assert hoodoo.Table(str(table)).verify().ok
        by_kind: dict[str, list[Path]] = collections.defaultdict(list)
        for name in sorted(files):
            by_kind[_kind(name)].append(name)
        by_kind.pop("other", None)
        for turn in range(-(-count // len(kinds))):
            kind = sorted(by_kind)[turn % len(by_kind)]
            how = rng.choice(DAMAGES)
            name = rng.choice(by_kind[kind])
            how(table / name, [table / p for p in by_kind[kind] if p != name], rng)
            verdict = _verdict(table, wanted)
            counts[f"{kind} {how.__name__[1:]}"][verdict] += 1
            if verdict == "unseen":
                unseen.append((table_type, partitioned, archived, how.__name__, str(name), _rows(table)))
            _put_back(table, files)
        assert _rows(table) == wanted
        shutil.rmtree(table)
    assert not unseen, "\n".join(map(str, unseen))
    return counts


def test_damaged_files_are_never_unseen(tmp_path: Path) -> None:
    counts = _damage(tmp_path, 104, seed=19)
    assert sum(c.total() for c in counts.values()) >= 100


@pytest.mark.slow
def test_two_thousand_damaged_files_are_never_unseen(tmp_path: Path) -> None:
    counts = _damage(tmp_path, 2_000, seed=2_000)
    for what in sorted(counts):
        print(what, dict(counts[what]))
    assert sum(c.total() for c in counts.values()) >= 2_000
