"""Tables that could be refreshed together: those that are due at the same times, from the same channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemill.model.flow import BoundFlow
from tidemill.model.workflow import WorkflowSpec
from tidemill.planner.refresh_groups import GroupMember, propose_group
from tidemill.ports.catalog import CatalogReader
from tidemill.ports.records import FlowStatistics


def advise_refresh_group(catalog: CatalogReader, workflows: Sequence[WorkflowSpec], flow: BoundFlow) -> str | None:
    """Whether one run for a flow and for those that it could be together with would be better, and why."""
    workflow = next(w for w in workflows if flow in w.bindings)
    known = catalog.read_flow_statistics()
    parts = [part for b in _find_candidates(workflow, flow) for part in _build_member(known.get(b.name))]
    if len(parts) < 2 or flow.name not in {p.flow for p in parts}:
        return None
    return str(propose_group(parts, _sum_waiting_priorities(catalog, known, {p.flow for p in parts})))


def _find_candidates(workflow: WorkflowSpec, flow: BoundFlow) -> list[BoundFlow]:
    """What is promised is planned, and what reads of another comes after it: neither is merged."""
    promised = {c.name for c in workflow.channels if c.promise}
    alike = [
        b
        for b in workflow.bindings
        if flow.triggers
        and set(b.triggers) == set(flow.triggers)
        and b.read_channels & flow.read_channels
        and not b.written_channels & promised
        and all(t.refresh is not None for t in b.tasks)
    ]
    made = frozenset[str]().union(*(b.written_channels for b in alike))
    return [b for b in alike if not (b.read_channels - b.written_channels) & made]


def _build_member(facts: FlowStatistics | None) -> Iterable[GroupMember]:
    if facts is not None and facts.seconds is not None and facts.start is not None:
        yield GroupMember(facts.flow, facts.seconds, max(0.0, facts.start), facts.priority)


def _sum_waiting_priorities(catalog: CatalogReader, known: Mapping[str, FlowStatistics], these: set[str]) -> float:
    """The priorities of all others who wait for the same track; none, as long as tracks keep up with what is due."""
    tracks = max(1, sum(s.tracks for s in catalog.list_servers() if s.state == "serving"))
    busy = sum(f.seconds / max(f.period, f.seconds) for f in known.values() if f.seconds and f.period) / tracks
    return 0.0 if busy < 1 else sum(f.priority for f in known.values() if f.flow not in these) / tracks
