"""What a worker is asked, and what it answers: both go through a file of JSON."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass, field

KEY, PARTITION, ORDERING = "id", "part", "ts"
VALUES = ("a", "b", "val")
COLUMNS = (KEY, ORDERING, PARTITION, *VALUES)
MERGER_CLASSES = "hoodie.write.record.merge.custom.implementation.classes"


@dataclass(frozen=True)
class Job:
    """One system at one task.

    Attributes:
        system: Its name in `systems`.
        task: `append`, `fixed`, `read`, `compact`, `merge`, `custom` or `spark`.
        format: Of the log blocks: `avro` or `parquet`.
        table: The table before; empty where none is needed.
        older: A file of rows.
        newer: Files of rows that change them.
        more: What else the system has to know.
        scratch: A folder of its own.
        runs: Timed runs, more of what takes milliseconds.
        warm_seconds: How long it warms up, once at least.
        cores: Cores that it has.
        java_memory: Heap of the JVM, as Java spells it.
    """

    system: str
    task: str
    format: str
    table: str
    older: str
    newer: tuple[str, ...]
    more: dict[str, str]
    scratch: str
    runs: int
    warm_seconds: float
    cores: int
    java_memory: str

    @property
    def changes_table(self) -> bool:
        """Whether each run needs a table of its own."""
        return self.task not in {"read", "merge", "custom", "spark", "query"}

    @property
    def result(self) -> str:
        """Where the rows of the last run go."""
        return f"{self.scratch}/result.parquet"

    @property
    def answer(self) -> str:
        """Where the answer goes."""
        return f"{self.scratch}/answer.json"

    @property
    def options(self) -> dict[str, str]:
        """Hudi's options, the same for hoodoo and for Hudi."""
        merging = {k: v for k, v in self.more.items() if k.startswith("hoodie.")}
        return {**table_options(self.format, self.cores), **merging}

    def to_json(self) -> str:
        """Spells the job as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        """Reads what `to_json` wrote."""
        values = json.loads(text)
        return cls(**{**values, "newer": tuple(values["newer"])})


@dataclass
class Outcome:
    """What came of a job.

    Attributes:
        problem: Why there are no figures; None when there are.
        versions: What ran.
        wall: Seconds of each timed run.
        cpu: CPU seconds of each.
        peak: Most resident memory of the process and its children in any timed run, in bytes.
        notes: What else is known of the result, by its name in the report.
    """

    problem: str | None = None
    versions: dict[str, str] = field(default_factory=dict)
    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    peak: int = 0
    notes: dict[str, float] = field(default_factory=dict)

    @property
    def median_wall(self) -> float:
        """The median of the wall times."""
        return statistics.median(self.wall)

    @property
    def median_cpu(self) -> float:
        """The median of the CPU times."""
        return statistics.median(self.cpu)


def table_options(log_format: str, cores: int) -> dict[str, str]:
    """Gives the options of the tables; services run only when they are asked to.

    Args:
        log_format: Of the log blocks.
        cores: Tasks of a shuffle of Hudi's.
    """
    return {
        "hoodie.table.name": "merge_on_read",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": KEY,
        "hoodie.datasource.write.partitionpath.field": PARTITION,
        "hoodie.datasource.write.precombine.field": ORDERING,
        "hoodie.logfile.data.block.format": log_format,
        "hoodie.parquet.compression.codec": "zstd",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        "hoodie.clean.automatic": "false",
        "hoodie.upsert.shuffle.parallelism": str(cores),
        "hoodie.simple.index.parallelism": str(cores),
    }
