"""Warnings with the line of the caller."""

from __future__ import annotations

import sys
import warnings

from hoodoo.exceptions import HudiWarning

__all__ = ["warn", "warn_of_commit"]


def warn(message: str) -> None:
    """Warn of a request that has no effect.

    Args:
        message: What has no effect, and what to do.
    """
    warnings.warn(message, HudiWarning, stacklevel=_levels_in_package())


def warn_of_commit(message: str) -> None:
    """Warn about a commit. A filter that turns warnings into errors does not raise: the commit has the warning.

    Args:
        message: What happened.
    """
    try:
        warnings.warn(message, HudiWarning, stacklevel=_levels_in_package())
    except HudiWarning:
        # The commit is valid: a caller that saw an error would write the rows again.
        return


def _levels_in_package() -> int:
    frame, levels = sys._getframe(1), 1  # noqa: SLF001 - as the interpreter's own `warnings` does
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".", 1)[0] == "hoodoo":
        frame, levels = frame.f_back, levels + 1
    return levels
