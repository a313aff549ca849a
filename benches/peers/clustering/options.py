"""Hudi's options, the same for hoodoo and for Hudi, and how a system is told what to do."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benches.peers.codec import codec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benches.peers.merge_on_read.job import Job

Filter = tuple[str, str, int]
"""Column, `>=` or `<=`, and a value."""
DATA = "data"
"""Names the data set."""
DEFAULTS = "defaults"
"""Set where each system is to choose what it writes: Hudi gzip and a metadata table."""


@dataclass(frozen=True)
class Subject:
    """What is clustered.

    Attributes:
        keys: Columns of the record key, in whose order the rows are before.
        ordering: Column that tells which of two rows is newer.
        sort: Column of integers that rows are sorted by.
        other: Column that comes before it when there are two.
    """

    keys: tuple[str, ...]
    ordering: str
    sort: str
    other: str


SUBJECTS = {
    "lineitem": Subject(("l_orderkey", "l_linenumber"), "event_time", "l_partkey", "l_shipdate"),
    "events": Subject(("id",), "ts", "n", "seen"),
}
"""By the name of the data set."""

_PLAN = "hoodie.clustering.plan.strategy."


def table_options(subject: Subject, cores: int, *, defaults: bool = False) -> dict[str, str]:
    """Gives the options of the tables; services run only when they are asked to.

    Args:
        subject: What is in them.
        cores: Tasks of a shuffle of Hudi's.
        defaults: Leaves to each system what it would choose.
    """
    needed = {
        "hoodie.table.name": "clustering",
        "hoodie.datasource.write.recordkey.field": ",".join(subject.keys),
        "hoodie.datasource.write.precombine.field": subject.ordering,
        "hoodie.bulkinsert.shuffle.parallelism": str(cores),
    }
    chosen = {
        "hoodie.parquet.compression.codec": codec(),
        "hoodie.metadata.enable": "false",
        "hoodie.clean.automatic": "false",
    }
    return needed if defaults else {**needed, **chosen}


def subject_of(job: Job) -> Subject:
    """Gives what a job is about."""
    return SUBJECTS[job.more[DATA]]


def job_options(job: Job) -> dict[str, str]:
    """Gives the options of a job's table."""
    return table_options(subject_of(job), job.cores, defaults=DEFAULTS in job.more)


def clustering_options(total: int, outputs: int) -> dict[str, str]:
    """Puts all files into one group, whatever a clustering before left of them.

    Args:
        total: Bytes of the files.
        outputs: Files that they are to become.
    """
    return {
        f"{_PLAN}small.file.limit": str(total + 1),
        f"{_PLAN}max.bytes.per.group": str(2 * total),
        f"{_PLAN}target.file.max.bytes": str(-(-total // outputs)),
        "hoodie.table.services.incremental.enabled": "false",
    }


def filters_of(more: Mapping[str, str]) -> list[Filter]:
    """Gives the filters of a query; none of what is no query."""
    return [(column, operator, value) for column, operator, value in json.loads(more.get("filters", "[]"))]


def sort_columns(more: Mapping[str, str]) -> list[str]:
    """Gives the columns that rows are sorted by."""
    return more["sort"].split(",") if "sort" in more else []
