"""The dispatcher, driven by a real catalog: who gets a track, and what changes while it runs."""

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
from tidemill.runtime.runs.dispatch import DispatchConfig, DispatchedRun, RunDispatcher
from tidemill.runtime.runs.requests import request_flow_run, request_retry
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop


def flow(name: str, reads: str, priority: float = 1.0) -> BoundFlow:
    return BoundFlow(name, (task(name, {reads: ReadMode.NEW}, {name: BlockKind.DELTA}),), priority=priority)


CHANNELS = (
    Channel("a", ChannelRole.INPUT, SCHEMA),
    *(Channel(n, ChannelRole.DERIVED) for n in ("slow", "quick", "dear", "last")),
)
BINDINGS = (flow("slow", "a"), flow("quick", "a"), flow("dear", "a", 50.0), flow("last", "quick", 100.0))


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[SqlCatalog]:
    made = open_catalog(f"sqlite:///{tmp_path / 'catalog.db'}")
    made.apply_workflow(WorkflowSpec("w", CHANNELS, BINDINGS))
    yield made
    made.close()


def asked(catalog: SqlCatalog, *flows: str) -> list[Run]:
    return [request_flow_run(catalog, name) for name in flows]


def names(started: list[DispatchedRun]) -> list[str]:
    return [s.run.subject for s in started]


def test_facts_say_what_a_flow_counts_for_and_what_it_needs(catalog: SqlCatalog) -> None:
    known = catalog.read_flow_statistics()
    assert (known["last"].parents, known["last"].priority) == (("quick",), 100.0)
    assert (known["slow"].parents, known["slow"].seconds, known["slow"].last_start) == ((), None, None)


def test_whoever_counts_most_gets_the_track(catalog: SqlCatalog) -> None:
    runs = asked(catalog, "slow", "dear")
    dispatch = RunDispatcher(catalog, DispatchConfig(tracks=1, placement="single"))
    now = time.time()
    (first,) = dispatch.start_runs(runs, now)
    assert first.run.subject == "dear"
    assert dispatch.start_runs(runs[:1], now) == []  # the track is taken
    dispatch.finish_run(first, now + 1)
    assert names(dispatch.start_runs(runs[:1], now + 1)) == ["slow"]


def test_what_others_are_made_of_inherits(catalog: SqlCatalog) -> None:
    runs = asked(catalog, "slow", "dear", "quick")
    (first,) = RunDispatcher(catalog, DispatchConfig(tracks=1, placement="single")).start_runs(runs, time.time())
    assert first.run.subject == "quick"  # because of `last`
    alone = RunDispatcher(catalog, DispatchConfig(tracks=1, placement="single", inheritance="none"))
    assert names(alone.start_runs(runs, time.time())) == ["dear"]


def test_a_way_can_be_wished_while_it_runs(catalog: SqlCatalog) -> None:
    runs = asked(catalog, "slow", "dear", "quick")
    dispatch = RunDispatcher(catalog, DispatchConfig(tracks=1, placement="single"))
    now = time.time()
    (first,) = dispatch.start_runs(runs, now)
    dispatch.change_config(DispatchConfig("first-come", "single", tracks=2), now)
    left = [r for r in runs if r is not first.run]
    assert len(dispatch.start_runs(left, now)) == 1  # the second track; nothing was lost
    catalog.override_settings({"policy": "edf", "tracks": 3})
    assert DispatchConfig().apply_overrides(catalog.read_setting_overrides()) == DispatchConfig("edf", tracks=3)
    catalog.override_settings({"policy": None, "tracks": None})
    assert catalog.read_setting_overrides() == {}


@pytest.mark.parametrize("wrong", [{"policy": "best"}, {"placement": "here"}, {"inheritance": "all"}, {"tracks": 0}])
def test_a_way_that_nobody_knows_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        DispatchConfig().apply_overrides(wrong)


def test_jobs_that_do_not_fit_partitioned_tracks_are_placed_otherwise(catalog: SqlCatalog) -> None:
    dispatch = RunDispatcher(catalog, DispatchConfig(placement="partitioned", tracks=1))
    assert len(dispatch.start_runs(asked(catalog, "slow", "dear"), time.time())) == 1


