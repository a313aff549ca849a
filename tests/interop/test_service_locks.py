"""Locks in ZooKeeper are those of Hudi's own provider: the one keeps the other out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodoo.locks import open_lock
from tests.interop.hudi import Hudi
from tests.zookeeper_server import ZookeeperServer

_PREFIX = "hoodie.write.lock.zookeeper."


def test_hudi_waits_for_ours_and_we_for_hudis(hudi: Hudi, tmp_path: Path) -> None:
    server = ZookeeperServer(tmp_path)
    settings = {
        f"{_PREFIX}url": server.hosts,
        f"{_PREFIX}base_path": "/hudi",
        f"{_PREFIX}lock_key": "trips",
        f"{_PREFIX}session_timeout_ms": "4000",
        f"{_PREFIX}connection_timeout_ms": "4000",
        "hoodie.write.lock.wait_time_ms": "1000",
    }
    ours = open_lock("org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider", settings, "/tmp/t")
    jvm: Any = hudi.spark._jvm
    properties = jvm.org.apache.hudi.common.config.TypedProperties()
    for key, value in settings.items():
        properties.setProperty(key, value)
    provider = jvm.org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider
    theirs = provider(jvm.org.apache.hudi.common.config.LockConfiguration(properties), None)
    milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
    try:
        lease = ours.try_acquire("hoodoo")
        assert lease is not None
        assert lease.is_confirmed()
        with pytest.raises(Exception, match="FAILED_TO_ACQUIRE"):
            theirs.tryLock(300, milliseconds)
        assert lease.is_confirmed()
        lease.release()
        assert theirs.tryLock(5000, milliseconds)
        assert ours.try_acquire("hoodoo") is None
        theirs.unlock()
        again = ours.try_acquire("hoodoo")
        assert again is not None
        again.release()
    finally:
        theirs.close()
        server.stop()
