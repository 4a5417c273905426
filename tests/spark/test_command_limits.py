"""Limits of programs, each exceeded by a real process; Spark is not needed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tidemill.errors import ResourceLimitExceeded, RunFailed, TimeLimitExceeded
from tidemill.model.resource_limits import ResourceLimits
from tidemill.model.task import Command
from tidemill.processes.process_tree import ProcessTree
from tidemill.runtime.runs.supervision import run_supervised
from tidemill.spark import command_limits
from tidemill.spark.commands import CommandRunner

MB = 1_000_000


def run(directory: Path, *argv: str, runner: CommandRunner | None = None, **limits: float) -> str:
    log = io.StringIO()
    command = Command(argv, limits=ResourceLimits(**limits))  # type: ignore[arg-type]
    (runner or CommandRunner()).run(command, {}, tag="t", log=log, workdir=directory)
    return log.getvalue()


def run_python(directory: Path, code: str, **limits: float) -> str:
    return run(directory, sys.executable, "-c", code, **limits)


def test_a_program_within_its_limits_is_not_disturbed(tmp_path: Path) -> None:
    output = run_python(tmp_path, "print(len(bytearray(10_000_000)))", memory=900 * MB, cpu=60, processes=4)
    assert output == "10000000\n"


def test_an_allocation_beyond_the_memory_limit_fails(tmp_path: Path) -> None:
    with pytest.raises(
        ResourceLimitExceeded, match=r"python.* exceeded its memory limit of 200\.0 MB; raise the limit"
    ):
        run_python(tmp_path, "bytearray(400_000_000)", memory=200 * MB)


def test_the_memory_of_all_processes_together_is_limited(tmp_path: Path) -> None:
    """Each of them stays within the limit."""
    child = f"{sys.executable} -c 'import time; x = bytearray(150_000_000); time.sleep(60)'"
    with pytest.raises(ResourceLimitExceeded, match=r"exceeded its memory limit of 300\.0 MB: it uses \d+\.\d MB"):
        run(tmp_path, "sh", "-c", f"{child} & {child} & {child} & wait", memory=300 * MB)


def test_shared_memory_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_limits, "SAMPLE_SECONDS", 0.02)
    code = "import os, time; x = bytearray(150_000_000); [os.fork() for _ in range(2)]; time.sleep(0.3)"
    assert run_python(tmp_path, code, memory=400 * MB) == ""


def test_cpu_time_is_limited(tmp_path: Path) -> None:
    with pytest.raises(ResourceLimitExceeded, match=r"exceeded its limit of 1\.0 s of CPU time"):
        run_python(tmp_path, "while True: pass", cpu=1)


def test_the_cpu_time_of_a_child_process_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_limits, "SAMPLE_SECONDS", 60.0)  # the operating system alone ends it
    with pytest.raises(ResourceLimitExceeded, match=r"exceeded its limit of 1\.0 s of CPU time"):
        run(tmp_path, "sh", "-c", f"{sys.executable} -c 'while True: pass'; exit $?", cpu=1)


def test_the_number_of_processes_is_limited(tmp_path: Path) -> None:
    with pytest.raises(ResourceLimitExceeded, match=r"program 'sh' exceeded its limit of 2 processes: it has [3-5]"):
        run(tmp_path, "sh", "-c", "sleep 60 & sleep 60 & sleep 60 & sleep 60 & wait", processes=2)


def test_the_wall_time_is_limited(tmp_path: Path) -> None:
    runner = CommandRunner()
    with pytest.raises(TimeLimitExceeded, match=r"longer than its time limit of 0\.3 s"):
        run_supervised(
            lambda: run(tmp_path, "sleep", "60", runner=runner, memory=900 * MB),
            limit=0.3,
            lost=threading.Event(),
            stop=lambda: runner.stop("t"),
        )


def test_a_failure_that_no_limit_caused_is_reported_as_such(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="'sh' ended with 3; its output is in the run") as failure:
        run(tmp_path, "sh", "-c", "echo sorry; exit 3", memory=900 * MB, cpu=60)
    assert not isinstance(failure.value, ResourceLimitExceeded)


def test_a_missing_program_is_reported(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="program 'no-such-program' cannot be started: No such file"):
        run(tmp_path, "no-such-program", cpu=60)


def test_a_session_is_measured() -> None:
    with subprocess.Popen(
        ["sh", "-c", "sleep 60 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()  # the child has been started
        usage = ProcessTree(shell.pid).measure()
        assert (usage.processes, usage.memory > 0) == (2, True)
        assert ProcessTree(shell.pid).measure(memory_limit=0).memory < usage.memory  # shared pages are divided
        os.killpg(shell.pid, 9)
