"""Hudi's options: how keyword arguments become options, and which options are refused or warned of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from hoodoo import _native
from hoodoo.arguments import names_of, optional_text
from hoodoo.exceptions import InvalidOptionError
from hoodoo.sync.keys import BOTH_SWITCHES, is_sync_asked, without_sync_options
from hoodoo.sync.keys import KEYS as SYNC_KEYS
from hoodoo.sync.settings import check_sync_options
from hoodoo.warning import warn

__all__ = [
    "AS_OF",
    "Columns",
    "Options",
    "SchemaEvolution",
    "as_list",
    "check_options",
    "clustering_options",
    "clustering_request",
    "creation_options",
    "merge_options",
    "option_names",
    "split_list",
    "string_options",
    "whole_number",
    "write_options",
]

AS_OF = "as.of.instant"
"""The option that reads rows of an instant."""

Options: TypeAlias = Mapping[str, object]
"""Hudi's options by key: strings, numbers and booleans. `True` is written as `true`; None leaves an option out."""

Columns: TypeAlias = str | Sequence[str]
"""The name of one column, or the names of several."""

SchemaEvolution: TypeAlias = Literal["allow", "refuse"]
"""Whether a write may change the schema of the table (`hoodoo.schema.evolution`)."""


def string_options(options: Options | None) -> dict[str, str]:
    """Return options as strings, as Hudi spells their values.

    Args:
        options: The options, or None.

    Returns:
        The options without those that are None.

    Raises:
        InvalidOptionError: They are no dictionary of strings, numbers and booleans.

    Examples:
        >>> string_options({"hoodie.metadata.enable": True, "hoodie.keep.max.commits": 30, "hoodie.table.name": None})
        {'hoodie.metadata.enable': 'true', 'hoodie.keep.max.commits': '30'}
    """
    _check_types(options)
    return {
        str(key): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in (options or {}).items()
        if value is not None
    }


def _check_types(options: Any) -> None:
    if options is None:
        return
    if not isinstance(options, Mapping):
        raise InvalidOptionError(
            f"invalid options of type {type(options).__name__}: expected a dictionary, such as "
            "{'hoodie.metadata.enable': False}"
        )
    for key, value in options.items():
        if not isinstance(key, str):
            raise InvalidOptionError(f"invalid option key {key!r}: expected a string, such as 'hoodie.metadata.enable'")
        if isinstance(value, list | tuple | set | dict):
            raise InvalidOptionError(
                f"invalid value {value!r} for {key}: expected a string, a number or a boolean; write lists as 'a,b'"
            )


def check_options(options: dict[str, str], used: Literal["table", "read", "write"]) -> None:
    """Refuse options that cannot be ignored, and warn of options that have no effect.

    Args:
        options: The options.
        used: What the options are for. A read warns of options of writes, and a write of options of reads.

    Raises:
        InvalidOptionError: An option has an invalid value, or options contradict each other.
        UnsupportedError: Options that are not supported; the error names all of them.
    """
    own = without_sync_options(options)
    if used == "read":
        own |= {key: options[key] for key in BOTH_SWITCHES if key in options}
    elif is_sync_asked(options):
        for message in check_sync_options(options):
            warn(message)
    for message in _native.option_warnings(own, used):
        warn(message)


def option_names() -> list[str]:
    """Return the names of all options that hoodoo knows, other spellings among them.

    Examples:
        >>> "hoodie.datasource.write.recordkey.field" in option_names()
        True
    """
    return [name for one, others, _ in _native.option_keys() for name in (one, *others)] + list(SYNC_KEYS)


def as_list(names: Columns | None) -> list[str]:
    """Return names as a list; an empty one for None."""
    return names_of(names, "names")


def split_list(value: str | None) -> list[str]:
    """Return the items of a comma-separated option.

    Args:
        value: The value of the option; None when it is not set.

    Returns:
        The items without spaces around them; empty items are left out.

    Examples:
        >>> split_list("city, ts,")
        ['city', 'ts']
    """
    return [item.strip() for item in (value or "").split(",") if item.strip()]


