"""An order and a placement together: who starts where, what changes while jobs run, and how jobs stand."""

from __future__ import annotations

import pytest
from tests.scheduler.jobs import arrived, dispatcher, job, profile

from tidemill.errors import ConfigError, InfeasibleSchedule
from tidemill.scheduler.dispatcher import Dispatcher
from tidemill.scheduler.job import Job, JobProfile, JobState, UpdateCost
from tidemill.scheduler.policies.basic import FirstCome, MaxBenefit
from tidemill.scheduler.policies.quantum import QuantumPriority
from tidemill.scheduler.policies.rate import RateBased
from tidemill.scheduler.tracks.partitioned import PartitionedPlacement
from tidemill.scheduler.tracks.proportional import ProportionalPlacement

AGGRESSIVE = ProportionalPlacement()
POLITE = ProportionalPlacement(aggressive=False)


def started(mill: Dispatcher, now: float = 0.0) -> dict[str, int]:
    return {each.name: track for each, track, _ in mill.dispatch_jobs(now)}


def due(mill: Dispatcher, *jobs: Job, now: float = 0.0) -> None:
    for each in jobs:
        if not each.batches:
            arrived(each, (now, now + 1))
        mill.mark_ready(each, now)


def end(mill: Dispatcher, each: Job, now: float, grain: int = 1, cost: float = 1.0) -> None:
    each.load_batches(grain, now)
    mill.mark_finished(each, now, grain, cost)


def test_one_queue_fills_all_tracks_in_order() -> None:
    jobs = [job(str(i)) for i in range(5)]
    mill = dispatcher(jobs, FirstCome(), tracks=3)
    due(mill, *jobs)
    assert started(mill) == {"0": 0, "1": 1, "2": 2}
    assert started(mill) == {}
    end(mill, jobs[1], 1)
    assert started(mill, 1) == {"3": 1}


def test_a_running_job_is_due_again_when_it_ends_if_data_came_meanwhile() -> None:
    only = job("only")
    mill = dispatcher([only], FirstCome(), tracks=2)
    due(mill, only)
    assert started(mill) == {"only": 0}
    mill.mark_ready(arrived(only, (1, 2)), 1)
    assert started(mill, 1) == {}
    end(mill, only, 2)
    assert started(mill, 2) == {"only": 0}


def test_a_run_that_failed_is_due_again_with_what_it_should_have_loaded() -> None:
    only = job("only")
    mill = dispatcher([only], FirstCome())
    due(mill, only)
    started(mill)
    mill.mark_finished(only, 1, 0, 1.0)
    assert [(each.name, grain) for each, _, grain in mill.dispatch_jobs(1)] == [("only", 1)]


def test_pending_updates_are_one_run_unless_chopped() -> None:
    for chop, grain in [(None, 5), (3.0, 3), (2.5, 2), (1.0, 1), (0.5, 1), (5.0, 5)]:
        late = Job(JobProfile("late", 10.0, UpdateCost(1, 0)), 1.0)
        arrived(late, *((10 * i, 10 * i) for i in range(1, 6)))
        mill = dispatcher([late], FirstCome(), chop=chop)
        mill.mark_ready(late, 50)
        assert [found for _, _, found in mill.dispatch_jobs(50)] == [grain]


def shorts_and_longs() -> tuple[list[Job], list[Job]]:
    """On four tracks: short jobs have 2 and 3, long ones 0 and 1."""
    return [job(f"s{i:02}", 100, 10) for i in range(15)], [job(f"l{i:02}", 10_000, 1000) for i in range(15)]


def test_long_jobs_leave_the_tracks_of_short_ones_alone() -> None:
    short, long = shorts_and_longs()
    mill = dispatcher([*short, *long], FirstCome(), 4, placement=AGGRESSIVE)
    due(mill, *long)
    assert set(started(mill).values()) == {0, 1}
    due(mill, *short)
    assert set(started(mill).values()) == {2, 3}


def test_short_jobs_are_guests_where_nobody_waits_or_anywhere_if_aggressive() -> None:
    for placement, guests in [(POLITE, 2), (AGGRESSIVE, 4)]:
        short, long = shorts_and_longs()
        mill = dispatcher([*short, *long], MaxBenefit(), 4, placement=placement)
        due(mill, *short, *long)
        assert sum(name.startswith("s") for name in started(mill)) == guests
    short, long = shorts_and_longs()
    mill = dispatcher([*short, *long], MaxBenefit(), 4, placement=POLITE)
    due(mill, *short)
    assert len(started(mill)) == 4


