"""The Spark session: settings, start, and the differences between classic sessions and Spark Connect."""

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tidemill.errors import EngineError
from tidemill.model.error_summary import (
    OWN_MESSAGE,
    QUERY_STATES,
    format_summary,
    has_remote_traceback,
    mask_literals,
    summarize_error,
)
from tidemill.model.network import hide_credentials
from tidemill.model.run import BACKFILL_TAG_PREFIX
from tidemill.processes.scratch import open_scratch
from tidemill.spark import class_archive

MIN_JAVA_VERSION = 17

DEFAULTS: Mapping[str, str] = {
    "spark.app.name": "tidemill",
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
    "spark.sql.parquet.compression.codec": "zstd",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    # A flipped bit in a block must be an error, never a wrong value.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Parquet compares floats differently from Spark: see `parquet.py`, which handles top-level columns.
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
    # The catalog lists the valid files: no marker is needed.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Cache compiled classes for this many entries; Spark's default of 100 is fewer than one refresh needs.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Every task that groups and every broadcast allocates a page or two at once. Spark's default, up to 64 MB each, is
    # for large tasks; small ones would spend their time on clearing memory and garbage collection.
    "spark.buffer.pageSize": "1m",
    # The cost of opening a file, in bytes that could be read meanwhile. With Spark's 4 MB, a few small files beside
    # large ones put most of the rows into one task.
    "spark.sql.files.openCostInBytes": "524288",
    # Spark would retain the plans of a thousand finished queries, for a web UI that is disabled.
    "spark.sql.ui.retainedExecutions": "10",
    # Listing files in the driver is quicker than a job for many more files than the default of 32.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


SMALL_QUERY_SETTINGS: Mapping[str, str] = {
    # For small plans, measured in docs/benchmarks.md: adaptive re-planning at each stage costs more than it saves.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": str(64 * 1024 * 1024),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.files.minPartitionNum": str(os.cpu_count() or 2),
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings for work on small changes."""


FALLBACK_SETTINGS: Mapping[str, str] = {
    # Under outer joins it loses the field of a struct that a sub-query compares: Could not find _extract_x.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    # It confuses the columns of a correlated sub-query with those of the union below: key not found.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion",
    # It infers constraints of a union from columns that a side has lost: key not found.
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings that disable optimizations with which Spark 4.3 fails on valid queries."""

_OPTIMIZER_ERRORS = ("[INTERNAL_ERROR", "SQLSTATE: XXKD0", "NoSuchElementException: key not found")  # XXKD0: wrong plan


def is_optimizer_fault(error: Exception) -> bool:
    """Whether the error is a bug in Spark's optimization of a query."""
    return any(sign in str(error) for sign in _OPTIMIZER_ERRORS)


def create_sibling_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of the same context with separate settings; through Spark Connect, the same session."""
    return spark if find_context(spark) is None else _apply_settings(spark.newSession(), settings)


def create_isolated_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session of the same context with separate settings and temporary views, also through Spark Connect."""
    if find_context(spark) is not None:
        return create_sibling_session(spark, settings)
    return _apply_settings(spark.cloneSession(), settings)  # type: ignore[attr-defined]  # only Spark Connect has it


def _apply_settings(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    for name, value in settings.items():
        spark.conf.set(name, value)
    return spark


def release_session(spark: SparkSession) -> None:
    """End an isolated session; a connection of Spark Connect would contact its server for minutes at process exit."""
    if find_context(spark) is None:
        spark.client.release_session()
        spark.client.close()


def release_checkpoint(frame: DataFrame) -> None:
    """Delete the rows of a local checkpoint on the executors; Spark itself waits until the frame is unreachable."""
    if find_context(frame.sparkSession) is not None:
        frame._jdf.queryExecution().logical().rdd().unpersist(False)


def set_shuffle_partitions(spark: SparkSession, partitions: int | None) -> None:
    """Set the number of shuffle partitions; None: the number of cores.

    A session of Spark Connect stays as it is, because all runs share it.
    """
    if find_context(spark) is not None:
        spark.conf.set("spark.sql.shuffle.partitions", str(partitions or os.cpu_count() or 2))


def find_java_problem() -> str | None:
    """The problem with the Java that Spark would use; None if it is suitable."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return f"no Java was found on PATH and JAVA_HOME is not set; install Java {MIN_JAVA_VERSION} or newer"
    return _find_version_problem(command)


@cache
def _find_version_problem(command: str) -> str | None:
    try:
        process = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"{command} cannot be started ({error}); point JAVA_HOME at Java {MIN_JAVA_VERSION} or newer"
    version = re.search(r'version "(?:1\.)?(\d+)', process.stderr + process.stdout)
    major = int(version.group(1)) if version else 0
    return None if major >= MIN_JAVA_VERSION else f"{command} is Java {major}; Spark needs {MIN_JAVA_VERSION} or newer"


def start_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None, scratch: str | None = None
) -> SparkSession:
    """The session of this process: started, or the one that is already running."""
    problem = find_java_problem()
    if problem is not None:
        raise EngineError(problem)
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # else workers would run the python3 on PATH
    try:
        with _write_pool_weights() as weights, _silence_stderr():
            java_options = {"spark.driver.extraJavaOptions": build_java_options(class_archive.build_archive_options())}
            config: dict[str, Any] = {**DEFAULTS, **java_options, **weights}
            if scratch is not None:
                config |= {"spark.local.dir": scratch, "spark.sql.warehouse.dir": f"{scratch}/warehouse"}
            config |= settings or {}
            builder = SparkSession.builder if "spark.remote" in config else SparkSession.builder.master(master)
            return builder.config(map=config).getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        shown = hide_credentials(master)
        raise EngineError(f"Spark did not start with master {shown!r}: {extract_first_line(error)}") from error


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """Discard standard error, which the JVM inherits; its messages during the start are not useful."""
    original = os.dup(2)
    devnull = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(devnull, 2)
        yield
    finally:
        os.dup2(original, 2)
        os.close(original)
        os.close(devnull)


def find_running_session() -> SparkSession | None:
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def build_java_options(extra: str) -> str:
    """The options for Java: no logging, and the garbage collector with the least total time."""
    config = Path(__file__).with_name("log4j2.properties").as_uri()
    return f"-Dlog4j2.configurationFile={config} -XX:+UseParallelGC {extra}"


def ship_module(module: ModuleType) -> None:
    """Send a user's module by value to the workers with the functions that need it, because they cannot import it."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


@contextmanager
def tag_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag all jobs of this thread, so that any thread can cancel them, and give them a scheduler pool."""
    context = find_context(spark)
    add, remove = (context.addJobTag, context.removeJobTag) if context else (spark.addTag, spark.removeTag)
    add(tag)
    try:
        pools = _BACKFILLS if tag.startswith(BACKFILL_TAG_PREFIX) else _LIVE
        with pools.acquire_pool(tag) as pool:
            if context is not None:
                context.setLocalProperty(_POOL, pool)
            yield
    finally:
        if context is not None:
            context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # None removes the property
        remove(tag)


@contextmanager
def tag_isolated_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """Tag jobs of an isolated session, which shares its sibling's tags in one process but not through Spark Connect."""
    if find_context(spark) is not None:
        yield
        return
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


_POOL = "spark.scheduler.pool"


class _SchedulerPools:
    """FAIR pools for concurrent runs; Spark never removes a pool, so free ones are reused."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._acquired: dict[str, tuple[int, int]] = {}  # by tag: the pool's number and its number of threads

    @contextmanager
    def acquire_pool(self, tag: str) -> Iterator[str]:
        with self._lock:
            free = next(n for n in count() if all(n != number for number, _ in self._acquired.values()))
            number, threads = self._acquired.get(tag, (free, 0))
            self._acquired[tag] = (number, threads + 1)
        try:
            yield f"{self._name}-{number}"
        finally:
            with self._lock:
                number, threads = self._acquired[tag]
                if threads > 1:
                    self._acquired[tag] = (number, threads - 1)
                else:
                    del self._acquired[tag]


_LIVE, _BACKFILLS = _SchedulerPools("track"), _SchedulerPools("backfill")
_LIVE_WEIGHT, _WEIGHTED_POOLS = 10, 64
"""The weight of a pool of live runs relative to a backfill's, and the number of such pools; others have weight 1."""


@contextmanager
def _write_pool_weights() -> Iterator[dict[str, str]]:
    """The setting that gives pools of live runs more weight; Spark reads the file only when it starts."""
    pools = "".join(f'<pool name="track-{n}"><weight>{_LIVE_WEIGHT}</weight></pool>' for n in range(_WEIGHTED_POOLS))
    with TemporaryDirectory(dir=open_scratch().path) as directory:
        path = Path(directory) / "pools.xml"
        path.write_text(f"<allocations>{pools}</allocations>", encoding="utf-8")
        yield {"spark.scheduler.allocation.file": path.as_uri()}


def cancel_jobs(spark: SparkSession, tag: str) -> None:
    context = find_context(spark)
    if context is not None:
        context.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)


def find_context(spark: SparkSession) -> SparkContext | None:
    """The context of a session in this process, whose own tags only work in one thread; None through Spark Connect."""
    try:
        return spark.sparkContext
    except PySparkException:
        return None


_NO_VALUES = frozenset(
    {"sourceType", "targetType", "type", "config", "ansiConfig", "functionName", "routine", "suggestion"}
)
"""Parameters of Spark's messages that name types and settings, not values of rows."""


def is_in_process(spark: SparkSession) -> bool:
    """Whether all tasks of the session run in this process, or in child processes that share its files."""
    return find_context(spark) is not None and (spark.conf.get("spark.master", "") or "").startswith("local")


def extract_first_line(error: BaseException) -> str:
    """The first informative line of an error, without Spark's stack traces and without values of rows."""
    text = _redact_values(error) if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    informative = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (informative or lines or [type(error).__name__])[0]


def summarize_spark_error(error: Exception) -> str:
    """The error's class, Spark's first line without values of rows and literals, and the place in the user's code."""
    if not isinstance(error, PySparkException) or not error.getCondition() or has_remote_traceback(error):
        return summarize_error(error)
    raised = (error.getMessageParameters() or {}).get("errorMessage", "")
    if raised.startswith(OWN_MESSAGE):
        return raised.removeprefix(OWN_MESSAGE)
    return format_summary(error, mask_literals(extract_first_line(error)))


def _redact_values(error: PySparkException) -> str:
    """Spark's message. Values are removed, unless the error is about the text of a query."""
    text, state = error.getMessage() or "", error.getSqlState() or ""
    if error.getCondition() is None or state.startswith(QUERY_STATES):
        return text
    parameters = error.getMessageParameters()
    if not parameters:
        reason = " caused by a value of a row" if state.startswith(("22", "23")) else ""
        return f"[{error.getCondition()}]{reason}"
    values = {str(value) for name, value in parameters.items() if name not in _NO_VALUES} - {""}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "…")
    return text
