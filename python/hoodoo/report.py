"""What `Table.verify` finds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Problem", "Report"]


@dataclass(frozen=True)
class Problem:
    """Something that is not as it should be.

    Attributes:
        severity: `error`: rows are lost or wrong; `warning`: something is left over.
        subject: The file, instant or partition.
        message: What is wrong.
        remedy: What to do.
    """

    severity: str
    subject: str
    message: str
    remedy: str


@dataclass(frozen=True)
class Report:
    """The result of `Table.verify`.

    Attributes:
        problems: What was found, errors first.
        checked: How many things of each kind were looked at.
    """

    problems: tuple[Problem, ...]
    checked: dict[str, int]

    @property
    def ok(self) -> bool:
        """Whether there is no error; warnings are allowed."""
        return not any(problem.severity == "error" for problem in self.problems)
