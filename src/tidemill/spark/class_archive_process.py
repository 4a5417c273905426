"""The process that builds an archive of Spark's classes: `python -m tidemill.spark.class_archive_process FILE`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tidemill.spark import class_archive, session


def main(archive: Path) -> None:
    options = session.build_java_options(class_archive.build_recording_options(archive))
    spark = session.start_session("local[1]", {"spark.driver.extraJavaOptions": options})
    with TemporaryDirectory() as scratch:
        _exercise_spark(spark, Path(scratch))
    _stop_spark(spark)


def _exercise_spark(spark: SparkSession, directory: Path) -> None:
    """Run typical operations of runs, so that their classes are loaded."""
    rows = spark.range(100).selectExpr("id", "id % 7 AS k", "string(id) AS s")
    rows.write.parquet(str(directory / "rows"))
    stored = spark.read.schema(rows.schema).parquet(str(directory / "rows"))
    stored.join(rows, "k").groupBy("k").agg(F.count("*"), F.count_distinct(stored["s"])).toArrow()
    local = spark.createDataFrame(stored.toArrow())
    local.selectExpr("row_number() OVER (PARTITION BY k ORDER BY id) AS n").collect()


def _stop_spark(spark: SparkSession) -> None:
    """Stop Spark and wait for its Java process, which writes the archive when it exits."""
    gateway: Any = SparkContext._gateway
    spark.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
