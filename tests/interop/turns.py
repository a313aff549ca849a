"""How often real Hudi reads a table that it and hoodoo write in many turns."""

from __future__ import annotations

import os

_EVERY = 1 if "HOODOO_TEST_ALL" in os.environ else 4


def hudi_reads(turn: int, *, is_last: bool = False) -> bool:
    """Tell whether Hudi reads after a turn of a long history, counted from 0.

    Its queries take longer than all else, so that it reads after each fourth turn and the last one, and after each in
    `make test-all`: what goes wrong in one turn stays wrong. In short tests it reads after each turn.
    """
    return is_last or turn % _EVERY == 0
