"""How to open a table again, in this process or in another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.arguments import location, storage_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TableRef"]


@dataclass(frozen=True)
class TableRef:
    """How to open a table in another process. Can be pickled.

    Attributes:
        uri: Location of the table.
        options: Hudi's options.
        storage_options: Settings of the storage.
    """

    uri: str
    # Both may hold keys of a store or of a lock service, which belong in no log.
    options: dict[str, str] = field(repr=False)
    storage_options: dict[str, str] = field(repr=False)

    @classmethod
    def resolve(
        cls, uri: str, options: dict[str, str], storage_options: Mapping[str, str] | None
    ) -> tuple[_native.NativeTable, TableRef]:
        """Open a table, and return it with a reference to it: a relative path is made absolute."""
        storage = storage_settings(storage_options)
        table = _native.NativeTable.open(location(uri), options, storage)
        return table, cls(table.uri, options, storage)

    def open(self) -> _native.NativeTable:
        """Open the table.

        Each task opens it again: a worker process outlives a job, and the location may hold another table by then.
        """
        return _native.NativeTable.open(self.uri, self.options, self.storage_options)
