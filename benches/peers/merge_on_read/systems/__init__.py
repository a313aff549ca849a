"""The systems: one module for each, one class for each way it is asked."""

from __future__ import annotations

from importlib import import_module

from .system import System

_SYSTEMS = {
    "hoodoo": ("hoodoo_table", "HoodooTable"),
    "hoodoo-merge": ("hoodoo_merge", "HoodooMerge"),
    "hoodoo-spark": ("spark", "HoodooOnSpark"),
    "hudi": ("spark", "Hudi"),
    "hudi-arrow": ("spark", "HudiIntoArrow"),
    "hudi-rs": ("hudi_rs", "HudiRs"),
    "floor": ("floor", "Floor"),
    "floor-decoded": ("floor", "FloorDecoded"),
    "duckdb-join": ("duckdb_merge", "DuckDbJoin"),
    "duckdb-window": ("duckdb_merge", "DuckDbWindow"),
    "polars-join": ("polars_merge", "PolarsJoin"),
    "polars-unique": ("polars_merge", "PolarsUnique"),
    "spark-window": ("spark", "SparkWindow"),
}

__all__ = ["System", "system"]


def system(name: str) -> System:
    """Makes a system; its packages are imported only now."""
    module, made = _SYSTEMS[name]
    found: System = getattr(import_module(f".{module}", __package__), made)()
    return found
