"""Workflows with freshness targets: each target is set on its channel and adds lag triggers to the writing flow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidemill.model.channel import Channel, ChannelRole
from tidemill.model.freshness_target import ALL_PATHWAYS, FreshnessTarget, is_routed_via
from tidemill.model.location import SourceLocation
from tidemill.model.provenance import Pathway, walk_pathways
from tidemill.model.trigger import LagTrigger, Trigger
from tidemill.model.workflow import WorkflowSpec

FreshnessTargets = Mapping[str, tuple[FreshnessTarget, SourceLocation]]
"""Freshness targets by channel, each with the location of its declaration."""


def add_freshness_targets(workflow: WorkflowSpec, targets: FreshnessTargets) -> WorkflowSpec:
    """The workflow with these freshness targets and the triggers that meet them."""
    channels = tuple(
        replace(c, freshness_target=targets[c.name][0]) if c.name in targets else c for c in workflow.channels
    )
    routes, by_name = DataRoutes.from_workflow(workflow), {c.name: c for c in channels}
    bindings = tuple(
        replace(b, triggers=(*b.triggers, *_build_lag_triggers(routes, [by_name[c] for c in b.written_channels])))
        for b in workflow.bindings
    )
    return replace(workflow, channels=channels, bindings=bindings)


def find_misplaced_targets(workflow: WorkflowSpec, targets: FreshnessTargets) -> Iterator[str]:
    """Problems of freshness targets: on input channels, or for routes that no data take."""
    routes = DataRoutes.from_workflow(workflow)
    for name, (target, location) in targets.items():
        channel = workflow.find_channel(name)
        if channel is None or channel.role is ChannelRole.INPUT:
            yield f"{location}: {name!r} is an input channel and cannot have a freshness target; set it on a table"
            continue
        pathways = routes.find_pathways(name)
        known = ", ".join(sorted({pathway[0] for pathway in pathways}))
        for stray in sorted(
            route
            for route in target.lag
            if route != ALL_PATHWAYS and not any(is_routed_via(pathway, route) for pathway in pathways)
        ):
            yield (
                f"{location}: the target lag of {name!r} names the route {stray!r}, but no data take that route; "
                f"its inputs are {known or 'none'}"
            )


@dataclass(frozen=True, slots=True)
class DataRoutes:
    """Which channels each channel of a workflow is derived from directly."""

    inputs: frozenset[str]
    sources: Mapping[str, set[str]]

    @classmethod
    def from_workflow(cls, workflow: WorkflowSpec) -> DataRoutes:
        sources: dict[str, set[str]] = {}
        for task in workflow.list_tasks():
            for write in task.writes:
                sources.setdefault(write.port, set()).update(r.port for r in task.reads)
        return cls(frozenset(c.name for c in workflow.channels if c.role is ChannelRole.INPUT), sources)

    def find_pathways(self, channel: str) -> tuple[Pathway, ...]:
        """The pathways of data from inputs to a channel."""
        return tuple(walk_pathways(self.sources, self.inputs, (channel,)))


def find_pathways(workflow: WorkflowSpec, channel: str) -> tuple[Pathway, ...]:
    """The pathways of data from inputs to a channel."""
    return DataRoutes.from_workflow(workflow).find_pathways(channel)


def _build_lag_triggers(routes: DataRoutes, written_channels: Iterable[Channel]) -> Iterator[Trigger]:
    """One trigger per input and lag that the freshness targets of the written channels require."""
    required_lags = {
        (pathway[0], lag)
        for channel in written_channels
        if channel.freshness_target.lag
        for pathway in routes.find_pathways(channel.name)
        if (lag := channel.freshness_target.find_lag(pathway)) is not None
    }
    return (LagTrigger(source, lag) for source, lag in sorted(required_lags))