def test_a_server_heeds_what_is_wished(catalog: SqlCatalog) -> None:
    ran: list[str] = []
    loop = ServerLoop(
        catalog, Server("one", "work", 1), lambda run, _: ran.append(run.subject), [], ServerIntervals(tick=0.01)
    )
    loop.tick()
    catalog.override_settings({"tracks": 4, "placement": "single"})
    loop._heartbeat_at = float("-inf")
    loop.tick()
    assert loop.server.tracks == 4
    asked(catalog, "slow", "dear", "quick")
    loop.drain()


def test_a_backfill_has_a_track_that_live_runs_never_wait_for(catalog: SqlCatalog) -> None:
    history = [request_flow_run(catalog, name, backfill=True) for name in ("dear", "slow")]
    live = asked(catalog, "quick", "slow")
    dispatch = RunDispatcher(catalog, DispatchConfig(tracks=2, placement="single", catch_up_limit=3.0))
    started = dispatch.start_runs([*history, *live], time.time())
    assert {s.run.subject: s.track for s in started if s.run.backfill} == {"dear": -1}
    assert {s.track for s in started if not s.run.backfill} == {0, 1}
    assert [s.limit is None for s in started] == [s.run.backfill for s in started]  # history is not chopped
    dispatch.change_config(DispatchConfig(tracks=2, placement="single", backfill_tracks=2), time.time())
    assert [(s.run.subject, s.track) for s in dispatch.start_runs(history[1:], time.time())] == [("slow", -2)]


def test_what_is_due_does_not_wait_for_a_backfill_of_the_same_flow(catalog: SqlCatalog) -> None:
    history = request_flow_run(catalog, "quick", backfill=True)
    assert (request_flow_run(catalog, "quick", backfill=True).id, history.backfill) == (history.id, True)
    live = request_flow_run(catalog, "quick")
    assert live.id != history.id
    assert [r.id for r in catalog.list_runnable_runs()] == [live.id, history.id]  # though it was asked for first
    assert request_retry(catalog, catalog.kill_run(history.id).id).backfill


def test_how_often_a_flow_is_due_does_not_depend_on_how_much_there_is_to_do(tmp_path: Path) -> None:
    clock = FakeClock()
    made = open_catalog(f"sqlite:///{tmp_path / 'due.db'}", clock)
    made.apply_workflow(WorkflowSpec("w", CHANNELS, (replace(BINDINGS[0], triggers=(IntervalTrigger(5.0),)),)))
    for _ in range(4):
        clock.now += 5.0
        (leaf,) = made.list_due_triggers()
        made.fire_trigger(leaf)
    assert len(made.list_runs(subject="slow")) == 1  # all of them wait for one run
    assert [f.period for f in made.read_flow_statistics().values()] == [5.0]
    made.close()


def test_a_cold_start_is_not_what_a_run_usually_takes(tmp_path: Path) -> None:
    clock = FakeClock()
    made = open_catalog(f"sqlite:///{tmp_path / 'took.db'}", clock)
    made.apply_workflow(WorkflowSpec("w", CHANNELS, BINDINGS[:1]))
    did: dict[str, object] = {"tasks": {"slow": {}}}
    for took, stats in ((30.0, did), (1.0, did), (2.0, did), (0.0, {})):
        claim = made.claim_run(request_flow_run(made, "slow").id, ClaimRequest(), owner="me", lease=100)
        clock.now += took
        made.commit_run(claim, RunOutcome((), stats=stats))
    assert [f.seconds for f in made.read_flow_statistics().values()] == [2.0]  # the last found nothing to do
    made.close()


def test_rates_go_by_what_runs_make_of_what_they_read(catalog: SqlCatalog) -> None:
    for rows_out in (10, 20, 900):
        claim = catalog.claim_run(request_flow_run(catalog, "quick").id, ClaimRequest(), owner="me", lease=100)
        stats = {"tasks": {"quick": {"change": 100, "content": 1000, "rows_out": rows_out}}}
        catalog.commit_run(claim, RunOutcome((), stats=stats))
    assert {name: f.selectivity for name, f in catalog.read_flow_statistics().items() if f.selectivity is not None} == {
        "quick": 0.2
    }
    dispatch = RunDispatcher(catalog, DispatchConfig("rate", tracks=2, placement="single"))
    started = {s.job.name: s for s in dispatch.start_runs(asked(catalog, "quick", "last"), time.time())}
    assert {name: s.job.profile.selectivity for name, s in started.items()} == {"quick": 0.2, "last": 1.0}
    dispatch.finish_run(started["quick"], time.time())


