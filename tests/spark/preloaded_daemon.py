"""Spark's daemon of Python workers, which has imported what the workers need: a new worker is ready at once.

Tests that kill workers start hundreds of them, and the imports are most of their time.
"""

from __future__ import annotations

import pandas as pd  # noqa: F401
import pyarrow as pa  # noqa: F401
from pyspark.daemon import manager

import hoodoo.spark  # noqa: F401

if __name__ == "__main__":
    manager()
