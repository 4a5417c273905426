"""The simulation itself: what can be worked out by hand, and what must not depend on anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemill.scheduler.hierarchy import build_jobs
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.run import Simulation, simulate_uncontended, simulate_workload
from tidemill.sim.staleness.workload import SimulationConfig, Slowdown, Workload

STEADY = Workload((JobProfile("t", 100.0, UpdateCost(1.0, 0.1)),), 1)


def exactly(job: Job, grain: int, now: float) -> float:
    return job.profile.cost(job.compute_span(grain))


def played(
    tables: list[JobProfile], feeds: dict[str, list[tuple[float, float]]], way: SimulationConfig, tracks: int = 1
) -> tuple[Simulation, dict[str, Job]]:
    jobs = build_jobs(tables, way.inheritance)
    batches = {name: iter(feed) for name, feed in feeds.items()}
    simulation = Simulation(jobs, way.build_dispatcher(jobs, tracks), batches, exactly)
    simulation.run()
    return simulation, {job.name: job for job in jobs}


def test_a_table_alone_is_as_stale_as_half_its_period_and_its_update() -> None:
    found = simulate_uncontended(STEADY, 20_000)
    assert found.staleness == pytest.approx(50 + 11, rel=0.01)
    assert found.busy == pytest.approx(0.11, rel=0.01)
    assert found.runs["t"] == pytest.approx(10_000, abs=2)


def test_priorities_weigh() -> None:
    heavy = replace(STEADY, tables=(replace(STEADY.tables[0], priority=3.0),))
    assert simulate_uncontended(heavy, 2000).staleness == pytest.approx(
        3 * simulate_uncontended(STEADY, 2000).staleness
    )
    assert simulate_uncontended(heavy, 2000).tables["t"] == pytest.approx(
        simulate_uncontended(STEADY, 2000).tables["t"]
    )


def test_two_tables_on_one_track_by_hand() -> None:
    """Both come at 0; a takes 3, b takes 2 and brings more, so b goes first and a is done at 5."""
    tables = [JobProfile("a", 10.0, UpdateCost(3.0, 0.0)), JobProfile("b", 10.0, UpdateCost(2.0, 0.0))]
    simulation, jobs = played(tables, {"a": [(0.0, 1.0)], "b": [(0.0, 1.0)]}, SimulationConfig())
    assert (jobs["b"].since, jobs["a"].since, simulation.now) == (2.0, 5.0, 5.0)
    assert jobs["a"].compute_staleness(5.0) == pytest.approx(5 * 5 / 2)


def test_all_that_happens_in_an_instant_is_decided_on_together() -> None:
    """The more important table arrives in the same instant, after the other."""
    tables = [JobProfile("a", 10.0, UpdateCost(3.0, 0.0)), JobProfile("b", 10.0, UpdateCost(3.0, 0.0), priority=5.0)]
    _, jobs = played(tables, {"a": [(1.0, 1.0)], "b": [(1.0, 1.0)]}, SimulationConfig())
    assert jobs["b"].since < jobs["a"].since


def test_a_derived_table_follows_the_least_fresh_of_its_parents() -> None:
    tables = [
        JobProfile("a", 10.0, UpdateCost(1.0, 0.0)),
        JobProfile("b", 10.0, UpdateCost(1.0, 0.0)),
        JobProfile("c", 10.0, UpdateCost(1.0, 0.0), 1.0, ("a", "b")),
    ]
    _, jobs = played(tables, {"a": [(10.0, 10.0)], "b": [(20.0, 7.0)]}, SimulationConfig(), tracks=2)
    assert (jobs["c"].fresh, jobs["c"].since) == (7.0, 22.0)


def test_chopping_loads_no_more_than_so_many_periods_at_once() -> None:
    slow = [JobProfile("a", 1.0, UpdateCost(0.5, 0.0)), JobProfile("b", 1.0, UpdateCost(50.0, 0.0), priority=1e6)]
    feeds = {"a": [(float(i), float(i)) for i in range(1, 31)], "b": [(0.5, 1.0)]}
    whole, _ = played(slow, feeds, SimulationConfig())
    chopped, jobs = played(slow, feeds, SimulationConfig(catch_up_periods=10.0))
    assert chopped.build_outcome(0, 1).runs["a"] == whole.build_outcome(0, 1).runs["a"] + 2
    assert jobs["a"].fresh == 30.0


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    workload = Workload(
        tuple(JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1), float(i)) for i in range(1, 9)), 1
    ).scale_to_load(0.9)
    one, same, other = (simulate_workload(workload, SimulationConfig(policy), 3000, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_load_is_what_was_asked_for() -> None:
    workload = Workload(tuple(JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1)) for i in range(30)), 4).scale_to_load(
        0.6
    )
    assert workload.load == pytest.approx(0.6)
    assert simulate_workload(workload, SimulationConfig(), 20_000).busy == pytest.approx(0.6, rel=0.02)


@pytest.mark.parametrize("factor", [2.0, 3.0, 5.0, 9.0])
def test_slow_times_double_everything_on_average(factor: float) -> None:
    slow = Slowdown(factor)
    whole = slow.length * (factor - 1)
    times = [slow.find_factor(i * whole / 10_000) for i in range(10_000)]
    assert set(times) <= {1.0, factor}
    assert sum(times) / len(times) == pytest.approx(slow.mean_factor, rel=0.01)


def test_the_load_is_the_same_with_slow_times() -> None:
    workload = Workload(
        tuple(JobProfile(f"t{i}", 100.0, UpdateCost(0.0, 0.1)) for i in range(10)), 4, Slowdown()
    ).scale_to_load(0.5)
    assert simulate_workload(workload, SimulationConfig(), 50_000).busy == pytest.approx(0.5, rel=0.02)
