"""A process with all that it started: measured, and killed, as one.

A tree contains the processes of the root's session, and all descendants, also those that began a session of their own.
A descendant that did so and lost its parent is found if the root called `adopt_orphans`; else it belongs to init.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidemill.model.resource_limits import ResourceUsage

PROC = Path("/proc")
_PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER = 36
_KILL_SECONDS = 5.0
"""Seconds for which a tree is killed again and again, because its processes may start others meanwhile."""


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """A row of the process table."""

    pid: int
    parent: int
    session: int
    cpu: float  # seconds, with ended children that it waited for
    threads: int
    memory: int  # resident bytes, with pages that are shared with others
    has_ended: bool = False  # its parent has not read its status yet


def has_process_table() -> bool:
    return (PROC / "self" / "stat").exists()


def read_process_table() -> dict[int, ProcessRecord]:
    """Every process that exists now, by its number; empty where there is no directory /proc."""
    return {p.pid: p for p in _list_processes()} if has_process_table() else {}


def _list_processes() -> Iterator[ProcessRecord]:
    for name in os.listdir(PROC):  # noqa: PTH208  # four times as quick as a glob, and called twice a second
        if name.isdecimal():
            with suppress(OSError, IndexError):  # it has ended
                yield _parse_stat(int(name), (PROC / name / "stat").read_text())


def _parse_stat(pid: int, stat: str) -> ProcessRecord:
    """Parse a line of `stat`: the name, in parentheses, may contain anything.

    >>> _parse_stat(7, "7 (a) b) S 1 7 5 0 -1 0 0 0 0 0 100 50 0 0 20 0 3 0 9 0 2").parent
    1
    """
    fields = stat.rpartition(")")[2].split()
    cpu = sum(map(int, fields[11:15])) / _TICKS
    return ProcessRecord(
        pid, int(fields[1]), int(fields[3]), cpu, int(fields[17]), int(fields[21]) * _PAGE_SIZE, fields[0] in "ZX"
    )


@dataclass(frozen=True, slots=True)
class ProcessTree:
    """The process `root` with everything that it started."""

    root: int

    def list_members(self, table: Mapping[int, ProcessRecord] | None = None) -> list[ProcessRecord]:
        """The running processes of the tree."""
        table = read_process_table() if table is None else table
        members = {pid for pid, p in table.items() if pid == self.root or p.session == self.root}
        found = members
        while found:
            found = {pid for pid, p in table.items() if p.parent in found} - members
            members |= found
        return [table[pid] for pid in members if not table[pid].has_ended]

    def measure(
        self, table: Mapping[int, ProcessRecord] | None = None, memory_limit: int | None = None
    ) -> ResourceUsage:
        """What the tree uses; shared pages are divided among its processes, which is slower, only above the limit."""
        members = self.list_members(table)
        memory = sum(p.memory for p in members)
        if memory_limit is not None and memory > memory_limit:
            memory = sum(_read_proportional_size(p.pid) for p in members)
        return ResourceUsage(memory, sum(p.cpu for p in members), len(members), sum(p.threads for p in members))

    def kill(self, *, spare: int | None = None) -> bool:
        """Kill all processes of the tree but `spare`; False if some still run after some seconds.

        All are stopped before the first is killed: none can start others meanwhile, or lose its parent.
        """
        deadline = time.monotonic() + _KILL_SECONDS
        stopped: set[int] = set()
        while (found := self._list_others(spare) - stopped) and time.monotonic() < deadline:
            _send_signal(found, signal.SIGSTOP)
            stopped |= found
        while (left := self._list_others(spare)) and time.monotonic() < deadline:
            _send_signal(left, signal.SIGKILL)
            time.sleep(0.01)
        return not left

    def _list_others(self, spare: int | None) -> set[int]:
        return {p.pid for p in self.list_members() if p.pid != spare}


def adopt_orphans() -> None:
    """Become the parent of descendants that lose theirs, where the operating system is Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _send_signal(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, number)


def _read_proportional_size(process: int) -> int:
    try:
        match = re.search(r"^Pss:\s+(\d+) kB", (PROC / str(process) / "smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(match[1]) if match else 0
