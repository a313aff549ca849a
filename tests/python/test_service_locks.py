"""Table locks in ZooKeeper and DynamoDB: a real server, and moto."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

import hoodoo
from hoodoo import Table
from hoodoo.locks import open_lock
from hoodoo.locks.dynamodb import DynamoDBLease
from hoodoo.locks.zookeeper import ZookeeperLease, ZookeeperLock
from tests.s3_server import S3Server
from tests.zookeeper_server import ZookeeperServer

_PROVIDER = "hoodie.write.lock.provider"
_ZOOKEEPER = "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider"
_IMPLICIT = "org.apache.hudi.client.transaction.lock.ZookeeperBasedImplicitBasePathLockProvider"
_DYNAMODB = "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider"
_ROOT = Path(__file__).resolve().parents[2]

# Upserts its own rows and one that all have.
_WRITER = """
import sys
import hoodoo
uri, name, count, *pairs = sys.argv[1:]
options = dict(pair.split("=", 1) for pair in pairs)
for n in range(int(count)):
    hoodoo.Table(uri, options).upsert({"id": ["shared", f"{name}{n}"], "n": [n, n]})
"""


@pytest.fixture(scope="module", name="zookeeper")
def _zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    server = ZookeeperServer(tmp_path_factory.mktemp("zookeeper"))
    yield {
        _PROVIDER: _ZOOKEEPER,
        "hoodie.write.lock.zookeeper.url": "127.0.0.1",
        "hoodie.write.lock.zookeeper.port": str(server.port),
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.session_timeout_ms": "4000",
    }
    server.stop()


@pytest.fixture(scope="module", name="dynamodb")
def _dynamodb() -> Iterator[dict[str, str]]:
    server = S3Server()
    yield {
        _PROVIDER: _DYNAMODB,
        "hoodie.write.lock.dynamodb.table": "locks",
        "hoodie.write.lock.dynamodb.region": "us-east-1",
        "hoodie.write.lock.dynamodb.endpoint_url": server.endpoint,
        "hoodie.aws.access.key": "right",
        "hoodie.aws.secret.key": "secret",
        "hoodie.write.lock.wait_time_ms": "3000",
    }
    server.close()


def _open(settings: dict[str, str], key: str) -> Any:
    named = settings | {"hoodie.table.name": key}
    return open_lock(settings[_PROVIDER], named, "/tmp/t")


@pytest.fixture(name="settings", params=["zookeeper", "dynamodb"])
def _settings(request: pytest.FixtureRequest) -> dict[str, str]:
    settings: dict[str, str] = request.getfixturevalue(request.param)
    return settings


def test_processes_take_turns(settings: dict[str, str], tmp_path: Path) -> None:
    """Nothing that was acknowledged is lost, and no key is doubled."""
    options = settings | {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
    path = tmp_path / "t"
    Table.create(path, {"id": "string", "n": "int64"}, name=f"turns{len(settings)}", record_key="id", options=options)
    pairs = [f"{key}={value}" for key, value in options.items()]
    writers = [
        subprocess.Popen([sys.executable, "-c", _WRITER, str(path), name, "5", *pairs], cwd=_ROOT) for name in "ab"
    ]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    ids = sorted(row["id"] for row in Table(path, options).to_arrow(columns=["id"]).to_pylist())
    assert ids == sorted(["shared", *(f"{name}{n}" for name in "ab" for n in range(5))])
    assert not Table(path, options).verify().problems


def test_one_at_a_time(settings: dict[str, str]) -> None:
    one, other = _open(settings, "single"), _open(settings, "single")
    lease = one.try_acquire("me")
    assert lease.is_held()
    assert lease.is_confirmed()
    assert other.try_acquire("you") is None
    assert _open(settings, "another").try_acquire("you").is_confirmed()
    lease.release()
    taken = other.try_acquire("you")
    assert taken.is_confirmed()
    assert one.try_acquire("me") is None
    taken.release()


def test_a_lease_in_dynamodb_is_renewed(dynamodb: dict[str, str]) -> None:
    settings = dynamodb | {"hoodie.write.lock.wait_time_ms": "600"}
    one, other = _open(settings, "renewed"), _open(settings, "renewed")
    lease = one.try_acquire("me")
    until = time.monotonic() + 1.5
    while time.monotonic() < until:
        assert other.try_acquire("you") is None
        time.sleep(0.1)
    assert lease.is_confirmed()
    lease.release()


def test_a_lease_in_dynamodb_whose_holder_was_killed(dynamodb: dict[str, str]) -> None:
    settings = dynamodb | {"hoodie.write.lock.wait_time_ms": "600"}
    one, other = _open(settings, "killed"), _open(settings, "killed")
    lease = one.try_acquire("me")
    assert isinstance(lease, DynamoDBLease)
    # As if its process were gone: no heartbeat.
    lease._ended.set()
    assert other.try_acquire("you") is None
    until = time.monotonic() + 10
    taken = None
    while taken is None and time.monotonic() < until:
        time.sleep(0.1)
        taken = other.try_acquire("you")
    assert taken is not None
    assert taken.is_confirmed()
    assert not lease.is_held()
    assert not lease.is_confirmed()
    # Not the lock of the other one.
    lease.release()
    assert taken.is_confirmed()
    taken.release()


def test_a_session_of_zookeeper_that_ends(zookeeper: dict[str, str]) -> None:
    one, other = _open(zookeeper, "ended"), _open(zookeeper, "ended")
    lease = one.try_acquire("me")
    assert isinstance(lease, ZookeeperLease)
    lease._client.stop()
    assert not lease.is_held()
    taken = other.try_acquire("you")
    assert taken.is_confirmed()
    taken.release()


def test_an_attempt_that_fails_locks_nothing(zookeeper: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection is lost after the node was created, or before it is deleted: no node stays behind."""
    lock = _open(zookeeper, "failed")
    with monkeypatch.context() as patch:
        patch.setattr(ZookeeperLock, "_first", lambda *_: _raise(ConnectionLoss()))
        with pytest.raises(hoodoo.LockError, match="ConnectionLoss"):
            lock.try_acquire("me")
    lease = lock.try_acquire("me")
    assert lease is not None
    with monkeypatch.context() as patch:
        patch.setattr(lease._client, "delete", lambda *_: _raise(ConnectionLoss()))
        with pytest.raises(hoodoo.LockError, match="ConnectionLoss"):
            lease.release()
    other = _open(zookeeper, "failed").try_acquire("you")
    assert other is not None
    other.release()


