"""Command tasks: a program in a separate process, with paths, a restricted environment and limits."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from tidemill.errors import ResourceLimitExceeded, RunFailed, RunKilled
from tidemill.model.task import Command
from tidemill.ports.engine import Log
from tidemill.spark.command_limits import UsageWatch, build_launch_arguments

INHERITED_VARIABLES = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Environment variables that a program inherits; all others, above all secrets, are removed."""


class CommandRunner:
    """The running programs by tag, so that they can be stopped."""

    def __init__(self) -> None:
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._stopped: set[str] = set()
        self._lock = threading.Lock()

    def run(self, command: Command, paths: Mapping[str, str], *, tag: str, log: Log, workdir: Path) -> None:
        """Run the program to its end; raises if it fails or is stopped."""
        argv = command.format_arguments(paths)
        inherited = {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
        given = {f"TIDEMILL_{name.upper()}": path for name, path in paths.items()}
        try:
            process = subprocess.Popen(
                build_launch_arguments(argv, command.limits),
                cwd=workdir,
                env={**inherited, **given, **command.env},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
        except OSError as error:
            raise RunFailed(f"program {argv[0]!r} cannot be started: {error.strerror or error}") from error
        with self._lock:
            self._running[tag] = process
        try:
            with UsageWatch(process, command.limits, lambda: _kill_process(process)) as watch:
                output, _ = process.communicate()
            log.write(output)
            self._check_exit(process.returncode, output, watch, argv[0], tag)
        finally:
            _kill_process(process)
            with self._lock:
                self._running.pop(tag, None)
                self._stopped.discard(tag)

    def stop(self, tag: str) -> None:
        with self._lock:
            process = self._running.get(tag)
            if process is not None:
                self._stopped.add(tag)
                _kill_process(process)

    def _check_exit(self, status: int, output: str, watch: UsageWatch, program: str, tag: str) -> None:
        if tag in self._stopped:
            raise RunKilled(f"program {program!r} was ended because its run was stopped")
        exceeded = watch.find_exceeded(status, output)
        if exceeded is not None:
            raise ResourceLimitExceeded(f"program {program!r} {exceeded}; raise the limit, or let it use less")
        if status != 0 and output.startswith(f"program {program!r} cannot be started: ") and output.count("\n") == 1:
            raise RunFailed(output.strip())  # by the launcher that sets the limits
        if status != 0:
            raise RunFailed(f"program {program!r} ended with {status}; its output is in the run's log")


def _kill_process(process: subprocess.Popen[str]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
