"""The last micro-batch of a stream is found in the metadata of commits."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

import hoodoo
from hoodoo.stream_checkpoint import checkpoint_metadata, last_batch
from hoodoo.timeline import Instant, Timeline


class _Timeline(Timeline):
    """A timeline of commits with extra metadata."""

    def __init__(self, active: list[dict[str, str]], archived: list[dict[str, str]] | None = None) -> None:
        self._extra = {f"{n:017}": extra for n, extra in enumerate([*(archived or []), *active])}
        self._first = len(archived or [])
        self.read: list[str] = []

    def instants(self, *_: Any, history: bool = False, **__: Any) -> list[Instant]:
        names = list(self._extra)[0 if history else self._first :]
        return [Instant(name, name, "deltacommit", "COMPLETED") for name in names]

    def read_history(self, columns: str = "action", since: str | None = None, until: str | None = None) -> Any:
        assert (since, until) == (None, None)
        assert columns == "metadata"
        times = list(self._extra)[: self._first]
        extra = [json.dumps(self._extra[time]).encode() for time in times]
        names = ["instantTime", "completionTime", "action", "metadata"]
        return [pa.record_batch([times, times, ["commit"] * len(times), pa.array(extra, pa.binary())], names)]

    def metadata(self, instant: Instant | str) -> dict[str, Any]:
        self.read.append(str(instant))
        return {"extraMetadata": {"schema": "…", **self._extra[str(instant)]}}


def test_the_newest_micro_batch_counts():
    timeline = _Timeline([checkpoint_metadata("a", 3), checkpoint_metadata("b", 9), checkpoint_metadata("a", 4), {}])
    assert last_batch(timeline, "a") == 4
    assert len(timeline.read) == 2
    assert last_batch(timeline, "b") == 9
    assert last_batch(timeline, "c") is None


def test_archived_commits_count_on_demand():
    timeline = _Timeline([{}], [checkpoint_metadata("a", 3), {}])
    assert last_batch(timeline, "a") is None
    assert last_batch(timeline, "a", history=True) == 3
    # Of the archived ones only the one that has a checkpoint is decoded.
    assert len(set(timeline.read)) == 2


def test_a_damaged_history_is_an_error(monkeypatch: pytest.MonkeyPatch):
    def damaged(*_: Any) -> Any:
        raise pa.ArrowInvalid("a file of the history is damaged")

    monkeypatch.setattr(_Timeline, "read_history", damaged)
    with pytest.raises(hoodoo.CorruptFileError, match="a file of the history is damaged"):
        last_batch(_Timeline([{}]), "a", history=True)


def test_a_damaged_checkpoint_is_an_error():
    hostile = ("[" * 100_000, '{"a": [1]}', '{"a": {}}', '{"a": Infinity}', f'{{"a": "{"1" * 5000}"}}')
    for damaged in ("{", "[1]", '{"a": "x"}', *hostile):
        timeline = _Timeline([{"_hudi_streaming_sink_checkpoint": damaged}])
        with pytest.raises(hoodoo.CorruptFileError, match="no checkpoint of a stream"):
            last_batch(timeline, "a")
