"""An engine that finishes every task at once and writes no rows: what remains is the cost of everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pyspark.sql import SparkSession

from tidemill.app.wiring import Tidemill
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.view import View
from tidemill.ports.engine import EngineLimits, Log, WriteTarget
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.spark.engine import SparkEngine


class EmptyEngine(SparkEngine):
    """Never starts Spark."""

    def run_task(
        self,
        task: Task,
        inputs: Mapping[str, View],
        outputs: Mapping[str, WriteTarget],
        *,
        tag: str,
        log: Log,
        now: int,
    ) -> Mapping[str, Schema]:
        return {argument: target.schema or _STATE_SCHEMA for argument, target in outputs.items()}


_STATE_SCHEMA = Schema.from_ddl("k bigint")
"""The columns of outputs that declare none."""


def build_controller(mill: Tidemill) -> FreshnessController:
    """A controller of the project's first workflow whose runs write no rows."""
    engine = EmptyEngine(_start_nothing, mill.store.locate_file, EngineLimits())
    return FreshnessController(replace(mill.executor, engine=engine), {}, mill.project.workflows[0])


def _start_nothing() -> SparkSession:
    raise AssertionError("this engine needs no Spark")
