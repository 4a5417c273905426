"""An analysis is about the query or the function, never about a session that was lost meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import tidemill as tm
from tidemill.algebra.sql import scan_channel
from tidemill.errors import EngineLost
from tidemill.model.analysis import AnalysisRequest
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.spark import analysis
from tidemill.spark.engine import SparkEngine

LOST = "[NO_ACTIVE_SESSION] No active Spark session found."
TABLES = {"t": Schema.from_ddl("k int")}


@pytest.fixture
def engine(spark: SparkSession) -> Iterator[SparkEngine]:
    """An engine that recognises a lost session as it does through Spark Connect: by the error."""
    engine = SparkEngine(lambda: spark, str)
    engine.sessions.monitor._context = None
    yield engine
    engine.stop()


def fail(*_: object, **__: object) -> NoReturn:
    raise PySparkException(LOST)


def infer(engine: SparkEngine, error: Exception) -> object:
    wf = tm.Workflow("w")
    wf.input("t", "k int")

    @wf.task(writes={"u": tm.Base})
    def copy(t: tm.All) -> DataFrame:
        raise error

    return engine.infer_outputs(_find_task(wf), TABLES)


def _find_task(wf: tm.Workflow) -> Task:
    return next(iter(wf.build_spec().list_tasks()))


def test_a_session_lost_by_a_function_is_no_fault_of_the_function(engine: SparkEngine) -> None:
    assert infer(engine, ValueError("empty")) is None
    with pytest.raises(EngineLost):
        infer(engine, PySparkException(LOST))


def test_a_session_lost_while_the_operators_are_compiled_does_not_make_a_query_batch_only(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    operators = scan_channel("t", {"k": "INT"}).op
    request = AnalysisRequest("SELECT k FROM t", TABLES, operators, {"t": "t"})
    assert engine.analyse_query(request).obstacle is None
    monkeypatch.setattr(analysis.OperatorCompiler, "build_frame", fail)
    with pytest.raises(EngineLost):
        engine.analyse_query(request)


@pytest.mark.parametrize("error", [AnalysisException(LOST), PySparkException(LOST)])
def test_a_session_lost_while_a_query_is_analysed_does_not_refuse_the_query(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail_to_convert(_: object) -> NoReturn:
        raise error

    monkeypatch.setattr(analysis, "to_content_schema", fail_to_convert)
    with pytest.raises(EngineLost):
        engine.analyse_query(AnalysisRequest("SELECT k FROM t", TABLES))
