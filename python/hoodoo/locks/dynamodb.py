"""Table locks in DynamoDB, in the form of the lock client of AWS that Hudi's `DynamoDBBasedLockProvider` uses.

| attribute | of the item |
|---|---|
| `key` | the partition key: which lock |
| `ownerName` | who holds it |
| `leaseDuration` | milliseconds for which it is held without a heartbeat, as a string |
| `recordVersionNumber` | changes with each heartbeat |
| `isReleased` | `1` if its holder released it and left it there |

Clocks are not compared: who waits sees whether the version number stays the same for as long as the lease says.
"""

from __future__ import annotations

import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hoodoo.exceptions import InvalidOptionError, LockError
from hoodoo.extras import import_extra
from hoodoo.locks.settings import hash_of, positive, required

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["DynamoDBLease", "DynamoDBLock", "dynamodb_lock"]

_PREFIX = "hoodie.write.lock.dynamodb."
_KEY = "key"
_RENEWALS = 3
"""Heartbeats within a lease."""
_CONFLICT, _NO_TABLE, _TABLE_EXISTS = (
    "ConditionalCheckFailedException",
    "ResourceNotFoundException",
    "ResourceInUseException",
)


def dynamodb_lock(settings: Mapping[str, str], uri: str, *, implicit: bool) -> DynamoDBLock:
    """Open the lock of a table, as `open_lock` does. `implicit`: its key follows from the URI."""
    import_extra("boto3", "dynamodb", "a lock in DynamoDB")
    table = required(settings, f"{_PREFIX}table")
    named = settings.get("hoodie.table.name")
    key = hash_of(uri) if implicit else required(settings, f"{_PREFIX}partition_key", named)
    lease = positive(settings, "hoodie.write.lock.wait_time_ms", 60_000)
    billing = _billing(settings)
    return DynamoDBLock(_client(settings), table, key, lease, billing)


def _client(settings: Mapping[str, str]) -> Any:
    import boto3  # noqa: PLC0415 - optional
    from botocore.exceptions import BotoCoreError  # noqa: PLC0415 - optional

    given = {
        "region_name": settings.get(f"{_PREFIX}region") or settings.get("hoodie.aws.region"),
        "endpoint_url": settings.get(f"{_PREFIX}endpoint_url"),
        "aws_access_key_id": settings.get("hoodie.aws.access.key"),
        "aws_secret_access_key": settings.get("hoodie.aws.secret.key"),
        "aws_session_token": settings.get("hoodie.aws.session.token"),
    }
    try:
        return boto3.client("dynamodb", **{name: value for name, value in given.items() if value})
    except BotoCoreError as error:
        message = f"DynamoDB cannot be used for the table lock: {error}. Set {_PREFIX}region, or AWS_REGION"
        raise LockError(message) from error


def _billing(settings: Mapping[str, str]) -> dict[str, Any]:
    mode = settings.get(f"{_PREFIX}billing_mode", "PAY_PER_REQUEST")
    if mode not in {"PAY_PER_REQUEST", "PROVISIONED"}:
        message = f"invalid value {mode!r} for {_PREFIX}billing_mode: expected one of PAY_PER_REQUEST, PROVISIONED"
        raise InvalidOptionError(message)
    if mode != "PROVISIONED":
        return {"BillingMode": mode}
    capacity = {
        "ReadCapacityUnits": positive(settings, f"{_PREFIX}read_capacity", 20),
        "WriteCapacityUnits": positive(settings, f"{_PREFIX}write_capacity", 10),
    }
    return {"BillingMode": mode, "ProvisionedThroughput": capacity}


