"""Tables of figures 9 and 10: periods of 100 and of 10 000, with equal weighted staleness at the end of a period."""

from __future__ import annotations

from benchmarks.figures.table_2 import JOBS, PARAMETERS, create_tables

LOADS = (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)
LOW = LOADS[: len(LOADS) // 2]
"""The lower half of the loads."""

TABLES = [
    *create_tables(JOBS // 2, "short", 100.0, period=100.0),
    *create_tables(JOBS // 2, "long", 1.0, period=10_000.0),
]

HETEROGENEOUS = {
    **PARAMETERS,
    "tables": "15 with a period of 100 and a priority of 100, 15 with a period of 10 000 and a priority of 1 (4.6)",
    "dispatching": "Max Benefit; clusters with k = 1 (4.6)",
}
