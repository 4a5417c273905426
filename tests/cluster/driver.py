"""A driver in a process of its own: it inserts a frame, runs a task, and compacts; prints what came of each as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tidemill as tm
from tidemill.app import wiring
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

ROWS = 200_000
"""More than the driver writes by itself."""

wf = tm.Workflow("shop")
wf.input("orders", "id bigint, word string")
wf.sql("words", "SELECT word, count(*) AS n FROM orders GROUP BY word")


@wf.task
def copied(orders: tm.All) -> tm.Base:
    return orders


def main(directory: str, spark: dict[str, Any], *, probed: bool) -> None:
    if not probed:  # as if an executor had come later, on a machine without the store
        wiring.start_on_store = lambda start, _store: start()  # type: ignore[assignment]
    settings = Settings.model_validate({"spark": spark})
    with Tidemill(Path(directory), settings, Project((wf.declared(),))) as mill:
        said = {
            "insert": tried(lambda: [_insert(mill), _insert(mill)][-1]),
            "task": tried(lambda: mill.run("copied")[1][0].rows),
            "query": tried(lambda: mill.run("words")[1][0].rows),
            "compaction": tried(lambda: _compacted(mill)),
            "read": tried(lambda: mill.read("orders").count()),
        }
    print(json.dumps(said))


def _insert(mill: Tidemill) -> int:
    if not mill.catalog.list_channels():
        mill.apply()
    rows = mill.engine.spark.range(ROWS).selectExpr("id", "CAST(id % 7 AS STRING) AS word")
    return mill.insert("orders", rows).block.rows


def _compacted(mill: Tidemill) -> int | None:
    made = mill.compact("orders")
    return made and made.rows


def tried(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except TidemillError as error:
        return f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), probed=sys.argv[3] == "probed")
