"""Where a step of a program runs: on the driver or on Spark's executors, by the cost that earlier steps had."""

import threading
from dataclasses import dataclass
from enum import StrEnum

from tidemill.algebra.operators import BlockScan, Operator, StepReference, walk_operators
from tidemill.planner.cost import CostModel, CostTerms, ScanVolume, guess_cost_model
from tidemill.ports.engine import EngineLimits


class Place(StrEnum):
    DRIVER = "driver"
    SPARK = "spark"


PRIORS = {
    Place.DRIVER: CostTerms(start=0.01, change=3e-7, content=5e-8, byte=1e-11),
    Place.SPARK: CostTerms(start=0.2, change=1e-6, content=2.5e-7, byte=1e-11),
}
"""Seconds of a step until steps are measured: of the order of those of the search workflow with a million pages on two
cores (docs/benchmarks.md). Bytes hardly count until steps show that they do."""


@dataclass(frozen=True, slots=True)
class Placement:
    """The choice for one step, and its reason."""

    place: Place
    reason: str


class StepCosts:
    """The costs of steps by place, learnt from the steps of an engine."""

    def __init__(self) -> None:
        self._models: dict[Place, CostModel] = {place: guess_cost_model(terms) for place, terms in PRIORS.items()}
        self._lock = threading.Lock()

    def estimate_seconds(self, place: Place, volume: ScanVolume) -> float:
        return self._models[place].terms.compute_cost(volume)

    def add_step(self, place: Place, volume: ScanVolume, seconds: float) -> None:
        with self._lock:
            self._models[place] = self._models[place].add_run(volume, seconds, ())


def choose_place(
    volume: ScanVolume, costs: StepCosts, limits: EngineLimits, on_spark: ScanVolume | None = None
) -> Placement:
    """The cheaper place for a step that reads this volume, or `on_spark` on Spark, if the driver may compute at all.

    >>> choose_place(ScanVolume(change=1000.0), StepCosts(), EngineLimits())
    Placement(place=<Place.DRIVER: 'driver'>, reason='10 ms on the driver, 201 ms on Spark')
    >>> choose_place(ScanVolume(), StepCosts(), EngineLimits(is_local=False)).reason
    'local execution is off'
    """
    if not limits.is_local:
        return Placement(Place.SPARK, "local execution is off")
    volumes = {Place.DRIVER: volume, Place.SPARK: on_spark or volume}
    seconds = {place: costs.estimate_seconds(place, volumes[place]) for place in Place}
    cheaper = min(Place, key=lambda place: seconds[place])
    driver, spark = (f"{seconds[place] * 1000:,.0f} ms" for place in (Place.DRIVER, Place.SPARK))
    return Placement(cheaper, f"{driver} on the driver, {spark} on Spark")


def measure_volume(op: Operator, steps: dict[str, int]) -> ScanVolume:
    """The rows and bytes that an operator reads; `steps`: the rows of steps on the driver."""
    leaves = set(walk_operators(op))
    scans = [leaf for leaf in leaves if isinstance(leaf, BlockScan)]
    rows = sum(steps.get(leaf.step, 0) for leaf in leaves if isinstance(leaf, StepReference))
    return ScanVolume(
        change=float(rows + sum(s.rows for s in scans if s.is_change)),
        content=float(sum(s.rows for s in scans if not s.is_change)),
        bytes=float(sum(s.bytes for s in scans)),
    )
