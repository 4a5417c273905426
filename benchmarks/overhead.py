"""Cost of a Tidemill run compared with the same code in plain PySpark, and the catalog's part of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import tidemill as tm
from benchmarks.bulk_load import append_history
from benchmarks.timing import TimedProxy, time_alternately
from tidemill.app.project import Project
from tidemill.app.settings import CatalogSettings, Settings
from tidemill.app.wiring import Tidemill

SCHEMA = "user bigint, site string, url string, at bigint"


def visits(clicks: tm.All) -> tm.Base:
    """The computation of both variants: every click with its day and a hash of its page."""
    return clicks.select(
        "user",
        "site",
        F.sha2("url", 256).alias("page"),
        F.expr("cast(at div 86400 as int)").alias("day"),
    )


def measure(
    directory: Path,
    *,
    rows: int,
    blocks: int,
    rounds: int,
    catalog_url: str | None = None,
    on_progress: Callable[[str], None],
) -> dict[str, Any]:
    """Alternate plain PySpark and Tidemill runs of the same code, on a catalog with a number of other blocks."""
    mill = Tidemill(directory, _create_settings(catalog_url), Project((_build_workflow().build_spec(),)))
    try:
        mill.apply()
        on_progress(f"adding a history of {blocks} blocks to the catalog")
        append_history(mill.catalog, "history", blocks)
        on_progress(f"inserting {rows} rows")
        mill.insert("clicks", _generate_clicks(mill, rows))
        return _compare(mill, directory, rows, blocks, rounds, on_progress)
    finally:
        mill.close()


def _create_settings(catalog_url: str | None) -> Settings:
    return Settings() if catalog_url is None else Settings(catalog=CatalogSettings(url=catalog_url))


def _build_workflow() -> tm.Workflow:
    workflow = tm.Workflow("overhead")
    workflow.input("clicks", SCHEMA)
    workflow.input("history", "a int")
    workflow.task(visits)
    return workflow


def _generate_clicks(mill: Tidemill, rows: int) -> DataFrame:
    spark: SparkSession = mill.spark
    return spark.range(0, rows, 1, 2).select(
        (F.col("id") * 7919 % 100_003).alias("user"),
        F.concat(F.lit("site"), F.col("id") % 1000).alias("site"),
        F.concat(F.lit("https://example/"), F.col("id") * 31 % 50_021).alias("url"),
        (F.col("id") + 1_700_000_000).alias("at"),
    )


def _compare(
    mill: Tidemill, directory: Path, rows: int, blocks: int, rounds: int, on_progress: Callable[[str], None]
) -> dict[str, Any]:
    spark = mill.spark
    paths = [mill.store.locate_file(f.path) for b in mill.catalog.blocks.list("clicks") for f in b.files]
    output = directory / "pyspark"
    catalog = TimedProxy(mill.catalog)
    mill.executor = replace(mill.executor, catalog=catalog)  # type: ignore[arg-type]
    catalog_ms: list[float] = []

    def run_pyspark() -> None:
        shutil.rmtree(output, ignore_errors=True)
        visits(spark.read.schema(SCHEMA).parquet(*paths)).write.parquet(str(output))

    def run_tidemill() -> None:
        before = catalog.seconds
        mill.run("visits")
        catalog_ms.append((catalog.seconds - before) * 1000)

    def run_empty_job() -> None:
        spark.range(1).collect()

    on_progress(f"timing {rounds} rounds of each variant")
    times = time_alternately(
        {"pyspark": run_pyspark, "tidemill": run_tidemill, "floor": run_empty_job}, rounds, warm_up=3
    )
    return {
        "rows": rows,
        "hand_s": round(times["pyspark"], 4),
        "tidemill_s": round(times["tidemill"], 4),
        "ratio": round(times["tidemill"] / times["pyspark"], 3),
        "catalog_ms": round(median(catalog_ms), 2),
        "blocks": blocks,
        "empty_job_s": round(times["floor"], 4),
        "rounds": rounds,
    }