class DynamoDBLock:
    """The lock of one table."""

    def __init__(self, client: Any, table: str, key: str, lease_ms: int, billing: dict[str, Any]) -> None:
        """Make the lock; nothing is asked yet."""
        self.place = f"dynamodb://{table}/{key}"
        self._client, self._table, self._key = client, table, {_KEY: {"S": key}}
        self._lease_ms, self._billing = lease_ms, billing
        # Version number of another holder, when it was first seen, and how long it may stay the same.
        self._seen: tuple[str, float, float] | None = None

    def try_acquire(self, owner: str) -> DynamoDBLease | None:
        """Try once, without waiting.

        Raises:
            LockError: DynamoDB does not answer, or denies access.
        """
        found = self._call("get_item", TableName=self._table, Key=self._key, ConsistentRead=True)
        item = (found or {}).get("Item")
        if found is None:
            self._create_table()
        if item is not None and item.get("isReleased", {}).get("S") != "1" and not self._has_expired(item):
            return None
        version, begun = str(uuid.uuid4()), time.monotonic()
        condition: dict[str, Any] = {"ConditionExpression": "attribute_not_exists(#k)"}
        condition["ExpressionAttributeNames"] = {"#k": _KEY}
        if item is not None:
            condition = {
                "ConditionExpression": "recordVersionNumber = :known",
                "ExpressionAttributeValues": {":known": item["recordVersionNumber"]},
            }
        new = {
            **self._key,
            "ownerName": {"S": owner},
            "leaseDuration": {"S": str(self._lease_ms)},
            "recordVersionNumber": {"S": version},
        }
        if self._call("put_item", TableName=self._table, Item=new, **condition) is None:
            return None
        self._seen = None
        return DynamoDBLease(self, version, begun)

    def _has_expired(self, item: dict[str, Any]) -> bool:
        version = item.get("recordVersionNumber", {}).get("S", "")
        now = time.monotonic()
        if self._seen is None or self._seen[0] != version:
            duration = item.get("leaseDuration", {}).get("S", "")
            self._seen = (version, now, int(duration) / 1000 if duration.isdigit() else self._lease_ms / 1000)
        return now - self._seen[1] > self._seen[2]

    def renew(self, version: str, *, new: str) -> bool:
        """Change the version number of a lock that is held; return whether it was held.

        Raises:
            LockError: DynamoDB does not answer.
        """
        changed = self._call(
            "update_item",
            TableName=self._table,
            Key=self._key,
            UpdateExpression="SET recordVersionNumber = :new",
            ConditionExpression="recordVersionNumber = :known",
            ExpressionAttributeValues={":known": {"S": version}, ":new": {"S": new}},
        )
        return changed is not None

    def delete(self, version: str) -> None:
        """Delete a lock that is held. One that others have taken over stays.

        Raises:
            LockError: DynamoDB does not answer; the lock ends with its lease.
        """
        self._call(
            "delete_item",
            TableName=self._table,
            Key=self._key,
            ConditionExpression="recordVersionNumber = :known",
            ExpressionAttributeValues={":known": {"S": version}},
        )

    @property
    def lease_seconds(self) -> float:
        """How long it is held without a heartbeat."""
        return self._lease_ms / 1000

    def _create_table(self) -> None:
        self._call(
            "create_table",
            TableName=self._table,
            KeySchema=[{"AttributeName": _KEY, "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": _KEY, "AttributeType": "S"}],
            **self._billing,
        )
        from botocore.exceptions import WaiterError  # noqa: PLC0415 - optional

        try:
            self._client.get_waiter("table_exists").wait(TableName=self._table, WaiterConfig={"Delay": 2})
        except WaiterError as error:
            raise LockError(f"the table of DynamoDB was not created: {error} [lock={self.place}]") from error

    def _call(self, operation: str, **arguments: Any) -> dict[str, Any] | None:
        """The answer; None if a condition does not hold, there is no table yet, or another process has just made it."""
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - optional

        try:
            answer: dict[str, Any] = getattr(self._client, operation)(**arguments)
        except ClientError as error:
            if error.response.get("Error", {}).get("Code") in {_CONFLICT, _NO_TABLE, _TABLE_EXISTS}:
                return None
            raise LockError(f"DynamoDB refused {operation}: {error} [lock={self.place}]") from error
        except BotoCoreError as error:
            raise LockError(f"DynamoDB does not answer: {error} [lock={self.place}]") from error
        return answer


class DynamoDBLease:
    """A lock that is held, with its heartbeat."""

    def __init__(self, lock: DynamoDBLock, version: str, begun: float) -> None:
        """Begin the heartbeat."""
        self._lock, self._version, self._renewed = lock, version, begun
        self._guard, self._ended, self._lost = threading.Lock(), threading.Event(), False
        self._thread = threading.Thread(target=self._beat, name="hoodoo-lock-heartbeat", daemon=True)
        self._thread.start()

    def _beat(self) -> None:
        while not self._ended.wait(self._lock.lease_seconds / _RENEWALS):
            # The next one may be answered; until then the lease goes on.
            with suppress(LockError):
                self._renew()

    def _renew(self) -> bool:
        with self._guard:
            if self._lost or self._ended.is_set():
                return False
            begun, new = time.monotonic(), str(uuid.uuid4())
            if not self._lock.renew(self._version, new=new):
                self._lost = True
                return False
            self._version, self._renewed = new, begun
            return True

    def is_held(self) -> bool:
        """Return whether the lease has not run out."""
        return not self._lost and time.monotonic() - self._renewed < self._lock.lease_seconds

    def is_confirmed(self) -> bool:
        """Renew the lease; return whether that succeeds.

        Raises:
            LockError: DynamoDB does not answer.
        """
        return self.is_held() and self._renew()

    def release(self) -> None:
        """Delete the lock.

        Raises:
            LockError: DynamoDB does not answer; the lock ends with its lease.
        """
        self._ended.set()
        with self._guard:
            if not self._lost:
                self._lock.delete(self._version)
