"""A check that Spark's executors can access the block store.

An executor with a local disk writes there, and Spark reports success. So a session whose executors are other processes
is tested when it is started, before anything depends on it.
"""

from collections.abc import Callable
from contextlib import suppress
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidemill.errors import EngineError, RowsMissing, StorageError
from tidemill.model.store import RUNS_DIRECTORY
from tidemill.ports.storage import BlockStore
from tidemill.spark.block_writer import build_data_path, save_and_count
from tidemill.spark.session import extract_first_line, find_running_session, is_in_process

TASKS = 32
"""Tasks of the test, each with a file: more than most clusters have executors for one project."""


def start_on_store(start: Callable[[], SparkSession], store: BlockStore) -> SparkSession:
    """Start a session, and check that its executors can access the store; if not, it is stopped again."""
    before = find_running_session()
    spark = start()
    if is_in_process(spark):
        return spark
    try:
        check_executors(spark, store)
    except BaseException:
        if before is None:
            spark.stop()
        raise
    return spark


def check_executors(spark: SparkSession, store: BlockStore) -> None:
    """Let executors write files and read them again, and check that they are visible here; raises `EngineError`."""
    directory = f"{RUNS_DIRECTORY}/0/0/{uuid4().hex}"  # no run has the number 0
    try:
        rows = save_and_count(spark.range(0, TASKS, 1, TASKS), build_data_path(store.stage_directory(directory)))
        files = store.publish_files(directory, rows)
        rows_read = spark.read.schema("id bigint").parquet(*(store.locate_file(f.path) for f in files)).count()
    except (PySparkException, RowsMissing) as error:
        raise _build_error(store, extract_first_line(error)) from error
    finally:
        with suppress(StorageError):
            store.delete_files(store.list_directory(directory))
            store.prune_directory(directory)
    if rows_read != rows:
        raise _build_error(store, f"of {rows} rows they read {rows_read}")


def _build_error(store: BlockStore, reason: str) -> EngineError:
    return EngineError(
        f"Spark's executors do not see the block store {store.name} as this process does. Let [storage] url be a "
        "directory that all machines share under one path, or an object store that Spark reaches itself "
        f"(staged = false); or let [spark] master be local[*]. What happened: {reason}"
    )
