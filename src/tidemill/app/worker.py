"""A worker process of a server: it opens the project, and executes what needs its code.

`python -m tidemill.app.worker DESCRIPTOR SCRATCH` is started by a server only.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tidemill.app.log_format import configure_logging
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import Conflict, TidemillError
from tidemill.model.block import Block
from tidemill.model.registration import RegistrationChange
from tidemill.model.run import Run
from tidemill.planner.explanation import TableExplanation
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.inspect.lineage import EventLineage
from tidemill.workers.service import serve_calls

WORKER_MODULE = "tidemill.app.worker"


@dataclass(frozen=True, slots=True)
class WorkerSetup:
    """What a server sends to each of its workers first."""

    directory: Path
    settings: Settings
    owner: str  # the name under which it executes runs


class ProjectOperations:
    """The operations on a project that execute users' code: workflow files, tasks, merge functions."""

    def __init__(self, mill: Tidemill) -> None:
        self._mill = mill
        self._written: list[Block] = []
        mill.flows = mill.flows.replace_maintenance(self._written.extend)

    @classmethod
    def open(cls, setup: WorkerSetup) -> ProjectOperations:
        """Open the project, load its workflow files and start the engine.

        Faults of the workflow files are reported by the operations that need them.
        """
        mill = Tidemill(setup.directory, setup.settings, owner=setup.owner)
        configure_logging(mill.redactor)
        with suppress(TidemillError):
            mill.workflows.list_workflows()
        mill.engine.start()
        return cls(mill)

    def find_failure(self) -> str | None:
        return self._mill.engine.report_health().problem

    def execute_run(self, run: Run, limit: CatchUpLimit | None) -> list[str]:
        """Make one attempt at a run; returns the channels whose maintenance may be due after it."""
        self._written.clear()
        self._mill.flows.execute(run, limit)
        return sorted(self._mill.maintenance.find_due_channels(self._written))

    def plan(self) -> tuple[RegistrationChange, ...]:
        return self._mill.plan()

    def apply(self) -> tuple[RegistrationChange, ...]:
        return self._mill.apply()

    def infeasible_targets(self) -> tuple[str, ...]:
        return self._mill.infeasible_targets()

    def register(self, document: Mapping[str, Any]) -> tuple[RegistrationChange, ...]:
        return self._mill.register(document)

    def remove(self, workflow: str) -> None:
        self._mill.remove(workflow)

    def submit_workflow(self, text: str, user: str) -> int:
        return self._mill.submit_workflow(text, user).id

    def explain(self, table: str) -> TableExplanation:
        return self._mill.explain(table)

    def rows(self, channel: str, as_of: str | None, limit: int | None) -> list[dict[str, Any]]:
        return self._mill.rows(channel, as_of, limit)

    def lineage(self, channel: str, tag: str) -> EventLineage:
        return self._mill.lineage(channel, tag)

    def compact(self, channel: str) -> int | None:
        """Compact a channel; returns the number of the new block, which may contain functions of users."""
        block = self._mill.compact(channel)
        return None if block is None else block.id

    def explain_compaction(self, channel: str) -> str | None:
        return self._mill.compaction(channel)

    def compact_if_due(self, channel: str) -> int:
        """Do the compaction that is due on a channel, like `compact`; raises `Conflict` if there is none any more."""
        compactor = self._mill.build_compactor()
        verdict = compactor.assess_compaction(channel)
        if verdict.compaction is None:
            raise Conflict(f"channel {channel!r} was compacted by another process; nothing is left to do")
        return compactor.run_compaction(verdict.compaction, verdict.reason).id


if __name__ == "__main__":
    serve_calls(int(sys.argv[1]), sys.argv[2], ProjectOperations.open)
