"""The Spark session: settings, start, and what only one of the two kinds of session offers."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark import SparkContext, cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from tidemill.errors import EngineError
from tidemill.model.run import BACKFILL
from tidemill.spark import class_archive

JAVA_NEEDED = 17

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
    # A flipped bit in a block must be an error, never a wrong number.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    # Parquet compares floats in another way than Spark does: see `parquet.py`, which does the same for columns.
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
    # The catalog says which files count: no marker is needed.
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Compiled code is kept for so many queries' worth of classes; Spark's 100 are fewer than one refresh needs.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Every task that groups and every broadcast takes a page or two at once. Spark's default, up to 64 MB each, is made
    # for large tasks; small ones would spend their time in clearing memory and collecting it.
    "spark.buffer.pageSize": "1m",
    # What opening a file costs, in bytes read meanwhile. With Spark's 4 MB a few small files beside large ones make one
    # task of most of the rows.
    "spark.sql.files.openCostInBytes": "524288",
    # Of queries that are done Spark would keep a thousand plans in words and drawings, for a page that is not there.
    "spark.sql.ui.retainedExecutions": "10",
    # A listing in the driver is quicker than a job up to many more files than 32.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


QUICK: Mapping[str, str] = {
    # For small plans, measured in docs/benchmarks.md: planning again at each stage costs more than it finds out.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": str(64 * 1024 * 1024),
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.files.minPartitionNum": str(os.cpu_count() or 2),
    "spark.sql.constraintPropagation.enabled": "false",
}
"""Settings for work on small changes."""


CAREFUL: Mapping[str, str] = {
    # Under outer joins it loses the field of a struct that a sub-query compares: Could not find _extract_x.
    "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    # It takes the columns of a correlated sub-query for those of the union below: key not found.
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.PushProjectionThroughUnion",
}
"""Optimisations by which Spark 4.3 spoils queries that are valid, turned off."""

_SPOILT = ("[INTERNAL_ERROR", "NoSuchElementException: key not found")


def is_optimizer_fault(error: Exception) -> bool:
    """Is it a fault of Spark's own in what it made of a query?"""
    return any(sign in str(error) for sign in _SPOILT)


def create_sibling_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session beside this one with settings of its own; the same one where there is no other (Spark Connect)."""
    if find_context(spark) is None:
        return spark
    other = spark.newSession()
    for name, value in settings.items():
        other.conf.set(name, value)
    return other


def create_isolated_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """A session beside this one with settings and temporary views of its own, through Spark Connect, too."""
    if find_context(spark) is not None:
        return create_sibling_session(spark, settings)
    other = spark.cloneSession()  # type: ignore[attr-defined]  # only sessions of Spark Connect have it
    for name, value in settings.items():
        other.conf.set(name, value)
    return other  # type: ignore[no-any-return]


def release_session(spark: SparkSession) -> None:
    """End a session that `isolated` made. Through Spark Connect it has a connection of its own.

    Left open, it would ask the server, which may be gone by then, for minutes when the process is to end.
    """
    if find_context(spark) is None:
        spark.client.release_session()
        spark.client.close()


def to_cached_leaf(frame: DataFrame) -> DataFrame:
    """What Spark is to keep, as a leaf of the plans of those that read it.

    Otherwise they repeat its whole plan wherever they read it, and theirs is repeated in turn: a dozen steps of which
    each reads others twice never got out of planning. Spark's description of a plan, which it makes for each query,
    still goes on into what is kept and from there into what that read.
    """
    spark = frame.sparkSession
    context = find_context(spark)
    if context is None:
        return frame
    assert context._jvm is not None
    plan = frame._jdf.queryExecution().withCachedData()
    rows = context._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan)
    return ClassicDataFrame(rows, spark)


def set_shuffle_partitions(spark: SparkSession, over: int | None) -> None:
    """Shuffle over so many tasks from now on; None: over as many as there are cores."""
    spark.conf.set("spark.sql.shuffle.partitions", str(over or os.cpu_count() or 2))


def find_java_problem() -> str | None:
    """What is wrong with the Java that Spark would use; None if nothing is."""
    home = os.environ.get("JAVA_HOME")
    command = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if command is None:
        return f"no Java was found on PATH and JAVA_HOME is not set; install Java {JAVA_NEEDED} or newer"
    try:
        done = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return f"{command} cannot be started ({error}); point JAVA_HOME at Java {JAVA_NEEDED} or newer"
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    major = int(found.group(1)) if found else 0
    return None if major >= JAVA_NEEDED else f"{command} is Java {major}; Spark needs {JAVA_NEEDED} or newer"


def start_session(
    master: str = "local[*]", settings: Mapping[str, str] | None = None, scratch: str | None = None
) -> SparkSession:
    """The session for this process: started, or the one that already runs."""
    problem = find_java_problem()
    if problem is not None:
        raise EngineError(problem)
    for noisy in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL + 1)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # or workers would be whatever python3 is on PATH
    try:
        with _write_pool_weights() as weights, _silence_stderr():
            told = {"spark.driver.extraJavaOptions": build_java_options(class_archive.build_archive_options())}
            chosen = {**DEFAULTS, **told, **weights, **_build_scratch_settings(scratch), **(settings or {})}
            return _configure_builder(master, chosen).getOrCreate()
    except (PySparkException, Py4JError, OSError, RuntimeError) as error:
        raise EngineError(f"Spark did not start with master {master!r}: {extract_first_line(error)}") from error


def _configure_builder(master: str, chosen: Mapping[str, str]) -> SparkSession.Builder:
    builder = SparkSession.builder
    if "spark.remote" not in chosen:
        builder = builder.master(master)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    return builder


@contextmanager
def _silence_stderr() -> Iterator[None]:
    """The JVM inherits standard error from this process; what it says there while starting helps nobody."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def find_running_session() -> SparkSession | None:
    """The session that this process has already, whoever started it."""
    try:
        return SparkSession.active()
    except PySparkException:
        return None


