"""Hudi's bucket index as the tests know it: the bucket of a key, and what has to be true of a table."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hoodoo

INDEX = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "4"}


def java_hash(text: str) -> int:
    """Computes `String.hashCode`, without its sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for at in range(0, len(units), 2):
        code = (31 * code + int.from_bytes(units[at : at + 2], "big")) & 0xFFFFFFFF
    return code


def bucket_of(*values: str, buckets: int = 4) -> int:
    """Computes the bucket of a record key of these values."""
    code = 1
    for value in values:
        code = (31 * code + java_hash(value)) & 0xFFFFFFFF
    return (code & 0x7FFFFFFF) % buckets


def groups(uri: str | Path) -> dict[str, dict[int, str]]:
    """Gives the file ids of each partition by their buckets; fails for two of one."""
    found: dict[str, dict[int, str]] = defaultdict(dict)
    for part in hoodoo.Table(uri).file_slices():
        bucket = int(part.file_id[:8])
        assert bucket not in found[part.partition], "two file groups of a bucket"
        found[part.partition][bucket] = part.file_id
    return dict(found)


def check(uri: str | Path, bucket: Callable[[Mapping[str, Any]], int], options: Mapping[str, str] = INDEX) -> None:
    """Fails for a row that is not in the file group of its bucket, and for whatever `verify` finds."""
    known = groups(uri)
    for row in hoodoo.Table(uri).to_arrow().to_pylist():
        file_id = known[row["_hoodie_partition_path"]][bucket(row)]
        assert row["_hoodie_file_name"].startswith(file_id), row
    for given in (options, {}):
        assert not hoodoo.Table(uri, options=given).verify().problems
