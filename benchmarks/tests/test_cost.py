"""Costs include the process and its children."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.cost import PeakMemory, measure_cost

COMPUTE = "import time\nwhile time.process_time() < 0.3: pass"
ALLOCATE = "x = b'x' * 2**26; input()"


def test_ended_children_are_included() -> None:
    cost = measure_cost(lambda: subprocess.run([sys.executable, "-c", COMPUTE], check=True))
    assert 0.28 < cost.cpu_seconds < 3  # the system counts in hundredths
    assert cost.seconds >= 0.3


def test_waiting_costs_no_cpu() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        cost = measure_cost(lambda: _wait_for_timeout(child, 0.3))
    finally:
        child.communicate(b"\n")
    assert cost.seconds >= 0.3
    assert cost.cpu_seconds < cost.seconds


def test_the_peak_includes_children_and_freed_memory() -> None:
    with PeakMemory() as before:
        pass
    with PeakMemory(interval=0.01) as memory:
        child = subprocess.Popen([sys.executable, "-c", ALLOCATE], stdin=subprocess.PIPE)
        _wait_for_timeout(child, 0.5)
        child.communicate(b"\n")
    assert memory.megabytes > before.megabytes + 64


def _wait_for_timeout(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Wait for the child, which reads a line that is not sent, until the timeout."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError("the child did not wait")
