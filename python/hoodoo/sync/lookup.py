"""Tables by the names that they have in a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hoodoo.exceptions import InvalidOptionError, TableNotFoundError, UnsupportedError
from hoodoo.sync import glue, metastore
from hoodoo.sync.keys import GLUE, KEYS
from hoodoo.sync.partitions import path_of
from hoodoo.sync.plan import is_hudi, is_read_optimized
from hoodoo.sync.settings import GLUE_TOOL, tools_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.sync.catalog import CatalogClient

__all__ = ["find_table"]

_QUERY = "hoodie.datasource.query.type"
_OLD_QUERY = "hoodie.datasource.view.type"
_GLUE_DATABASE = f"{GLUE}database_name"


def find_table(name: str, catalog: str | None, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Find a table in a catalog.

    Args:
        name: The table, such as `lake.trips`.
        catalog: `thrift://host:port` or `glue`; None: what the options name.
        options: Hudi's options.

    Returns:
        Its location, and the options to open it with.

    Raises:
        TableNotFoundError: The catalog has no such table.
        UnsupportedError: It is no Hudi table.
        InvalidOptionError: The name or the catalog is invalid.
        CatalogError: The catalog cannot be reached.
    """
    database, dot, table = name.rpartition(".")
    if not table or (dot and not database) or "." in database:
        raise InvalidOptionError(f"invalid name {name!r}: expected table or database.table")
    database = database or _database(catalog, options)
    client = _connect(catalog, options)
    try:
        entry = client.table(database.lower(), table.lower())
    finally:
        client.close()
    if entry is None:
        raise TableNotFoundError(f"{client.name} has no table {database}.{table}")
    if not (entry.location and is_hudi(entry)):
        raise UnsupportedError(
            f"{entry.full_name} in {client.name} is not a Hudi table (input format {entry.input_format or 'unset'})"
        )
    given = dict(options)
    if is_read_optimized(entry) and _QUERY not in given and _OLD_QUERY not in given:
        given[_QUERY] = "read_optimized"
    return _readable(entry.location), given


def _database(catalog: str | None, options: Mapping[str, str]) -> str:
    """Where a sync with these options registers tables."""
    of_glue = options.get(_GLUE_DATABASE, "") if _is_glue(catalog, options) else ""
    named = (options.get(key) for key in ("hoodie.datasource.hive_sync.database", "hoodie.database.name"))
    return of_glue or next((name for name in named if name), "default")


def _is_glue(catalog: str | None, options: Mapping[str, str]) -> bool:
    return catalog.lower() == "glue" if catalog else GLUE_TOOL in tools_of(options)


def _connect(catalog: str | None, options: Mapping[str, str]) -> CatalogClient:
    if _is_glue(catalog, options):
        names = {"hoodie.aws.glue.region": "region", "hoodie.aws.glue.endpoint": "endpoint"}
        names |= {f"hoodie.aws.{key}": key for key in ("access.key", "secret.key", "session.token")}
        return glue.connect({short: options[key] for key, short in names.items() if options.get(key)})
    key = "hoodie.datasource.hive_sync.metastore.uris"
    uris = catalog or options.get(key) or KEYS[key].default
    return metastore.connect([uri.strip() for uri in uris.split(",") if uri.strip()])


def _readable(location: str) -> str:
    """Return a location as the storage takes it: Hadoop has schemes of its own."""
    scheme, colon, rest = location.partition(":")
    if colon and scheme == "file":
        return path_of(location)
    return f"s3:{rest}" if scheme in {"s3a", "s3n"} else location
