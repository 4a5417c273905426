"""State survives a kill: a process is killed during a run, another continues, and the results are the same."""

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
from tests.acceptance.stateful import Mill, guard_all_steps, guard_tasks, is_killed, open_stateful_mill
from tests.acceptance.test_crash import Tripwire
from tests.marks import long

import tidemill as tm
from tidemill.model.stateful import END, FORMED, START
from tidemill.model.workflow import WorkflowSpec

CAMPAIGN = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0")) > 0
"""Kill the process at many steps instead of one."""

STRIDE = 29
"""Distance between the steps of a campaign: a prime, so that it does not align with the batches."""

RETURNED = 10
"""After the fifth task returned: two of three tasks of the windows' second run are done, all of Linear Road's fifth."""

PERIOD = 1000.0
"""Seconds between batches by the catalog's clock: the successor starts within one, when every lease has expired."""

Answers = Mapping[str, list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Scenario:
    """Rows that are inserted into channels batch by batch, each followed by a run of all flows."""

    workflow: WorkflowSpec
    batches: Sequence[Mapping[str, pa.Table]]
    answers: Sequence[str]  # channels

    def execute(self, root: Path, *, is_successor: bool = False, wire: Tripwire | None = None) -> None:
        """Continue with the batch of the previous process; it may or may not have been run."""
        clock = Clock(0.75 if is_successor else 0.25)
        with open_stateful_mill(root, self.workflow, clock=clock.read) as mill:
            if wire is not None:
                (guard_all_steps if CAMPAIGN else guard_tasks)(mill, wire)
            for number in range(_read_batch_in_progress(root), len(self.batches)):
                (root / "batch in progress").write_text(str(number))
                clock.batch = number
                mill.executor.catalog.runs.reclaim_expired()
                self._run_batch(mill, root, number)

    def _run_batch(self, mill: Mill, root: Path, number: int) -> None:
        for channel, rows in self.batches[number].items():
            pq.write_table(rows, root / "rows.parquet")
            mill.insert(channel, root / "rows.parquet", key=f"{channel} {number}")
        mill.run()

    def read_answers(self, root: Path) -> Answers:
        with open_stateful_mill(root, self.workflow) as mill:
            return {name: sorted(map(_normalize_row, mill.rows(name))) for name in self.answers}


def _normalize_row(row: dict[str, Any]) -> tuple[Any, ...]:
    """A row; window times that depend on arrivals are reduced to their period: the successor starts later in it."""
    periods = {name: row[name].timestamp() // PERIOD for name in (START, END, FORMED) if name in row}
    return tuple((row | periods).items())


@dataclass
class Clock:
    """Constant within a batch, so that arrival times do not depend on the speed of the process."""

    part: float  # fraction of a period: where within it this process starts
    batch: int = field(default=0)

    def read(self) -> float:
        return (self.batch + self.part) * PERIOD


def _read_batch_in_progress(root: Path) -> int:
    mark = root / "batch in progress"
    return int(mark.read_text()) if mark.exists() else 0


@cache
def windows() -> Scenario:
    """Windows of every kind of state, all in one run: queues, waves, and sums with a timeout."""
    flow = tm.Flow("forming")
    flow.window("in_time", "events", "50s", "30s", by=["grp"], time="at")
    flow.window("in_waves", "events", "2 waves", "1 wave", delete_used=True)
    flow.window("passed", "events", "2000s", "1000s", by=["grp"], timeout=1, sums=["number"])
    wf = tm.Workflow("windows")
    wf.input("events", "number bigint, grp int, at timestamp, wave string")
    wf.bind(flow)
    answers = [f"{name}{side}" for name in ("in_time", "in_waves", "passed") for side in ("", "_expired", "_late")]
    return Scenario(wf.build_spec(), [{"events": _build_events(number)} for number in range(4)], answers)


def _build_events(batch: int, size: int = 24) -> pa.Table:
    """Some events are out of order, groups differ in size, and waves of three extend over batch ends."""
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
def tolls() -> Scenario:
    rows, history = traffic()
    first = {"history": pa.table({name: history[name] for name in HISTORY})}
    batches = [{"reports": pa.table(dict(part))} for part in split_batches(rows, 40)]
    return Scenario(linear_road(1).build_spec(), [first | batches[0], *batches[1:]], list(ANSWERS))


SCENARIOS: Mapping[str, Callable[[], Scenario]] = {"windows": windows, "linear road": tolls}


@cache
def run_undisturbed(name: str, root: Path) -> tuple[Answers, int]:
    """The answers without a kill, and the number of steps."""
    step_count = Value("i", 0)
    wire = Tripwire(0)

    def work() -> None:
        SCENARIOS[name]().execute(root, wire=wire)
        step_count.value = -wire.remaining

    assert not is_killed(work)
    return SCENARIOS[name]().read_answers(root), step_count.value


@pytest.mark.parametrize("name", [long(n) if n == "linear road" else n for n in SCENARIOS])
def test_a_killed_process_does_not_change_the_answers(name: str, tmp_path: Path) -> None:
    (tmp_path / "undisturbed").mkdir()
    expected_answers, steps = run_undisturbed(name, tmp_path / "undisturbed")
    assert all(rows for channel, rows in expected_answers.items() if not channel.endswith(("_late", "_expired")))
    for step in range(STRIDE, steps, STRIDE) if CAMPAIGN else [RETURNED]:
        root = tmp_path / str(step)
        root.mkdir()
        assert is_killed(partial(SCENARIOS[name]().execute, root, wire=Tripwire(step)))
        assert not is_killed(partial(SCENARIOS[name]().execute, root, is_successor=True))
        assert SCENARIOS[name]().read_answers(root) == expected_answers, f"killed at step {step} of {steps}"


def test_the_answers_of_an_undisturbed_run_are_right(tmp_path: Path) -> None:
    """The reference for the other tests: the validator shares no code with the workflow."""
    answers, _ = run_undisturbed("linear road", tmp_path)
    columns = {kind: _to_columns(rows) for kind, rows in answers.items()}
    assert compare_answers(compute_expected(*traffic()), columns).has_passed
    assert columns["accidents"]["time"].size, "no accident occurred"
    assert (columns["balances"]["balance"] > 0).any(), "no toll was charged"


def _to_columns(rows: list[tuple[Any, ...]]) -> Columns:
    dicts = [dict(row) for row in rows]
    return {name: np.array([row[name] for row in dicts]) for name in dicts[0]}
