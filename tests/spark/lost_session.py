"""A process whose Java process is killed repeatedly; the test reads the JSON that it prints."""

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
wf.table("counts", "word string, n bigint")
wf.table("upper_words", "word string")


def kill_java() -> None:
    assert SparkContext._gateway is not None
    process = SparkContext._gateway.proc
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@wf.task(writes={"counts": tm.Base})
def counts(words: tm.All) -> DataFrame:
    gate = Path("gate")
    if gate.exists():
        gate.unlink()
        kill_java()
    return words.groupBy("word").agg(F.count("*").alias("n"))


uppercase = F.udf(lambda word: word.upper(), StringType())


@wf.task(writes={"upper_words": tm.Base})
def upper_words(words: tm.All) -> DataFrame:
    return words.select(uppercase("word").alias("word"))


def main() -> None:
    spark = SparkSettings(master="local[1]", settings={"spark.driver.memory": "512m"})
    with Tidemill(Path.cwd(), Settings(spark=spark), Project((wf.build_spec(),))) as mill:
        mill.apply()
        Path("words.csv").write_text("word\ntea\nrice\ntea\n")
        mill.insert("words", "words.csv")
        mill.run("upper_words")
        Path("gate").touch()
        run, _ = mill.run("counts")  # its first attempt is killed
        report = {"attempt": run.attempt, "lost": run.lost_attempts, "state": str(run.state)}
        kill_java()
        report["problem"] = mill.engine.report_health().problem
        upper_run, _ = mill.run("upper_words")  # Java was killed between two runs
        report["upper_words"] = str(upper_run.state)
        report["is_healthy"] = mill.engine.report_health().problem is None
        report["rows"] = sorted([r["word"], r["n"]] for r in mill.rows("counts"))
        kill_java()
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    try:
        main()
    except TidemillError as error:
        sys.exit(str(error))
