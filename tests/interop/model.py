"""What a table ought to hold: the naive model of the interop histories."""

from __future__ import annotations

from tests.interop.layouts import Layout
from tests.rows import Row, plain_rows


class Expected:
    """Keeps the rows that a history of writes ought to leave."""

    def __init__(self, layout: Layout, event_time: bool = True) -> None:
        """Starts empty."""
        self._keys = layout.keys
        self._event_time = event_time
        self._rows: dict[tuple[object, ...], Row] = {}

    def _key(self, row: Row) -> tuple[object, ...]:
        return (*(row[name] for name in self._keys), row["part"], row["day"], row["site"])

    def upsert(self, rows: list[Row]) -> None:
        """Lets the newer row win: by ordering value, the later one on a tie; or just the later one."""
        for row in rows:
            old = self._rows.get(self._key(row))
            if old is None or not self._event_time or row["ts"] >= old["ts"]:
                self._rows[self._key(row)] = row

    def delete(self, rows: list[Row]) -> None:
        """Removes the rows with these keys, whatever their ordering value."""
        for row in rows:
            self._rows.pop(self._key(row), None)

    @property
    def rows(self) -> list[Row]:
        """The rows, in comparable form."""
        return plain_rows(self._rows.values())
