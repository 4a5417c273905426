"""Runs the `tidemill` program inside the test's process, and stands in for Spark where none is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.cli import main
from tidemill.errors import RunFailed
from tidemill.model.analysis import NoAnalyser
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.view import View
from tidemill.ports.engine import HEALTHY, EngineHealth, Log, WriteTarget

WRITTEN = Schema.from_ddl("x bigint")


@dataclass(frozen=True)
class Ended:
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Standard output as the one JSON document that it must be."""
        return json.loads(self.out)

    @property
    def error(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.err)["error"]
        return found


@dataclass
class Program:
    """The program, used in one project."""

    project: Path
    capsys: pytest.CaptureFixture[str]

    def __call__(self, *arguments: str | Path | int) -> Ended:
        """Run a command, however it ends."""
        self.capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["--project", str(self.project), *map(str, arguments)])
        printed = self.capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Ended(end.value.code, printed.out, printed.err)

    def well(self, *arguments: str | Path | int) -> Ended:
        """Run a command that must succeed and complain of nothing."""
        ended = self(*arguments)
        assert (ended.code, ended.err) == (0, "")
        return ended

    def json(self, *arguments: str | Path | int) -> Any:
        return self.well(*arguments, "--json").document

    def started(self) -> Program:
        """The same, with the starter project made and applied."""
        self.well("init", self.project)
        self.well("apply")
        return self

    def as_in(self, made: Path, make: Callable[[Program], None]) -> Program:
        """The same, in a copy of a project that the first who wants one makes for all."""
        if not made.exists():
            make(Program(made, self.capsys))
        shutil.copytree(made, self.project)
        return self

    def insert_sample(self) -> None:
        self.well("insert", "orders", self.project / "orders.csv")


@dataclass
class FakeEngine(NoAnalyser):
    """Writes three rows to every output of every task, reads none, and needs no Spark."""

    session: Callable[[], Any] = field(repr=False)
    locate: Callable[[str], str] = field(repr=False)
    start_seconds: float = 0.0

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
        log.write(f"[bold]{task.name}[/bold] speaks\n")
        for target in outputs.values():
            pq.write_table(pa.table({"x": [1, 2, 3]}), Path(target.directory) / "part.parquet")
        return dict.fromkeys(outputs, WRITTEN)

    def start(self) -> None:
        pass

    def report_health(self) -> EngineHealth:
        return HEALTHY

    def cancel_jobs(self, tag: str) -> None:
        pass

    def stop(self) -> None:
        pass


class FailingEngine(FakeEngine):
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
        log.write("about to fail\n")
        raise RunFailed(f"task {task.name}: no such column")


class InterruptedEngine(FakeEngine):
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
        raise KeyboardInterrupt
