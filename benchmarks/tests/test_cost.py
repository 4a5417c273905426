"""Costs count what the process and its children use."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.cost import PeakMemory, measure_cost

BUSY = "import time\nwhile time.process_time() < 0.3: pass"
HELD = "x = b'x' * 2**26; input()"


def test_children_that_ended_are_counted() -> None:
    cost = measure_cost(lambda: subprocess.run([sys.executable, "-c", BUSY], check=True))
    assert 0.28 < cost.cpu_seconds < 3  # the system counts in hundredths
    assert cost.seconds >= 0.3


def test_waiting_costs_no_cpu() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        cost = measure_cost(lambda: _timeout(child, 0.3))
    finally:
        child.communicate(b"\n")
    assert cost.seconds >= 0.3
    assert cost.cpu_seconds < cost.seconds


def test_the_peak_includes_children_and_what_was_freed() -> None:
    with PeakMemory() as before:
        pass
    with PeakMemory(interval=0.01) as memory:
        child = subprocess.Popen([sys.executable, "-c", HELD], stdin=subprocess.PIPE)
        _timeout(child, 0.5)
        child.communicate(b"\n")
    assert memory.megabytes > before.megabytes + 64


def _timeout(child: subprocess.Popen[bytes], seconds: float) -> None:
    """Give the child that time; it waits for a line that does not come."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return
    raise AssertionError("the child did not wait")
