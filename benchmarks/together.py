"""What one run for several tables saves over a run for each, where the same input feeds all of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import tidemill as tm
from benchmarks.cost import Cost, measured
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

GROUP = "all_of_them"
WARM_UP = 3
"""Rounds that are not counted: Java and the cost model learn meanwhile."""


def measure(directory: Path, *, tables: int, rows: int, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Refresh so many tables after every insert: each by a run of its own, one after the other, and all by one run."""
    mill = Tidemill(directory, Settings(), Project((_workflow(tables).declared(),)))
    ways = {"apart": [_name(n) for n in range(tables)], "together": [GROUP]}
    costs: dict[str, list[Cost]] = {way: [] for way in ways}
    try:
        mill.apply()
        tell(f"timing {rounds} rounds of {tables} tables each way")
        for number in range(WARM_UP + rounds):
            mill.insert("events", _events(directory, tables, number, rows))
            for way in sorted(ways, reverse=bool(number % 2)):
                costs[way].append(_cost(mill, ways[way]))
        starts = [
            f.overhead_seconds or 0.0 for f in mill.catalog.read_flow_statistics().values() if f.flow in ways["apart"]
        ]
    finally:
        mill.close()
    learnt = {"learnt_start_s": round(median(starts), 3)}  # what a run takes besides its tasks
    return {"tables": tables, "rows": rows, "rounds": rounds} | _figures(costs) | learnt


def _figures(costs: dict[str, list[Cost]]) -> dict[str, float]:
    """Medians; a ratio below one is what being together saves."""
    wall = {way: median(c.seconds for c in found[WARM_UP:]) for way, found in costs.items()}
    cpu = {way: median(c.cpu_seconds for c in found[WARM_UP:]) for way, found in costs.items()}
    figures = {f"{way}_s": wall[way] for way in wall} | {"ratio": wall["together"] / wall["apart"]}
    figures |= {f"{way}_cpu_s": cpu[way] for way in cpu} | {"cpu_ratio": cpu["together"] / cpu["apart"]}
    return {name: round(value, 3) for name, value in figures.items()}


def _cost(mill: Tidemill, flows: Sequence[str]) -> Cost:
    return measured(lambda: [mill.run(flow) for flow in flows])


def _name(number: int) -> str:
    return f"by_{number}"


def _workflow(tables: int) -> tm.Workflow:
    """Every table twice: by itself, and together with the others."""
    workflow = tm.Workflow("together")
    workflow.input("events", ", ".join([*(f"k{n} int" for n in range(tables)), "amount int"]))
    for n in range(tables):
        query = f"SELECT k{n}, sum(amount) AS total, count(*) AS n FROM events GROUP BY k{n}"
        workflow.sql(_name(n), query)
        workflow.sql(f"{_name(n)}_too", query, refresh_group=GROUP)
    return workflow


def _events(directory: Path, tables: int, number: int, rows: int) -> Path:
    path = directory / "new.csv"
    header = ",".join([*(f"k{n}" for n in range(tables)), "amount"])
    first = number * rows
    lines = (",".join(str(n * (c + 7) % 97) for c in range(tables + 1)) for n in range(first, first + rows))
    path.write_text("\n".join([header, *lines]) + "\n")
    return path
