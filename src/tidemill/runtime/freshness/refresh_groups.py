"""Tables that could be refreshed together: those that are due at the same times, from the same channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemill.model.flow import Binding
from tidemill.model.workflow import Workflow
from tidemill.planner.refresh_groups import Part, together
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import FlowFacts


def together_with(catalog: CatalogReader, workflows: Sequence[Workflow], flow: Binding) -> str | None:
    """Whether one run for a flow and for those that it could be together with would be better, and why."""
    workflow = next(w for w in workflows if flow in w.bindings)
    known = catalog.facts()
    parts = [part for b in _beside(workflow, flow) for part in _part(known.get(b.name))]
    if len(parts) < 2 or flow.name not in {p.flow for p in parts}:
        return None
    return str(together(parts, _waiting(catalog, known, {p.flow for p in parts})))


def _beside(workflow: Workflow, flow: Binding) -> list[Binding]:
    """What is promised is planned, and what reads of another comes after it: neither is merged."""
    promised = {c.name for c in workflow.channels if c.promise}
    alike = [
        b
        for b in workflow.bindings
        if flow.triggers
        and set(b.triggers) == set(flow.triggers)
        and b.read & flow.read
        and not b.written & promised
        and all(t.refresh is not None for t in b.tasks)
    ]
    made = frozenset[str]().union(*(b.written for b in alike))
    return [b for b in alike if not (b.read - b.written) & made]


def _part(facts: FlowFacts | None) -> Iterable[Part]:
    if facts is not None and facts.seconds is not None and facts.start is not None:
        yield Part(facts.flow, facts.seconds, max(0.0, facts.start), facts.priority)


def _waiting(catalog: CatalogReader, known: Mapping[str, FlowFacts], these: set[str]) -> float:
    """The priorities of all others who wait for the same track; none, as long as tracks keep up with what is due."""
    tracks = max(1, sum(s.tracks for s in catalog.servers() if s.state == "serving"))
    busy = sum(f.seconds / max(f.period, f.seconds) for f in known.values() if f.seconds and f.period) / tracks
    return 0.0 if busy < 1 else sum(f.priority for f in known.values() if f.flow not in these) / tracks
