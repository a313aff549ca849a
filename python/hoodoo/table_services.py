"""Table services: compaction, clustering, archival and verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from hoodoo import _native
from hoodoo.arguments import optional_text, text
from hoodoo.clustering import ClusteringPlan, Overlap, PendingClustering
from hoodoo.commit import Commit
from hoodoo.display import TupleListing
from hoodoo.options import clustering_options, clustering_request
from hoodoo.progress import Progress, Watch
from hoodoo.report import Repair, RepairReport, Report
from hoodoo.timeline import ArchiveReport

if TYPE_CHECKING:
    from hoodoo.options import Columns, Options

__all__ = ["TableServices"]


class TableServices:
    """The services of a `Table`. Writes run them inline when the options of the table ask for it."""

    _native: _native.NativeTable
    _progress: Progress

    def schedule_compaction(self) -> str | None:
        """Plan a compaction of all file groups that have log files, without executing it.

        Writers go on meanwhile; what they append belongs to the file slices that the compaction makes. `compact` can
        execute the plan, and so can Hudi.

        Returns:
            The requested time of the plan; None when no file group has log files that no other plan covers.

        Raises:
            UnsupportedError: The table is copy-on-write.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-schedule/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", table_type="MERGE_ON_READ")
            >>> commits = t.insert({"id": [1], "n": [1]}), t.upsert({"id": [1], "n": [2]})
            >>> instant = t.schedule_compaction()
            >>> t.compact(instant).instant == instant
            True
        """
        return self._native.schedule_compaction()

    def compact(self, instant: str | None = None) -> Commit | None:
        """Merge the log files of a merge-on-read table into new base files.

        Without `instant`, execute all plans, whoever made them; when there is none, plan and execute a compaction of
        all file groups with log files, whatever `hoodie.compact.inline.*` says. An earlier attempt that failed is
        rolled back first. Writes compact inline after five delta commits (`hoodie.compact.inline`), like Hudi's Spark
        writer.

        Args:
            instant: Execute only the plan with this requested time.

        Returns:
            The newest compaction that was executed; None when there was nothing to compact.

        Raises:
            InvalidOptionError: There is no such plan.
            UnsupportedError: The table is copy-on-write.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-compact/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", table_type="MERGE_ON_READ")
            >>> commits = t.insert({"id": [1], "n": [1]}), t.upsert({"id": [1], "n": [2]})
            >>> [len(s.log_files) for s in t.file_slices()]
            [1]
            >>> t.compact().operation
            'COMPACT'
            >>> [len(s.log_files) for s in t.file_slices()]
            [0]
        """
        chosen = optional_text(instant, "instant", "one of Table.schedule_compaction")
        with Watch(self._progress, "compacting"):
            done = self._native.compact(chosen)
        return None if done is None else Commit.from_native(done)

    def log_compact(self) -> Commit | None:
        """Merge the log files of each file group of a merge-on-read table into one log file.

        Reads have less to merge afterwards; base files do not change. Execute the plans that exist; when there is none,
        merge all file groups with at least `hoodie.log.compaction.blocks.threshold` (5) log files. The cleaner removes
        the old log files later. Writes do this inline with `hoodie.log.compaction.inline`.

        Returns:
            The newest log compaction that was executed; None when there was nothing to merge.

        Raises:
            UnsupportedError: The table is copy-on-write.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-log-compact/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", table_type="MERGE_ON_READ",
            ...                         options={"hoodie.log.compaction.blocks.threshold": 2})
            >>> commits = [t.upsert({"id": [1], "n": [n]}) for n in (1, 2, 3)]
            >>> t.log_compact().operation
            'LOG_COMPACT'
            >>> t.to_arrow(columns=["n"]).to_pylist()
            [{'n': 3}]
        """
        with Watch(self._progress, "compacting logs"):
            done = self._native.log_compact()
        return None if done is None else Commit.from_native(done)

    @overload
    def schedule_clustering(
        self,
        *,
        sort_by: Columns | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: Literal[False] = False,
    ) -> str | None: ...

    @overload
    def schedule_clustering(
        self,
        *,
        sort_by: Columns | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: Literal[True],
    ) -> ClusteringPlan: ...

    def schedule_clustering(
        self,
        *,
        sort_by: Columns | None = None,
        strategy: str | None = None,
        options: Options | None = None,
        explain: bool = False,
    ) -> str | ClusteringPlan | None:
        """Plan a clustering: groups of file slices that are rewritten into fewer or sorted files.

        With the strategy `SIZE`, the plan is the one that Hudi 1.2 makes of the same table and options, except that it
        leaves out files that a clustering by the same columns wrote. `cluster` can execute the plan, and so can Hudi
        (`call run_clustering(op => 'execute', …)`). Until then, updates of rows in these file groups raise a
        `ConflictError`, unless `hoodie.clustering.updates.strategy` is `SparkAllowUpdateStrategy`: then the update
        succeeds and the plan is rolled back.

        Args:
            sort_by: Sort rows by these columns (`hoodie.clustering.plan.strategy.sort.columns`). Default: do not sort.
            strategy: How file slices are grouped (`hoodoo.clustering.plan.strategy`). `SIZE`, the default: by size, as
                Hudi. `OVERLAP`: slices whose ranges of the sort columns overlap, by the footers of the files.
                `KEY_RANGE`: the same by record keys. `COMMIT_TIME`: oldest first. `RANDOM`. `SINGLE_FILE`: each slice
                alone. `SINCE_COMMIT`: slices written after `…strategy.earliest.commit.to.cluster`. Or a plan strategy
                class of Hudi (`hoodie.clustering.plan.strategy.class`).
            options: More of Hudi's options for this plan, such as `hoodie.clustering.plan.strategy.small.file.limit`
                (bytes; 300 MiB, or the target size for strategies that Hudi does not have) or
                `hoodie.clustering.plan.strategy.target.file.max.bytes` (1 GiB).
            explain: Return the plan and write nothing, whether or not a trigger such as
                `hoodie.clustering.async.max.commits` says that a clustering is due.

        Returns:
            The requested time of the plan; None when there is nothing to cluster, or no clustering is due. With
            `explain`, the plan; it has no groups when there is nothing to cluster.

        Raises:
            InvalidOptionError: An option, strategy or sort column does not exist.
            UnsupportedError: The plan strategy class is not supported, or hoodoo cannot write the table.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [n], "n": [n % 2]}) for n in range(3)]
            >>> plan = t.schedule_clustering(sort_by="n", explain=True)
            >>> plan.files, plan.output_file_groups, plan.before.max, plan.after.max
            (3, 1, 2, 1)
            >>> len(t.schedule_clustering(sort_by="n"))
            17
            >>> [p.slices for p in t.pending_clusterings()]
            [3]
        """
        native = self._native.with_options(clustering_options(sort_by, strategy, options))
        if explain:
            return ClusteringPlan.from_native(_native.explain_clustering(native))
        return _native.schedule_clustering(native)

    def cluster(
        self,
        sort_by: Columns | None = None,
        strategy: str | None = None,
        instant: str | None = None,
        *,
        options: Options | None = None,
    ) -> Commit | None:
        """Rewrite file slices into fewer, larger or sorted files. Reads return the same rows before and after.

        Without arguments, execute all pending plans, whoever made them; when there is none, plan and execute one. With
        `sort_by` or `strategy`, always plan and execute a new one, of file groups that no other plan covers. An earlier
        attempt that failed is rolled back first. The sort spills beyond `hoodoo.memory.budget` bytes, by default 32 MiB
        for each thread. Without sort columns, column chunks that do not change are copied. Columns are sorted ascending
        with nulls first, and the files declare that order.

        Args:
            sort_by: Sort rows by these columns, in all partitions and not only in those that changed since the last
                clustering. `hoodie.layout.optimize.strategy` says how several columns are ordered: `LINEAR`, the
                default, `ZORDER` or `HILBERT`.
            strategy: How file slices are grouped; see `schedule_clustering`.
            instant: Execute only the plan with this requested time.
            options: More of Hudi's options, such as `hoodie.clustering.plan.strategy.target.file.max.bytes` (the size
                of an output file in bytes; 1 GiB).

        Returns:
            The newest clustering that was executed; None when there was nothing to cluster. The extra metadata of the
            commit has `hoodoo.clustering.files`: for each file the time it took in milliseconds, and the range of each
            column.

        Raises:
            InvalidOptionError: An option, strategy, column or plan does not exist.
            ConflictError: Another process executes the plan, or wrote to its file groups; in the second case the plan
                is rolled back. No rows are lost.
            CorruptFileError: A file of the plan is missing or damaged.
            UnsupportedError: The strategy class of Hudi is not supported.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster-run/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [n], "n": [-n]}) for n in range(3)]
            >>> done = t.cluster(sort_by="n")
            >>> done.operation, done.inserted, len(t.file_slices())
            ('CLUSTER', 3, 1)
            >>> t.to_arrow(columns=["n"]).to_pylist()
            [{'n': -2}, {'n': -1}, {'n': 0}]
        """
        given, new_plan = clustering_request(sort_by, strategy, instant, options)
        optional_text(instant, "instant", "one of Table.schedule_clustering")
        with Watch(self._progress, "clustering"):
            done = _native.cluster(self._native.with_options(given), instant, new_plan)
        return None if done is None else Commit.from_native(done)

    def rollback_clustering(self, instant: str) -> None:
        """Remove a pending clustering from the timeline, with all files that an attempt wrote.

        No rows are lost: the files that the plan names stay as they are. Use it for plans, also plans of Hudi, that
        cannot or must not be executed any more, and for what a restore of Hudi leaves of a clustering.

        Args:
            instant: Requested time of the plan; see `pending_clusterings`.

        Raises:
            InvalidOptionError: There is no such plan.
            ConflictError: Another process executes the plan.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster-undo/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.rollback_clustering(t.schedule_clustering())
            >>> t.pending_clusterings()
            ()
        """
        _native.roll_back_clustering(self._native, text(instant, "instant", "one of Table.schedule_clustering"))

    def pending_clusterings(self) -> tuple[PendingClustering, ...]:
        """Return the clusterings that are planned and not completed, whoever planned them.

        Returns:
            The plans, oldest first.

        Raises:
            CorruptFileError: A plan cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-cluster-pending/t", {"id": pa.int64()}, name="t",
            ...                         record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> instant = t.schedule_clustering(sort_by="id")
            >>> [(p.instant == instant, p.sort_by) for p in t.pending_clusterings()]
            [(True, ('id',))]
        """
        rows = _native.pending_clusterings(self._native)
        plans = (PendingClustering(*row[:-1], sort_by=tuple(row[-1])) for row in rows)
        return TupleListing.of("pending clusterings", plans)

    def overlap(self, column: str) -> Overlap:
        """Return how the ranges of files overlap in one column, by their footers: what sorting by it would improve.

        Log files are not considered.

        Args:
            column: The column.

        Returns:
            How many files a query for a single value opens, and the min and max of each file.

        Raises:
            InvalidOptionError: The table has no such column.
            CorruptFileError: The footer of a file cannot be read.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-overlap/t", {"id": pa.int64(), "n": pa.int64()},
            ...                         name="t", record_key="id", options={"hoodie.parquet.small.file.limit": 0})
            >>> commits = [t.insert({"id": [k, k + 1], "n": [k, k + 50]}) for k in (0, 10)]
            >>> found = t.overlap("n")
            >>> found.depth.max, sorted(file.range for file in found.files)
            (2, [('0', '50'), ('10', '60')])
            >>> done = t.cluster(sort_by="n")
            >>> t.overlap("n").depth.max
            1
        """
        chosen = text(column, "column", "'fare'")
        with Watch(self._progress, "reading footers"):
            return Overlap.from_native(column, _native.column_ranges(self._native, chosen))

    def archive(self, *, dry_run: bool = False) -> ArchiveReport:
        """Move old completed actions from the active timeline to the history, as Hudi's archiver does.

        Writes archive inline (`hoodie.archive.automatic`). `hoodie.keep.min.commits` (20) and
        `hoodie.keep.max.commits` (30) set how many commits stay.

        Args:
            dry_run: Return what would be archived, and change nothing.

        Returns:
            What was archived, and what blocks the archival of other actions.

        Raises:
            InvalidOptionError: Options contradict each other.
            UnsupportedError: The table has version 6.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-archive/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> report = t.archive(dry_run=True)
            >>> len(report.instants), report.writes, report.keep_max
            (0, 1, 30)
        """
        with Watch(self._progress, "archiving"):
            return ArchiveReport.from_native(self._native.archive(dry_run), dry_run=dry_run)

    def verify(self) -> Report:
        """Check every known invariant: instants, files, sizes, footers, keys, the metadata table. Change nothing.

        Returns:
            The problems, and what to do about each.

        Raises:
            StorageError: The storage cannot be reached.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-verify/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> t.verify().ok
            True
        """
        with Watch(self._progress, "verifying"):
            return Report.from_native(*self._native.verify())

    def repair(self, *, dry_run: bool = False) -> RepairReport:
        """Check the table, and repair what can be repaired without a choice and without losing a row.

        Failed writes are rolled back; interrupted rollbacks, cleans, archivings and changes of properties are ended.
        Files that no instant wrote are deleted when they are an hour old and no write is pending. Partitions without a
        metadata file get one, and a metadata table that does not agree with the table is made anew. Writes that are
        under way are left alone. Other problems, such as a file that is gone, need a copy of it, or `restore`.

        Args:
            dry_run: Return what would be repaired, and change nothing.

        Returns:
            What was repaired, and what the check says afterwards.

        Raises:
            ConflictError: A restore is pending.
            StorageError: The storage cannot be reached.

        Examples:
            >>> import hoodoo, pyarrow as pa
            >>> t = hoodoo.Table.create("memory://docs-repair/t", {"id": pa.int64()}, name="t", record_key="id")
            >>> commit = t.insert({"id": [1]})
            >>> done = t.repair()
            >>> done.repairs, done.left.ok
            ((), True)
        """
        with Watch(self._progress, "repairing"):
            repaired, left, checked = self._native.repair(dry_run)
        repairs = tuple(
            Repair(severity, subject, message, action) for severity, subject, message, _, action in repaired
        )
        return RepairReport(repairs, Report.from_native(left, checked), dry_run)
