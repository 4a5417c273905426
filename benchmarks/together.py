"""Savings of one run for a refresh group over one run for each table, for tables of the same input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import tidemill as tm
from benchmarks.cost import Cost, measure_cost
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill

GROUP = "all_of_them"
WARM_UP = 3
"""Rounds that are not counted, while Java compiles and the cost model adapts."""


def measure(
    directory: Path, *, tables: int, rows: int, rounds: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    """Refresh several tables after every insert: each by a separate run, in sequence, and all by one run."""
    mill = Tidemill(directory, Settings(), Project((_build_workflow(tables).build_spec(),)))
    flows_by_variant = {"apart": [_get_table_name(n) for n in range(tables)], "together": [GROUP]}
    costs: dict[str, list[Cost]] = {variant: [] for variant in flows_by_variant}
    try:
        mill.apply()
        on_progress(f"timing {rounds} rounds of {tables} tables, in separate runs and in one")
        for number in range(WARM_UP + rounds):
            mill.insert("events", _write_events(directory, tables, number, rows))
            for variant in sorted(flows_by_variant, reverse=bool(number % 2)):
                costs[variant].append(_measure_flows(mill, flows_by_variant[variant]))
        starts = [
            f.overhead_seconds or 0.0
            for f in mill.catalog.flows.read_statistics().values()
            if f.flow in flows_by_variant["apart"]
        ]
    finally:
        mill.close()
    overhead = {"learnt_start_s": round(median(starts), 3)}  # seconds of a run besides its tasks
    return {"tables": tables, "rows": rows, "rounds": rounds} | _summarize(costs) | overhead


def _summarize(costs: dict[str, list[Cost]]) -> dict[str, float]:
    """Medians; a ratio below one is the saving of a refresh group."""
    seconds = {variant: median(c.seconds for c in variant_costs[WARM_UP:]) for variant, variant_costs in costs.items()}
    cpu_seconds = {
        variant: median(c.cpu_seconds for c in variant_costs[WARM_UP:]) for variant, variant_costs in costs.items()
    }
    figures = {f"{variant}_s": seconds[variant] for variant in seconds} | {
        "ratio": seconds["together"] / seconds["apart"]
    }
    figures |= {f"{variant}_cpu_s": cpu_seconds[variant] for variant in cpu_seconds} | {
        "cpu_ratio": cpu_seconds["together"] / cpu_seconds["apart"]
    }
    return {name: round(value, 3) for name, value in figures.items()}


def _measure_flows(mill: Tidemill, flows: Sequence[str]) -> Cost:
    return measure_cost(lambda: [mill.run(flow) for flow in flows])


def _get_table_name(number: int) -> str:
    return f"by_{number}"


def _build_workflow(tables: int) -> tm.Workflow:
    """Every table twice: separate, and in a refresh group with the others."""
    workflow = tm.Workflow("together")
    workflow.input("events", ", ".join([*(f"k{n} int" for n in range(tables)), "amount int"]))
    for n in range(tables):
        query = f"SELECT k{n}, sum(amount) AS total, count(*) AS n FROM events GROUP BY k{n}"
        workflow.sql(_get_table_name(n), query)
        workflow.sql(f"{_get_table_name(n)}_too", query, refresh_group=GROUP)
    return workflow


def _write_events(directory: Path, tables: int, number: int, rows: int) -> Path:
    path = directory / "new.csv"
    header = ",".join([*(f"k{n}" for n in range(tables)), "amount"])
    first = number * rows
    lines = (",".join(str(n * (c + 7) % 97) for c in range(tables + 1)) for n in range(first, first + rows))
    path.write_text("\n".join([header, *lines]) + "\n")
    return path
