"""Catalog sync: register Hudi tables in a Hive Metastore and in AWS Glue, as Hudi's sync tools do.

Planning is pure: `state` reads the table, `settings` the options, and `plan` says what the catalog has to hold and what
differs. The clients, `metastore` and `glue`, do what `run` tells them.
"""

from __future__ import annotations

from hoodoo.sync.report import CatalogTable, ColumnChange, SyncReport

__all__ = ["CatalogTable", "ColumnChange", "SyncReport"]
