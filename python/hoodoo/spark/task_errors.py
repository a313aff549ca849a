"""Errors of Spark's tasks."""

from __future__ import annotations

import re

from hoodoo import exceptions
from hoodoo.exceptions import HudiError

__all__ = ["cause_in_task"]

_ERROR_IN_TRACEBACK = re.compile(r"^\s*hoodoo\.exceptions\.(\w+): (.*)$", re.MULTILINE)


def cause_in_task(error: BaseException) -> HudiError | None:
    """The error of hoodoo that made a task fail; of a task's error Spark keeps nothing but the traceback's text."""
    for name, message in _ERROR_IN_TRACEBACK.findall(str(error)):
        kind = getattr(exceptions, name, None)
        if isinstance(kind, type) and issubclass(kind, HudiError):
            return kind(message)
    return None
