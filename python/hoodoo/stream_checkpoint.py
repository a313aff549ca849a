"""Which micro-batch of a stream a table holds, as Hudi's own sink stores it in the metadata of commits."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hoodoo.commit_stats import WRITE_ACTIONS
from hoodoo.exceptions import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.timeline import Timeline

__all__ = ["IDENTIFIER", "checkpoint_metadata", "last_batch"]

IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"
"""The option that names a stream among those that write to one table."""
_KEY = "_hudi_streaming_sink_checkpoint"
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
    seen: set[str] = set()
    for also_archived in (False, True)[: 1 + history]:
        for instant in reversed(timeline.instants(state="COMPLETED", history=also_archived, order="completed")):
            if instant.action not in WRITE_ACTIONS or instant.requested in seen:
                continue
            seen.add(instant.requested)
            batch = _batch(timeline.metadata(instant.requested).get("extraMetadata") or {}, identifier)
            if batch is not None:
                return batch
    return None


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
