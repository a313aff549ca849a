"""The report of `Table.verify`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hoodoo.display import Displayed, View

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hoodoo import _native

__all__ = ["Problem", "Repair", "RepairReport", "Report"]


@dataclass(frozen=True)
class Problem:
    """A problem of a table.

    Attributes:
        severity: `error`: rows are lost or wrong; `warning`: a leftover that changes no rows.
        subject: The file, instant or partition.
        message: What is wrong.
        remedy: What to do.
    """

    severity: str
    subject: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Report(Displayed):
    """The result of `Table.verify`.

    Attributes:
        problems: The problems, errors first.
        checked: How many things of each kind were checked.
    """

    problems: tuple[Problem, ...]
    checked: dict[str, int]

    @classmethod
    def from_native(cls, rows: Iterable[_native.ProblemRow], checked: dict[str, int]) -> Report:
        """Make a report of the rows of the core."""
        order = {"error": 0, "warning": 1}
        problems = (Problem(*row) for row in rows)
        return cls(tuple(sorted(problems, key=lambda p: (order.get(p.severity, 2), p.subject))), checked)

    @property
    def ok(self) -> bool:
        """Whether there are no errors; there may be warnings."""
        return not any(problem.severity == "error" for problem in self.problems)

    def __repr__(self) -> str:
        """Return how many problems of each kind there are."""
        errors = sum(problem.severity == "error" for problem in self.problems)
        return f"Report(ok={self.ok}, errors={errors}, warnings={len(self.problems) - errors})"

    def _view(self) -> View:
        checked = ", ".join(f"{number:,} {what}" for what, number in self.checked.items())
        found = "no problem found" if not self.problems else f"{len(self.problems):,} problems"
        headings = ("severity", "where", "problem", "what to do") if self.problems else ()
        rows = [(one.severity, one.subject, one.message, one.remedy) for one in self.problems]
        return View(f"Report: {found}", [("checked", checked)], headings, rows)


@dataclass(frozen=True)
class Repair:
    """A problem that was repaired, or would be.

    Attributes:
        severity: See `Problem`.
        subject: The file, instant or partition.
        message: What was wrong.
        action: What was done about it.
    """

    severity: str
    subject: str
    message: str
    action: str


@dataclass(frozen=True)
class RepairReport(Displayed):
    """The result of `Table.repair`.

    Attributes:
        repairs: What was repaired; of a dry run, what would be.
        left: The check afterwards; of a dry run, the check now.
        dry_run: Whether nothing was changed.
    """

    repairs: tuple[Repair, ...]
    left: Report
    dry_run: bool

    def _view(self) -> View:
        verb = "would be repaired" if self.dry_run else "repaired"
        rows = [(one.severity, one.subject, one.message, one.action) for one in self.repairs]
        headings = ("severity", "where", "problem", "repair") if rows else ()
        return View(f"{len(rows):,} {verb}", [("left", repr(self.left))], headings, rows)
