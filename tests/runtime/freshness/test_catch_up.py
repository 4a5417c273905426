"""Catch-up limits: however an overdue refresh is split, each block is read once, and the tables are the same."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.mill import Mill

import tidemill as tm
from tidemill.algebra.reference import is_same_bag
from tidemill.model.change import Rows
from tidemill.model.run import Run, RunState
from tidemill.ports.records import ChannelRead, DeltaLink
from tidemill.runtime.freshness.catch_up import CatchUpLimit, find_stops, limit_plan
from tidemill.runtime.freshness.planning import PlanningContext
from tidemill.runtime.runs.requests import request_flow_run

EXAMPLES = max(3, int(os.environ.get("TIDEMILL_EXAMPLES", "48")) // 16)
PERIOD = 10.0
CHANNELS = ("events", "marks")


def number(rows: Rows, earlier: Rows) -> Rows:
    """Each row with its position in the order of arrival."""
    return [{"place": len(earlier) + i, "id": row["id"]} for i, row in enumerate(rows)]


def workflow() -> tm.Workflow:
    """Each table twice: one has a catch-up limit and the other has none. `numbered` depends on the order of rows."""
    wf = tm.Workflow("catch_up")
    for channel in CHANNELS:
        wf.input(channel, "id int")
    for kind in ("limited", "unlimited"):
        wf.table(f"numbered_{kind}", "place int, id int")
        wf.table(f"joined_{kind}", "id int, n bigint")

        def number_events(events: tm.New, kept: tm.All) -> dict[str, tm.Delta]:
            return {"kept": number(events, kept)}

        channels = {"kept": f"numbered_{kind}"}
        wf.task(writes={"kept": tm.Delta}, channels=channels, name=f"numbered_{kind}")(number_events)
        joined = "SELECT e.id, count(*) AS n FROM events e JOIN marks m ON e.id = m.id GROUP BY e.id"
        wf.sql(f"joined_{kind}", joined, refresh="incremental")
    return wf


WORKFLOW = workflow().build_spec()


@contextmanager
def open_mill() -> Iterator[Mill]:
    """A mill in which every table has content."""
    with tempfile.TemporaryDirectory() as directory:
        mill = Mill(WORKFLOW, Path(directory))
        for channel in CHANNELS:
            mill.insert(channel, "1", "2")
        for binding in WORKFLOW.bindings:
            run_flow(mill, binding.name, None)
        yield mill
        mill.close()


def run_flow(mill: Mill, flow: str, limit: CatchUpLimit | None) -> list[Run]:
    """Request a run, and execute it and all runs that follow from it."""
    request_flow_run(mill.catalog, flow)
    runs = []
    while waiting := mill.catalog.runs.list(state=RunState.READY, subject=flow):
        (run,) = waiting
        runs.append(mill.attempt(run, limit))
    return runs


def list_reads(mill: Mill, runs: list[Run], channel: str) -> list[ChannelRead]:
    return [r for run in runs for r in mill.catalog.runs.list_reads(run.id) if r.channel == channel]


Arrivals = st.lists(
    st.tuples(st.sampled_from((0.0, 3.0, PERIOD, 4 * PERIOD)), st.sampled_from(CHANNELS), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(arrivals=Arrivals, periods=st.sampled_from((1.0, 2.0, 3.5)))
def test_a_limited_table_ends_like_an_unlimited_one(arrivals: list[tuple[float, str, int]], periods: float) -> None:
    with open_mill() as mill:
        before = {channel: mill.catalog.channels.read(channel).head.seq for channel in CHANNELS}
        for gap, channel, row in arrivals:
            mill.now += gap
            mill.insert(channel, str(row))
        for table, read in (("numbered", ("events",)), ("joined", CHANNELS)):
            runs = run_flow(mill, f"{table}_limited", CatchUpLimit(periods, PERIOD))
            run_flow(mill, f"{table}_unlimited", None)
            assert is_same_bag(mill.content(f"{table}_limited"), mill.content(f"{table}_unlimited"))
            for channel in read:
                check_read_once(mill, list_reads(mill, runs, channel), channel, before[channel])
                check_limit(mill, list_reads(mill, runs, channel), channel, periods)


def check_read_once(mill: Mill, reads: list[ChannelRead], channel: str, since: int) -> None:
    """Each run continues after the previous one, and the last ends at the head."""
    assert reads[0].since == since
    assert all(later.since == earlier.upto for earlier, later in pairwise(reads))
    assert reads[-1].upto == mill.catalog.channels.read(channel).head.seq


def check_limit(mill: Mill, reads: list[ChannelRead], channel: str, periods: float) -> None:
    """No run reads more than its limit, except blocks of a single time; the first block ends a period."""
    for reading in reads:
        links = mill.catalog.blocks.list_delta_links(channel, reading.since or 0)
        times = [link.visible for link in links if link.seq <= reading.upto]
        assert not times or times[-1] - times[0] <= (periods - 1) * PERIOD + 1e-3


def test_the_remaining_blocks_are_due_in_the_same_commit() -> None:
    with open_mill() as mill:
        for _ in range(4):
            mill.now += PERIOD
            mill.insert("events", "1")
        runs = run_flow(mill, "numbered_limited", CatchUpLimit(2.0, PERIOD))
        assert [r.stats.get("pending_blocks", 0) for r in runs] == [2, 0]
        assert [r.state for r in runs] == [RunState.FINISHED] * 2


def test_blocks_within_the_limit_are_not_split() -> None:
    with open_mill() as mill:
        for _ in range(3):
            mill.now += PERIOD
            mill.insert("events", "1")
        plan = PlanningContext(mill.catalog, {}, mill.workflow).plan_run(mill.binding("numbered_limited"))
        for limit, left in (
            (CatchUpLimit(3.0, PERIOD), 0),
            (CatchUpLimit(2.5, PERIOD), 1),
            (CatchUpLimit(0, PERIOD, batches=2), 1),
            (CatchUpLimit(2.5, PERIOD, batches=1), 2),
            (None, 0),
        ):
            assert limit_plan(mill.catalog, plan, limit).left_blocks == left


def test_a_full_read_is_not_split() -> None:
    with open_mill() as mill:
        for _ in range(4):
            mill.now += PERIOD
            mill.insert("events", "1")
        context = PlanningContext(mill.catalog, {}, mill.workflow)
        plan = context.plan_run(mill.binding("joined_limited"), variant="batch")
        assert limit_plan(mill.catalog, plan, CatchUpLimit(1.0, PERIOD)) is plan


@pytest.mark.parametrize(
    ("links", "stops"),
    [
        ([(0, 1), (1, 2), (2, 3)], {1, 2, 3}),
        ([(0, 2), (2, 3)], {2, 3}),  # a minor compaction replaces the first two
        ([(0, 1), (0, 2), (1, 2), (2, 3)], {1, 2, 3}),
        ([(0, 1), (0, 3)], {3}),  # no delta continues from 1
        ([(0, 1), (2, 3)], set()),  # a base in between: there is no chain
    ],
)
def test_a_reader_stops_only_where_deltas_continue(links: list[tuple[int, int]], stops: set[int]) -> None:
    assert set(find_stops([DeltaLink(*link, 0.0) for link in links], 0, 3)) == stops


def build_targeted_workflow() -> tm.Workflow:
    """A table with a target, derived from another that its plans refresh first."""
    wf = tm.Workflow("targeted")
    for channel in CHANNELS:
        wf.input(channel, "id int")
    wf.table("large", "id int")
    wf.table("pairs", "id int, n bigint")
    wf.sql("large", "SELECT id FROM events WHERE id > 0", refresh="incremental")
    wf.sql(
        "pairs",
        "SELECT e.id, count(*) AS n FROM large e JOIN marks m ON e.id = m.id GROUP BY e.id",
        refresh="incremental",
        target_lag=0,
        consistency=0,
    )
    return wf


def test_a_catch_up_limit_splits_the_plans_of_a_target(tmp_path: Path) -> None:
    mill = Mill(build_targeted_workflow().build_spec(), tmp_path)
    for channel in CHANNELS:
        mill.insert(channel, "1")
    mill.attempt(mill.fire_due_triggers()[0])
    for row in ("1", "2", "3", "4"):
        mill.now += PERIOD
        for channel in CHANNELS:
            mill.insert(channel, row)
    mill.fire_due_triggers()
    counts, left = [], []
    while waiting := mill.catalog.runs.list(state=RunState.READY, subject="pairs"):
        run = mill.attempt(waiting[0], CatchUpLimit(2.0, PERIOD))
        counts.append(sum(row["n"] for row in mill.content("pairs")))
        left.append(run.stats.get("pending_blocks", 0))
        assert (mill.read_target_status("pairs").inconsistency or 0) <= 0  # events and marks are split at one time
    assert (counts, left[-1]) == ([4, 6, 7], 0)  # a mark becomes visible just after the event of the same second
    assert left == sorted(left, reverse=True)
    assert not mill.read_target_status("pairs").is_late
    mill.close()


def test_a_plan_with_a_full_read_is_not_split(tmp_path: Path) -> None:
    mill = Mill(build_targeted_workflow().build_spec(), tmp_path)
    for row in ("1", "2", "3"):
        mill.now += PERIOD
        for channel in CHANNELS:
            mill.insert(channel, row)
    (run, *_) = mill.fire_due_triggers()
    result = mill.attempt(run, CatchUpLimit(1.0, PERIOD))
    assert (result.state, result.stats.get("pending_blocks")) == (RunState.FINISHED, None)
    assert sum(row["n"] for row in mill.content("pairs")) == 3
    mill.close()
