"""A write that is begun, and committed later by another process of the same machine.

A write holds its heartbeat and the writer lease from begin to end. Where an engine begins it in one process and commits
it in another, a process of its own holds it between. That process ends with the write: when it is committed or aborted,
and when the process that it belongs to is gone; then the write is rolled back.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodoo import _native, exceptions
from hoodoo.arguments import location, storage_settings
from hoodoo.distributed.task import TableRef
from hoodoo.distributed.write import BegunWrite, PreparedWrite, WriteTask, prepare_write, refuse_to_append
from hoodoo.exceptions import HudiError, InternalError, TableNotFoundError
from hoodoo.sync.after_commit import sync_after_commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["WriteProcess", "begin_in_process"]

_SECONDS_BETWEEN_LOOKS = 1.0
_OF_LOCKS = ("hoodie.write.lock.", "hoodie.write.concurrency.")


@dataclass(frozen=True)
class WriteProcess:
    """How to reach a process that holds a write. Can be pickled.

    Attributes:
        address: Where it listens, on this machine.
        key: What callers have to know, as hexadecimal digits.
        task: What the tasks of the write run.
        operation: The operation of the write.
    """

    address: str
    key: str = field(repr=False)
    task: WriteTask
    operation: str

    def commit(self, reports: Sequence[str]) -> None:
        """Commit the files that tasks report, and end the process.

        Raises:
            HudiError: The write cannot be committed. It was rolled back.
        """
        self._ask({"reports": list(reports)})

    def abort(self) -> None:
        """Remove what the tasks wrote, and end the process."""
        self._ask({})

    def _ask(self, request: dict[str, Any]) -> None:
        try:
            with Client(self.address, authkey=bytes.fromhex(self.key)) as connection:
                connection.send_bytes(json.dumps(request).encode())
                answer = json.loads(connection.recv_bytes())
        except (OSError, EOFError, AuthenticationError) as error:
            raise InternalError(
                f"the process that holds the write of instant {self.instant} in {self.task.table.uri} has ended: "
                "nothing was committed unless the timeline says so, and the next write rolls back what is left"
            ) from error
        _raise_error(answer)

    @property
    def instant(self) -> str:
        """Requested time of the write."""
        return str(json.loads(self.task.plan)["instant"])


def begin_in_process(
    schema: pa.Schema, uri: str, operation: str | None, options: Mapping[str, str], storage_options: Mapping[str, str]
) -> WriteProcess:
    """Begin a write that appends the rows of each task to new files, and that another process commits.

    Args:
        schema: The schema of the rows.
        uri: Location of the table, which is created if there is none.
        operation: `insert`, `bulk_insert`, `insert_overwrite` or `insert_overwrite_table`.
        options: Hudi's options.
        storage_options: Settings of the storage.

    Returns:
        How to reach the process that holds the write.

    Raises:
        HudiError: The write cannot begin.
    """
    request = {
        "schema": schema.serialize().to_pybytes().hex(),
        "uri": uri,
        "operation": operation,
        "options": dict(options),
        "storage": dict(storage_options),
        "owner": _owner(),
        "key": secrets.token_hex(32),
    }
    command = [sys.executable, "-m", "hoodoo.distributed.write_process"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603 - our own module
    if process.stdin is None or process.stdout is None:
        raise InternalError("the process for the write has no pipes")
    with process.stdin, process.stdout:
        # The process reads to the end before it answers.
        process.stdin.write(json.dumps(request).encode())
        process.stdin.close()
        line = process.stdout.readline()
    if not line:
        raise InternalError(f"the process for the write ended with status {process.wait()} before the write began")
    answer = json.loads(line)
    _raise_error(answer)
    table = TableRef(answer["uri"], dict(options), dict(storage_options))
    return WriteProcess(answer["address"], request["key"], WriteTask(table, answer["plan"]), answer["operation"])


def _raise_error(answer: dict[str, Any]) -> None:
    if "error" in answer:
        kind = getattr(exceptions, answer["error"], HudiError)
        raise kind(answer["message"])


def _owner() -> int:
    """The process that has to live for the write to be committed: the driver of Spark, above Python's workers."""
    owner = os.getppid()
    # Where the system does not say more, that is the parent.
    with contextlib.suppress(OSError, ValueError):
        while Path(f"/proc/{owner}/comm").read_text(encoding="utf-8").startswith("python"):
            above = int(Path(f"/proc/{owner}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])
            if above <= 1:
                break
            owner = above
    return owner


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # One that was killed and whose parent lives on has its number until the parent asks for it.
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in {"Z", "X"}
    return True


def _watch(owner: int, done: threading.Event, begun: BegunWrite) -> None:
    """Abort the write and end this process when its owner has ended."""
    while not done.wait(_SECONDS_BETWEEN_LOOKS):
        if not _is_alive(owner):
            with contextlib.suppress(HudiError):
                begun.abort()
            os._exit(1)


def _failure(error: HudiError) -> dict[str, Any]:
    return {"error": type(error).__name__, "message": str(error)}


def _hold(prepared: PreparedWrite, begun: BegunWrite, listener: Listener, done: threading.Event) -> None:
    """Wait for one caller who commits or aborts."""
    while not done.is_set():
        # Someone without the key, or a caller who ended too early, is none.
        with contextlib.suppress(OSError, EOFError, AuthenticationError), listener.accept() as connection:
            request = json.loads(connection.recv_bytes())
            done.set()
            connection.send_bytes(json.dumps(_end(prepared, begun, request)).encode())


def _end(prepared: PreparedWrite, begun: BegunWrite, request: dict[str, Any]) -> dict[str, Any]:
    """Commit or abort, and return the answer."""
    try:
        if "reports" in request:
            commit = begun.commit(request["reports"])
            return {"instant": sync_after_commit(commit, prepared.native, prepared.table.options).instant}
        begun.abort()
    except HudiError as error:
        with contextlib.suppress(HudiError):
            begun.abort()
        return _failure(error)
    return {}


def _is_table(uri: str, storage_options: dict[str, str]) -> bool:
    try:
        _native.NativeTable.open(location(uri), {}, storage_settings(storage_options))
    except TableNotFoundError:
        return False
    return True


def _begin_to_append(schema: pa.Schema, request: dict[str, Any]) -> tuple[PreparedWrite, BegunWrite]:
    """Begin the write, unless it does more than to append rows."""
    prepared = prepare_write(schema, request["uri"], request["operation"], request["options"], request["storage"])
    begun = prepared.begin(schema, buckets=1)
    try:
        refuse_to_append(begun, prepared.operation, prepared.table.options)
    except HudiError:
        begun.abort()
        raise
    return prepared, begun


def _begin(request: dict[str, Any]) -> tuple[PreparedWrite, BegunWrite, dict[str, Any]]:
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(request["schema"])))
    if not _is_table(request["uri"], request["storage"]):
        # What is refused leaves no table: this one is in memory, where nobody else writes and no lock is needed.
        options = {key: value for key, value in request["options"].items() if not key.startswith(_OF_LOCKS)}
        tried = {**request, "uri": f"memory://{secrets.token_hex(8)}/t", "options": options, "storage": {}}
        _begin_to_append(schema, tried)[1].abort()
    prepared, begun = _begin_to_append(schema, request)
    return prepared, begun, {"uri": prepared.table.uri, "plan": begun.task.plan, "operation": prepared.operation}


def main() -> None:
    """Begin the write that stdin names, say on stdout how to go on, and hold the write."""
    request = json.loads(sys.stdin.buffer.read())
    try:
        prepared, begun, answer = _begin(request)
    except HudiError as error:
        sys.stdout.write(json.dumps(_failure(error)) + "\n")
        return
    done = threading.Event()
    threading.Thread(target=_watch, args=(request["owner"], done, begun), daemon=True).start()
    with Listener(authkey=bytes.fromhex(request["key"])) as listener:
        sys.stdout.write(json.dumps({**answer, "address": listener.address}) + "\n")
        sys.stdout.flush()
        _hold(prepared, begun, listener, done)


if __name__ == "__main__":
    main()
