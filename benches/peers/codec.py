"""The codec of all Parquet files that are written, the same for everybody."""

from __future__ import annotations

import os

CODECS = ("zstd", "snappy", "gzip")
"""What can be asked for."""

_NAME = "HOODOO_BENCH_CODEC"


def choose(codec: str) -> None:
    """Sets the codec for this process and those that it starts."""
    os.environ[_NAME] = codec


def codec() -> str:
    """Gives its name, as all systems have it."""
    return os.environ.get(_NAME, CODECS[0])


def level() -> int | None:
    """Gives the level; None where everybody's default is the same, or there is none."""
    return 1 if codec() == "zstd" else None


def described() -> str:
    """Says both."""
    return codec() if level() is None else f"{codec()} level {level()}"
