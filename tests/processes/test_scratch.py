"""Temporary directories of killed processes are removed; those of others never are."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidemill.processes.scratch import open_scratch

OWNER = """
import subprocess, sys
from tidemill.processes.scratch import open_scratch
scratch = open_scratch()
(scratch.path / "file").touch()
if "worker" in sys.argv:
    worker = subprocess.Popen([sys.executable, "-c", "input()"], stdin=0, pass_fds=[scratch.lock])
    print(worker.pid, flush=True)
print(scratch.path, flush=True)
"""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    owners: list[subprocess.Popen[str]] = []

    def start_owner(ending: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", OWNER + ending, *arguments]
        owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        owners.append(owner)
        return owner

    yield start_owner
    for owner in owners:
        owner.kill()
        owner.communicate()


def read_line(owner: subprocess.Popen[str]) -> str:
    assert owner.stdout is not None
    return owner.stdout.readline().strip()


def test_the_directory_of_a_killed_process_is_removed_and_that_of_a_live_one_is_not(start: Start) -> None:
    killed, alive = start("input()"), start("input()")
    abandoned, used = Path(read_line(killed)), Path(read_line(alive))
    killed.kill()
    killed.wait()
    assert abandoned.is_dir()
    own = open_scratch().path
    assert not abandoned.exists()
    assert (used / "file").exists()
    assert own.is_dir()
    assert open_scratch().path == own


def test_the_directory_stays_while_a_worker_of_a_killed_process_lives(start: Start) -> None:
    killed = start("input()", "worker")
    read_line(killed)
    used = Path(read_line(killed))
    killed.kill()
    killed.wait()
    open_scratch()
    assert (used / "file").exists()


def test_a_process_removes_its_directory_when_it_ends(start: Start, directory: Path) -> None:
    owner = start("")
    assert Path(read_line(owner)).parent == directory
    assert owner.wait() == 0
    assert list(directory.iterdir()) == []


def test_only_directories_of_this_boot_of_this_machine_are_removed(directory: Path) -> None:
    others = [directory / name for name in ("tidemill-0f0f0f0f-x", "tidemill-command-1", "unrelated", ".tidemill-new")]
    for other in others:
        other.mkdir()
    open_scratch()
    assert all(other.is_dir() for other in others)


def test_a_directory_that_a_cleaner_removed_is_created_again() -> None:
    removed = open_scratch().path
    removed.rmdir()
    assert open_scratch().path.is_dir()
