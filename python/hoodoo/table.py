"""Tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import pyarrow as pa

from hoodoo import _native
from hoodoo.arrow_input import Rows, record_batch_reader
from hoodoo.clustering import ClusteringPlan, Overlap, PendingClustering
from hoodoo.commit import Commit
from hoodoo.exceptions import InvalidOptionError
from hoodoo.filters import Filters, native_filter
from hoodoo.report import Problem, Report
from hoodoo.timeline import ArchiveReport, HeldBack, Instant, Timeline
from hoodoo.warning import warn

if TYPE_CHECKING:
    import os

    import pandas as pd

__all__ = ["FileSlice", "Table", "text_options"]

Options = Mapping[str, Any]
SchemaEvolution = Literal["allow", "refuse"]


def text_options(options: Options | None) -> dict[str, str]:
    """Gives options as text, as Hudi spells values: `True` becomes `true`; None leaves the option out."""
    texts = {}
    for key, value in (options or {}).items():
        if value is None:
            continue
        texts[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return texts


def evolution_option(schema_evolution: SchemaEvolution | None) -> dict[str, str]:
    """The option that `schema_evolution` stands for."""
    return {} if schema_evolution is None else {"hoodoo.schema.evolution": schema_evolution}


def clustering_options(
    sort_by: str | Sequence[str] | None, strategy: str | None, options: Options | None
) -> dict[str, str]:
    """Hudi's options for a clustering by these columns and this strategy."""
    more = text_options(options)
    if sort_by is not None:
        columns = [sort_by] if isinstance(sort_by, str) else list(sort_by)
        more["hoodie.clustering.plan.strategy.sort.columns"] = ",".join(columns)
    if strategy is not None:
        named = "hoodie.clustering.plan.strategy.class" if "." in strategy else "hoodoo.clustering.plan.strategy"
        more[named] = strategy
    check_options(more, "write")
    return more


def clustering_now(
    sort_by: str | Sequence[str] | None, strategy: str | None, options: Options | None
) -> dict[str, str]:
    """The same for one that is carried out at once: what is to be sorted is looked at, whether or not it changed."""
    more = clustering_options(sort_by, strategy, options)
    if sort_by is not None:
        more.setdefault("hoodie.table.services.incremental.enabled", "false")
    return more


def check_options(options: dict[str, str], used: Literal["table", "read", "write"]) -> None:
    """Refuses options that cannot be ignored, and warns of what others ask for and do not get.

    Args:
        options: The options.
        used: What they are given to. A read warns of options that are for writes, and the other way round.

    Raises:
        InvalidOptionError: Options that cannot be used.
        UnsupportedError: Options that are not supported, all of them in one error.
    """
    for message in _native.option_warnings(options, used):
        warn(message)


@dataclass(frozen=True)
class FileSlice:
    """A base file with the log files that change it.

    Attributes:
        partition: Partition path; empty for an unpartitioned table.
        file_id: The file group.
        base_instant: The instant that began the slice.
        base_file: Path of the base file relative to the table; None when there is none.
        size: Size of the base file in bytes; 0 when there is none.
        log_files: Paths of the log files.
        log_size: Size of the log files together, in bytes.
    """

    partition: str
    file_id: str
    base_instant: str
    base_file: str | None
    size: int
    log_files: tuple[str, ...]
    log_size: int


