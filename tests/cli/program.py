"""Runs the `tidemill` command in the test's process, with a fake engine where no Spark is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.empty_engine import EmptyEngine, Inputs, Outputs, Schemas

from tidemill.cli import main
from tidemill.errors import RunFailed
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.ports.engine import EngineLimits, Log

OUTPUT_SCHEMA = Schema.from_ddl("x bigint")


@dataclass(frozen=True)
class CommandResult:
    """The exit code of a command and the text that it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output, which must be a single JSON document."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = json.loads(self.err)["error"]
        return error


@dataclass
class Program:
    """The command line of one project."""

    project: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path | int) -> CommandResult:
        """Run a command and return its result, whether it succeeds or fails."""
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--project", str(self.project), *map(str, arguments)])
        printed = self.capsys.readouterr()
        assert isinstance(end.value.code, int)
        return CommandResult(end.value.code, printed.out, printed.err)

    def run_ok(self, *arguments: str | Path | int) -> CommandResult:
        """Run a command that must succeed and print nothing to standard error."""
        result = self(*arguments)
        assert (result.code, result.err) == (0, "")
        return result

    def json(self, *arguments: str | Path | int) -> Any:
        return self.run_ok(*arguments, "--json").document

    def create_starter_project(self) -> Program:
        """Create and apply the starter project."""
        self.run_ok("init", self.project)
        self.run_ok("apply")
        return self

    def copy_project(self, template: Path, create: Callable[[Program], None]) -> Program:
        """Copy the template project, which the first caller creates."""
        if not template.exists():
            create(Program(template, self.capsys))
        shutil.copytree(template, self.project)
        return self

    def insert_sample(self) -> None:
        self.run_ok("insert", "orders", self.project / "orders.csv")


@dataclass
class FakeEngine(EmptyEngine):
    """Writes three rows to every output of every task, reads none, and needs no Spark."""

    session: Callable[[], Any] = field(repr=False)
    locate: Callable[[str], str] = field(repr=False)
    limits: EngineLimits = field(repr=False)

    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        log.write(f"[bold]{task.name}[/bold] speaks\n")
        for target in outputs.values():
            pq.write_table(pa.table({"x": [1, 2, 3]}), Path(target.directory) / "part.parquet")
        return dict.fromkeys(outputs, OUTPUT_SCHEMA)


class FailingEngine(FakeEngine):
    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        log.write("about to fail\n")
        raise RunFailed(f"task {task.name}: no such column")


class InterruptedEngine(FakeEngine):
    def execute_task(self, task: Task, inputs: Inputs, outputs: Outputs, log: Log) -> Schemas:
        raise KeyboardInterrupt
