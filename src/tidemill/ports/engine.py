"""The engine that runs tasks, and what it is given and returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from tidemill.model.analysis import Analysis, AnalysisRequest, Schemas
from tidemill.model.block import BlockKind
from tidemill.model.change import Updates
from tidemill.model.schema import Schema
from tidemill.model.task import Task
from tidemill.model.view import DeltaChain, Snapshot, View

Progress = Callable[[str, float], None]
"""Called with what is being done and the fraction done so far, 0 to 1."""


@dataclass(slots=True)
class WriteReceipt:
    """How many rows a writer wrote, by its own count; None: it did not count."""

    rows: int | None = None


@dataclass(frozen=True, slots=True)
class WriteTarget:
    """Where and as what a task's output is to be written."""

    channel: str
    kind: BlockKind
    directory: str  # a directory that Spark can write
    schema: Schema | None  # of the channel's content; None if the first block decides
    updates: Updates
    seq: int = 0  # the number of its slot, which no other attempt ever has
    before: int = 0  # of a state: where it stands
    merged: bool = False  # the task gives a delta, and the base is what it makes of nothing
    learnt: bool = False  # the schema was not declared: a base brings its own, and a delta may bring more columns
    receipt: WriteReceipt = field(default_factory=WriteReceipt, compare=False)  # filled in by whoever writes

    def to_physical_schema(self, content: Schema) -> Schema:
        """The columns that are written: a delta has some of its own."""
        return content if self.kind is BlockKind.BASE else self.updates.build_delta_schema(content)


@dataclass(frozen=True, slots=True)
class EngineHealth:
    """Whether an engine can run tasks; if not, why, and when it may be started again."""

    problem: str | None = None
    retry_in: float = 0.0  # seconds
    gave_up: bool = False  # it was started again so often in vain that it will not be


HEALTHY = EngineHealth()


class Engine(Protocol):
    """Runs tasks. The only implementation is Spark's; tests may use others.

    Whatever fails because the engine itself is gone raises `EngineLost`. It is started again by its next use.
    """

    def start(self) -> None:
        """Be ready from now on; raises `EngineError` if that cannot be."""

    def report_health(self) -> EngineHealth: ...

    @property
    def start_seconds(self) -> float:
        """Seconds that this engine has spent on starting itself so far: no task is to be charged for them."""

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

        `now` is the version at which the run was claimed: whatever it does not see arrives later.
        """

    def analyse_query(self, query: AnalysisRequest) -> Analysis | None:
        """The columns of a query's result, and why it can only be run in batch; raises `QueryRefused`.

        None if this engine does not know.
        """

    def infer_outputs(self, task: Task, inputs: Schemas) -> Schemas | None:
        """The columns that a function returns, by output; None if it does not say."""

    def write_frame(self, frame: Any, target: WriteTarget, *, tag: str) -> Schema: ...
    def write_view(self, view: Snapshot | DeltaChain, directory: str, *, files: int, tag: str) -> int | None:
        """Write a content as a base, or a chain of deltas as one delta, into so many files.

        Returns the rows written, as counted while they were; None if nobody counted.
        """

    def find_touched_files(self, view: Snapshot, *, tag: str) -> frozenset[str]:
        """The paths of those files of the base that hold a key which the deltas touch."""

    def read_frame(self, view: View) -> Any:
        """The view as a DataFrame of the engine's own."""

    def read_rows(self, view: View, limit: int | None = None) -> list[dict[str, Any]]: ...
    def cancel_jobs(self, tag: str) -> None:
        """Stop whatever runs under the tag."""

    def stop(self) -> None: ...


class Log(Protocol):
    """What a run says about itself, line by line."""

    def write(self, text: str) -> object: ...