class Table:
    """A Hudi table: tables of versions 8 and 9 are read and written, those of version 6 are read.

    Args:
        uri: A folder, or a URI such as `s3://bucket/path`.
        options: Hudi's options, as `df.write.format("hudi").options(**options)` takes them.
        storage_options: Settings of the storage, such as `aws_access_key_id`, `aws_endpoint`. What is not given comes
            from the environment (`AWS_*`, `GOOGLE_*`, `AZURE_*`).

    Raises:
        TableNotFoundError: There is no table.
        CorruptFileError: `hoodie.properties` is damaged.
        UnsupportedError: A table or an option that hoodoo cannot handle.
        StorageError: The storage cannot be reached, or refuses.

    Examples:
        >>> import hoodoo, pyarrow as pa
        >>> schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "fare": pa.float64()})
        >>> t = hoodoo.Table.create("memory://docs-table/trips", schema, name="trips", record_key="id", ordering=["ts"])
        >>> t.upsert({"id": ["a", "b"], "ts": [1, 1], "fare": [1.0, 2.0]}).inserted
        2
        >>> t.upsert({"id": ["a", "b"], "ts": [2, 0], "fare": [9.0, 9.0]}).updated
        1
        >>> t.to_arrow(columns=["id", "fare"]).to_pylist()
        [{'id': 'a', 'fare': 9.0}, {'id': 'b', 'fare': 2.0}]
    """

    def __init__(
        self,
        uri: str | os.PathLike[str],
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        """Opens an existing table, whoever wrote it."""
        given = text_options(options)
        check_options(given, "table")
        self._native = _native.NativeTable.open(str(uri), given, dict(storage_options or {}))

    @classmethod
    def _of(cls, native: _native.NativeTable) -> Table:
        table = cls.__new__(cls)
        table._native = native  # noqa: SLF001
        return table

    @classmethod
    def create(
        cls,
        uri: str | os.PathLike[str],
        schema: pa.Schema | Any,
        *,
        name: str | None = None,
        record_key: str | Sequence[str] | None = None,
        partition_by: str | Sequence[str] | None = None,
        ordering: str | Sequence[str] | None = None,
        table_type: str | None = None,
        options: Options | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> Table:
        """Creates an empty table.

        Args:
            uri: An empty or new folder, or a URI.
            schema: The columns, without Hudi's own.
            name: Name of the table. (`hoodie.table.name`)
            record_key: Columns that identify a row; none: keys are generated. (`hoodie.table.recordkey.fields`)
            partition_by: Columns by which the table is cut into folders. (`hoodie.table.partition.fields`)
            ordering: Columns that tell which of two rows of a key is newer; with them, records are merged by event
                time. (`hoodie.table.ordering.fields`)
            table_type: `COPY_ON_WRITE`, the default, or `MERGE_ON_READ`. (`hoodie.table.type`)
            options: More of Hudi's options.
            storage_options: See `Table`.

        Returns:
            The table.

        Raises:
            InvalidOptionError: There is a table already, or options contradict each other.
            SchemaError: A column of the options is not in the schema, or of a type that Hudi cannot hold.
            UnsupportedError: A kind of table that hoodoo cannot write.
        """
        given = text_options(options)
        sugar = {
            "hoodie.table.name": name,
            "hoodie.table.recordkey.fields": record_key,
            "hoodie.table.partition.fields": partition_by,
            "hoodie.table.ordering.fields": ordering,
            "hoodie.table.type": table_type,
        }
        for key, value in sugar.items():
            if value is not None:
                given[key] = value if isinstance(value, str) else ",".join(value)
        check_options(given, "write")
        arrow_schema = schema if isinstance(schema, pa.Schema) else pa.schema(schema)
        return cls._of(_native.NativeTable.create(str(uri), arrow_schema, given, dict(storage_options or {})))

    def __repr__(self) -> str:
        """Names the table's location."""
        return f"Table({self.uri!r})"

    @property
    def uri(self) -> str:
        """The table's location."""
        return self._native.uri

    @property
    def schema(self) -> pa.Schema:
        """The columns without Hudi's `_hoodie_*` columns."""
        return self._native.schema()

    @property
    def options(self) -> dict[str, str]:
        """What the table says of itself: the content of `hoodie.properties`."""
        return self._native.properties()

    @property
    def version(self) -> int:
        """Table version: 6, 8 or 9."""
        return self._native.version

    @property
    def timeline(self) -> Timeline:
        """What was done to the table."""
        return Timeline(self._native)

    def file_slices(self, partition: str | None = None) -> list[FileSlice]:
        """Lists the files of the newest snapshot.

        Args:
            partition: Only this partition path.

        Returns:
            The slices by partition and file id.
        """
        return [
            FileSlice(p, file_id, begun, base, size or 0, tuple(logs), sum(log_sizes))
            for p, file_id, begun, base, size, logs, log_sizes in self._native.file_slices(partition)
        ]

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pa.RecordBatchReader:
        """Streams rows. Files are read by several threads; the order of the rows is always the same.

        Args:
            columns: The columns wanted, in this order; all of them, Hudi's own first, when None.
            filters: Only rows for which this holds; see `hoodoo.filters.Filters`. Partitions, row groups and pages
                that cannot hold such a row are not read.
            as_of: The table as it was: an instant (14 or 17 digits), `yyyy-MM-dd`, `yyyy-MM-dd HH:mm:ss[.SSS]`, or
                seconds or milliseconds since 1970.
            query: `snapshot`, or `read_optimized` to read base files only. By default what the table's options say
                (`hoodie.datasource.query.type`, with `as.of.instant` or the times of an incremental query), else
                `snapshot`.

        Returns:
            A reader over the rows.

        Raises:
            SchemaError: A column that is not there.
            InvalidOptionError: A malformed filter, instant or query; an `as_of` of whose state a file is gone.
            UnsupportedError: The query `cdc`; a snapshot of a merge-on-read table whose record merger was not given.
            CorruptFileError: A file that cannot be read; while streaming, as the text of an Arrow error.
        """
        return self._native.scan(*self._request(columns, filters, as_of, query))

    def to_arrow(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pa.Table:
        """Reads rows into memory. Takes the arguments of `scan`."""
        return self._native.read(*self._request(columns, filters, as_of, query))

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
        as_of: str | None = None,
        query: str | None = None,
    ) -> pd.DataFrame:
        """Reads rows into a pandas DataFrame. Takes the arguments of `scan`."""
        return self.to_arrow(columns, filters, as_of, query).to_pandas()

    def changes(
        self,
        since: str,
        until: str | None = None,
        columns: Sequence[str] | None = None,
        filters: Filters | None = None,
    ) -> pa.RecordBatchReader:
        """Streams the rows that were written in a range of time, each key in its last version of the range.

        Rows that were deleted give nothing. As in Hudi's incremental query, rows are looked for in the snapshot at the
        end of the range.

        Args:
            since: Completion time after which a commit counts, such as a `Commit.completed`; `"0"` for all. In tables
                of version 6, a requested time.
            until: Completion time of the last commit that counts; the newest when None.
            columns: See `scan`.
            filters: See `scan`.

        Returns:
            A reader over the rows.

        Raises:
            UnsupportedError: A table without Hudi's own columns.
            InvalidOptionError: Times that are not digits; a file of the range was cleaned since.
        """
        condition = native_filter(filters, self._native.scan_schema()) if filters else None
        wanted = list(columns) if columns is not None else None
        return self._native.changes(str(since), None if until is None else str(until), wanted, condition)

    def upsert(self, data: Rows, partial: bool = False, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Inserts new rows and merges rows whose key is there already.

        Args:
            data: See `hoodoo.arrow_input.Rows`. A true `_hoodie_is_deleted` deletes the row.
            partial: The rows have only some columns: those of the key, of the partition and of the ordering, and what
                changes. Of stored rows the other columns stay as they are; of new rows they are null. A merge-on-read
                table keeps such rows in its log files, as Hudi's MERGE INTO does.
            schema_evolution: `allow`, the default: new columns are added, and a column becomes wider when a value does
                not fit its type, as in Hudi (int to long to float to double, numbers to strings);
                `Commit.schema_changes` and a `HudiWarning` say so. `refuse`: such a write fails. Values that fit are
                always cast to the table's types, whatever type they come in. (`hoodoo.schema.evolution`)

        Returns:
            What was done.

        Raises:
            SchemaError: Columns or types that do not fit, null keys.
            UnsupportedError: A table that hoodoo cannot write.
            ConflictError: Another writer got in between.
        """
        return self._write("upsert", data, schema_evolution, partial=partial)

    def insert(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Adds rows without looking for their keys. Small files are filled up first. See `upsert`."""
        return self._write("insert", data, schema_evolution)

    def bulk_insert(
        self,
        data: Rows,
        sort_by: str | Sequence[str] | None = None,
        *,
        schema_evolution: SchemaEvolution | None = None,
    ) -> Commit:
        """Adds rows in new files of full size, without looking for their keys.

        Args:
            data: See `upsert`.
            sort_by: Columns by which the rows of each partition are sorted.
            schema_evolution: See `upsert`.
        """
        options = {}
        if sort_by is not None:
            columns = sort_by if isinstance(sort_by, str) else ",".join(sort_by)
            options["hoodie.bulkinsert.user.defined.partitioner.sort.columns"] = columns
        return self._write("bulk_insert", data, schema_evolution, options)

    def delete(self, data: Rows) -> Commit:
        """Deletes rows by key.

        Args:
            data: Rows with the key columns; with the partition columns too, only rows of these partitions are looked
                for. A plain list of values stands for the key of a table with one key column.
        """
        return self._write("delete", self._keys(data))

    def insert_overwrite(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Replaces all rows of the partitions that the data touch. See `upsert`."""
        return self._write("insert_overwrite", data, schema_evolution)

    def insert_overwrite_table(self, data: Rows, *, schema_evolution: SchemaEvolution | None = None) -> Commit:
        """Replaces all rows of the table. See `upsert`."""
        return self._write("insert_overwrite_table", data, schema_evolution)

    def delete_partitions(self, partitions: Sequence[str]) -> Commit:
        """Deletes whole partitions.

        Args:
            partitions: Partition paths such as `city=sf`; `*` stands for any text.
        """
        if isinstance(partitions, str):
            partitions = [partitions]
        return Commit.from_native(self._native.write("delete_partition", None, list(partitions)))

    def schedule_compaction(self) -> str | None:
        """Plans a compaction of all file groups that have log files, without carrying it out.

        Writers go on meanwhile: what they append belongs to the file slices that the compaction makes. The plan is
        Hudi's: `compact` carries it out, or Hudi.

        Returns:
            The requested time of the plan; None when there is nothing to compact that other plans do not take already.

        Raises:
            UnsupportedError: The table is copy-on-write.
        """
        return self._native.schedule_compaction()

    def compact(self, instant: str | None = None) -> Commit | None:
        """Merges the log files of a merge-on-read table into new base files.

        Carries out what is planned, whoever planned it; when nothing is, everything that has log files is compacted
        now, whatever `hoodie.compact.inline.*` says. A try that died is taken back first. Writes compact by themselves
        after five delta commits, as those of Hudi's Spark writer do (`hoodie.compact.inline`).

        Args:
            instant: Only the plan with this requested time.

        Returns:
            The newest compaction that was carried out; None when there was nothing to compact.

        Raises:
            InvalidOptionError: There is no such plan.
            UnsupportedError: The table is copy-on-write.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-compact/t", pa.schema({"id": pa.int64(), "n": pa.int64()}),
            ...                         name="t", record_key="id", table_type="MERGE_ON_READ")
            >>> commits = t.insert({"id": [1], "n": [1]}), t.upsert({"id": [1], "n": [2]})
            >>> [len(s.log_files) for s in t.file_slices()]
            [1]
            >>> t.compact().operation
            'COMPACT'
            >>> [len(s.log_files) for s in t.file_slices()]
            [0]
        """
        done = self._native.compact(instant)
        return None if done is None else Commit.from_native(done)

    def log_compact(self) -> Commit | None:
        """Merges the log files of each file group of a merge-on-read table with each other, into one log file.

        Readers have less to merge then, and base files are not touched. Carries out what is planned; when nothing is,
        all file groups with as many log files as `hoodie.log.compaction.blocks.threshold` says (5). The old log files
        stay until they are cleaned. Writes do it by themselves with `hoodie.log.compaction.inline`.

        Returns:
            The newest log compaction that was carried out; None when there was nothing to merge.

        Raises:
            UnsupportedError: The table is copy-on-write.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-log-compact/t", pa.schema({"id": pa.int64(), "n": pa.int64()}),
            ...                         name="t", record_key="id", table_type="MERGE_ON_READ",
            ...                         options={"hoodie.log.compaction.blocks.threshold": 2})
            >>> commits = [t.upsert({"id": [1], "n": [n]}) for n in (1, 2, 3)]
            >>> t.log_compact().operation
            'LOG_COMPACT'
            >>> t.to_arrow(columns=["n"]).to_pylist()
            [{'n': 3}]
        """
        done = self._native.log_compact()
        return None if done is None else Commit.from_native(done)

    @overload
    def schedule_clustering(
        self,
        *,
        sort_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: Literal[False] = False,
    ) -> str | None: ...

    @overload
    def schedule_clustering(
        self,
        *,
        sort_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: Literal[True],
    ) -> ClusteringPlan: ...

    def schedule_clustering(
        self,
        *,
        sort_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: bool = False,
    ) -> str | ClusteringPlan | None:
        """Plans a clustering: file slices of a partition that are rewritten together into fewer or sorted files.

        By size the plan is the one that Hudi 1.2 makes of the same table and options, but that files which a clustering
        by the same columns wrote are not taken again and again. `cluster` carries it out, or Hudi (`call
        run_clustering(op => 'execute', …)`). Until then, updates of rows in these files are refused, unless
        `hoodie.clustering.updates.strategy` is `SparkAllowUpdateStrategy`: then the plan is given up.

        Args:
            sort_by: Columns to sort rows by (`hoodie.clustering.plan.strategy.sort.columns`); none by default.
            strategy: How slices are grouped (`hoodoo.clustering.plan.strategy`): `SIZE`, the default, by size as Hudi;
                `OVERLAP`: those whose ranges of the sort columns overlap, by the footers of the files; `KEY_RANGE`:
                the same by record keys; `COMMIT_TIME`: oldest first; `RANDOM`; `SINGLE_FILE`: each for itself;
                `SINCE_COMMIT`: what was written after `…strategy.earliest.commit.to.cluster`. Or the name of a plan
                strategy class of Hudi.
            options: More of Hudi's options for this plan, such as `hoodie.clustering.plan.strategy.small.file.limit`
                (bytes; 300 MiB, or the target for strategies that Hudi lacks) or `…target.file.max.bytes` (1 GiB).
            explain: Only say what would be planned, whether or not a trigger such as
                `hoodie.clustering.async.max.commits` says that it is due. Nothing is written.

        Returns:
            The requested time of the plan, or None when there is nothing to cluster or it is not due. With `explain`,
            the plan, which has no groups when there is nothing to cluster.

        Raises:
            InvalidOptionError: An option, a strategy or a sort column that there is not.
            UnsupportedError: A plan strategy class that hoodoo does not have, or a table that it cannot write to.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster/t", pa.schema({"id": pa.int64(), "n": pa.int64()}),
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [n], "n": [n % 2]}) for n in range(3)]
            >>> plan = t.schedule_clustering(sort_by="n", explain=True)
            >>> plan.files, plan.outputs, plan.before.greatest, plan.after.greatest
            (3, 1, 2, 1)
            >>> len(t.schedule_clustering(sort_by="n"))
            17
            >>> [p.slices for p in t.pending_clusterings()]
            [3]
        """
        more = clustering_options(sort_by, strategy, options)
        native = self._native.with_options(more)
        if explain:
            return ClusteringPlan.from_native(_native.explain_clustering(native))
        return _native.schedule_clustering(native)

    def cluster(
        self,
        sort_by: str | Sequence[str] | None = None,
        strategy: str | None = None,
        instant: str | None = None,
        *,
        options: Options | None = None,
    ) -> Commit | None:
        """Rewrites file slices into fewer, larger or sorted files. No row changes, and readers see no other rows.

        Without arguments, all plans that wait are carried out, whoever made them (`schedule_clustering`, Hudi); when
        there is none, one is made now. With `sort_by` or `strategy`, one is made now in any case, for what other plans
        have not taken. A try that failed is taken back and begun anew. Rows are sorted within
        `hoodoo.memory.budget`; without sort columns whole column chunks are copied where nothing in them changes.
        Columns are sorted ascending, nulls first; the order is declared in the files.

        Args:
            sort_by: Columns to sort rows by, in all partitions and not only in those that changed since the last
                clustering; with several, `hoodie.layout.optimize.strategy` says how: `LINEAR`, the
                first before the others, `ZORDER` or `HILBERT`.
            strategy: How slices are grouped; see `schedule_clustering`.
            instant: The plan with this requested time.
            options: More of Hudi's options, such as `hoodie.clustering.plan.strategy.target.file.max.bytes` (bytes of
                an output, 1 GiB).

        Returns:
            The newest clustering that was carried out; None when there was nothing to cluster. Its extra metadata has
            `hoodoo.clustering.files`: for each file the milliseconds it took and the ranges of its columns.

        Raises:
            InvalidOptionError: An option, a strategy, a column or a plan that there is not.
            ConflictError: Another process carries the plan out, or has written to file groups of it since it was made:
                then the plan is taken back, and nothing is lost.
            CorruptFileError: A file of the plan is gone or damaged.
            UnsupportedError: A strategy of Hudi that hoodoo does not have.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster-run/t", pa.schema({"id": pa.int64(), "n": pa.int64()}),
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [n], "n": [-n]}) for n in range(3)]
            >>> done = t.cluster(sort_by="n")
            >>> done.operation, done.inserted, len(t.file_slices())
            ('CLUSTER', 3, 1)
            >>> t.to_arrow(columns=["n"]).to_pylist()
            [{'n': -2}, {'n': -1}, {'n': 0}]
        """
        native = self._native.with_options(clustering_now(sort_by, strategy, options))
        if instant is not None and (sort_by is not None or strategy is not None):
            raise InvalidOptionError("a plan says itself how it groups and sorts: pass instant alone")
        done = _native.cluster(native, instant, sort_by is not None or strategy is not None)
        return None if done is None else Commit.from_native(done)

    def rollback_clustering(self, instant: str) -> None:
        """Takes a planned clustering off the timeline, with all that a try of it wrote.

        No rows are lost: the files of the plan stay as they are. For plans that shall not or cannot be carried out any
        more, Hudi's too, and for what a restore of Hudi leaves of a clustering.

        Args:
            instant: Requested time of the plan; see `pending_clusterings`.

        Raises:
            InvalidOptionError: There is no such plan.
            ConflictError: A process carries it out.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster-undo/t", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.rollback_clustering(t.schedule_clustering())
            >>> t.pending_clusterings()
            ()
        """
        _native.roll_back_clustering(self._native, instant)

    def pending_clusterings(self) -> tuple[PendingClustering, ...]:
        """Lists the clusterings that are planned and not completed, whoever planned them.

        Returns:
            The plans, oldest first.

        Raises:
            CorruptFileError: A plan that cannot be read.
        """
        rows = _native.pending_clusterings(self._native)
        return tuple(PendingClustering(*row[:-1], sort_by=tuple(row[-1])) for row in rows)

    def overlap(self, column: str) -> Overlap:
        """Tells how the files lie over each other in one column, by their footers: what sorting by it would win.

        Changes in log files are not looked at.

        Args:
            column: The column.

        Returns:
            How many files a query for a single value has to open, and the least and greatest value of each file.

        Raises:
            InvalidOptionError: The table has no such column.
            CorruptFileError: A file whose footer cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-overlap/t", pa.schema({"id": pa.int64(), "n": pa.int64()}),
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [k, k + 1], "n": [k, k + 50]}) for k in (0, 10)]
            >>> found = t.overlap("n")
            >>> found.depth.greatest, sorted(file.range for file in found.files)
            (2, [('0', '50'), ('10', '60')])
            >>> done = t.cluster(sort_by="n")
            >>> t.overlap("n").depth.greatest
            1
        """
        return Overlap.from_native(column, _native.column_ranges(self._native, column))

    def archive(self, *, dry_run: bool = False) -> ArchiveReport:
        """Moves old completed actions from the active timeline to the history, as Hudi's archiver does.

        Writes do it by themselves (`hoodie.archive.automatic`). How many actions stay is set by
        `hoodie.keep.min.commits` (20) and `hoodie.keep.max.commits` (30).

        Args:
            dry_run: Only say what would go, and what holds the rest back.

        Returns:
            What was done, and what holds other actions back.

        Raises:
            InvalidOptionError: Settings that contradict each other.
            UnsupportedError: The table is of version 6.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-archive/t", pa.schema({"id": pa.int64()}), name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> report = t.archive(dry_run=True)
            >>> len(report.instants), report.writes, report.keep_max
            (0, 1, 30)
        """
        instants, held, (writes, keep_min, keep_max), files, compacted = self._native.archive(dry_run)
        return ArchiveReport(
            instants=tuple(Instant(*row) for row in instants),
            held_back=tuple(HeldBack(*row) for row in held),
            writes=writes,
            keep_min=keep_min,
            keep_max=keep_max,
            files=files,
            files_compacted=compacted,
            dry_run=dry_run,
        )

    def verify(self) -> Report:
        """Checks every invariant that is known: instants, files, sizes, footers, keys, left-overs.

        Returns:
            What was found. Nothing is changed.
        """
        problems, checked = self._native.verify()
        order = {"error": 0, "warning": 1}
        found = sorted((Problem(*row) for row in problems), key=lambda p: (order.get(p.severity, 2), p.subject))
        return Report(tuple(found), checked)

    def _request(
        self, columns: Sequence[str] | None, filters: Filters | None, as_of: str | None, query: str | None
    ) -> tuple[list[str] | None, tuple[Any, ...] | None, str | None, str | None]:
        condition = native_filter(filters, self._native.scan_schema()) if filters else None
        wanted = list(columns) if columns is not None else None
        return wanted, condition, None if as_of is None else str(as_of), query

    def _write(
        self,
        operation: str,
        data: Rows,
        schema_evolution: SchemaEvolution | None = None,
        options: dict[str, str] | None = None,
        *,
        partial: bool = False,
    ) -> Commit:
        options = {**(options or {}), **evolution_option(schema_evolution)}
        native = self._native.with_options(options) if options else self._native
        reader = record_batch_reader(data, native.schema())
        return Commit.from_native(native.write(operation, reader, partial=partial))

    def _keys(self, data: Rows) -> Rows:
        if not isinstance(data, list | tuple | set) or not data:
            return data
        if isinstance(next(iter(data)), Mapping | pa.RecordBatch):
            return data
        fields = [f for f in self.options.get("hoodie.table.recordkey.fields", "").split(",") if f]
        if len(fields) != 1:
            message = f"the key has {len(fields)} columns. Give rows with the columns {', '.join(fields)}"
            raise InvalidOptionError(message)
        return {fields[0]: list(data)}
