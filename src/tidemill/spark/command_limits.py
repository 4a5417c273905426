"""Enforcement of the resource limits of programs.

Each process is limited by the operating system (`command_launcher`), so that no allocation exceeds the limit. All
processes of a program together are measured several times a second, and killed if they exceed a limit.
"""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from tidemill.errors import RunFailed
from tidemill.model.resource_limits import ResourceLimits
from tidemill.processes.process_tree import ProcessTree, has_process_table

SAMPLE_SECONDS = 0.2

_LAUNCHER = Path(__file__).with_name("command_launcher.py")
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
        self._tree = ProcessTree(process.pid)
        self._limits = limits
        self._kill = kill
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="tidemill-limits", daemon=True)
        self._exceeded: str | None = None

    def __enter__(self) -> UsageWatch:
        if self._limits:
            if not has_process_table():
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
            self._exceeded = self._limits.find_exceeded(self._tree.measure(memory_limit=self._limits.memory))
            if self._exceeded is not None:
                self._kill()
                return
