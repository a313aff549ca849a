"""The table layouts that the interop tests go through: key generators and partition styles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from tests.rows import Row

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("site", pa.int32()),
        ("ts", pa.int64()),
        ("part", pa.string()),
        ("day", pa.string()),
        ("val", pa.string()),
        ("amount", pa.float64()),
    ]
)

_KEYGEN = "hoodie.datasource.write.keygenerator.class"
_HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
_URL = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
# Hudi itself cannot read back a CUSTOM partition by the time in a column of longs: use text.
_TIME = {
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM",
}
# Hudi 1.1+ refuses to write a version 8 table with one complex key until it is told that the encoding is known.
_KNOWN = {"hoodie.write.complex.keygen.validation.enable": "false"}


@dataclass(frozen=True)
class Layout:
    """One way to lay a table out, as the options of a Hudi job."""

    name: str
    keys: tuple[str, ...] = ("id",)
    partitions: str = "part"
    extra: Mapping[str, str] = field(default_factory=dict)

    def options(self, version: int = 9, mode: str = "EVENT_TIME_ORDERING") -> dict[str, str]:
        """Gives the `hoodie.*` options: both sides are given the very same dictionary."""
        options = {
            "hoodie.table.name": "turns",
            "hoodie.write.table.version": str(version),
            "hoodie.metadata.enable": "false",
            "hoodie.write.record.merge.mode": mode,
            "hoodie.table.ordering.fields": "ts",
            **self.extra,
        }
        if self.keys:
            options["hoodie.datasource.write.recordkey.field"] = ",".join(self.keys)
        if self.partitions:
            options["hoodie.datasource.write.partitionpath.field"] = self.partitions
        return options


SIMPLE = Layout("simple")
LAYOUTS = (
    SIMPLE,
    Layout("simple_hive", extra=_HIVE),
    Layout("simple_url", extra=_URL),
    Layout("simple_hive_url", extra={**_HIVE, **_URL}),
    Layout("complex_two_keys", keys=("id", "site"), partitions="part,site", extra={**_HIVE, **_URL}),
    Layout("complex_one_key", extra={_KEYGEN: "org.apache.hudi.keygen.ComplexKeyGenerator", **_KNOWN}),
    Layout("nonpartitioned", partitions=""),
    Layout("nonpartitioned_two_keys", keys=("id", "site"), partitions=""),
    Layout(
        "timestamp",
        partitions="day",
        extra={_KEYGEN: "org.apache.hudi.keygen.TimestampBasedKeyGenerator", **_TIME},
    ),
    Layout(
        "custom",
        partitions="part:SIMPLE,day:TIMESTAMP",
        extra={_KEYGEN: "org.apache.hudi.keygen.CustomKeyGenerator", **_TIME, **_URL},
    ),
)


def row(number: int, ts: int, text: str, *, part: str | None = None) -> Row:
    """Makes a row that every layout can hold; the partition follows from the number."""
    return {
        "id": f"key-{number:03d}",
        "site": number % 2,
        "ts": ts,
        "part": part if part is not None else f"p {number % 3}",
        "day": f"2024-{1 + number % 2:02d}-17",
        "val": text,
        "amount": number + ts / 8,
    }


def batch(rows: list[Row]) -> pa.Table:
    """Makes the Arrow table of rows made by `row`."""
    return pa.Table.from_pylist(rows, schema=SCHEMA)
