"""Whether Spark's executors see the block store.

An executor with a disk of its own writes there, and Spark calls that a success. So a session whose executors are
other processes is tried when it is started, before anything depends on it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.errors import EngineError, RowsMissing, StorageError
from tidemill.model.store import RUNS
from tidemill.ports.storage import BlockStore
from tidemill.spark.block_writer import fresh, save_counted
from tidemill.spark.session import first_line, in_process, running

TASKS = 32
"""Tasks of the trial, each with a file: more than most clusters have executors for one project."""


def start_on_store(start: Callable[[], SparkSession], store: BlockStore) -> SparkSession:
    """Start a session, and check that its executors see the store; one that does not serve is stopped again."""
    before = running()
    spark = start()
    if in_process(spark):
        return spark
    try:
        check_executors(spark, store)
    except BaseException:
        if before is None:
            spark.stop()
        raise
    return spark


def check_executors(spark: SparkSession, store: BlockStore) -> None:
    """Let executors write files, look for them here, and let executors read them; raises `EngineError`."""
    directory = f"{RUNS}/0/0/{uuid4().hex}"  # no run has the number 0
    try:
        rows = save_counted(spark.range(0, TASKS, 1, TASKS), fresh(store.stage(directory)))
        files = store.publish(directory, rows)
        found = spark.read.schema("id bigint").parquet(*(store.locate(f.path) for f in files)).count()
    except (PySparkException, RowsMissing) as error:
        raise _blind(store, first_line(error)) from error
    finally:
        with suppress(StorageError):
            store.delete(store.list_directory(directory))
            store.prune(directory)
    if found != rows:
        raise _blind(store, f"of {rows} rows they read {found}")


def _blind(store: BlockStore, why: str) -> EngineError:
    return EngineError(
        f"Spark's executors do not see the block store {store.name} as this process does. Let [storage] url be a "
        "directory that all machines share under one path, or an object store that Spark reaches itself "
        f"(staged = false); or let [spark] master be local[*]. What happened: {why}"
    )
