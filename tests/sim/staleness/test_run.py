"""The simulation: results that can be calculated, and reproducibility."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.figures.slow_periods import Slowdown, scale_to_load

from tidemill.scheduler.hierarchy import build_jobs
from tidemill.scheduler.job import Job, JobProfile, UpdateCost
from tidemill.scheduler.policies import POLICIES
from tidemill.sim.staleness.run import Simulation, simulate_uncontended, simulate_workload
from tidemill.sim.staleness.workload import SimulationConfig, Workload

STEADY = Workload((JobProfile("t", 100.0, UpdateCost(1.0, 0.1)),), 1)


def compute_exact_cost(job: Job, batches: int, now: float) -> float:
    return job.profile.cost(job.compute_span(batches))


def simulate(
    tables: list[JobProfile], feeds: dict[str, list[tuple[float, float]]], config: SimulationConfig, tracks: int = 1
) -> tuple[Simulation, dict[str, Job]]:
    jobs = build_jobs(tables, config.inheritance)
    batches = {name: iter(feed) for name, feed in feeds.items()}
    simulation = Simulation(jobs, config.build_dispatcher(jobs, tracks), batches, compute_exact_cost)
    simulation.run()
    return simulation, {job.name: job for job in jobs}


def test_a_single_table_is_stale_by_half_its_period_and_its_run_time() -> None:
    outcome = simulate_uncontended(STEADY, 20_000)
    assert outcome.staleness == pytest.approx(50 + 11, rel=0.01)
    assert outcome.busy == pytest.approx(0.11, rel=0.01)
    assert outcome.runs["t"] == pytest.approx(10_000, abs=2)


def test_staleness_is_weighted_by_priority() -> None:
    heavy = replace(STEADY, tables=(replace(STEADY.tables[0], priority=3.0),))
    assert simulate_uncontended(heavy, 2000).staleness == pytest.approx(
        3 * simulate_uncontended(STEADY, 2000).staleness
    )
    assert simulate_uncontended(heavy, 2000).tables["t"] == pytest.approx(
        simulate_uncontended(STEADY, 2000).tables["t"]
    )


def test_two_tables_on_one_track() -> None:
    """Both arrive at 0; a takes 3, b takes 2 and has the higher benefit, so b runs first and a ends at 5."""
    tables = [JobProfile("a", 10.0, UpdateCost(3.0, 0.0)), JobProfile("b", 10.0, UpdateCost(2.0, 0.0))]
    simulation, jobs = simulate(tables, {"a": [(0.0, 1.0)], "b": [(0.0, 1.0)]}, SimulationConfig())
    assert (jobs["b"].since, jobs["a"].since, simulation.now) == (2.0, 5.0, 5.0)
    assert jobs["a"].compute_staleness(5.0) == pytest.approx(5 * 5 / 2)


def test_simultaneous_arrivals_are_scheduled_together() -> None:
    """The more important table arrives at the same time, after the other one."""
    tables = [JobProfile("a", 10.0, UpdateCost(3.0, 0.0)), JobProfile("b", 10.0, UpdateCost(3.0, 0.0), priority=5.0)]
    _, jobs = simulate(tables, {"a": [(1.0, 1.0)], "b": [(1.0, 1.0)]}, SimulationConfig())
    assert jobs["b"].since < jobs["a"].since


def test_a_derived_table_follows_the_least_fresh_of_its_parents() -> None:
    tables = [
        JobProfile("a", 10.0, UpdateCost(1.0, 0.0)),
        JobProfile("b", 10.0, UpdateCost(1.0, 0.0)),
        JobProfile("c", 10.0, UpdateCost(1.0, 0.0), 1.0, ("a", "b")),
    ]
    _, jobs = simulate(tables, {"a": [(10.0, 10.0)], "b": [(20.0, 7.0)]}, SimulationConfig(), tracks=2)
    assert (jobs["c"].fresh, jobs["c"].since) == (7.0, 22.0)


def test_the_catch_up_limit_bounds_the_periods_of_a_run() -> None:
    slow = [JobProfile("a", 1.0, UpdateCost(0.5, 0.0)), JobProfile("b", 1.0, UpdateCost(50.0, 0.0), priority=1e6)]
    feeds = {"a": [(float(i), float(i)) for i in range(1, 31)], "b": [(0.5, 1.0)]}
    unlimited, _ = simulate(slow, feeds, SimulationConfig())
    limited, jobs = simulate(slow, feeds, SimulationConfig(catch_up_periods=10.0))
    assert limited.build_outcome(0, 1).runs["a"] == unlimited.build_outcome(0, 1).runs["a"] + 2
    assert jobs["a"].fresh == 30.0


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_seed_gives_the_same_run(policy: str) -> None:
    tables = tuple(JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1), float(i)) for i in range(1, 9))
    workload = scale_to_load(Workload(tables, 1), 0.9)
    one, same, other = (simulate_workload(workload, SimulationConfig(policy), 3000, seed) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_workload_is_scaled_to_a_load() -> None:
    tables = tuple(JobProfile(f"t{i}", 100.0, UpdateCost(1.0, 0.1)) for i in range(30))
    workload = scale_to_load(Workload(tables, 4), 0.6)
    assert workload.load == pytest.approx(0.6)
    assert simulate_workload(workload, SimulationConfig(), 20_000).busy == pytest.approx(0.6, rel=0.02)


@pytest.mark.parametrize("factor", [2.0, 3.0, 5.0, 9.0])
def test_slow_phases_double_the_costs_on_average(factor: float) -> None:
    slow = Slowdown(factor)
    cycle = slow.length * (factor - 1)
    times = [2 * slow(i * cycle / 10_000) for i in range(10_000)]
    assert set(times) <= {1.0, factor}
    assert sum(times) / len(times) == pytest.approx(2.0, rel=0.01)


def test_slow_phases_are_part_of_the_load() -> None:
    tables = tuple(JobProfile(f"t{i}", 100.0, UpdateCost(0.0, 0.1)) for i in range(10))
    workload = scale_to_load(Workload(tables, 4, Slowdown()), 0.5)
    assert simulate_workload(workload, SimulationConfig(), 50_000).busy == pytest.approx(0.5, rel=0.02)
