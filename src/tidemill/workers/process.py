"""One worker process, as its server sees it."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import closing, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair
from typing import Any

from tidemill.errors import TidemillError, WorkerFailed
from tidemill.model.resource_limits import ResourceLimits
from tidemill.processes.control_group import ControlGroup, create_control_group
from tidemill.processes.process_tree import ProcessRecord, ProcessTree
from tidemill.processes.scratch import open_scratch
from tidemill.workers import messages

log = logging.getLogger("tidemill.server")

SCRATCH_PREFIX = "tidemill-worker-"

_OUTER_SIGNALS = (signal.SIGKILL, signal.SIGTERM)
"""Signals with which a worker is ended from outside: by an operator, or by the kernel when all memory is used up."""


@dataclass(frozen=True, slots=True)
class WorkerLimits:
    """What one worker may use, with the Java process and all programs that it starts; None: unlimited."""

    memory: int | None = None  # bytes
    processes: int | None = None  # processes and threads of users' code and of Spark
    disk: int | None = None  # bytes of temporary files, and of any one file
    call_seconds: float | None = None  # of one call
    nice: int = 0  # lowers its priority for the processor below that of the server
    start_seconds: float = 120.0  # until its first sign of life
    silence: float = 30.0  # seconds without a sign of life after which it is replaced
    idle_cpu: float = 0.8  # share of a core that a worker without a call may use over `idle_seconds`
    idle_seconds: float = 4.0


class WorkerProcess:
    """A worker process, from its start to its end. It executes one call at a time.

    It leads a session, and its temporary files are in one directory: both are removed with it. When it has ended, a
    call that it was executing raises `WorkerFailed` with the reason, and `on_end` is called.
    """

    def __init__(
        self,
        number: int,
        command: Sequence[str],
        setup: bytes,
        limits: WorkerLimits,
        on_change: Callable[[WorkerProcess], None],
    ) -> None:
        self.number = number
        self._limits = limits
        self._on_change = on_change
        scratch = open_scratch()
        self._scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=scratch.path))
        ours, theirs = socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno()), str(self._scratch)],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno(), scratch.lock],
                env=self._build_environment(),
                start_new_session=True,
            )
        self.pid = self._process.pid
        self._connection = Connection(ours.detach())
        self._lock = threading.Lock()
        self._tree = ProcessTree(self.pid)
        self._group = self._join_group()
        self._call: Future[messages.CallResult] | None = None
        self.is_ready = False  # it may be called
        self.was_ready = False  # it has been started completely
        self.end_reason: str | None = None
        self.is_fault = False  # users' code, not the machine or Spark, is the reason
        self.idle_since = time.monotonic()
        self._last_sign = self._called_at = time.monotonic()
        self._silence_limit = limits.start_seconds
        self._cpu_before = (time.monotonic(), 0.0)
        self._limit_resources()
        with suppress(OSError):  # it has ended at once: the reader notices
            self._connection.send_bytes(setup)
        threading.Thread(target=self._read_messages, name=f"tidemill-worker-{self.pid}", daemon=True).start()

    @property
    def has_ended(self) -> bool:
        return self.end_reason is not None

    @property
    def is_busy(self) -> bool:
        return self._call is not None

    def call(self, operation: str, arguments: tuple[Any, ...]) -> Any:
        """Execute an operation, and return its result or raise its error."""
        future: Future[messages.CallResult] = Future()
        with self._lock:
            self._call, self.is_ready, self._called_at = future, False, time.monotonic()
            if self.end_reason is not None:
                future.set_exception(WorkerFailed(self.end_reason))
        with suppress(OSError, TypeError):  # it has ended, or just now: the reader sets the exception
            messages.send(self._connection, messages.CallRequest(operation, arguments))
        try:
            result = future.result()
        finally:
            self._call, self.idle_since = None, time.monotonic()
        if result.error is not None:
            raise result.error.to_error()
        return result.value

    def end(self, reason: str, *, is_fault: bool = False) -> None:
        """Kill the process with all that it started; the first reason counts, unless the memory was used up."""
        if self._group is not None and self._group.has_run_out():
            memory = ResourceLimits(self._limits.memory).describe_memory()
            reason, is_fault = f"the worker process {memory}", self.is_busy
        with self._lock:
            if self.end_reason is not None:
                return
            self.end_reason, self.is_fault, self.is_ready = reason, is_fault, False
        if not self._tree.kill():
            log.error("processes of worker %d cannot be killed", self.number)
        self._process.kill()
        self._process.wait()
        if self._group is not None:
            self._group.remove()
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._on_change(self)
        with self._lock:
            call = self._call
        if call is not None:
            with suppress(InvalidStateError):
                call.set_exception(WorkerFailed(reason))

    def check(self, table: Mapping[int, ProcessRecord]) -> None:
        """End the worker if it exceeds a limit, gives no sign of life, or computes although nothing was asked of it."""
        usage = self._tree.measure(table, self._limits.memory)
        tasks = ResourceLimits(self._limits.memory, None, self._limits.processes)
        exceeded = tasks.find_exceeded(usage) or self._find_full_disk()
        if exceeded is not None:
            self.end(f"the worker process {exceeded}", is_fault=self.is_busy)
        elif self._limits.call_seconds is not None and self._measure_call() > self._limits.call_seconds:
            self.end(f"the run took longer than {self._limits.call_seconds:g} s, the limit of a worker", is_fault=True)
        elif (silence := time.monotonic() - self._last_sign) > self._silence_limit:
            self.end(f"the worker process gave no sign of life for {silence:.0f} s", is_fault=self.is_busy)
        elif self._find_idle_load(usage.cpu) > self._limits.idle_cpu:
            self.end("the worker process computed although no run was going on", is_fault=True)

    def _measure_call(self) -> float:
        return time.monotonic() - self._called_at if self.is_busy else 0.0

    def _find_full_disk(self) -> str | None:
        limit = self._limits.disk
        if limit is None or not self.is_busy:
            return None
        used = sum(_read_size(path) for path in self._scratch.rglob("*"))
        return f"exceeded its limit of {limit} bytes of temporary files: it has {used}" if used > limit else None

    def _find_idle_load(self, cpu: float) -> float:
        """The cores that an idle worker has used over the last seconds; 0 while it is not known."""
        now = time.monotonic()
        began, before = self._cpu_before
        if self.is_busy or not self.is_ready or now - self.idle_since < self._limits.idle_seconds:
            self._cpu_before = now, cpu
            return 0.0
        if now - began < self._limits.idle_seconds:
            return 0.0
        self._cpu_before = now, cpu
        return (cpu - before) / (now - began)

    def _limit_resources(self) -> None:
        with suppress(OSError):  # where the kernel schedules sessions as groups, only the group's priority counts
            Path(f"/proc/{self.pid}/autogroup").write_text(str(self._limits.nice))
        with suppress(OSError, ValueError):  # it has ended
            os.setpriority(os.PRIO_PROCESS, self.pid, os.getpriority(os.PRIO_PROCESS, 0) + self._limits.nice)
            resource.prlimit(self.pid, resource.RLIMIT_CORE, (0, 0))
            if self._limits.disk is not None:
                resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (self._limits.disk, self._limits.disk))

    def _join_group(self) -> ControlGroup | None:
        """Let the kernel limit the memory, where this process may create control groups."""
        if self._limits.memory is None or sys.platform != "linux":
            return None
        group = create_control_group(str(self.number), self._limits.memory)
        if group is None or group.add_process(self.pid):
            return group
        group.remove()
        return None

    def _build_environment(self) -> dict[str, str]:
        scratch = str(self._scratch)
        return {**os.environ, "TMPDIR": scratch, "SPARK_LOCAL_DIRS": scratch}

    def _read_messages(self) -> None:
        with closing(self._connection):
            self._read_until_end()

    def _read_until_end(self) -> None:
        while True:
            try:
                message = messages.receive_untrusted(self._connection)
            except (EOFError, OSError):
                self._end_disconnected()
                return
            except TidemillError as error:
                self.end(str(error), is_fault=True)
                return
            self._last_sign, self._silence_limit = time.monotonic(), self._limits.silence
            self._handle(message)

    def _handle(self, message: messages.Message) -> None:
        match message:
            case messages.WorkerReady(None):
                with self._lock:
                    self.is_ready = self.was_ready = self.end_reason is None
                self._on_change(self)
            case messages.WorkerReady(str(defect), is_fault):
                self.end(defect, is_fault=is_fault)
            case messages.CallResult():
                call = self._call
                if call is not None:
                    with suppress(InvalidStateError):
                        call.set_result(message)

    def _end_disconnected(self) -> None:
        """The process has ended, or users' code closed its connection."""
        try:
            status = self._process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.end("the worker process closed its connection to the server", is_fault=self.is_busy)
            return
        how = f"with signal {signal.Signals(-status).name}" if status < 0 else f"with status {status}"
        self.end(f"the worker process ended {how}", is_fault=self.is_busy and -status not in _OUTER_SIGNALS)


def build_command(module: str) -> list[str]:
    """The command that executes a module of this installation, without adding the working directory to its path."""
    return [sys.executable, "-P", "-m", module]


def _read_size(path: Path) -> int:
    with suppress(OSError):
        return path.lstat().st_size
    return 0
