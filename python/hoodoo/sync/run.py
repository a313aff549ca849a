"""A sync: plan for each table of each catalog, and have the client do it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from hoodoo import _native
from hoodoo.exceptions import CatalogError, InvalidOptionError
from hoodoo.sync import glue, metastore
from hoodoo.sync.partitions import extractor_of
from hoodoo.sync.plan import (
    COMPLETED,
    SYNCED,
    WRITER,
    TableFacts,
    View,
    change_of,
    checked_location,
    entry_of,
    is_hudi,
    is_moved,
    not_ours,
    plan_partitions,
    views_of,
)
from hoodoo.sync.report import CatalogTable, SyncReport
from hoodoo.sync.settings import GLUE_TOOL, Names, SyncSettings, read_settings
from hoodoo.sync.state import TableState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hoodoo.sync.catalog import CatalogClient, TableEntry
    from hoodoo.sync.plan import TableChange

__all__ = ["sync_table"]

_WRITER = f"hoodoo-{_native.__version__}"


def sync_table(table: _native.NativeTable, options: Mapping[str, str]) -> SyncReport:
    """Sync a table with the catalogs that options name.

    Args:
        table: The table.
        options: Hudi's options.

    Returns:
        What was done.

    Raises:
        CatalogError: A catalog cannot be reached or refused a request.
        InvalidOptionError: An option is invalid, or the catalog has another table of that name.
        UnsupportedError: An option is not supported.
        MissingDependencyError: The package for the catalog is not installed.
    """
    state = TableState(table)
    settings = read_settings(options, state.properties)
    location = checked_location(settings.location, state.location)
    facts = TableFacts(state.schema, location, state.is_merge_on_read, state.is_bootstrapped)
    done: list[CatalogTable] = []
    failures: list[str] = []
    for tool in settings.tools:
        try:
            _sync_catalog(tool, state, facts, settings, done)
        except CatalogError as error:  # noqa: PERF203 - a catalog each
            if not settings.ignore_exceptions:
                raise
            failures.append(str(error))
    return SyncReport(tuple(done), tuple(failures))


def _sync_catalog(
    tool: str, state: TableState, facts: TableFacts, settings: SyncSettings, done: list[CatalogTable]
) -> None:
    names = settings.glue if tool == GLUE_TOOL else settings.hive
    recreate = settings.glue_recreate_on_error if tool == GLUE_TOOL else settings.recreate_on_error
    client = _connect(tool, settings)
    try:
        client.ensure_database(names.database, create=settings.create_database)
        for view in views_of(names.table, settings, is_merge_on_read=facts.is_merge_on_read):
            one = _TableSync(client, view, names, state, facts, settings)
            done.append(one.run(recreate_on_error=recreate))
    finally:
        client.close()


def _connect(tool: str, settings: SyncSettings) -> CatalogClient:
    if tool == GLUE_TOOL:
        return glue.connect(
            settings.glue_client,
            skip_archive=settings.glue_skip_archive,
            metadata_listing=settings.glue_metadata_listing,
        )
    return metastore.connect(settings.metastore_uris, batch_size=settings.batch_size)


class _TableSync:
    """The sync of one table of a catalog."""

    def __init__(  # noqa: PLR0917 - all that a sync works with
        self,
        client: CatalogClient,
        view: View,
        names: Names,
        state: TableState,
        facts: TableFacts,
        settings: SyncSettings,
    ) -> None:
        self._client = client
        self._state = state
        self._settings = settings
        self._wanted = entry_of(view, names, facts, settings)

    def run(self, *, recreate_on_error: bool) -> CatalogTable:
        # The newest commit is read before the partitions: what is written meanwhile is left to the next sync.
        synced = self._state.synced
        old = self._client.table(self._wanted.database, self._wanted.name)
        if old is None:
            return self._create(CatalogTable(self._client.name, self._wanted.full_name, created=True), synced)
        if is_moved(old, self._wanted):
            if not is_hudi(old):
                raise not_ours(old, ["hoodie.datasource.hive_sync.table", "hoodie.datasource.hive_sync.database"])
            return self._recreate(old, synced)
        try:
            return self._update(old, synced)
        except (CatalogError, InvalidOptionError):
            if not recreate_on_error:
                raise
            return self._recreate(old, synced)

    def _recreate(self, old: TableEntry, synced: tuple[str, str] | None) -> CatalogTable:
        self._client.drop_table(old)
        return self._create(CatalogTable(self._client.name, self._wanted.full_name, recreated=True), synced)

    def _create(self, done: CatalogTable, synced: tuple[str, str] | None) -> CatalogTable:
        self._client.create_table(self._wanted)
        return self._finish(self._sync_partitions(done, self._wanted, None), synced)

    def _update(self, old: TableEntry, synced: tuple[str, str] | None) -> CatalogTable:
        change = change_of(old, self._wanted)
        if not change.is_empty:
            cascade = bool(change.columns and old.partition_keys)
            self._client.alter_table(old, change.entry, cascade=cascade)
        done = self._sync_partitions(_changed(self._client.name, change), change.entry, old)
        if self._settings.only_if_changed and not done.changed:
            return replace(done, synced=old.parameters.get(SYNCED), synced_completed=old.parameters.get(COMPLETED))
        return self._finish(done, synced)

    def _sync_partitions(self, done: CatalogTable, table: TableEntry, old: TableEntry | None) -> CatalogTable:
        """Add, change and drop partitions; all are compared when the table was not there."""
        fields = self._settings.partition_fields
        if not fields:
            return done
        known = {} if old is None else old.parameters
        changes = self._state.partition_changes(
            known.get(SYNCED), known.get(COMPLETED), incremental=self._settings.incremental
        )
        extract = extractor_of(self._settings.extractor, fields)
        wanted = None if changes.complete else [extract(path) for path in (*changes.present, *changes.gone)]
        registered = [] if wanted == [] else self._client.partitions(table, wanted)
        plan = plan_partitions(changes, registered, self._wanted.location, extract)
        self._client.add_partitions(table, list(plan.add.values()))
        self._client.change_partitions(table, list(plan.change.values()))
        self._client.drop_partitions(table, plan.drop)
        return replace(
            done,
            partitions_added=tuple(plan.add),
            partitions_changed=tuple(plan.change),
            partitions_dropped=tuple(", ".join(values) for values in plan.drop),
            complete=changes.complete,
        )

    def _finish(self, done: CatalogTable, synced: tuple[str, str] | None) -> CatalogTable:
        """Write down what the catalog knows now; last, so that a sync that failed is done again."""
        marks = {WRITER: _WRITER}
        if synced is not None:
            marks |= {SYNCED: synced[0], **({COMPLETED: synced[1]} if synced[1] else {})}
        # As the catalog has it by now, with what it put there itself.
        now = self._client.table(self._wanted.database, self._wanted.name)
        if now is None:
            raise CatalogError(f"{self._wanted.full_name} was dropped during the sync: sync again with Table.sync")
        if any(now.parameters.get(key) != value for key, value in marks.items()):
            self._client.alter_table(now, replace(now, parameters=now.parameters | marks), cascade=False)
        if synced is None:
            return done
        return replace(done, synced=synced[0], synced_completed=synced[1] or None)


def _changed(catalog: str, change: TableChange) -> CatalogTable:
    return CatalogTable(catalog, change.entry.full_name, columns=change.columns, properties=change.properties)
