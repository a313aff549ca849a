"""Jobs with several writers: optimistic concurrency control with each lock provider."""

from __future__ import annotations

from tests.interop.jobs.job import Job

_TRIPS = {
    "hoodie.table.name": "shared",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
_SHARED = {
    **_TRIPS,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
_LOCKS = "org.apache.hudi.client.transaction.lock"
_IN_PROCESS = {"hoodie.write.lock.provider": f"{_LOCKS}.InProcessLockProvider"}

JOBS = (
    Job(
        "zookeeper_lock",
        "the documentation of concurrency control",
        {
            **_SHARED,
            "hoodie.write.lock.provider": f"{_LOCKS}.ZookeeperBasedLockProvider",
            "hoodie.write.lock.zookeeper.url": "zookeeper",
            "hoodie.write.lock.zookeeper.port": "2181",
            "hoodie.write.lock.zookeeper.lock_key": "shared",
            "hoodie.write.lock.zookeeper.base_path": "/hudi",
        },
        needs="zookeeper",
    ),
    Job(
        "dynamodb_lock",
        "the documentation of locks on AWS",
        {
            **_SHARED,
            "hoodie.write.lock.provider": "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
            "hoodie.write.lock.dynamodb.table": "hudi-locks",
            "hoodie.write.lock.dynamodb.partition_key": "shared",
            "hoodie.write.lock.dynamodb.region": "us-east-1",
            "hoodie.write.lock.dynamodb.endpoint_url": "https://dynamodb.us-east-1.amazonaws.com",
            "hoodie.write.lock.dynamodb.billing_mode": "PAY_PER_REQUEST",
        },
        # Hudi's classes for AWS are in another bundle.
        theirs=_IN_PROCESS,
        needs="aws",
    ),
    Job(
        "hive_metastore_lock",
        "the documentation of concurrency control",
        {
            **_SHARED,
            "hoodie.write.lock.provider": "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
            "hoodie.write.lock.hivemetastore.database": "lake",
            "hoodie.write.lock.hivemetastore.table": "shared",
        },
        refused=("hoodie.write.lock.provider",),
        remedy={
            "hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider",
            "hoodie.write.lock.hivemetastore.database": None,
            "hoodie.write.lock.hivemetastore.table": None,
        },
    ),
    Job(
        "file_system_lock",
        "small deployments and tests",
        {
            **_SHARED,
            "hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider",
            "hoodie.write.lock.filesystem.expire": "10",
            "hoodie.write.lock.wait_time_ms": "12000",
            "hoodie.write.lock.num_retries": "4",
            "hoodie.write.lock.client.num_retries": "4",
            "hoodie.write.lock.client.wait_time_ms_between_retry": "1000",
        },
    ),
    Job(
        "storage_lock",
        "the documentation of locks by conditional writes",
        {
            **_SHARED,
            "hoodie.write.lock.provider": f"{_LOCKS}.StorageBasedLockProvider",
            "hoodie.write.lock.storage.validity.timeout.secs": "300",
            "hoodie.write.lock.storage.renew.interval.secs": "30",
        },
        # Hudi's provider knows no local files either.
        refused=("hoodie.write.lock.provider",),
        remedy={
            "hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider",
            "hoodie.write.lock.storage.validity.timeout.secs": None,
            "hoodie.write.lock.storage.renew.interval.secs": None,
        },
    ),
    Job(
        "in_process_lock",
        "streams with table services in threads of the same process",
        {
            **_SHARED,
            **_IN_PROCESS,
            "hoodie.write.concurrency.early.conflict.detection.enable": "true",
            "hoodie.write.num.retries.on.conflict.failures": "3",
            "hoodie.auto.adjust.lock.configs": "true",
        },
    ),
    Job(
        "non_blocking",
        "the documentation of several writers without conflicts",
        {
            **_TRIPS,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
            "hoodie.clean.failed.writes.policy": "LAZY",
            "hoodie.index.type": "BUCKET",
            "hoodie.bucket.index.num.buckets": "2",
            **_IN_PROCESS,
        },
        # Hudi checks this key before it takes the type from that of the data source.
        theirs={"hoodie.table.type": "MERGE_ON_READ"},
    ),
    Job(
        "own_lock_provider",
        "jobs with a custom lock provider in a jar",
        {**_SHARED, "hoodie.write.lock.provider": "com.example.hudi.RedisLockProvider"},
        refused=("hoodie.write.lock.provider",),
        remedy={"hoodie.write.lock.provider": f"{_LOCKS}.FileSystemBasedLockProvider"},
    ),
)
