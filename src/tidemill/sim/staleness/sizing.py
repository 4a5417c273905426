"""How stale a user's tables would be, and with how many tracks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from tidemill.errors import Infeasible
from tidemill.sim.staleness.run import Outcome, simulated, uncontended
from tidemill.sim.staleness.workload_file import Described


@dataclass(frozen=True, slots=True)
class Sizing:
    """What would come of it, the best that could, and what would come of it on other numbers of tracks."""

    described: Described
    found: Sequence[Outcome]  # one for each seed
    best: Sequence[Outcome]
    lateness: Mapping[int, float]  # by tracks; none where the placement does not fit

    @property
    def busy(self) -> float:
        return fmean(outcome.busy for outcome in self.found)

    def to_json(self) -> dict[str, Any]:
        workload = self.described.workload
        return {
            "tracks": workload.tracks, "load": workload.load, "busy": self.busy,
            "tables": [self._table(table.name) for table in workload.tables],
            "by_tracks": [{"tracks": n, "lateness": lateness} for n, lateness in self.lateness.items()],
            "events": self.found[0].events, "seeds": len(self.found),
        }  # fmt: skip

    def _table(self, name: str) -> dict[str, Any]:
        return {
            "table": name,
            "staleness": fmean(outcome.tables[name] for outcome in self.found),
            "best": fmean(outcome.tables[name] for outcome in self.best),
            "runs": fmean(outcome.runs[name] for outcome in self.found),
        }


def sized(asked: Described, events: int, seeds: Sequence[int] = (1,)) -> Sizing:
    best = [uncontended(asked.workload, events, seed) for seed in seeds]
    found = _on(asked, asked.workload.tracks, events, seeds)
    lateness = {asked.workload.tracks: _late(found, best)}
    for tracks in _others(asked.workload.tracks):
        try:
            lateness[tracks] = _late(_on(asked, tracks, events, seeds), best)
        except Infeasible:
            continue
    return Sizing(asked, found, best, dict(sorted(lateness.items())))


def _on(asked: Described, tracks: int, events: int, seeds: Sequence[int]) -> list[Outcome]:
    workload = replace(asked.workload, tracks=tracks)
    return [simulated(workload, asked.way, events, seed) for seed in seeds]


def _late(found: Sequence[Outcome], best: Sequence[Outcome]) -> float:
    return fmean(one.staleness / other.staleness for one, other in zip(found, best, strict=True))


def _others(tracks: int) -> set[int]:
    """Half, one less, one more and twice as many."""
    return {n for n in (tracks // 2, tracks - 1, tracks + 1, 2 * tracks) if n >= 1} - {tracks}
