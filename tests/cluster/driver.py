"""A driver process: inserts a frame, runs a task and compacts; prints the result of each as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.app import lazy_imports
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

ROWS = 200_000
"""More rows than the driver writes without Spark."""

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, word string")
wf.sql("words", "SELECT word, count(*) AS n FROM orders GROUP BY word")


@wf.task
def copies(orders: tm.All) -> tm.Base:
    return orders


def main(directory: str, spark: dict[str, Any], *, is_probed: bool) -> None:
    if not is_probed:  # as if an executor had started later on a machine without the store
        lazy_imports.start_on_store = lambda start, _store: start()  # type: ignore[assignment]
    settings = Settings.model_validate({"spark": spark})
    with Tidemill(Path(directory), settings, Project((wf.build_spec(),))) as mill:
        results = {
            "insert": try_action(lambda: [_insert(mill), _insert(mill)][-1]),
            "task": try_action(lambda: mill.run("copies")[1][0].rows),
            "query": try_action(lambda: mill.run("words")[1][0].rows),
            "compaction": try_action(lambda: _compact(mill)),
            "read": try_action(lambda: mill.read("orders").count()),
        }
    print(json.dumps(results))


def _insert(mill: Tidemill) -> int:
    if not mill.catalog.channels.list():
        mill.apply()
    rows = mill.engine.spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS STRING) AS word")
    return mill.insert("orders", rows).block.rows


def _compact(mill: Tidemill) -> int | None:
    base = mill.compact("orders")
    return base and base.rows


def try_action(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except TidemillError as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), is_probed=sys.argv[3] == "probe")
