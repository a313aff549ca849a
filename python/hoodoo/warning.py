"""Warnings that point at the caller's line."""

from __future__ import annotations

import sys
import warnings

from hoodoo.exceptions import HudiWarning

__all__ = ["warn", "warn_of_commit"]


def warn(message: str) -> None:
    """Warns of something that was asked for and not done.

    Args:
        message: What, and what to do about it.
    """
    warnings.warn(message, HudiWarning, stacklevel=_levels_in_package())


def warn_of_commit(message: str) -> None:
    """Warns of something that a commit did besides. Where filters make warnings errors, this one is left to `Commit`.

    Args:
        message: What it did.
    """
    try:
        warnings.warn(message, HudiWarning, stacklevel=_levels_in_package())
    except HudiWarning:
        # The commit stands: who took this for a failed write and tried again would write twice.
        return


def _levels_in_package() -> int:
    frame, levels = sys._getframe(1), 1  # noqa: SLF001 - as the interpreter's own `warnings` does
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".", 1)[0] == "hoodoo":
        frame, levels = frame.f_back, levels + 1
    return levels
