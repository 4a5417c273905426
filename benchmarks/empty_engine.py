"""An engine that finishes every task at once and writes no rows: what remains is the cost of everything else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tidemill.app.wiring import Tidemill
from tidemill.model.analysis import NoAnalyser
from tidemill.model.health import HEALTHY, EngineHealth
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.view import View
from tidemill.ports.engine import Log, WriteTarget
from tidemill.runtime.freshness.controller import FreshnessController

Inputs = Mapping[str, View]
Outputs = Mapping[str, WriteTarget]
Schemas = Mapping[str, Schema]


class EmptyEngine(NoAnalyser):
    """An engine without Spark. The engines of tests extend it by what they execute."""

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        """Write the outputs of a task; returns the schema of each."""
        return {argument: target.schema or _STATE_SCHEMA for argument, target in outputs.items()}

    def run_task(self, task: Task, inputs: Inputs, outputs: Outputs, *, tag: str, log: Log, now: int) -> Schemas:
        return self.execute_task(task, inputs, outputs, log)

    def start(self) -> None:
        """There is nothing to start."""

    def report_health(self) -> EngineHealth:
        return HEALTHY

    def cancel_jobs(self, tag: str) -> None:
        """No job runs long enough to be cancelled."""

    def stop(self) -> None:
        """There is nothing to stop."""


_STATE_SCHEMA = Schema.from_ddl("k bigint")
"""The columns of outputs that declare none."""


def build_controller(mill: Tidemill) -> FreshnessController:
    """A controller of the project's first workflow whose runs write no rows."""
    executor = replace(mill.executor, engine=EmptyEngine())  # type: ignore[arg-type]
    return FreshnessController(executor, {}, mill.project.workflows[0])