def test_what_comes_while_a_flow_runs_is_not_loaded_by_that_run(tmp_path: Path) -> None:
    clock = FakeClock()
    made = open_catalog(f"sqlite:///{tmp_path / 'again.db'}", clock)
    made.apply_workflow(WorkflowSpec("w", CHANNELS, BINDINGS))
    dispatch = RunDispatcher(made, DispatchConfig(tracks=1, placement="single", inheritance="none"))
    (first,) = dispatch.start_runs([request_flow_run(made, "dear")], clock.now)
    made.commit_run(made.claim_run(first.run.id, ClaimRequest(), owner="me", lease=100), RunOutcome(()))
    clock.now += 100.0
    runs = asked(made, "slow", "dear")  # 1 * (3600 + 100) a second would be won, and 50 * 100
    assert dispatch.start_runs(runs, clock.now) == []  # committed, but the track is not free yet
    dispatch.finish_run(first, clock.now)
    assert names(dispatch.start_runs(runs, clock.now)) == ["dear"]
    made.close()


def test_event_time_is_what_jobs_are_fresh_up_to(tmp_path: Path) -> None:
    clock = FakeClock()
    made = open_catalog(f"sqlite:///{tmp_path / 'edges.db'}", clock)
    made.apply_workflow(WorkflowSpec("w", CHANNELS, BINDINGS))
    began = clock.now
    for edge in (100.0, 150.0):  # half of the time that passes
        claim = made.claim_run(request_flow_run(made, "quick").id, ClaimRequest(), owner="me", lease=1000)
        clock.now += 100.0
        made.commit_run(claim, RunOutcome((), stats={"tasks": {"quick": {"edge": edge}}}))
    assert made.read_flow_statistics()["quick"].watermark_progress == WatermarkProgress(began + 100.0, 150.0, 0.5)
    dispatch = RunDispatcher(made, DispatchConfig(tracks=3, placement="single"), interval=0.0)
    started = {s.run.subject: s for s in dispatch.start_runs(asked(made, "quick", "last", "slow"), clock.now)}
    assert (started["quick"].job.fresh, started["quick"].upto) == (150.0, 200.0)
    assert started["last"].upto == 200.0  # it is made of `quick`
    assert started["slow"].upto == clock.now  # it goes by what has come
    dispatch.finish_run(started["quick"], clock.now)
    assert started["quick"].job.fresh == 200.0  # as was thought
    claim = made.claim_run(started["quick"].run.id, ClaimRequest(), owner="me", lease=1000)
    made.commit_run(claim, RunOutcome((), stats={"tasks": {"quick": {"edge": 160.0}}}))
    dispatch.start_runs(asked(made, "dear"), clock.now)
    assert started["quick"].job.fresh == 160.0  # as it is
    made.close()


def test_flows_that_read_of_each_other_reflect_no_event_time_of_their_own() -> None:
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


def learnt(dispatch: RunDispatcher) -> dict[str, tuple[object, float, int]]:
    return {name: (job.profile, job.weight, job.lane) for name, job in dispatch._jobs.items()}


def test_what_is_learnt_bit_by_bit_is_what_a_new_dispatcher_would_know(tmp_path: Path) -> None:
    clock = FakeClock()
    made = open_catalog(f"sqlite:///{tmp_path / 'bits.db'}", clock)
    made.apply_workflow(WorkflowSpec("w", CHANNELS, BINDINGS))
    kept = RunDispatcher(made, DispatchConfig(placement="proportional"), interval=0.0)
    for flow_, took, backfill in (
        ("slow", 90.0, False),
        ("quick", 1.0, False),
        ("slow", 80.0, False),
        ("dear", 5.0, True),
    ):
        run = request_flow_run(made, flow_, backfill=backfill)
        kept.start_runs([run], clock.now)
        claim = made.claim_run(run.id, ClaimRequest(), owner="me", lease=1000)
        clock.now += took
        made.commit_run(claim, RunOutcome((), stats={"tasks": {flow_: {}}}))
    made.set_workflow_priority("w", 2)
    run = request_flow_run(made, "dear", backfill=True)
    new = RunDispatcher(made, DispatchConfig(placement="proportional"))
    for dispatch in (kept, new):
        dispatch.start_runs([run], clock.now)
    assert learnt(kept) == learnt(new)
    kept.change_config(replace(kept.config, inheritance="none"), clock.now)
    new = RunDispatcher(made, kept.config)
    for dispatch in (kept, new):
        dispatch.start_runs([run], clock.now)
    assert learnt(kept) == learnt(new)
    made.close()
