"""The dispatcher on a real catalog: which runs get a track, and changes of settings while it runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.catalog.driver import SCHEMA, FakeClock, task

from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import ConfigError
from tidemill.model.block import BlockKind
from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.flow import BoundFlow
from tidemill.model.run import ClaimRequest, Run, RunOutcome
from tidemill.model.task import ReadMode
from tidemill.model.trigger import IntervalTrigger
from tidemill.model.workflow import WorkflowSpec
from tidemill.ports.records import FlowStatistics, Server, WatermarkProgress
from tidemill.runtime.freshness.watermarks import compute_paces
from tidemill.runtime.runs.dispatch import DEFAULT_PERIOD, DispatchConfig, DispatchedRun, RunDispatcher
from tidemill.runtime.runs.requests import request_flow_run, request_retry
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop


def flow(name: str, reads: str, priority: float = 1.0) -> BoundFlow:
    return BoundFlow(name, (task(name, {reads: ReadMode.NEW}, {name: BlockKind.DELTA}),), priority=priority)


CHANNELS = (
    Channel("a", ChannelRole.INPUT, SCHEMA),
    *(Channel(n, ChannelRole.DERIVED) for n in ("slow", "quick", "important", "last")),
)
BINDINGS = (flow("slow", "a"), flow("quick", "a"), flow("important", "a", 50.0), flow("last", "quick", 100.0))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    catalog = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS))
    yield catalog
    catalog.close()


def request_runs(catalog: SqlCatalog, *flows: str) -> list[Run]:
    return [request_flow_run(catalog, name) for name in flows]


def list_subjects(started: list[DispatchedRun]) -> list[str]:
    return [s.run.subject for s in started]


def test_flow_statistics_have_priorities_and_parents(catalog: SqlCatalog) -> None:
    statistics = catalog.flows.read_statistics()
    assert (statistics["last"].parents, statistics["last"].priority) == (("quick",), 100.0)
    assert (statistics["slow"].parents, statistics["slow"].seconds, statistics["slow"].last_start) == ((), None, None)


def test_the_run_with_the_highest_priority_gets_the_track(catalog: SqlCatalog) -> None:
    runs = request_runs(catalog, "slow", "important")
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single"))
    now = time.time()
    (first,) = dispatch.start_runs(runs, now)
    assert first.run.subject == "important"
    assert dispatch.start_runs(runs[:1], now) == []  # the track is in use
    dispatch.finish_run(first, now + 1)
    assert list_subjects(dispatch.start_runs(runs[:1], now + 1)) == ["slow"]


def test_a_parent_inherits_the_priority_of_derived_tables(catalog: SqlCatalog) -> None:
    runs = request_runs(catalog, "slow", "important", "quick")
    (first,) = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single")).start_runs(runs, time.time())
    assert first.run.subject == "quick"  # because of `last`
    alone = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single", inheritance="none"))
    assert list_subjects(alone.start_runs(runs, time.time())) == ["important"]


def test_the_settings_can_be_changed_while_it_runs(catalog: SqlCatalog) -> None:
    runs = request_runs(catalog, "slow", "important", "quick")
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single"))
    now = time.time()
    (first,) = dispatch.start_runs(runs, now)
    dispatch.change_config(DispatchConfig("first-come", "single", tracks=2), now)
    remaining = [r for r in runs if r is not first.run]
    assert len(dispatch.start_runs(remaining, now)) == 1  # on the second track; no run is lost
    catalog.servers.override_settings({"policy": "edf", "tracks": 3})
    assert DispatchConfig().apply_overrides(catalog.servers.read_setting_overrides()) == DispatchConfig("edf", tracks=3)
    catalog.servers.override_settings({"policy": None, "tracks": None})
    assert catalog.servers.read_setting_overrides() == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": "best"},
        {"placement": "here"},
        {"inheritance": "all"},
        {"tracks": 0},
        {"catch_up_limit": -1.0},
        {"batch_limit": -1},
        {"patience": float("inf")},
    ],
)
def test_an_unknown_setting_is_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        DispatchConfig().apply_overrides(wrong)


def test_runs_that_do_not_fit_partitioned_tracks_are_placed_differently(catalog: SqlCatalog) -> None:
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(placement="partitioned", tracks=1))
    assert len(dispatch.start_runs(request_runs(catalog, "slow", "important"), time.time())) == 1


def test_a_server_applies_setting_overrides(catalog: SqlCatalog) -> None:
    subjects: list[str] = []
    loop = ServerLoop(
        catalog, Server("one", "work", 1), lambda run, _: subjects.append(run.subject), [], ServerIntervals(tick=0.01)
    )
    loop.tick()
    catalog.servers.override_settings({"tracks": 4, "placement": "single"})
    loop._heartbeat_at = float("-inf")
    loop.tick()
    assert loop.server.tracks == 4
    request_runs(catalog, "slow", "important", "quick")
    loop.drain()


def test_a_backfill_has_a_track_that_live_runs_never_wait_for(catalog: SqlCatalog) -> None:
    backfills = [request_flow_run(catalog, name, backfill=True) for name in ("important", "slow")]
    live = request_runs(catalog, "quick", "slow")
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=2, placement="single", catch_up_limit=3.0))
    started = dispatch.start_runs([*backfills, *live], time.time())
    assert {s.run.subject: s.track for s in started if s.run.backfill} == {"important": -1}
    assert {s.track for s in started if not s.run.backfill} == {0, 1}
    assert [s.limit is None for s in started] == [s.run.backfill for s in started]  # a backfill has no catch-up limit
    dispatch.change_config(DispatchConfig(tracks=2, placement="single", backfill_tracks=2), time.time())
    assert [(s.run.subject, s.track) for s in dispatch.start_runs(backfills[1:], time.time())] == [("slow", -2)]


def test_a_due_run_does_not_wait_for_a_backfill_of_its_flow(catalog: SqlCatalog) -> None:
    backfill_run = request_flow_run(catalog, "quick", backfill=True)
    assert (request_flow_run(catalog, "quick", backfill=True).id, backfill_run.backfill) == (backfill_run.id, True)
    live = request_flow_run(catalog, "quick")
    assert live.id != backfill_run.id
    assert [r.id for r in catalog.runs.list_runnable()] == [live.id, backfill_run.id]  # although it was requested first
    assert request_retry(catalog, catalog.runs.kill(backfill_run.id).id).backfill


def test_the_period_of_a_flow_does_not_depend_on_pending_work(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'due.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, (replace(BINDINGS[0], triggers=(IntervalTrigger(5.0),)),)))
    for _ in range(4):
        clock.now += 5.0
        (leaf,) = catalog.triggers.list_due()
        catalog.triggers.fire(leaf)
    assert len(catalog.runs.list(subject="slow")) == 1  # all firings wait for one run
    assert [f.period for f in catalog.flows.read_statistics().values()] == [5.0]
    catalog.close()


def test_a_cold_start_does_not_change_the_usual_run_time(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'took.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS[:1]))
    tasks: dict[str, object] = {"tasks": {"slow": {}}}
    for seconds, stats in ((30.0, tasks), (1.0, tasks), (2.0, tasks), (0.0, {})):
        claim = catalog.runs.claim(request_flow_run(catalog, "slow").id, ClaimRequest(), owner="me", lease=100)
        clock.now += seconds
        catalog.runs.commit(claim, RunOutcome((), stats=stats))
    assert [f.seconds for f in catalog.flows.read_statistics().values()] == [2.0]  # the last run had no work
    catalog.close()


def test_a_run_with_more_data_is_expected_to_take_longer(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'slope.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS[:1]))
    for rows in (100, 300, 100, 500, 300):  # one second, and a hundredth per row
        clock.now += 10.0
        claim = catalog.runs.claim(request_flow_run(catalog, "slow").id, ClaimRequest(), owner="me", lease=100)
        clock.now += 1.0 + rows / 100
        catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {"slow": {"change": rows}}}))
    (statistics,) = catalog.flows.read_statistics().values()
    assert statistics.seconds == pytest.approx(4.0)
    arrived = (300 + 100 + 500 + 300) / (4 * 10.0 + 2.0 + 4.0 + 2.0 + 6.0)  # rows per second
    assert statistics.seconds_per_data_second == pytest.approx(arrived / 100, rel=0.01)
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single"))
    (started,) = dispatch.start_runs([request_flow_run(catalog, "slow")], clock.now)
    profile = started.job.profile
    assert profile.usual_cost == pytest.approx(statistics.seconds)
    assert profile.cost.rate == pytest.approx(statistics.seconds_per_data_second)
    assert profile.cost(10 * profile.period) > 2 * profile.usual_cost
    catalog.close()


def test_a_run_goes_first_when_its_patience_ends(catalog: SqlCatalog) -> None:
    now = time.time()
    for patience, first in ((0.0, "important"), (1.0, "slow")):
        dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single", inheritance="none"))
        dispatch.change_config(DispatchConfig("edf-priority", "single", "none", 1, patience=patience), now)
        (quick,) = dispatch.start_runs(request_runs(catalog, "quick"), now)
        slow = request_runs(catalog, "slow")
        assert dispatch.start_runs(slow, now) == []  # the only track is in use
        later = now + 2 * DEFAULT_PERIOD
        dispatch.finish_run(quick, later)
        runs = [*slow, *request_runs(catalog, "important")]
        assert list_subjects(dispatch.start_runs(runs, later)) == [first]


def test_rates_use_the_selectivity_of_past_runs(catalog: SqlCatalog) -> None:
    for rows_out in (10, 20, 900):
        claim = catalog.runs.claim(request_flow_run(catalog, "quick").id, ClaimRequest(), owner="me", lease=100)
        stats = {"tasks": {"quick": {"change": 100, "content": 1000, "rows_out": rows_out}}}
        catalog.runs.commit(claim, RunOutcome((), stats=stats))
    assert {
        name: f.selectivity for name, f in catalog.flows.read_statistics().items() if f.selectivity is not None
    } == {"quick": 0.2}
    dispatch = RunDispatcher(catalog.flows, DispatchConfig("rate", tracks=2, placement="single"))
    started = {s.job.name: s for s in dispatch.start_runs(request_runs(catalog, "quick", "last"), time.time())}
    assert {name: s.job.profile.selectivity for name, s in started.items()} == {"quick": 0.2, "last": 1.0}
    dispatch.finish_run(started["quick"], time.time())


def test_arrivals_during_a_run_are_not_attributed_to_it(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'again.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS))
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=1, placement="single", inheritance="none"))
    (first,) = dispatch.start_runs([request_flow_run(catalog, "important")], clock.now)
    catalog.runs.commit(catalog.runs.claim(first.run.id, ClaimRequest(), owner="me", lease=100), RunOutcome(()))
    clock.now += 100.0
    runs = request_runs(catalog, "slow", "important")  # the benefits are 1 * (3600 + 100) and 50 * 100 per second
    assert dispatch.start_runs(runs, clock.now) == []  # committed, but the track is not free yet
    dispatch.finish_run(first, clock.now)
    assert list_subjects(dispatch.start_runs(runs, clock.now)) == ["important"]
    catalog.close()


def test_the_freshness_of_jobs_is_measured_by_event_time(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'edges.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS))
    start = clock.now
    for watermark in (100.0, 150.0):  # half of the elapsed time
        claim = catalog.runs.claim(request_flow_run(catalog, "quick").id, ClaimRequest(), owner="me", lease=1000)
        clock.now += 100.0
        catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {"quick": {"watermark": watermark}}}))
    assert catalog.flows.read_statistics()["quick"].watermark_progress == WatermarkProgress(start + 100.0, 150.0, 0.5)
    dispatch = RunDispatcher(catalog.flows, DispatchConfig(tracks=3, placement="single"), interval=0.0)
    started = {s.run.subject: s for s in dispatch.start_runs(request_runs(catalog, "quick", "last", "slow"), clock.now)}
    assert (started["quick"].job.fresh, started["quick"].upto) == (150.0, 200.0)
    assert started["last"].upto == 200.0  # it is derived from `quick`
    assert started["slow"].upto == clock.now  # it has no event time
    dispatch.finish_run(started["quick"], clock.now)
    assert started["quick"].job.fresh == 200.0  # as estimated
    claim = catalog.runs.claim(started["quick"].run.id, ClaimRequest(), owner="me", lease=1000)
    catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {"quick": {"watermark": 160.0}}}))
    dispatch.start_runs(request_runs(catalog, "important"), clock.now)
    assert started["quick"].job.fresh == 160.0  # as committed
    catalog.close()


def test_flows_in_a_cycle_have_no_event_time() -> None:
    one, other = (
        FlowStatistics(name, 1.0, 0, (parent,), None) for name, parent in (("one", "other"), ("other", "one"))
    )
    timed = FlowStatistics("timed", 1.0, 0, (), None, watermark_progress=WatermarkProgress(0.0, 0.0, 1.0))
    assert compute_paces({"one": one, "other": other, "timed": timed}) == {
        "one": (),
        "other": (),
        "timed": (timed.watermark_progress,),
    }
    assert compute_paces({"one": one, "other": other}) == {}


def read_jobs(dispatch: RunDispatcher) -> dict[str, tuple[object, float, int]]:
    return {name: (job.profile, job.weight, job.lane) for name, job in dispatch._jobs.items()}


def test_incremental_updates_equal_a_new_dispatcher(tmp_path: Path) -> None:
    clock = FakeClock()
    catalog = open_catalog(f"sqlite:///{tmp_path / 'bits.db'}", clock)
    catalog.workflows.apply(WorkflowSpec("w", CHANNELS, BINDINGS))
    updated = RunDispatcher(catalog.flows, DispatchConfig(placement="proportional"), interval=0.0)
    for flow_, seconds, backfill in (
        ("slow", 90.0, False),
        ("quick", 1.0, False),
        ("slow", 80.0, False),
        ("important", 5.0, True),
    ):
        run = request_flow_run(catalog, flow_, backfill=backfill)
        updated.start_runs([run], clock.now)
        claim = catalog.runs.claim(run.id, ClaimRequest(), owner="me", lease=1000)
        clock.now += seconds
        catalog.runs.commit(claim, RunOutcome((), stats={"tasks": {flow_: {}}}))
    catalog.workflows.set_priority("w", 2)
    run = request_flow_run(catalog, "important", backfill=True)
    new = RunDispatcher(catalog.flows, DispatchConfig(placement="proportional"))
    for dispatch in (updated, new):
        dispatch.start_runs([run], clock.now)
    assert read_jobs(updated) == read_jobs(new)
    updated.change_config(replace(updated.config, inheritance="none"), clock.now)
    new = RunDispatcher(catalog.flows, updated.config)
    for dispatch in (updated, new):
        dispatch.start_runs([run], clock.now)
    assert read_jobs(updated) == read_jobs(new)
    catalog.close()
