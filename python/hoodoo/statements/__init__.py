"""Statements on tables: conditions, expressions, and what `Table.update`, `merge` and `delete` do with them.

A condition or a value becomes an expression (`expressions`) from any of its forms (`forms`), and is evaluated over
Arrow batches (`evaluate`). Rows are read after a write has been planned, and are committed by it (`planned_write`).
"""

from __future__ import annotations