def _raise(error: Exception) -> None:
    raise error


def test_a_node_of_zookeeper_that_is_gone(zookeeper: dict[str, str]) -> None:
    lock = _open(zookeeper, "gone")
    lease = lock.try_acquire("me")
    lease._client.delete(lease._node)
    assert lease.is_held()
    assert not lease.is_confirmed()
    lease.release()


def test_where_a_lock_is(zookeeper: dict[str, str]) -> None:
    lock = open_lock(_IMPLICIT, zookeeper, "s3a://bucket/table")
    assert isinstance(lock, ZookeeperLock)
    # As Hudi 1.2.0 names it.
    assert lock.place.endswith("/tmp/4DCF035CB614089C/lock_key")
    assert _open(zookeeper, "trips").place.endswith("/hudi/trips")


@pytest.mark.parametrize(
    ("provider", "options", "named"),
    [
        (_ZOOKEEPER, {}, "zookeeper.url"),
        (_ZOOKEEPER, {"hoodie.write.lock.zookeeper.url": "h"}, "zookeeper.base_path"),
        (
            _ZOOKEEPER,
            {"hoodie.write.lock.zookeeper.url": "h", "hoodie.write.lock.zookeeper.base_path": "x"},
            "zookeeper.base_path",
        ),
        (_DYNAMODB, {}, "dynamodb.table"),
        (
            _DYNAMODB,
            {"hoodie.write.lock.dynamodb.table": "l", "hoodie.write.lock.dynamodb.billing_mode": "FREE"},
            "dynamodb.billing_mode",
        ),
        (
            _DYNAMODB,
            {
                "hoodie.write.lock.dynamodb.table": "l",
                "hoodie.write.lock.dynamodb.region": "us-east-1",
                "hoodie.write.lock.dynamodb.billing_mode": "PROVISIONED",
                "hoodie.write.lock.dynamodb.read_capacity": "many",
            },
            "dynamodb.read_capacity",
        ),
    ],
)
def test_what_a_lock_lacks(tmp_path: Path, provider: str, options: dict[str, str], named: str) -> None:
    table = Table.create(tmp_path / "t", {"id": "string"}, name="t", record_key="id")
    with pytest.raises(hoodoo.InvalidOptionError, match=named.replace(".", r"\.")):
        Table(table.uri, options | {_PROVIDER: provider}).insert({"id": ["a"]})
    assert Table(table.uri).to_arrow().num_rows == 0


