"""Refreshes a join with a large table with little memory, and prints the growth of the driver's memory as JSON.

`python -m tests.acceptance.driver_memory ROWS BUDGET DIRECTORY`
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import EngineSettings, MaintenanceSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.run import StepReport

CHANGE_ROWS = 1_000
CITIES = ("Bern", "Lima", "Kiel", "Graz", "Bonn")

wf = tm.Workflow("memory")
wf.input("orders", "id bigint, customer bigint, price double")
wf.input("customers", "customer bigint, city string", key="customer")
wf.sql(
    "sales",
    "SELECT o.id, o.price, c.city FROM orders o JOIN customers c ON o.customer = c.customer",
)


def write_orders(path: Path, rows: int) -> None:
    """Ten orders for each customer, in row groups of a million."""
    schema = pa.schema([("id", pa.int64()), ("customer", pa.int64()), ("price", pa.float64())])
    with pq.ParquetWriter(path, schema) as writer:
        for first in range(0, rows, 1_000_000):
            ids = np.arange(first, min(rows, first + 1_000_000))
            writer.write_table(pa.table([ids, ids * 7_919 % (rows // 10), ids / 4], schema=schema))


def read_memory(field: str) -> int:
    """A figure of this process in bytes: `VmRSS` now, `VmHWM` at its peak."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith(field)).split()[1])


def reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def refresh(mill: Tidemill, city: str) -> list[StepReport]:
    mill.insert("customers", [{"customer": n, "city": city} for n in range(CHANGE_ROWS)])
    run, _ = mill.run("sales", variant="incremental")
    return run.list_steps()["sales"]


def measure(rows: int, budget: str, directory: Path) -> dict[str, object]:
    write_orders(directory / "orders.parquet", rows)
    settings = Settings(engine=EngineSettings(driver_memory=budget), maintenance=MaintenanceSettings(automatic=False))
    with Tidemill(directory, settings, Project((wf.build_spec(),))) as mill:
        mill.apply()
        mill.insert("orders", directory / "orders.parquet")
        mill.insert("customers", [{"customer": n, "city": "Oslo"} for n in range(CHANGE_ROWS)])
        mill.run("sales")
        refresh(mill, "Rome")  # loads modules and caches
        gc.collect()
        reset_peak()
        before = read_memory("VmRSS")
        steps = [step for city in CITIES for step in refresh(mill, city)]
        peak = read_memory("VmHWM")
        cities = mill.read("sales").groupBy("city").count().collect()
        return {
            "growth": peak - before,
            "steps": [[step.place, step.reason, step.rows] for step in steps],
            "cities": {row["city"]: row["count"] for row in cities},
        }


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))))
