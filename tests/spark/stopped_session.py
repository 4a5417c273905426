"""A process whose tasks stop the Spark session; the test reads the JSON that it prints."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings, SparkSettings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

wf = tm.Workflow("stopping")
wf.input("words", "word string")
for table in ("by_session", "by_context", "in_another_way", "counts"):
    wf.table(table, "word string")


@wf.task(writes={"by_session": tm.Base})
def by_session(words: tm.All) -> DataFrame:
    session = SparkSession.getActiveSession() or words.sparkSession
    session.stop()
    return words


@wf.task(writes={"by_context": tm.Base})
def by_context(words: tm.All) -> DataFrame:
    words.sparkSession.sparkContext.stop()
    return words


@wf.task(writes={"in_another_way": tm.Base})
def in_another_way(words: tm.All) -> DataFrame:
    SparkContext.stop(words.sparkSession.sparkContext)
    return words


@wf.task(writes={"counts": tm.Base})
def counts(words: tm.All) -> DataFrame:
    return words.distinct()


def fail(mill: Tidemill, table: str) -> dict[str, Any]:
    try:
        mill.run(table)
    except TidemillError as error:
        return {"error": str(error), "attempts": mill.catalog.runs.list(subject=table)[0].attempt}
    return {"error": "it did not fail"}


def main() -> None:
    spark = SparkSettings(master="local[1]", settings={"spark.driver.memory": "512m"})
    with Tidemill(Path.cwd(), Settings(spark=spark), Project((wf.build_spec(),))) as mill:
        mill.apply()
        Path("words.csv").write_text("word\ntea\nrice\ntea\n")
        mill.insert("words", "words.csv")
        session = mill.engine.spark
        report: dict[str, Any] = {table: fail(mill, table) for table in ("by_session", "by_context")}
        report["counts"] = str(mill.run("counts")[0].state)
        report["is_same_session"] = mill.engine.spark is session
        report["in_another_way"] = fail(mill, "in_another_way")
        report["counts_again"] = str(mill.run("counts")[0].state)
        report["is_healthy"] = mill.engine.report_health().is_ready
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main()
