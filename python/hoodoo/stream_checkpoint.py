"""Which micro-batch of a stream a table holds, as Hudi's own sink stores it in the metadata of commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.exceptions import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hoodoo.timeline import Timeline

__all__ = ["IDENTIFIER", "checkpoint_metadata", "last_batch"]

IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
"""The option that names a stream among those that write to one table."""
_KEY = "_hudi_streaming_sink_checkpoint"
_HISTORY = ("instantTime", "completionTime", "action", "metadata")
_CODEC, _NO_CODEC = b"avro.codec", b"\x08null"
# Characters of a damaged one that a message has.
_SHOWN = 200


def checkpoint_metadata(identifier: str, batch: int) -> dict[str, str]:
    """Return what the commit of a micro-batch stores in its metadata.

    Args:
        identifier: The name of the stream.
        batch: The number of the micro-batch.

    Examples:
        >>> checkpoint_metadata("trips", 7)
        {'_hudi_streaming_sink_checkpoint': '{"trips":"7"}'}
    """
    return {_KEY: json.dumps({identifier: str(batch)}, separators=(",", ":"))}


def last_batch(timeline: Timeline, identifier: str, *, history: bool = False) -> int | None:
    """Return the number of the newest micro-batch of a stream that the table holds.

    Args:
        timeline: The timeline of the table.
        identifier: The name of the stream.
        history: Look into archived commits too, if no active one is of the stream.

    Returns:
        The number; None if no commit is of this stream.

    Raises:
        CorruptFileError: The metadata of a commit cannot be read.
    """
    active = timeline.instants(state="COMPLETED", order="completed")
    requested = [instant.requested for instant in reversed(active) if instant.action in WRITE_ACTIONS]
    found = _newest(timeline, requested, identifier)
    return _newest(timeline, _archived(timeline), identifier) if found is None and history else found


def _newest(timeline: Timeline, requested: Iterable[str], identifier: str) -> int | None:
    for instant in requested:
        batch = _batch(timeline.metadata(instant).get("extraMetadata") or {}, identifier)
        if batch is not None:
            return batch
    return None


def _archived(timeline: Timeline) -> list[str]:
    """The archived commits that may be of a stream, the last completed first: one pass, without decoding each."""
    found: list[tuple[str, str]] = []
    try:
        for batch in timeline.read_history("metadata"):
            rows = zip(*(batch[name].to_pylist() for name in _HISTORY), strict=True)
            for requested, completed, action, metadata in rows:
                if action in WRITE_ACTIONS and _may_have_checkpoint(metadata or b""):
                    found.append((completed or requested, requested))
    except pa.ArrowException as error:
        # A stream of the history says so what is wrong with one of its files.
        raise CorruptFileError(str(error)) from error
    return [requested for _, requested in sorted(found, reverse=True)]


def _may_have_checkpoint(metadata: bytes) -> bool:
    # A compressed Avro file does not show what it has.
    return _KEY.encode() in metadata or (_CODEC in metadata and _CODEC + _NO_CODEC not in metadata)


def _batch(extra: Mapping[str, str], identifier: str) -> int | None:
    stored = extra.get(_KEY)
    if not stored:
        return None
    try:
        number = json.loads(stored).get(identifier)
        return None if number is None else int(number)
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError) as error:
        raise CorruptFileError(
            f"the metadata of a commit has {_KEY}={stored[:_SHOWN]!r}, which is no checkpoint of a stream"
        ) from error
