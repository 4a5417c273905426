"""The data time that flows reach: by what has come, or by event time where they settle any or are made of such."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidemill.ports.records import FlowFacts, Pace

Paces = Mapping[str, tuple[Pace, ...]]
"""By flow, of the event time that it reflects; none if it reflects what has come."""


def paces(known: Mapping[str, FlowFacts]) -> Paces:
    found: dict[str, tuple[Pace, ...]] = {}

    def of(flow: str) -> tuple[Pace, ...]:
        if flow not in found:
            facts, found[flow] = known[flow], ()  # flows may read of each other
            above = {pace: None for parent in facts.parents for pace in of(parent)}
            found[flow] = tuple(above) if facts.pace is None else (facts.pace,)
        return found[flow]

    return {flow: of(flow) for flow in known} if any(f.pace for f in known.values()) else {}


def data_time(of: Iterable[Pace], moment: float) -> float:
    """Up to where a flow gets that loads all that came by a moment: the earliest edge of all that it reflects."""
    return min((pace.edge_at(moment) for pace in of), default=moment)
