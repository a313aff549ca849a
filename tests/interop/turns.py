"""How often real Hudi reads a table that it and hoodoo write in many turns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

IN_FULL = "HOODOO_TEST_ALL" in os.environ
"""Whether this is `make test-all`."""

_EVERY = 1 if IN_FULL else 4
_T = TypeVar("_T")


def hudi_reads(turn: int, *, is_last: bool = False) -> bool:
    """Tell whether Hudi reads after a turn of a long history, counted from 0.

    Its queries take longer than all else, so that it reads after each fourth turn and the last one, and after each in
    `make test-all`: what goes wrong in one turn stays wrong. In short tests it reads after each turn.
    """
    return is_last or turn % _EVERY == 0


def one_of(choices: Sequence[_T], turn: int) -> _T:
    """Give what is compared after a turn: all of them in order over the turns after which Hudi reads."""
    return choices[(turn // _EVERY if hudi_reads(turn) else turn) % len(choices)]
