"""The data source `hoodoo`, where PySpark 4 looks for it: in modules whose names begin with `pyspark_`.

Spark imports this module when it first meets the name of a data source, whichever: it loads hoodoo only when asked.
"""

from __future__ import annotations

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> type:
    if name == "DefaultSource":
        from hoodoo.spark.data_source import HoodooDataSource  # noqa: PLC0415 - see above

        return HoodooDataSource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
