"""The systems: one module for each, one class for each way it is asked."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benches.peers.merge_on_read.systems import System

_SYSTEMS = {
    "hoodoo": ("hoodoo_table", "HoodooTable"),
    "hoodoo-query": ("hoodoo_table", "HoodooQuery"),
    "hoodoo-spark": ("spark", "HoodooOnSpark"),
    "hudi": ("spark", "Hudi"),
    "floor": ("copies", "Floor"),
    "floor-pyarrow": ("pyarrow_floor", "PyarrowFloor"),
    "copy": ("copies", "Copy"),
    "cp": ("copies", "Cp"),
    "duckdb": ("sorters", "DuckDb"),
    "polars": ("sorters", "Polars"),
}

__all__ = ["system"]


def system(name: str) -> System:
    """Makes a system; its packages are imported only now."""
    module, made = _SYSTEMS[name]
    found: System = getattr(import_module(f".{module}", __package__), made)()
    return found
