"""State survives: a process is killed in the middle of a run, another goes on, and the answers do not tell."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import Value
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.linear_road.rows import ANSWERS, HISTORY, Columns, split_batches
from benchmarks.linear_road.tolling import build_workflow as linear_road
from benchmarks.linear_road.traffic import Plan, generate_traffic
from benchmarks.linear_road.validator import compare_answers, compute_expected
from tests.acceptance.stateful import Mill, guarded, in_runs, killed, opened
from tests.acceptance.test_crash import Tripwire

import tidemill as tm
from tidemill.model.stateful import END, FORMED, START
from tidemill.model.workflow import WorkflowSpec

CAMPAIGN = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) > 0
"""Die at many steps of the whole story, instead of at one."""

STRIDE = 29
"""Between the steps at which a campaign dies: a prime, so as not to fall into step with the batches."""

RETURNED = 10
"""After the fifth task returned: of the windows' second run two tasks of three are done, of Linear Road's fifth all."""

PERIOD = 1000.0
"""Seconds from batch to batch by the catalog's clock: an heir comes within one, when every lease has expired."""

Answers = Mapping[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Story:
    """What is inserted into channels, batch by batch, each followed by a run of all flows."""

    workflow: WorkflowSpec
    batches: Sequence[Mapping[str, pa.Table]]
    answers: Sequence[str]  # channels

    def live(self, root: Path, *, heir: bool = False, wire: Tripwire | None = None) -> None:
        """Go on with the batch that was under way when the process before died; whether it was run, nobody knows."""
        clock = Clock(0.75 if heir else 0.25)
        with opened(root, self.workflow, clock=clock.read) as mill:
            if wire is not None:
                (guarded if CAMPAIGN else in_runs)(mill, wire)
            for number in range(_under_way(root), len(self.batches)):
                (root / "under way").write_text(str(number))
                clock.batch = number
                mill.executor.catalog.reclaim_expired_runs()
                self._batch(mill, root, number)

    def _batch(self, mill: Mill, root: Path, number: int) -> None:
        for channel, rows in self.batches[number].items():
            pq.write_table(rows, root / "rows.parquet")
            mill.insert(channel, root / "rows.parquet", key=f"{channel} {number}")
        mill.run()

    def told(self, root: Path) -> Answers:
        with opened(root, self.workflow) as mill:
            return {name: sorted(map(_told, mill.rows(name))) for name in self.answers}


def _told(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row, whose windows may be dated by arrivals: these count by the period, for heirs come later in it."""
    moments = {name: row[name].timestamp() // PERIOD for name in (START, END, FORMED) if name in row}
    return tuple((row | moments).items())


@dataclass
class Clock:
    """Stands still within a batch, so that what depends on when events arrive does not depend on how fast we are."""

    part: float  # of a period: where within it this process lives
    batch: int = field(default=0)

    def read(self) -> float:
        return (self.batch + self.part) * PERIOD


def _under_way(root: Path) -> int:
    mark = root / "under way"
    return int(mark.read_text()) if mark.exists() else 0


@cache
def windows() -> Story:
    """Windows of every kind of state, all in one run: queues, waves, and sums with a timeout."""
    flow = tm.Flow("forming")
    flow.window("in_time", "events", "50s", "30s", by=["grp"], time="at")
    flow.window("in_waves", "events", "2 waves", "1 wave", delete_used=True)
    flow.window("passed", "events", "2000s", "1000s", by=["grp"], timeout=1, sums=["number"])
    wf = tm.Workflow("windows")
    wf.input("events", "number bigint, grp int, at timestamp, wave string")
    wf.bind(flow)
    answers = [f"{name}{side}" for name in ("in_time", "in_waves", "passed") for side in ("", "_expired", "_late")]
    return Story(wf.declared(), [{"events": _events(number)} for number in range(4)], answers)


def _events(batch: int, size: int = 24) -> pa.Table:
    """Some are out of order, groups are of different sizes, and waves of three go over the ends of batches."""
    numbers = np.arange(batch * size, (batch + 1) * size)
    at = (numbers * 7 - numbers % 5 * 9) * 1_000_000
    waves = [f"{n // 3}.{n % 3 + 1}{'!' if n % 3 == 2 else ''}" for n in (numbers + 1).tolist()]
    return pa.table(
        {
            "number": numbers,
            "grp": pa.array(numbers * numbers % 4, pa.int32()),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
            "wave": waves,
        }
    )


PLAN = Plan(
    expressways=0.5, seconds=240, start=1200, accident_every=30, cleared_after=(20, 60), trip=240, last_rate=1_000,
    balance_queries=0.05, expenditure_queries=0.05,
)  # fmt: skip


@cache
def traffic() -> tuple[Columns, Columns]:
    return generate_traffic(PLAN)


@cache
def tolls() -> Story:
    rows, history = traffic()
    first = {"history": pa.table({name: history[name] for name in HISTORY})}
    batches = [{"reports": pa.table(dict(part))} for part in split_batches(rows, 40)]
    return Story(linear_road(1).declared(), [first | batches[0], *batches[1:]], list(ANSWERS))


STORIES: Mapping[str, Callable[[], Story]] = {"windows": windows, "linear road": tolls}


@cache
def undisturbed(name: str, root: Path) -> tuple[Answers, int]:
    """What is told if nobody dies, and in how many steps."""
    passed = Value("i", 0)
    wire = Tripwire(0)

    def work() -> None:
        STORIES[name]().live(root, wire=wire)
        passed.value = -wire.left

    assert not killed(work)
    return STORIES[name]().told(root), passed.value


@pytest.mark.parametrize("name", STORIES)
def test_nobody_can_tell_that_a_process_was_killed(name: str, tmp_path: Path) -> None:
    (tmp_path / "undisturbed").mkdir()
    wanted, steps = undisturbed(name, tmp_path / "undisturbed")
    assert all(rows for channel, rows in wanted.items() if not channel.endswith(("_late", "_expired")))
    for step in range(STRIDE, steps, STRIDE) if CAMPAIGN else [RETURNED]:
        root = tmp_path / str(step)
        root.mkdir()
        assert killed(partial(STORIES[name]().live, root, wire=Tripwire(step)))
        assert not killed(partial(STORIES[name]().live, root, heir=True))
        assert STORIES[name]().told(root) == wanted, f"killed at step {step} of {steps}"


def test_the_undisturbed_run_is_right(tmp_path: Path) -> None:
    """What the others are compared with: the validator shares no code with the workflow."""
    told, _ = undisturbed("linear road", tmp_path)
    given = {kind: _columns(rows) for kind, rows in told.items()}
    assert compare_answers(compute_expected(*traffic()), given).has_passed
    assert given["accidents"]["time"].size, "no accident was in force"
    assert (given["balances"]["balance"] > 0).any(), "nobody has paid"


def _columns(rows: list[tuple[Any, ...]]) -> Columns:
    dicts = [dict(row) for row in rows]
    return {name: np.array([row[name] for row in dicts]) for name in dicts[0]}
