"""Enforcement of the resource limits of programs.

Each process is limited by the operating system (`command_launcher`), so that no allocation exceeds the limit. All
processes of a program together are measured several times a second, and killed if they exceed a limit.
"""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from tidemill.errors import RunFailed
from tidemill.model.resource_limits import ResourceLimits, ResourceUsage

SAMPLE_SECONDS = 0.2

_LAUNCHER = Path(__file__).with_name("command_launcher.py")
_PROCESSES = Path("/proc")
_OUT_OF_MEMORY = re.compile(r"MemoryError|OutOfMemoryError|bad_alloc|(cannot allocate|out of) memory", re.IGNORECASE)
_CPU_SIGNALS = (-signal.SIGXCPU, 128 + signal.SIGXCPU)  # of the program itself, and of the child of a shell


def build_launch_arguments(argv: list[str], limits: ResourceLimits) -> list[str]:
    if not limits:
        return argv
    memory = "-" if limits.memory is None else str(limits.memory)
    cpu = "-" if limits.cpu is None else str(max(1, math.ceil(limits.cpu)))
    return [sys.executable, "-I", "-S", str(_LAUNCHER), memory, cpu, *argv]


class UsageWatch:
    """Measures a running program that leads a session, and calls `kill` once it exceeds a limit."""

    def __init__(self, process: subprocess.Popen[str], limits: ResourceLimits, kill: Callable[[], None]) -> None:
        self._session = process.pid
        self._limits = limits
        self._kill = kill
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tidemill-limits", daemon=True)
        self._exceeded: str | None = None

    def __enter__(self) -> UsageWatch:
        if self._limits:
            if not (_PROCESSES / "self" / "stat").exists():
                raise RunFailed("limits of programs need the directory /proc of Linux; run it there, or leave them out")
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._limits:
            self._thread.join()

    def find_exceeded(self, status: int, output: str) -> str | None:
        """The limit that a program exceeded, which ended with this status and output; None if there is none."""
        if self._exceeded is not None:
            return self._exceeded
        if self._limits.cpu is not None and status in _CPU_SIGNALS:
            return self._limits.describe_cpu()
        if self._limits.memory is not None and status != 0 and _OUT_OF_MEMORY.search(output):
            return self._limits.describe_memory()
        return None

    def _watch(self) -> None:
        while not self._ended.wait(SAMPLE_SECONDS):
            self._exceeded = self._limits.find_exceeded(measure_session(self._session, self._limits.memory))
            if self._exceeded is not None:
                self._kill()
                return


def measure_session(session: int, memory_limit: int | None = None) -> ResourceUsage:
    """Measure a session's processes; shared pages are divided among them, which is slower, only above the limit."""
    processes = list(_list_processes(session))
    ticks = sum(int(value) for _, fields in processes for value in fields[11:15])
    memory = sum(int(fields[21]) for _, fields in processes) * os.sysconf("SC_PAGE_SIZE")
    if memory_limit is not None and memory > memory_limit:
        memory = sum(_read_proportional_size(process) for process, _ in processes)
    return ResourceUsage(memory, ticks / os.sysconf("SC_CLK_TCK"), len(processes))


def _list_processes(session: int) -> Iterator[tuple[Path, list[str]]]:
    """The live processes of a session, each with the fields of its `stat` after the name."""
    for process in _PROCESSES.glob("[0-9]*"):
        try:
            fields = (process / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            yield process, fields


def _read_proportional_size(process: Path) -> int:
    try:
        match = re.search(r"^Pss:\s+(\d+) kB", (process / "smaps_rollup").read_text(), re.MULTILINE)
    except OSError:
        return 0
    return 1024 * int(match[1]) if match else 0
