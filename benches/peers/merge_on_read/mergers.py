"""A record merger such as a user would write."""

from __future__ import annotations

from typing import ClassVar

from hoodoo.mergers import PerColumn


class NonNullColumns(PerColumn):
    """Fills nulls of the later record, by a rule for each column."""

    strategy_id = "0e9d7c55-5b0b-4b4f-8f6c-3a1f1f6ce501"
    rules: ClassVar = {"a": "non_null", "b": "non_null", "val": "non_null"}
