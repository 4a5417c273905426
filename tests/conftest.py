"""Fixtures for all tests: one Spark session for the tests that use Spark, and the number of generated examples."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, wraps
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from py4j.java_gateway import JVMView
from pyspark.sql import SparkSession
from sqlalchemy import Connection, MetaData, create_mock_engine
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from tidemill.app import engine_limits, wiring
from tidemill.catalog.tables import metadata
from tidemill.spark import session

# The Java processes live for minutes on few cores: optimized compilation would take longer than it saves (not so in
# campaigns of hours: see the Makefile). The default code cache of 48 MB is too small for the tests: compiled code would
# be evicted and compiled again.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")

# Each commit of a catalog waits for the disk, for nothing: no test cuts the power.
MEMORY = Path("/dev/shm")
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None

# By default Python looks for cycles after every few hundred new objects, which takes a tenth of the tests' time.
gc.set_threshold(200_000, 20, 100)

# A process keeps the statements that it compiled for one database. Each test has another database of the same kind:
# compiling all statements anew for each takes a fifth of the time of a test of the catalog.
COMPILED: LRUCache[object, object] = LRUCache(4000)
DefaultDialect.__hash__ = lambda self: hash(type(self))
DefaultDialect.__eq__ = lambda self, other: type(self) is type(other)
_init_engine = Engine.__init__


@wraps(_init_engine)
def _share_compiled_statements(engine: Engine, *args: object, **kwargs: object) -> None:
    _init_engine(engine, *args, **kwargs)
    engine._compiled_cache = COMPILED


Engine.__init__ = _share_compiled_statements


@cache
def _compile_tables(url: str) -> list[str]:
    """The statements that create the tables of a catalog, which hundreds of tests do."""
    texts: list[str] = []
    engine = create_mock_engine(url, lambda ddl, *_: texts.append(str(ddl.compile(dialect=engine.dialect))))
    MetaData.create_all(metadata, engine, checkfirst=False)
    return texts


def _create_tables(connection: Connection, checkfirst: bool) -> None:
    for text in _compile_tables(f"{connection.dialect.name}+{connection.dialect.driver}://"):
        connection.exec_driver_sql(text)


metadata.create_all = _create_tables

_find_java_name = JVMView.__getattr__


@wraps(_find_java_name)
def _remember_java_name(jvm: JVMView, name: str) -> object:
    """PySpark looks up the same few classes for each column, and Java searches all jar files for some of the names."""
    jvm.__dict__[name] = _find_java_name(jvm, name)
    return jvm.__dict__[name]


JVMView.__getattr__ = _remember_java_name

# Without this variable the examples are deterministic; `make search` sets it and gets more, random ones.
EXAMPLES = os.environ.get("TIDEMILL_EXAMPLES")

settings.register_profile(
    "tidemill",
    deadline=None,
    max_examples=int(EXAMPLES or 12),
    derandomize=EXAMPLES is None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
    print_blob=True,
)
settings.load_profile("tidemill")

if os.environ.get("TIDEMILL_ENGINE_LOCAL") == "off":  # `make test-spark-only`; many tests construct their settings
    wiring.build_limits = lambda settings: replace(engine_limits.build_limits(settings), is_local=False)


QUICK_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For hundreds of small, different plans: adapting and compiling each costs more than running it."""

UNUSED_REPORTS = {"spark.python.sql.dataFrameDebugging.enabled": "false", "spark.sql.ui.explainMode": "simple"}
"""For each column Spark would note the line that made it, and for each query format the plan in full."""

SHIPPED_SETTINGS = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # A campaign that is suspended for hours can be continued.
    patience = dict.fromkeys(("spark.sql.broadcastTimeout", "spark.network.timeout"), "1d")
    memory = {"spark.driver.memory": "1g" if EXAMPLES is None else "5g"}
    started = {**memory, **patience, **UNUSED_REPORTS, **QUICK_SETTINGS}
    running = session.start_session("local[2]", started, str(tmp_path_factory.mktemp("spark")))
    _remove_default_hadoop_settings(running)
    yield running
    running.stop()


def _remove_default_hadoop_settings(spark: SparkSession) -> None:
    """Remove 1097 defaults, none of which local files need: each scan sends all, which takes Java 15 ms."""
    hadoop = spark._jsc.hadoopConfiguration()
    sources = {name: (hadoop.getPropertySources(name) or [""])[0] for name in (e.getKey() for e in hadoop.iterator())}
    kept = {name: hadoop.get(name) for name, source in sources.items() if not source.endswith("-default.xml")}
    hadoop.clear()
    for name, value in kept.items():
        hadoop.set(name, value)


@pytest.fixture
def shipped_settings(spark: SparkSession) -> Iterator[None]:
    """Spark with adaptive execution and generated code, as the product starts it."""
    _change_settings(spark, SHIPPED_SETTINGS)
    yield
    _change_settings(spark, QUICK_SETTINGS)


def _change_settings(spark: SparkSession, settings: dict[str, str]) -> None:
    """Change the settings of a session and of those that are created from it, which begin with the shared ones."""
    shared = spark._jsparkSession.sharedState().conf()
    for name, value in settings.items():
        spark.conf.set(name, value)
        shared.set(name, value)