def test_only_a_promoted_job_leaves_its_home() -> None:
    """The example of section 3.2.4."""
    four = [job("1", 4, 1), job("2", 4, 1), job("3", 8, 2), job("4", 10, 1.25)]
    mill = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    due(mill, four[2], four[3])
    assert started(mill) == {"3": 1, "4": 0}
    mill = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    due(mill, four[0], four[1])
    assert started(mill) == {"1": 0}


def test_backfills_have_a_track_of_their_own() -> None:
    live = [job(str(i)) for i in range(3)]
    history = [Job(JobProfile(f"h{i}", 10.0, UpdateCost(1000, 0), priority=1e9, backfill=True), 1e9) for i in range(2)]
    mill = dispatcher([*live, *history], MaxBenefit(), tracks=2)
    due(mill, *history)
    assert started(mill) == {"h0": -1}
    due(mill, *live)
    assert set(started(mill).values()) == {0, 1}
    mill.change_setup(0, tracks=3, backfill_tracks=2)
    assert started(mill) == {"2": 2, "h1": -2}  # the one that runs is in nobody's way


def test_states() -> None:
    a, b = job("a", cost=5), job("b", cost=5)
    mill = dispatcher([a, b], QuantumPriority(basic=0.1, level=lambda j: 35))
    assert mill.list_states(0)[a.name] is JobState.INACTIVE
    arrived(a, (0, 1), (0, 2))
    due(mill, a, b)
    assert [mill.list_states(0)[j.name] for j in (a, b)] == [JobState.ACTIVE, JobState.ACTIVE]
    assert started(mill) == {"a": 0}
    assert mill.list_states(0)[a.name] is JobState.RUNNING
    end(mill, a, 5, cost=5)
    assert mill.list_states(5)[a.name] is JobState.WAITING  # its quantum is used up
    assert started(mill, 5) == {"b": 0}
    end(mill, b, 10, cost=5)
    assert mill.list_states(10)[b.name] is JobState.INACTIVE
    assert started(mill, 10) == {"a": 0}  # a new round


def test_states_of_rounds() -> None:
    a, b = job("a"), job("b")
    mill = dispatcher([a, b], RateBased())
    due(mill, a, b)
    assert mill.list_states(0)[a.name] is JobState.WAITING  # for a round to begin
    started(mill)
    assert [mill.list_states(0)[j.name] for j in (a, b)] == [JobState.RUNNING, JobState.ACTIVE]
    arrived(a, (1, 2))
    end(mill, a, 1)
    assert mill.list_states(1)[a.name] is JobState.WAITING
    due(mill, b)
    assert mill.list_states(1)[b.name] is JobState.ACTIVE


def test_another_policy_takes_over_what_waits() -> None:
    late, rich = arrived(job("late"), (0, 1)), arrived(job("rich", priority=100), (1, 2))
    mill = dispatcher([late, rich], FirstCome())
    due(mill, late, rich)
    mill.change_setup(2, order=MaxBenefit())
    assert started(mill, 2) == {"rich": 0}
    end(mill, rich, 3)
    assert started(mill, 3) == {"late": 0}


def test_tracks_come_and_go_while_jobs_run() -> None:
    jobs = [job(str(i)) for i in range(6)]
    mill = dispatcher(jobs, FirstCome(), tracks=2)
    due(mill, *jobs)
    started(mill)
    mill.change_setup(0, tracks=4)
    assert started(mill) == {"2": 2, "3": 3}
    mill.change_setup(0, tracks=1)
    end(mill, jobs[3], 1)
    end(mill, jobs[1], 1)
    assert started(mill, 1) == {}
    end(mill, jobs[0], 2)
    assert started(mill, 2) == {"4": 0}


def test_jobs_come_and_go_and_are_placed_anew() -> None:
    short, long = shorts_and_longs()
    mill = dispatcher(long, FirstCome(), 4, placement=AGGRESSIVE)
    due(mill, *long)
    assert set(started(mill).values()) == {0, 1, 2, 3}
    mill.change_setup(0, jobs=[*short, *long[:5]])
    due(mill, *short)
    assert started(mill) == {}
    for each in long[:4]:
        end(mill, each, 1000)
    assert set(started(mill, 1000)) >= {"s00", "s01", "s02"}  # the long ones have one track now
    assert mill.list_states(1000).keys() == {each.name for each in [*short, *long[:5]]}


