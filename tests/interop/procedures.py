"""Hudi's procedures on a table, with the options of its writes: it drops indexes that none of them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hoodoo import Table
from tests.interop.hudi import Hudi
from tests.rows import Row


@dataclass(frozen=True)
class Procedures:
    """Calls procedures of Hudi.

    Args:
        hudi: The session.
        path: The table; its last name is that of the table in the session.
        options: Of Hudi's writes.
    """

    hudi: Hudi
    path: Path
    options: dict[str, str]

    def call(self, procedure: str, arguments: str = "") -> list[Row]:
        """Call one; the arguments after the table begin with a comma."""
        self.hudi.sql(f"create table if not exists {self.path.name} using hudi location '{self.path}'")
        options = ",".join(f"{name}={value}" for name, value in self.options.items())
        given = f", options => '{options}'" if procedure.startswith("run_") else ""
        return self.hudi.sql(f"call {procedure}(table => '{self.path.name}'{arguments}{given})")

    def go_back(self, procedure: str, instant: str) -> bool:
        """Roll back or restore, which take options from the session alone.

        Returns:
            Whether Hudi has ended it: not if its metadata table was compacted since.
        """
        from py4j.protocol import Py4JJavaError

        for name, value in self.options.items():
            self.hudi.spark.conf.set(name, value)
        try:
            self.call(procedure, f", instant_time => '{instant}'")
        except Py4JJavaError as error:
            if "earlier than the latest compaction" not in str(error):
                raise
            return False
        finally:
            for name in self.options:
                self.hudi.spark.conf.unset(name)
        return True

    def remove_change_data(self) -> None:
        """Remove the files of change data that a rollback of a copy-on-write table has left."""
        for problem in Table(self.path).verify().problems:
            assert problem.subject.endswith(".cdc"), problem
            (self.path / problem.subject).unlink()
