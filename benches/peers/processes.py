"""CPU time and memory of a process and all that it started, as Linux tells them in `/proc`."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from pathlib import Path

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_SAMPLE = 0.02
_FAMILY_AGE = 0.2
_PARENT, _FIRST_TIME, _LAST_TIME, _RESIDENT = 1, 11, 15, 1


def _read(pid: int, name: str) -> str:
    """Reads a file of a process; nothing when the process is gone."""
    try:
        return (_PROC / str(pid) / name).read_text()
    except OSError:
        return ""


def _stat(pid: int) -> list[str]:
    # The program's name may hold spaces and brackets; the fields follow its last bracket.
    return _read(pid, "stat").rpartition(")")[2].split()


def family(root: int) -> list[int]:
    """Lists a process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        stat = _stat(int(entry.name)) if entry.name.isdigit() else []
        if stat:
            children.setdefault(int(stat[_PARENT]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def cpu_seconds(root: int) -> float:
    """Gives the CPU time that a process and its descendants used, ended children that were waited for too."""
    return sum(int(field) for pid in family(root) for field in _stat(pid)[_FIRST_TIME:_LAST_TIME]) / _TICK


def resident(pids: list[int]) -> int:
    """Gives the resident memory of processes together, in bytes; pages that they share count in each."""
    statms = (_read(pid, "statm").split() for pid in pids)
    return sum(int(statm[_RESIDENT]) for statm in statms if statm) * _PAGE


def reset_peaks(pids: list[int]) -> None:
    """Lets the kernel forget the most memory that processes had so far."""
    for pid in pids:
        with contextlib.suppress(OSError):
            (_PROC / str(pid) / "clear_refs").write_text("5")


def peaks(pids: list[int]) -> int:
    """Gives the most resident memory that each process had since the reset, added up, in bytes."""
    found = (re.search(r"VmHWM:\s+(\d+) kB", _read(pid, "status")) for pid in pids)
    return sum(int(peak[1]) for peak in found if peak) * 1024


class PeakMemory(threading.Thread):
    """Watches the memory of a process and its descendants, every 20 ms, while it is told to.

    Args:
        root: The process.
    """

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root = root
        self._watching = threading.Event()
        self._ended = threading.Event()
        self._peak = 0

    def begin(self) -> None:
        """Starts anew."""
        self._peak = 0
        self._watching.set()

    def end(self) -> int:
        """Gives the most that was seen since `begin`, in bytes."""
        self._peak = max(self._peak, resident(family(self._root)))
        self._watching.clear()
        return self._peak

    def close(self) -> None:
        """Ends the thread."""
        self._ended.set()
        self._watching.set()

    def run(self) -> None:
        """Samples."""
        pids: list[int] = []
        listed = 0.0
        while self._watching.wait() and not self._ended.is_set():
            if time.monotonic() - listed > _FAMILY_AGE:
                pids, listed = family(self._root), time.monotonic()
            self._peak = max(self._peak, resident(pids))
            time.sleep(_SAMPLE)
