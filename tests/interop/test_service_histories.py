"""Random histories of every service on every index, by both sides in turns: nothing is lost, now or by looking back.

A model that knows neither side says which rows there ought to be. It is compared after every step; at the end, so is
what a look back at each earlier state gives, and each stream of changes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest

from hoodoo import ConflictError, InvalidOptionError, Table
from tests.buckets import INDEX as BUCKETS
from tests.interop.change_streams import LATE, compare_changes, compare_newest_rows
from tests.interop.hudi import Hudi
from tests.interop.metadata_checks import check_metadata_table
from tests.interop.procedures import Procedures
from tests.interop.test_writing_metadata import Turns, rows
from tests.record_index import BUILD, WITHOUT_STATISTICS, index_of, stored_keys
from tests.rows import Row, arrow_rows, plain_rows
from tests.secondary_index import entries_of, stored_entries

_QUICK = 69
_ALL = 200
_TURNS = 12
_KEYS = 40
_WRITES = {"commit", "deltacommit", "replacecommit"}
_INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "BUCKET", *sorted(BUILD)]

# Often enough that the services of the metadata table run within a history.
_SERVICES = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.log.compaction.blocks.threshold": "2",
    # Else Hudi's inserts double keys.
    "hoodie.merge.allow.duplicate.on.inserts": "false",
}
_SCHEMA = rows(range(1, 2), 1).schema
# The key numbers of a state, each with the time of its row.
Model = dict[int, int]


def _data(keys: list[int], ts: int) -> pa.Table:
    return pa.concat_tables(rows(range(key, key + 1), ts).cast(_SCHEMA) for key in keys)


def _rows_of(model: Model) -> list[Row]:
    return plain_rows(one for key, ts in model.items() for one in rows(range(key, key + 1), ts).to_pylist())


@dataclass
class _State:
    """What the table held when a write was its newest."""

    requested: str
    completed: str
    model: Model


@dataclass
class _History:
    """A table, what it ought to hold, and how a side changes it next."""

    hudi: Hudi
    path: Path
    seed: int
    done: list[str] = field(default_factory=list)
    model: Model = field(default_factory=dict)
    states: list[_State] = field(default_factory=list)
    saved: dict[str, Model] = field(default_factory=dict)
    deleted: set[int] = field(default_factory=set)
    turn: int = 0
    # Of such rows, Hudi gives changes as they were before the plan.
    replaced_beside_plan: bool = False
    completed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Choose the kind of table."""
        self.chance = random.Random(self.seed)
        self.is_merge_on_read = self.seed % 2 == 1
        self.write_action = "deltacommit" if self.is_merge_on_read else "commit"
        self.index = _INDEXES[self.seed // 2 % len(_INDEXES)]
        table_type = "MERGE_ON_READ" if self.is_merge_on_read else "COPY_ON_WRITE"
        self.turns = Turns(self.hudi, self.path, table_type, self.chance.choice(["9", "9", "8"]))
        self.turns.options["hoodie.clean.commits.retained"] = "4"
        options = {**_SERVICES, "hoodie.index.type": self.index}
        if self.index == "BUCKET":
            options |= BUCKETS
        if self.index in BUILD:
            options |= BUILD[self.index] | WITHOUT_STATISTICS
        if self.chance.random() < 0.3:
            options["hoodie.metadata.index.bloom.filter.enable"] = "true"
        if self.chance.random() < 0.3:
            options |= {"hoodie.keep.min.commits": "5", "hoodie.keep.max.commits": "6"}
        self.captures = self.chance.random() < 0.4
        if self.captures:
            options["hoodie.table.cdc.enabled"] = "true"
        self.turns.options.update(options)
        self.turns.ours_options.update(self.turns.options)
        self.procedures = Procedures(self.hudi, self.path, self.turns.options)

    @property
    def table(self) -> Table:
        """The table, opened anew."""
        return Table(self.path, self.turns.ours_options)

    def begin(self) -> None:
        """Create the table, by either side; some get a secondary index."""
        data, self.model = rows(range(30), 1), dict.fromkeys(range(30), 1)
        if self.chance.random() < 0.5:
            self.turns.theirs(data, "insert", mode="overwrite")
        else:
            Table.create(self.path, data.schema, options=self.turns.ours_options)
            self.turns.ours("insert", data)
        self._remember()
        self.secondary = self.index == "GLOBAL_RECORD_LEVEL_INDEX" and self.chance.random() < 0.5
        if self.secondary:
            self.table.index("secondary_index", "name")

    def step(self) -> None:
        """Let a side do one thing, and compare."""
        self.turn += 1
        writes = [self._upsert] * 5 + [self._late, self._delete, self._insert, self._overwrite, self._drop]
        services: list[Callable[[bool], str | None]] = [self._clean, self._savepoint, self._rollback, self._restore]
        if self.index != "BUCKET":
            services += [self._cluster] * 2
        if self.is_merge_on_read:
            services += [self._compact, self._plan, self._log_compact]
        services.append(self._rebuild)
        work = self.chance.choice(writes if self.chance.random() < 0.6 else services)
        theirs = self.chance.random() < 0.45
        self.done.append(f"{self.turn}: {'their' if theirs else 'our'} {work.__name__}")
        what = work(theirs)
        if what is None:
            self.done[-1] += ", nothing to do"
            return
        self.done[-1] += f" {what}"
        self._remember()
        self._check()

    # Writes.

    def _write(self, operation: str, keys: list[int], ts: int, theirs: bool) -> str:
        data = _data(keys, ts)
        if theirs:
            self.hudi.write(data, self.path, operation, **self.turns.options)
        else:
            getattr(self.table, operation)(data)
        return f"{keys} {ts}"

    def _some(self) -> list[int]:
        return sorted(self.chance.sample(range(_KEYS), self.chance.randint(1, 10)))

    def _upsert(self, theirs: bool) -> str:
        keys, ts = self._some(), 10 + self.turn
        self.model |= dict.fromkeys(keys, ts)
        return self._write("upsert", keys, ts, theirs)

    def _late(self, theirs: bool) -> str | None:
        """Rows that lose; not of deleted keys, of which a merge-on-read table may still know the row or not."""
        ts = self.chance.choice([LATE, 10 + self.turn])
        keys = [key for key in self._some() if key in self.model and key not in self.deleted]
        self.model |= {key: max(ts, self.model[key]) for key in keys}
        return self._write("upsert", keys, ts, theirs) if keys else None

    def _delete(self, theirs: bool) -> str:
        keys = self._some()
        self.deleted.update(keys)
        for key in keys:
            self.model.pop(key, None)
        return self._write("delete", keys, 10 + self.turn, theirs)

    def _insert(self, theirs: bool) -> str:
        keys, ts = list(range(1000 + 20 * self.turn, 1000 + 20 * self.turn + 5)), 10 + self.turn
        self.model |= dict.fromkeys(keys, ts)
        return self._write("insert", keys, ts, theirs)

    def _overwrite(self, theirs: bool) -> str:
        keys, ts = self._some(), 10 + self.turn
        self._forget({key % 3 for key in keys})
        self.model |= dict.fromkeys(keys, ts)
        # With a secondary index, Hudi refuses it, as it does `delete_partition`.
        return self._write("insert_overwrite", keys, ts, theirs and not self.secondary)

    def _drop(self, theirs: bool) -> str | None:
        number = self.chance.randrange(3)
        if not any(key % 3 == number for key in self.model):
            return None
        self._forget({number})
        if theirs and not self.secondary:
            dropped = {"hoodie.datasource.write.partitions.to.delete": f"p{number}"}
            self.hudi.write(rows(range(1), 1), self.path, "delete_partition", **self.turns.options, **dropped)
        else:
            self.table.delete_partitions([f"p{number}"])
        return f"p{number}"

    def _forget(self, partitions: set[int]) -> None:
        pending = [one for one in self.table.timeline.instants() if one.completed is None]
        self.replaced_beside_plan |= any(one.action == "compaction" for one in pending)
        gone = {key for key in self.model if key % 3 in partitions}
        self.deleted |= gone
        self.model = {key: ts for key, ts in self.model.items() if key not in gone}

    # Services.

    def _compact(self, theirs: bool) -> str | None:
        if theirs:
            if not self.procedures.call("run_compaction", ", op => 'scheduleAndExecute'"):
                return None
            return ""
        return None if self.table.compact() is None else ""

    def _plan(self, theirs: bool) -> str | None:
        if theirs:
            return str(self.procedures.call("run_compaction", ", op => 'schedule'"))
        return self.table.schedule_compaction()

    def _log_compact(self, _: bool) -> str | None:
        return None if self.table.log_compact() is None else ""

    def _cluster(self, theirs: bool) -> str | None:
        if theirs:
            return None if not self.procedures.call("run_clustering", ", op => 'scheduleAndExecute'") else ""
        sort_by = self.chance.choice(["ts", "name", None])
        return None if self.table.cluster(sort_by=sort_by) is None else f"by {sort_by}"

    def _clean(self, theirs: bool) -> str | None:
        if theirs:
            self.procedures.call("run_clean", ", retain_commits => 2")
            return ""
        policy = self.chance.choice(
            [
                {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"},
                {"hoodie.clean.commits.retained": "1"},
            ]
        )
        return f"of {len(Table(self.path, self.turns.ours_options | policy).clean().files)} files"

    def _savepoint(self, theirs: bool) -> str | None:
        newest = self.states[-1]
        if newest.requested in self.saved:
            return None
        if self.saved and self.chance.random() < 0.3:
            gone = self.chance.choice(sorted(self.saved))
            del self.saved[gone]
            self.table.delete_savepoint(gone)
            return f"deleted {gone}"
        if theirs:
            self.procedures.call("create_savepoint", f", commit_time => '{newest.requested}'")
        else:
            self.table.savepoint(newest.requested)
        self.saved[newest.requested] = newest.model
        return newest.requested

    def _rollback(self, theirs: bool) -> str | None:
        done = [one for one in self.table.timeline.instants(state="COMPLETED") if one.action in _WRITES]
        if len(self.states) < 2 or done[-1].completed != self.states[-1].completed:
            return None
        if done[-1].requested in self.saved:
            return None
        try:
            # Where something came later, Hudi refuses only after it has requested it: all writes fail then. It leaves
            # the plans of table services.
            newest = max(self.table.timeline.instants(), key=lambda one: one.requested)
            if theirs and newest == done[-1] and newest.action == self.write_action:
                self.done[-1] += " (Hudi)"
                if not self.procedures.go_back("rollback_to_instant", done[-1].requested):
                    # It fails when the files are deleted, as do its writes from then on.
                    self.table.repair()
                self.procedures.remove_change_data()
            else:
                self.table.rollback(done[-1].requested)
        except (InvalidOptionError, ConflictError) as refused:
            # What was before it was cleaned, or is planned to be compacted since.
            return f"refused: {str(refused)[:60]}"
        self.states.pop()
        self.model = dict(self.states[-1].model)
        return done[-1].requested

    def _restore(self, theirs: bool) -> str | None:
        if not self.saved:
            return None
        instant = max(self.saved)
        # Over other services, Hudi's fails, and all writes with it; a record index may keep what was undone.
        later = {one.action for one in self.table.timeline.instants() if one.requested > instant}
        if (
            theirs
            and self.index not in BUILD
            and self.write_action in later <= {self.write_action, "clean", "savepoint"}
        ):
            self.done[-1] += " (Hudi)"
            assert self.procedures.go_back("rollback_to_savepoint", instant)
            self.procedures.remove_change_data()
        else:
            self.table.restore(instant)
        self.model = dict(self.saved[instant])
        self.states = [one for one in self.states if one.requested <= instant]
        return instant

    def _rebuild(self, _: bool) -> str:
        self.table.rebuild_metadata_table()
        return ""

    # What has to hold.

    def _remember(self) -> None:
        """Note the state, by the newest write."""
        instants = self.table.timeline.instants(state="COMPLETED")
        writes = {one.requested: one.completed or "" for one in instants if one.action in _WRITES}
        self.completed |= writes
        # Of a compaction that was planned before a write, the requested time is not the newest.
        completed = max(writes.values())
        if not self.states or completed != self.states[-1].completed:
            self.states.append(_State(max(writes), completed, dict(self.model)))

    def _check(self) -> None:
        expected = _rows_of(self.model)
        assert arrow_rows(Table(self.path).to_arrow()) == expected, "the model"
        self.turns.compare(self.done[-1])
        if self.index in BUILD:
            assert index_of(self.path) == stored_keys(self.path), "the record index"
        if self.secondary:
            found, stored = entries_of(self.path, "secondary_index_name"), stored_entries(self.path, "name")
            assert found == stored, "the secondary index"
        for instant, model in self.saved.items():
            assert arrow_rows(Table(self.path).to_arrow(as_of=instant)) == _rows_of(model), f"savepoint {instant}"

    def look_back(self) -> None:
        """Compare each earlier state that is still there, and the changes since it."""
        table, reached = Table(self.path), []
        for state in self.states:
            try:
                found = arrow_rows(table.to_arrow(as_of=state.requested))
            except InvalidOptionError:
                continue
            assert found == _rows_of(state.model), f"as of {state.requested}"
            reached.append(state)
        assert reached[-1] is self.states[-1]
        for state in self.chance.sample(reached, min(2, len(reached))):
            theirs = self._read_by_hudi(state.requested)
            assert theirs in (None, _rows_of(state.model)), f"Hudi as of {state.requested}"
        now = table.to_arrow().to_pylist()
        for state in reached:
            since = state.completed
            changed = arrow_rows(table.changes(since))
            expected = plain_rows(row for row in now if self.completed[row["_hoodie_commit_time"]] > since)
            assert changed == expected, f"changes since {since}"
        if self.captures:
            self._replay(reached)
        earlier = reached[:-1]
        for state in self.chance.sample(earlier, min(2, len(earlier))):
            compare_newest_rows(self.hudi, self.path, state.completed, is_merge_on_read=self.is_merge_on_read)
            if self.captures and not self.replaced_beside_plan:
                compare_changes(self.hudi, self.path, state.requested, state.completed)

    def _read_by_hudi(self, instant: str) -> list[Row] | None:
        """The rows as of an instant; None where Hudi says that it has them no more."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        try:
            return self.hudi.read_as_of(self.path, instant)
        except (Py4JJavaError, PySparkException) as error:
            self.done.append(f"Hudi: {str(error).splitlines()[0][:200]}")
            return None

    def _replay(self, reached: list[_State]) -> None:
        """Changes, one after the other, lead from a state to the next one and to the newest."""
        last = reached[-1]
        for state in reached[:-1]:
            try:
                changes = Table(self.path).changes(state.completed, last.completed, mode="cdc").read_all().to_pylist()
            except InvalidOptionError:
                # A clean may have removed files between both, but none of the newest commit.
                assert state is not self.states[-2], "the changes of the newest commit"
                continue
            held = {row["id"]: row for row in _rows_of(state.model)}
            for change in changes:
                before, after = change["before"], change["after"]
                key = (before or after)["id"]
                assert held.get(key) == (None if before is None else plain_rows([before])[0]), (key, change)
                if after is None:
                    del held[key]
                else:
                    held[key] = plain_rows([after])[0]
            assert plain_rows(held.values()) == _rows_of(last.model), f"changes from {state.completed}"


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", [pytest.param(n, marks=() if n == _QUICK else pytest.mark.slow) for n in range(_ALL)])
def test_history(hudi: Hudi, tmp_path: Path, seed: int) -> None:
    history = _History(hudi, tmp_path / f"services_{seed}", seed)
    try:
        history.begin()
        for _ in range(_TURNS):
            history.step()
        history.look_back()
        check_metadata_table(history.path, history.procedures)
        history.turns.compare("all", is_last=True)
    except Exception as error:
        raise AssertionError(f"seed {seed}, {history.turns.options}: {history.done}") from error
