"""The measurement runs the workflow like a task, with exact answers."""

from __future__ import annotations

from pathlib import Path

from benchmarks.linear_road.measure import measure
from benchmarks.linear_road.traffic import Plan
from benchmarks.windows import BATCH
from benchmarks.windows import measure as measure_windows


def test_a_small_run(tmp_path: Path) -> None:
    plan = Plan(seconds=90, start=0, last_rate=400)
    document = measure(tmp_path, plan=plan, sizes=(0.5, 1.5), on_progress=lambda _message: None)
    assert [p["exact"] for p in document["points"]] == [True, True]
    assert document["points"][0]["rows_a_batch"] < document["points"][1]["rows_a_batch"]
    assert {"fixed_ms", "ms_per_1000_rows"} <= document.keys()
    assert all(p[part] >= 0 for p in document["points"] for part in ("hold_ms", "kernel_ms", "leave_ms", "write_ms"))


def test_windows_of_every_combination_are_formed() -> None:
    points = measure_windows(events=20 * BATCH, groups=100)
    assert len({(p["step"], p["size"]) for p in points}) == 9
    assert all(p["windows"] > 0 for p in points)
