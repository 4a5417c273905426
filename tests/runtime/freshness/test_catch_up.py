"""Chopping: however an overdue update is cut, no block is skipped or taken twice, and the tables come out the same."""

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
from tidemill.runtime.freshness.catch_up import CatchUpLimit, attempt_run, compute_read_limit, find_stops
from tidemill.runtime.freshness.refresh_mode import choose_variants
from tidemill.runtime.runs.requests import request_flow_run

EXAMPLES = max(6, int(os.environ.get("TIDEMILL_EXAMPLES", "100")) // 16)
PERIOD = 10.0
CHANNELS = ("events", "marks")


def number(rows: Rows, kept: Rows) -> Rows:
    """Each row with its place in the order in which rows came."""
    return [{"place": len(kept) + i, "id": row["id"]} for i, row in enumerate(rows)]


def workflow() -> tm.Workflow:
    """Each table twice, so that one can be chopped and the other not. The order of rows matters to `numbered`."""
    made = tm.Workflow("chopping")
    for channel in CHANNELS:
        made.input(channel, "id int")
    for kind in ("chopped", "whole"):
        made.table(f"numbered_{kind}", "place int, id int")
        made.table(f"joined_{kind}", "id int, n bigint")

        def numbered(events: tm.New, kept: tm.All) -> dict[str, tm.Delta]:
            return {"kept": number(events, kept)}

        named = {"kept": f"numbered_{kind}"}
        made.task(writes={"kept": tm.Delta}, channels=named, name=f"numbered_{kind}")(numbered)
        joined = "SELECT e.id, count(*) AS n FROM events e JOIN marks m ON e.id = m.id GROUP BY e.id"
        made.sql(f"joined_{kind}", joined, refresh="incremental")
    return made


WORKFLOW = workflow().declared()


@contextmanager
def milled() -> Iterator[Mill]:
    """Every table has content and goes on from there."""
    with tempfile.TemporaryDirectory() as directory:
        mill = Mill(WORKFLOW, Path(directory))
        for channel in CHANNELS:
            mill.insert(channel, "1", "2")
        for binding in WORKFLOW.bindings:
            served(mill, binding.name, None)
        yield mill
        mill.close()


def served(mill: Mill, flow: str, portion: CatchUpLimit | None) -> list[Run]:
    """Ask for a run, and execute it and all that follow from it."""
    request_flow_run(mill.catalog, flow)
    done = []
    while waiting := mill.catalog.list_runs(state=RunState.READY, subject=flow):
        (run,) = waiting
        binding, _ = choose_variants(mill.catalog, mill.binding(flow), {})
        attempt_run(mill.executor, run, binding, {}, portion)
        done.append(mill.catalog.read_run(run.id))
    return done


def readings(mill: Mill, runs: list[Run], channel: str) -> list[ChannelRead]:
    return [r for run in runs for r in mill.catalog.list_run_reads(run.id) if r.channel == channel]


Arrivals = st.lists(
    st.tuples(st.sampled_from((0.0, 3.0, PERIOD, 4 * PERIOD)), st.sampled_from(CHANNELS), st.integers(1, 3)),
    min_size=1,
    max_size=8,
)


@settings(max_examples=EXAMPLES, deadline=None)
@given(arrivals=Arrivals, periods=st.sampled_from((1.0, 2.0, 3.5)))
def test_a_chopped_table_ends_as_one_that_was_not(arrivals: list[tuple[float, str, int]], periods: float) -> None:
    with milled() as mill:
        before = {channel: mill.catalog.read_channel(channel).head.seq for channel in CHANNELS}
        for gap, channel, row in arrivals:
            mill.now += gap
            mill.insert(channel, str(row))
        for table, read in (("numbered", ("events",)), ("joined", CHANNELS)):
            runs = served(mill, f"{table}_chopped", CatchUpLimit(periods, PERIOD))
            served(mill, f"{table}_whole", None)
            assert is_same_bag(mill.content(f"{table}_chopped"), mill.content(f"{table}_whole"))
            for channel in read:
                check_taken_once(mill, readings(mill, runs, channel), channel, before[channel])
                check_short(mill, readings(mill, runs, channel), channel, periods)


def check_taken_once(mill: Mill, taken: list[ChannelRead], channel: str, since: int) -> None:
    """Each run goes on where the one before ended, and the last ended at the head."""
    assert taken[0].since == since
    assert all(later.since == earlier.upto for earlier, later in pairwise(taken))
    assert taken[-1].upto == mill.catalog.read_channel(channel).head.seq


def check_short(mill: Mill, taken: list[ChannelRead], channel: str, periods: float) -> None:
    """No run but one of a single moment loads more than it may; the first block ends a period."""
    for reading in taken:
        links = mill.catalog.list_delta_links(channel, reading.since or 0)
        moments = [link.visible for link in links if link.seq <= reading.upto]
        assert not moments or moments[-1] - moments[0] <= (periods - 1) * PERIOD + 1e-3


def test_what_is_left_is_due_in_the_commit_that_leaves_it() -> None:
    with milled() as mill:
        for _ in range(4):
            mill.now += PERIOD
            mill.insert("events", "1")
        runs = served(mill, "numbered_chopped", CatchUpLimit(2.0, PERIOD))
        assert [r.stats.get("left", 0) for r in runs] == [2, 0]
        assert [r.state for r in runs] == [RunState.FINISHED] * 2


def test_exactly_as_many_periods_are_not_chopped() -> None:
    with milled() as mill:
        for _ in range(3):
            mill.now += PERIOD
            mill.insert("events", "1")
        flow = mill.binding("numbered_chopped")
        assert compute_read_limit(mill.catalog, flow, CatchUpLimit(3.0, PERIOD)).left_blocks == 0
        assert compute_read_limit(mill.catalog, flow, CatchUpLimit(2.5, PERIOD)).left_blocks == 1
        assert compute_read_limit(mill.catalog, flow, None).left_blocks == 0


def test_what_is_read_whole_is_not_chopped() -> None:
    with milled() as mill:
        for _ in range(4):
            mill.now += PERIOD
            mill.insert("events", "1")
        flow, _ = choose_variants(mill.catalog, mill.binding("joined_chopped"), {}, variant="batch")
        assert compute_read_limit(mill.catalog, flow, CatchUpLimit(1.0, PERIOD)).left_blocks == 0


@pytest.mark.parametrize(
    ("links", "found"),
    [
        ([(0, 1), (1, 2), (2, 3)], {1, 2, 3}),
        ([(0, 2), (2, 3)], {2, 3}),  # a fold stands for the first two
        ([(0, 1), (0, 2), (1, 2), (2, 3)], {1, 2, 3}),
        ([(0, 1), (0, 3)], {3}),  # nothing leads on from 1
        ([(0, 1), (2, 3)], set()),  # a base in between: there is no chain
    ],
)
def test_a_reader_stops_where_deltas_lead_on(links: list[tuple[int, int]], found: set[int]) -> None:
    assert set(find_stops([DeltaLink(*link, 0.0) for link in links], 0, 3)) == found
