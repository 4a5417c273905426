"""A control group limits memory in the kernel, where this machine lets the tests create one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tidemill.processes.control_group import ControlGroup, create_control_group

LIMIT = 64 << 20
ALLOCATE = """
import sys
sys.stdin.readline()
used = bytearray(int(sys.argv[1]))
for page in range(0, len(used), 4096):
    used[page] = 1
"""


@pytest.fixture
def group() -> Iterator[ControlGroup]:
    made = create_control_group("test", LIMIT)
    if made is None:
        pytest.skip("this process may not create control groups")
    yield made
    made.remove()


def _allocate(group: ControlGroup, size: int) -> int:
    """The exit status of a process of the group that uses so much memory."""
    process = subprocess.Popen([sys.executable, "-c", ALLOCATE, str(size)], stdin=subprocess.PIPE)
    assert group.add_process(process.pid)
    process.communicate(b"\n", timeout=60)
    return process.returncode


def test_a_process_within_the_limit_runs(group: ControlGroup) -> None:
    assert _allocate(group, LIMIT // 4) == 0
    assert not group.has_run_out()


def test_a_process_beyond_the_limit_is_killed(group: ControlGroup) -> None:
    assert _allocate(group, 2 * LIMIT) == -9
    assert group.has_run_out()


def test_a_group_is_removed(group: ControlGroup) -> None:
    assert _allocate(group, 0) == 0
    group.remove()
    assert not group.directory.exists()


def test_a_group_of_an_ended_server_is_removed(group: ControlGroup) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left = group.directory.with_name(f"tidemill-{ended.pid}-1")
    left.mkdir()
    other = create_control_group("other", LIMIT)
    assert other is not None
    other.remove()
    assert not left.exists()
