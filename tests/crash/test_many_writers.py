"""Processes that write to one table, cluster and compact it and read it, while some of them are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.many_writers import Plan, run
from tests.memory_s3 import MemoryS3
from tests.s3_server import BUCKET, S3Server

KINDS = ["COPY_ON_WRITE", "MERGE_ON_READ"]
LOCKS = "org.apache.hudi.client.transaction.lock."
ON_DISK = {"hoodie.write.lock.provider": f"{LOCKS}FileSystemBasedLockProvider"}
ON_S3 = {"hoodie.write.lock.provider": f"{LOCKS}StorageBasedLockProvider"}


@pytest.fixture
def server() -> Iterator[S3Server]:
    server = S3Server()
    yield server
    server.close()


@pytest.fixture
def fast_server() -> Iterator[MemoryS3]:
    server = MemoryS3()
    yield server
    server.close()


def check(plan: Plan, slowest: float) -> None:
    outcome = run(plan)
    print(plan.kind, plan.uri, outcome)
    assert outcome.ok, outcome
    assert outcome.acknowledged > plan.writers * plan.upserts * 0.8
    assert outcome.slowest <= slowest, outcome


def services(kind: str) -> tuple[str, ...]:
    return ("cluster", "read") if kind == "COPY_ON_WRITE" else ("cluster", "compact", "read")


@pytest.mark.parametrize("kind", KINDS)
def test_on_a_disk(tmp_path: Path, kind: str):
    plan = Plan(str(tmp_path / "t"), kind, options=ON_DISK, writers=3, upserts=12, kills=3, services=services(kind))
    check(plan, 60)


@pytest.mark.s3
@pytest.mark.parametrize("kind", KINDS)
def test_in_an_object_store(server: S3Server, kind: str):
    plan = Plan(
        f"s3://{BUCKET}/{kind}",
        kind,
        server.storage_options,
        writers=2,
        upserts=6,
        kills=2,
        services=services(kind),
        apart=True,
    )
    check(plan, 60)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("same_keys", [True, False], ids=["same keys", "own keys"])
@pytest.mark.parametrize("locked", [True, False], ids=["lock", "no lock"])
@pytest.mark.parametrize("kind", KINDS)
def test_two_hundred_upserts_each_on_a_disk(tmp_path: Path, kind: str, locked: bool, same_keys: bool):
    options = ON_DISK if locked else {}
    plan = Plan(str(tmp_path / "t"), kind, {}, options, kills=25, services=services(kind), same_keys=same_keys)
    check(plan, 5)


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.s3
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("same_keys", [True, False], ids=["same keys", "own keys"])
@pytest.mark.parametrize("locked", [True, False], ids=["lock", "no lock"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("apart", [False, True], ids=["one machine", "as if on several machines"])
def test_two_hundred_upserts_each_in_an_object_store(
    fast_server: MemoryS3, kind: str, locked: bool, same_keys: bool, apart: bool
):
    # Moto takes so long for a request that seven processes would measure it.
    options, uri = ON_S3 if locked else {}, f"s3://{BUCKET}/{kind}-{locked}-{same_keys}-{apart}"
    plan = Plan(
        uri,
        kind,
        fast_server.storage_options,
        options,
        kills=25,
        services=services(kind),
        same_keys=same_keys,
        apart=apart,
    )
    check(plan, 5)