def test_a_job_taken_out_while_it_runs_ends_unnoticed() -> None:
    stays, goes = job("stays"), job("goes")
    mill = dispatcher([stays, goes], QuantumPriority(), tracks=1)
    due(mill, goes)
    assert started(mill) == {"goes": 0}
    mill.change_setup(0, jobs=[stays])
    due(mill, stays)
    assert started(mill) == {}
    arrived(goes, (1, 5))
    end(mill, goes, 2)
    assert started(mill, 2) == {"stays": 0}
    assert mill.list_states(2) == {"stays": JobState.RUNNING}


def test_learnt_costs_place_a_job_anew() -> None:
    short, long = job("short", 10, 1), job("long", 10, 1)
    mill = dispatcher([short, long], FirstCome(), 2, placement=AGGRESSIVE)
    due(mill, long)
    assert started(mill) == {"long": 1}
    end(mill, long, 1)
    assert mill.update_profiles([JobProfile("long", 1000.0, UpdateCost(100, 0))], 1)  # it may belong elsewhere
    mill.change_setup(1)
    due(mill, long, now=1)
    assert started(mill, 1) == {"long": 0}


def test_a_little_learnt_ranks_jobs_anew_and_leaves_them_where_they_are() -> None:
    one, other = arrived(job("one", 10, 1.0), (0, 1)), arrived(job("other", 10, 1.1), (0, 1))
    mill = dispatcher([one, other], MaxBenefit())
    due(mill, one, other)
    for took in (1.1, 1.2):
        assert not mill.update_profiles([profile("one", 10, took)], 0)
    assert mill.update_profiles([profile("one", 10, 1.3)], 0)  # bit by bit it has become much, since it was placed
    assert started(mill) == {"other": 0}


def test_without_patience_a_dull_job_waits_for_ever_and_with_it_it_does_not() -> None:
    for patience, expected in [(None, set[str]()), (2.0, {"dull"})]:
        dull, rich = job("dull", priority=0.001), job("rich", priority=1000)
        mill = dispatcher([dull, rich], MaxBenefit(), patience=patience)
        due(mill, dull, rich)
        ran: set[str] = set()
        for now in range(30):
            for each, _, _ in mill.dispatch_jobs(now):
                ran.add(each.name)
                arrived(rich, (now, now + 2))
                end(mill, each, now + 1)
        assert ran - {"rich"} == expected


def test_nothing_is_ready_twice() -> None:
    several = [job(str(i)) for i in range(3)]
    mill = dispatcher(several, FirstCome(), tracks=6)
    for _ in range(3):
        due(mill, *several)
    assert len(mill.dispatch_jobs(0)) == 3
    assert mill.dispatch_jobs(0) == []


@pytest.mark.parametrize("patience", [None, 1.0])
def test_idle_tracks_and_no_jobs_are_no_trouble(patience: float | None) -> None:
    assert dispatcher([], FirstCome(), 3, patience=patience).dispatch_jobs(0) == []


def test_what_a_placement_refuses_changes_nothing() -> None:
    four = [job("1", 4, 1), job("2", 4, 1), job("3", 8, 2), job("4", 10, 1.25)]
    mill = dispatcher(four, FirstCome(), 2, placement=PartitionedPlacement())
    due(mill, *four)
    with pytest.raises(InfeasibleSchedule):
        mill.change_setup(0, tracks=1, order=MaxBenefit(), jobs=four[1:])
    with pytest.raises(ConfigError, match="expected at least one track, found 0"):
        mill.change_setup(0, tracks=0)
    assert started(mill) == {"1": 0, "3": 1}


def test_a_chopped_backlog_does_not_go_first_again_and_again() -> None:
    """However old its data are, it has had its turn."""
    backlog = arrived(job("backlog", period=1, priority=1000), *((i, i) for i in range(40)))
    dull = arrived(job("dull", period=1, priority=0.001), (39, 39))
    mill = dispatcher([backlog, dull], MaxBenefit(), chop=1.0, patience=2.0)
    mill.mark_ready(backlog, 40)
    mill.mark_ready(dull, 40)
    order: list[str] = []
    for now in range(40, 46):
        for each, _, grain in mill.dispatch_jobs(now):
            order.append(each.name)
            end(mill, each, now + 1, grain)
    assert order == ["backlog", "backlog", "dull", "backlog", "backlog", "backlog"]