def whole_number(options: Mapping[str, str], key: str, default: int) -> int:
    """Return the number that an option has.

    Args:
        options: The options.
        key: The option.
        default: The number without it.

    Returns:
        The number, 0 or more.

    Raises:
        InvalidOptionError: The value is no such number.

    Examples:
        >>> whole_number({"hoodoo.threads": "4"}, "hoodoo.threads", 1)
        4
    """
    given = options.get(key, str(default)).strip()
    if not (given.isascii() and given.isdigit()):
        raise InvalidOptionError(f"invalid value {given!r} for {key}: expected a number, 0 or more")
    return int(given)


def creation_options(  # noqa: PLR0917 - those of `Table.create`
    options: Options | None,
    name: str | None,
    record_key: Columns | None,
    partition_by: Columns | None,
    ordering: Columns | None,
    table_type: str | None,
) -> dict[str, str]:
    """Return the options of a new table. Arguments as those of `Table.create`; an argument wins over its option."""
    given = string_options(options) | _named(
        {
            "hoodie.table.name": name,
            "hoodie.table.recordkey.fields": record_key,
            "hoodie.table.partition.fields": partition_by,
            "hoodie.table.ordering.fields": ordering,
            "hoodie.table.type": table_type,
        }
    )
    check_options(given, "write")
    return given


def write_options(schema_evolution: SchemaEvolution | None = None, sort_by: Columns | None = None) -> dict[str, str]:
    """Return the options of one write. Arguments as those of `Table.bulk_insert`."""
    return _named(
        {
            "hoodoo.schema.evolution": schema_evolution,
            "hoodie.bulkinsert.user.defined.partitioner.sort.columns": sort_by,
        }
    )


def clustering_options(sort_by: Columns | None, strategy: str | None, options: Options | None) -> dict[str, str]:
    """Return the options of a clustering plan. Arguments as those of `Table.schedule_clustering`."""
    is_class = optional_text(strategy, "strategy", "'full_partition'") is not None and "." in (strategy or "")
    key = "hoodie.clustering.plan.strategy.class" if is_class else "hoodoo.clustering.plan.strategy"
    given = string_options(options) | _named({"hoodie.clustering.plan.strategy.sort.columns": sort_by, key: strategy})
    check_options(given, "write")
    return given


def clustering_request(
    sort_by: Columns | None, strategy: str | None, instant: str | None, options: Options | None
) -> tuple[dict[str, str], bool]:
    """Return the options of a clustering that is executed at once, and whether it needs a new plan.

    Arguments as those of `Table.cluster`.

    Raises:
        InvalidOptionError: `instant` was given together with `sort_by` or `strategy`.
    """
    new_plan = sort_by is not None or strategy is not None
    if instant is not None and new_plan:
        raise InvalidOptionError(
            "a plan has its own sort columns and strategy, so sort_by and strategy do not apply: pass instant alone"
        )
    given = clustering_options(sort_by, strategy, options)
    if sort_by is not None:
        # The caller named columns: partitions that did not change since the last clustering count too.
        given.setdefault("hoodie.table.services.incremental.enabled", "false")
    return given, new_plan


def merge_options(
    mode: str | None,
    payload_class: str | None,
    partial_update_mode: str | None,
    delete_marker: tuple[str, str] | None,
    options: Options | None,
) -> dict[str, str]:
    """Return the options of a merge without a table. Arguments as those of `hoodoo.merge`."""
    given = string_options(options)
    check_options(given, "table")
    named = {
        "hoodie.record.merge.mode": mode,
        "hoodie.datasource.write.payload.class": payload_class,
        "hoodie.table.partial.update.mode": partial_update_mode,
    }
    if delete_marker is not None:
        prefix = "hoodie.record.merge.property.hoodie.payload.delete"
        named |= {f"{prefix}.field": delete_marker[0], f"{prefix}.marker": delete_marker[1]}
    return given | _named(named)


def _named(options: Mapping[str, Columns | None]) -> dict[str, str]:
    return {key: ",".join(names_of(value, f"value for {key}")) for key, value in options.items() if value is not None}
