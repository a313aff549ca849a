"""Options of the data source: arguments of `hoodoo.spark.read`, options of the storage, and Hudi's options."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hoodoo.distributed.read import PlannedRead, plan_table_read
from hoodoo.exceptions import InvalidOptionError, UnsupportedError
from hoodoo.options import AS_OF, option_names, split_list
from hoodoo.spark.filter_text import all_conditions_of_text
from hoodoo.spark.pruning import Pruned

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hoodoo.spark.pruning import Conditions, Pruning

__all__ = ["SourceOptions", "checked_start"]

STORAGE = "storage."
# Spark's own, of streams.
_OF_SPARK = {"checkpointlocation", "queryname"}
_READ_ARGUMENTS = ("as_of", "query", "since", "until")
_QUERY_TYPES = ("hoodie.datasource.query.type", "hoodie.datasource.view.type")
_BEGIN = "hoodie.datasource.read.begin.instanttime"
_END = "hoodie.datasource.read.end.instanttime"
_HOLES = "hoodie.read.timeline.holes.resolution.policy"
_START = "hoodie.datasource.streaming.startoffset"
_LIMITS = ("maxfilespertrigger", "maxbytespertrigger", "maxrowspertrigger")
_COMMIT_ENTRIES = "hoodie.datasource.write.commitmeta.key.prefix"
_PUSH = "push_filters"
_SPLIT_BYTES = "split_bytes"
# How alike two names of Hudi's are, which have some 30 characters, when one or two of these are others.
_MISSPELT = 0.95
# The size of a split of Spark's own file sources (`spark.sql.files.maxPartitionBytes`).
_DEFAULT_SPLIT = 128 << 20
AFTER_EVERYTHING = "99999999999999999"
"""A time after every commit."""


@dataclass(frozen=True)
class SourceOptions:
    """The options of one use of the data source. Can be pickled.

    Attributes:
        uri: Location of the table.
        columns: The columns to read; all columns when None.
        arguments: `as_of`, `query`, `since` and `until` of a read.
        hudi: Hudi's options.
        storage: Settings of the storage.
        filters: What rows have to match; see `hoodoo.filters.Filters`.
        push_filters: Whether Spark may push filters into a read.
        split_bytes: Bytes that a task reads.
        start: Where a stream starts: `earliest`, `latest` or a completion time.
        limits: The most that a micro-batch of a stream reads, by `maxfilespertrigger`, `maxbytespertrigger` or
            `maxrowspertrigger`.
    """

    uri: str
    columns: list[str] | None = None
    arguments: dict[str, str] = field(default_factory=dict)
    # Both may hold keys of a store or of a lock service, which belong in no log.
    hudi: dict[str, str] = field(default_factory=dict, repr=False)
    storage: dict[str, str] = field(default_factory=dict, repr=False)
    filters: Conditions = field(default_factory=list)
    push_filters: bool = False
    split_bytes: int = _DEFAULT_SPLIT
    start: str = "earliest"
    limits: dict[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SourceOptions:
        """Sort the options that Spark passes.

        Args:
            options: The options, keys in lower case.

        Raises:
            InvalidOptionError: There is no path, an option has an invalid value, or nobody has an option of a name.
            UnsupportedError: There are several paths.

        Examples:
            >>> given = {"path": "s3://lake/t", "columns": "id, ts", "storage.aws_region": "e", "as.of.instant": "2024"}
            >>> parsed = SourceOptions.parse(given)
            >>> parsed.columns, parsed.storage, parsed.hudi
            (['id', 'ts'], {'aws_region': 'e'}, {'as.of.instant': '2024'})
        """
        rest = {key.lower(): str(value) for key, value in options.items()}
        for key in _OF_SPARK:
            rest.pop(key, None)
        uri = _path(rest)
        columns = rest.pop("columns", None)
        start = rest.pop(_START, None)
        _refuse_unknown(rest)
        return cls(
            uri=uri,
            columns=None if columns is None else _columns(columns),
            arguments={key: rest.pop(key) for key in _READ_ARGUMENTS if key in rest},
            filters=all_conditions_of_text(filters) if (filters := rest.pop("filters", "")) else [],
            push_filters=_flag(_PUSH, rest.pop(_PUSH, "false")),
            split_bytes=_positive(_SPLIT_BYTES, rest.pop(_SPLIT_BYTES, _DEFAULT_SPLIT)),
            start=checked_start((start or "earliest").lower()),
            limits={key: _positive(key, rest.pop(key)) for key in _LIMITS if key in rest},
            storage={key[len(STORAGE) :]: rest.pop(key) for key in list(rest) if key.startswith(STORAGE)},
            hudi=rest,
        )

    @property
    def is_incremental(self) -> bool:
        """Whether a batch reads the changes in a range of time."""
        given = [self.arguments.get("query"), *(self.hudi.get(key) for key in _QUERY_TYPES)]
        chosen = next((value for value in given if value), "")
        return chosen == "incremental" or bool({"since", "until"} & self.arguments.keys())

    @property
    def has_change_data(self) -> bool:
        """Whether changes come as change data, to which filters do not apply."""
        return self.hudi.get("hoodie.datasource.query.incremental.format", "").lower() == "cdc"

    def columns_of(self, names: list[str]) -> list[str] | None:
        """Return the columns to read for those that Spark wants: of change data, the fields of the rows."""
        return self.columns if self.has_change_data else names

    def check_stream(self) -> None:
        """Refuse what a stream does not do.

        Raises:
            UnsupportedError: An option is for batches alone; the error names it.
        """
        of_batches = [
            key for key in ("as_of", "until", AS_OF, _BEGIN, _END) if key in self.arguments or key in self.hudi
        ]
        of_batches += [_PUSH] * self.push_filters
        asked = {"query": self.arguments.get("query"), **{key: self.hudi.get(key) for key in _QUERY_TYPES}}
        of_batches += [
            f"{key}={value}" for key, value in asked.items() if value not in (None, "snapshot", "incremental")
        ]
        if of_batches:
            raise UnsupportedError(
                f"a stream reads what is written from a time on, and takes no {', '.join(of_batches)}: read a batch "
                "with spark.read, or say where the stream starts with since"
            )
        if "since" in self.arguments and self.start != "earliest":
            raise InvalidOptionError(f"since and {_START} both say where the stream starts: pass one of them")

    def check_write(self) -> None:
        """Refuse what a write does not do.

        Raises:
            UnsupportedError: An option is for reads alone; the error names it.
        """
        given = {
            "columns": self.columns is not None,
            "filters": self.filters,
            _PUSH: self.push_filters,
            _SPLIT_BYTES: self.split_bytes != _DEFAULT_SPLIT,
            **self.arguments,
            **self.limits,
        }
        of_reads = [key for key, value in given.items() if value]
        if of_reads:
            raise UnsupportedError(
                f"a write takes no {', '.join(of_reads)}: leave them out, and select columns and rows of the DataFrame"
            )

    @property
    def starts(self) -> bool:
        """Whether the options say where an incremental query begins."""
        return "since" in self.arguments or _BEGIN in self.hudi

    def plan(
        self,
        columns: Sequence[str] | None,
        pushed: Pruning | None = None,
        *,
        since: str | None = None,
        until: str | None = None,
    ) -> PlannedRead:
        """Plan a read of these options.

        Args:
            columns: The columns; all columns when None.
            pushed: What filters that Spark applies say.
            since: With `until`, the range of a micro-batch of a stream, instead of the range of the options.
            until: See `since`.

        Raises:
            HudiError: As `hoodoo.spark.read`.
        """
        arguments: dict[str, str | None] = {**self.arguments}
        if since is not None:
            arguments |= {"query": "incremental", "since": since, "until": until}
        hudi = self.hudi
        if since is not None:
            # A stream ends a micro-batch before the first pending write of a table that keeps no completion times.
            hudi = {_HOLES: "BLOCK", **hudi}
        filters = self.filters if pushed is None else Pruned(self.filters, pushed)
        return plan_table_read(self.uri, columns, filters, **arguments, options=hudi, storage_options=self.storage)


def _refuse_unknown(options: Mapping[str, str]) -> None:
    """Refuse names that neither the data source nor Hudi has: a warning would be seen by nobody, on a worker of Spark.

    All of Hudi's have a dot, but the entries of the commit metadata, which begin as the user says. Of these, there are
    many that nothing depends on, so that only what looks like a known one is refused.
    """
    known = [*_READ_ARGUMENTS, *_LIMITS, "columns", "filters", _PUSH, _SPLIT_BYTES]
    of_hudi = [name.lower() for name in option_names()]
    entries = options.get(_COMMIT_ENTRIES) or "_"
    for key in options:
        if key.startswith((entries, STORAGE)):
            continue
        if "." in key and key not in of_hudi:
            near = difflib.get_close_matches(key, of_hudi, n=1, cutoff=_MISSPELT)
            if near:
                raise InvalidOptionError(f"the data source hoodoo has no option {key!r}: did you mean {near[0]!r}?")
        elif "." not in key and key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            those = (
                f": did you mean {near[0]!r}?" if near else f"; it has Hudi's options, and {', '.join(sorted(known))}"
            )
            raise InvalidOptionError(f"the data source hoodoo has no option {key!r}{those}")


def _columns(value: str) -> list[str]:
    columns = split_list(value)
    if not columns or len(set(columns)) < len(columns):
        raise InvalidOptionError(
            f"invalid value {value!r} for columns: name each column once, or leave columns out for all of them"
        )
    return columns


def _path(options: dict[str, str]) -> str:
    paths = options.pop("paths", None)
    path = options.pop("path", None)
    if path is None and paths is not None:
        several = json.loads(paths)
        if len(several) > 1:
            raise UnsupportedError(
                f"the data source hoodoo reads one table at a time, and got {len(several)} paths: "
                "load each of them, and union the DataFrames"
            )
        path = several[0] if several else None
    if not path:
        raise InvalidOptionError("the data source hoodoo has no path: pass the table's location to load() or save()")
    return path


def checked_start(value: str) -> str:
    """Return where a stream starts.

    Raises:
        InvalidOptionError: It is neither `earliest` nor `latest` nor a completion time.

    Examples:
        >>> checked_start("latest")
        'latest'
    """
    if value not in {"earliest", "latest"} and not (value.isascii() and value.isdigit()):
        raise InvalidOptionError(
            f"invalid start {value!r} of a stream: expected earliest, latest, or the digits of a completion time"
        )
    return value


def _flag(key: str, value: str) -> bool:
    if value.lower() not in {"true", "false"}:
        raise InvalidOptionError(f"invalid value {value!r} for {key}: expected true or false")
    return value.lower() == "true"


def _positive(key: str, value: str | int) -> int:
    try:
        number = int(value)
    except ValueError:
        number = 0
    if number <= 0:
        raise InvalidOptionError(f"invalid value {value!r} for {key}: expected a number greater than 0")
    return number