def test_an_option_of_aws_that_is_not_known(tmp_path: Path) -> None:
    """A role that is not taken on would be another identity."""
    table = Table.create(tmp_path / "t", {"id": "string"}, name="t", record_key="id")
    with pytest.warns(hoodoo.HudiWarning, match=r"hoodie\.aws\.role\.arn"):
        Table(table.uri, {"hoodie.aws.role.arn": "arn:aws:iam::1:role/x"}).insert({"id": ["a"]})


def test_a_service_that_does_not_answer(tmp_path: Path) -> None:
    table = Table.create(tmp_path / "t", {"id": "string"}, name="t", record_key="id")
    options = {
        _PROVIDER: _ZOOKEEPER,
        "hoodie.write.lock.zookeeper.url": "127.0.0.1:1",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.connection_timeout_ms": "200",
        "hoodie.write.lock.wait_time_ms": "500",
        "hoodie.write.lock.client.num_retries": "0",
    }
    with pytest.raises(hoodoo.LockError, match="ZooKeeper does not answer"):
        Table(table.uri, options).insert({"id": ["a"]})
    assert Table(table.uri).to_arrow().num_rows == 0


class _Interrupted:
    """A lock whose client is ended by a signal, in one of its calls."""

    place = "here"

    def __init__(self, where: str, at: int) -> None:
        self.where, self.left, self.released = where, at, 0

    def _called(self, what: str) -> None:
        if what == self.where:
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt

    def try_acquire(self, owner: str) -> _Interrupted:  # noqa: ARG002
        self._called("try_acquire")
        return self

    def is_held(self) -> bool:
        self._called("is_held")
        return True

    def is_confirmed(self) -> bool:
        self._called("is_confirmed")
        return True

    def release(self) -> None:
        self.released += 1


@pytest.mark.parametrize("where", ["try_acquire", "is_held", "is_confirmed"])
def test_a_signal_in_a_client_ends_the_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    uri = str(tmp_path / "t")
    Table.create(uri, {"id": "int64"}, name="t", record_key="id")
    options = {
        _PROVIDER: _ZOOKEEPER,
        "hoodie.write.lock.zookeeper.url": "127.0.0.1",
        "hoodie.write.lock.zookeeper.base_path": "/hudi",
        "hoodie.write.lock.zookeeper.lock_key": "k",
    }
    ended = 0
    for at in range(1, 12):
        lock = _Interrupted(where, at)
        monkeypatch.setattr("hoodoo.locks.open_lock", lambda *_, lock=lock: lock)
        before = Table(uri).count()
        try:
            Table(uri, options).insert({"id": [at]})
        except KeyboardInterrupt as interrupt:
            ended += 1
            committed = getattr(interrupt, "commit", None) is not None
        else:
            assert lock.left > 0
            committed = True
        assert Table(uri).count() == before + committed
    assert ended > 0
    assert not Table(uri).verify().problems
