"""Stateful workflows on a real catalog and real files, without Spark, and processes that are killed in a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from sqlalchemy import Engine, event
from tests.acceptance.test_crash import Tripwire

from tidemill.catalog import open_catalog
from tidemill.intake.loader import load_file
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.engine import EngineLimits
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.views import ChannelViews
from tidemill.spark.arrow import ArrowBlockIO
from tidemill.spark.engine import SparkEngine
from tidemill.spark.local_work import LocalWork
from tidemill.storage import open_store

LATER = 3600.0
"""Clock offset of a restarted process: every lease has expired by then."""

Session = Callable[[], SparkSession]
Clock = Callable[[], float]


def no_session() -> SparkSession:
    raise AssertionError("small batches need no Spark")


class Mill:
    """One process's executor for a workflow."""

    def __init__(self, executor: Executor, wf: WorkflowSpec) -> None:
        self.executor = executor
        self._flows = wf.bindings

    def insert(self, channel: str, path: Path, key: str | None = None) -> None:
        Inserter(self.executor, load_file).insert_file(channel, path, key=key)

    def run(self) -> None:
        for flow in self._flows:
            self.executor.run_flow(flow, {})

    def rows(self, channel: str) -> list[dict[str, Any]]:
        catalog = self.executor.catalog
        view = ChannelViews(catalog, {}).build_snapshot(channel, catalog.channels.read(channel).head.seq)
        table: pa.Table = ArrowBlockIO(
            no_session, LocalWork(self.executor.store.locate_file, EngineLimits())
        ).read_table(view)
        return table.to_pylist()


@contextmanager
def open_stateful_mill(
    root: Path, wf: WorkflowSpec, session: Session = no_session, clock: Clock = time.time
) -> Iterator[Mill]:
    catalog = open_catalog(f"sqlite:///{root}/catalog.db", clock=clock)
    store = open_store(str(root / "store"))
    engine = SparkEngine(session, store.locate_file)
    catalog.workflows.apply(wf)
    try:
        yield Mill(Executor(catalog, store, engine, "test", sleep=lambda _: None), wf)
    finally:
        engine.stop()
        catalog.close()


def guard_tasks(mill: Mill, wire: Tripwire) -> None:
    """Make every call of a task, and every return from one, a step at which this process may be killed."""
    wire.guard(mill.executor.engine, "run_task")


def guard_all_steps(mill: Mill, wire: Tripwire) -> None:
    """Make every statement, file operation and task call a step at which this process may be killed."""
    guard_tasks(mill, wire)
    event.listen(Engine, "before_cursor_execute", wire.step)
    event.listen(Engine, "commit", wire.step)
    wire.guard(mill.executor.store, "stage_directory", "publish_files")


def is_killed(work: Callable[[], None]) -> bool:
    """Do the work in a child process; returns whether it was killed rather than finished."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)
