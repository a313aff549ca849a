"""The floor with pyarrow, in a module of its own: the others do without it in their memory."""

from __future__ import annotations

from benches.peers.merge_on_read.systems import floor

from .copies import Files


class PyarrowFloor(Files, floor.Floor):
    """Reads and writes each file as the floor of compactions does."""
