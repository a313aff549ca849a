"""Which of many combined cases are run every day."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pytest


def every_pair(*axes: Sequence[Any], name: Callable[[Any], str] = str) -> list[Any]:
    """All combinations of the values of some parameters, those marked as slow that add no new pair of values.

    Nearly every fault that depends on parameters depends on one or two of them. So of three parameters of two values
    four combinations do, and `make test-all` runs the other four.
    """
    wanted = list(itertools.product(*axes))
    pairs = {case: {*itertools.combinations(enumerate(map(name, case)), 2)} for case in wanted}
    missing = set[Any]().union(*pairs.values())
    usual = set[Any]()
    while missing:
        best = max(wanted, key=lambda case: len(pairs[case] & missing))
        usual.add(best)
        missing -= pairs[best]
    marks: Callable[[Any], Any] = lambda case: () if case in usual else (pytest.mark.slow,)  # noqa: E731
    return [pytest.param(*case, marks=marks(case), id="-".join(map(name, case))) for case in wanted]


def every_value(*axes: Sequence[Any], name: Callable[[Any], str] = str) -> list[Any]:
    """All combinations of the values of some parameters, those marked as slow that add no new value.

    For what takes seconds, and is compared in more combinations elsewhere.
    """
    wanted = list(itertools.product(*axes))
    missing = {(at, name(value)) for at, axis in enumerate(axes) for value in axis}
    usual = set[Any]()
    while missing:
        best = max(wanted, key=lambda case: len({*enumerate(map(name, case))} & missing))
        usual.add(best)
        missing -= {*enumerate(map(name, best))}
    marks: Callable[[Any], Any] = lambda case: () if case in usual else (pytest.mark.slow,)  # noqa: E731
    return [pytest.param(*case, marks=marks(case), id="-".join(map(name, case))) for case in wanted]


def others_later(values: Sequence[Any], *usual: Any, name: Callable[[Any], str] = str) -> list[Any]:
    """The values of a parameter, all but the usual ones marked as slow."""
    return [
        pytest.param(value, marks=() if name(value) in usual else (pytest.mark.slow,), id=name(value))
        for value in values
    ]
