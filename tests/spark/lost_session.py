"""A process whose Java process is killed under it, time and again; the test reads what it prints."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings, SparkSettings
from tidemill.app.wiring import Tidemill
from tidemill.errors import TidemillError

wf = tm.Workflow("killed")
wf.input("words", "word string")
wf.table("counted", "word string, n bigint")
wf.table("shouted", "word string")


def kill_java() -> None:
    assert SparkContext._gateway is not None
    process = SparkContext._gateway.proc
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@wf.task(writes={"counted": tm.Base})
def counted(words: tm.All) -> DataFrame:
    gate = Path("gate")
    if gate.exists():
        gate.unlink()
        kill_java()
    return words.groupBy("word").agg(F.count("*").alias("n"))


shout = F.udf(lambda word: word.upper(), StringType())


@wf.task(writes={"shouted": tm.Base})
def shouted(words: tm.All) -> DataFrame:
    return words.select(shout("word").alias("word"))


def main() -> None:
    spark = SparkSettings(master="local[1]", settings={"spark.driver.memory": "512m"})
    with Tidemill(Path.cwd(), Settings(spark=spark), Project((wf.declared(),))) as mill:
        mill.apply()
        Path("words.csv").write_text("word\ntea\nrice\ntea\n")
        mill.insert("words", "words.csv")
        mill.run("shouted")
        Path("gate").touch()
        run, _ = mill.run("counted")  # killed in its first attempt
        found = {"attempt": run.attempt, "lost": run.lost_attempts, "state": str(run.state)}
        kill_java()
        found["problem"] = mill.engine.report_health().problem
        shouts, _ = mill.run("shouted")  # killed between two runs; its function was registered in the first process
        found["shouted"] = str(shouts.state)
        found["well"] = mill.engine.report_health().problem is None
        found["rows"] = sorted([r["word"], r["n"]] for r in mill.rows("counted"))
        kill_java()
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except TidemillError as error:
        sys.exit(str(error))
