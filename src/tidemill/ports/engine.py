"""The interface of the engine that runs tasks, with its arguments and results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.model.analysis import Analysis, AnalysisRequest, Schemas
from tidemill.model.block import BlockKind
from tidemill.model.change import Updates
from tidemill.model.health import EngineHealth
from tidemill.model.run import StepReport
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.view import DeltaChain, Snapshot, View

Progress = Callable[[str, float], None]
"""Called with the name of the current step and the fraction completed, 0 to 1."""


@dataclass(slots=True)
class WriteReceipt:
    """The number of rows that a writer counted while writing; None: it did not count."""

    rows: int | None = None


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """The directory, kind and schema for writing an output of a task."""

    channel: str
    kind: BlockKind
    directory: str  # a directory that Spark can write
    schema: Schema | None  # of the channel's content; None if the first block decides
    updates: Updates
    seq: int = 0  # the sequence number of its reservation, which no other attempt has
    state_seq: int = 0  # of a state: its current sequence number
    merges_into_empty: bool = False  # the task returns a delta, and the base is that delta merged into an empty base
    is_schema_inferred: bool = False  # the schema was not declared: a base may change it, and a delta may add columns
    receipt: WriteReceipt = field(default_factory=WriteReceipt, compare=False)  # filled in by the writer

    def to_physical_schema(self, content: Schema) -> Schema:
        """The columns of the files: a delta has additional ones."""
        return content if self.kind is BlockKind.BASE else self.updates.build_delta_schema(content)


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """The limits by which an engine decides where rows are computed, and how they are passed on (docs/operate.md)."""

    is_local: bool = True  # the driver may compute steps itself, where that is cheaper
    driver_memory: int = 1 << 30  # bytes that the driver may use for rows
    relation_rows: int = 8_000  # rows that are passed to Spark as part of a plan; more are passed as a file
    single_task_rows: int = 100_000  # rows up to which one task is as quick as several
    content_rows: int = 100_000  # rows of a content from which its untouched rows are not grouped with a change
    broadcast_rows: int = 400_000  # rows of a change whose keys are sent to every executor

    def is_small_change(self, content: int, change: int) -> bool:
        """Whether skipping the untouched rows of a content is cheaper than grouping all rows by key.

        That holds if the content is large, the change at most half of it, and its keys fit into a broadcast
        (docs/benchmarks.md).
        """
        return content >= self.content_rows and change <= min(self.broadcast_rows, content // 2)


@dataclass(slots=True)
class StartWait:
    """The seconds for which one thread has waited for an engine to start: chance, and no cost of its work."""

    seconds: float = 0.0


_START_WAIT = ContextVar[StartWait]("start_wait")


def get_start_wait() -> StartWait:
    """The wait of this thread, and of those that continue its context."""
    wait = _START_WAIT.get(None)
    if wait is None:
        _START_WAIT.set(wait := StartWait())
    return wait


class Engine(Protocol):
    """Runs tasks. The only implementation is Spark's; tests may use others.

    Operations that fail because the engine is lost raise `EngineLost`. The next use restarts it.
    """

    def start(self) -> None:
        """Start the engine; raises `EngineError` if that fails."""

    def report_health(self) -> EngineHealth: ...

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
        """Run a task on views and write its outputs; returns the content schema of each, by argument.

        `now` is the version at which the run was claimed: all data that it does not read arrive later.
        """

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        """Raises `QueryRefused` if the query is invalid; None if this engine cannot analyse queries."""

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        """The columns that a function returns, by output; None if they cannot be inferred."""

    def write_frame(self, frame: Any, target: WriteTarget, *, tag: str) -> Schema: ...
    def write_view(self, view: Snapshot | DeltaChain, directory: str, *, files: int, tag: str, log: Log) -> int | None:
        """Write a content as a base, or a chain as one delta; returns the rows, None if they were not counted."""

    def find_touched_files(self, view: Snapshot, *, tag: str) -> frozenset[str]:
        """The paths of the base's files that contain a key of the deltas."""

    def read_frame(self, view: View) -> Any:
        """The view as a DataFrame of the engine."""

    def read_rows(self, view: View, limit: int | None = None) -> list[dict[str, Any]]: ...
    def cancel_jobs(self, tag: str) -> None:
        """Cancel all jobs with this tag."""

    def stop(self) -> None: ...


class Log(Protocol):
    """The log of a run."""

    def write(self, text: str) -> object: ...
    def record_step(self, step: StepReport) -> None: ...