def build_java_options(more: str) -> str:
    """What Java is told: no chatter, and the collector that takes the least time in all."""
    config = Path(__file__).with_name("log4j2.properties").as_uri()
    return f"-Dlog4j2.configurationFile={config} -XX:+UseParallelGC {more}"


def _build_scratch_settings(directory: str | None) -> dict[str, str]:
    if directory is None:
        return {}
    return {"spark.local.dir": directory, "spark.sql.warehouse.dir": str(Path(directory) / "warehouse")}


def ship_module(module: ModuleType) -> None:
    """Send a user's module to the workers with the functions that need it: they cannot import it themselves."""
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]


@contextmanager
def tag_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """Everything this thread runs meanwhile can be stopped by the tag, from any thread, and has a pool to itself."""
    context = find_context(spark)
    add, remove = (context.addJobTag, context.removeJobTag) if context else (spark.addTag, spark.removeTag)
    add(tag)
    try:
        with _choose_pools(tag).acquire_pool(tag) as pool:
            if context is not None:
                context.setLocalProperty(_POOL, pool)
            yield
    finally:
        if context is not None:
            context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # Spark's own way to say: none
        remove(tag)


@contextmanager
def tag_isolated_jobs(spark: SparkSession, tag: str) -> Iterator[None]:
    """The same in a session beside the tagged one, which shares its tags in one process but not in Spark Connect."""
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
    """FAIR pools for what runs at the same time; Spark never forgets one, so those that are free are used again."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._held: dict[str, tuple[int, int]] = {}  # by tag: the pool's number, and how many threads are in it

    @contextmanager
    def acquire_pool(self, tag: str) -> Iterator[str]:
        with self._lock:
            free = next(n for n in count() if all(n != number for number, _ in self._held.values()))
            number, threads = self._held.get(tag, (free, 0))
            self._held[tag] = (number, threads + 1)
        try:
            yield f"{self._name}-{number}"
        finally:
            with self._lock:
                number, threads = self._held[tag]
                if threads > 1:
                    self._held[tag] = (number, threads - 1)
                else:
                    del self._held[tag]


_LIVE, _BACKFILLS = _SchedulerPools("track"), _SchedulerPools("backfill")
_WEIGHT, _WEIGHTED = 10, 64
"""Of how many pools of live runs each gets how many times the share of one of a backfill; others get as much as it."""


def _choose_pools(tag: str) -> _SchedulerPools:
    return _BACKFILLS if tag.startswith(BACKFILL) else _LIVE


@contextmanager
def _write_pool_weights() -> Iterator[dict[str, str]]:
    """The setting that makes pools of live runs weigh more; Spark reads the file as it starts, and never again."""
    pools = "".join(f'<pool name="track-{n}"><weight>{_WEIGHT}</weight></pool>' for n in range(_WEIGHTED))
    with TemporaryDirectory(prefix="tidemill-pools-") as directory:
        path = Path(directory) / "pools.xml"
        path.write_text(f"<allocations>{pools}</allocations>", encoding="utf-8")
        yield {"spark.scheduler.allocation.file": path.as_uri()}


def cancel_jobs(spark: SparkSession, tag: str) -> None:
    """Stop whatever runs under the tag."""
    context = find_context(spark)
    if context is not None:
        context.cancelJobsWithTag(tag)
    else:
        spark.interruptTag(tag)


def find_context(spark: SparkSession) -> SparkContext | None:
    """The context of a session in this process; None through Spark Connect.

    A session's own tags are no use in process: `interruptTag` finds only what the calling thread had tagged.
    """
    try:
        return spark.sparkContext
    except PySparkException:
        return None


_NO_VALUES = frozenset(
    {"sourceType", "targetType", "type", "config", "ansiConfig", "functionName", "routine", "suggestion"}
)
"""Parameters of Spark's messages that name types and settings, and no values of rows."""


def is_in_process(spark: SparkSession) -> bool:
    """Do all tasks of the session run in this process, or in children that share its files?"""
    return find_context(spark) is not None and (spark.conf.get("spark.master", "") or "").startswith("local")


def extract_first_line(error: BaseException) -> str:
    """The first line of an error that says something, without Spark's stack traces and without values of rows."""
    text = _redact_values(error) if isinstance(error, PySparkException) else str(error)
    lines = [line.strip() for line in (text or "").splitlines() if line.strip()]
    telling = [line for line in lines if not line.startswith("An error occurred while calling")]
    return (telling or lines or [type(error).__name__])[0]


def _redact_values(error: PySparkException) -> str:
    """Spark's message. Of errors about data (SQLSTATE 22 and 23) what the message took from rows is left out."""
    text = error.getMessage() or ""
    if (error.getSqlState() or "")[:2] not in ("22", "23"):
        return text
    given = error.getMessageParameters()
    if not given:
        return f"[{error.getCondition()}] a value of a row is the reason"
    values = [value for name, value in given.items() if name not in _NO_VALUES]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, "…") if value else text
    return text
