"""A declared workflow as the planner sees it.

Every task of the workflow is one of the planner's. What a task keeps for itself is its own affair. A change is a
delta, whatever its encoding: readers convert as they read, and so they apply it. A delta may be empty, so a table that
is refreshed incrementally can take in what changed on some of its channels and leave the others where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from tidemill.algebra.program import Query, Way
from tidemill.algebra.properties import grows
from tidemill.model.block import Kind
from tidemill.model.change import Append
from tidemill.model.channel import Channel as Declared
from tidemill.model.channel import Role
from tidemill.model.flow import Binding
from tidemill.model.freshness_target import Form, Promise
from tidemill.model.task import Mode, Refresh
from tidemill.model.task import Task as DeclaredTask
from tidemill.model.task import Variant as DeclaredVariant
from tidemill.model.workflow import Workflow
from tidemill.planner.graph import APPLY, Bounds, Channel, Graph, Shape, Take, Task, Variant
from tidemill.planner.graph_index import Layout

MICROSECONDS = 1_000_000
"""In a second: the unit of versions."""

_SHAPES = {
    Form.BASE: (Shape.BASE,),
    Form.DELTA: (Shape.STRONG, Shape.MONOTONE),
    Form.MONOTONE: (Shape.MONOTONE,),
}

Usable = Callable[[Binding, DeclaredTask, DeclaredVariant], bool]
"""May a variant run now?"""


@dataclass(frozen=True, slots=True)
class Place:
    """Which task of which bound flow one of the planner's tasks is."""

    binding: Binding
    task: DeclaredTask


def places_of(workflow: Workflow) -> dict[str, Place]:
    """The workflow's tasks under the planner's names, in an order in which they can run."""
    found = {_name(b, t): Place(b, t) for b in workflow.bindings for t in b.tasks}
    channels = {w.port: name for name, place in found.items() for w in place.task.writes}
    ordered: dict[str, Place] = {}

    def visit(name: str) -> None:
        if name not in ordered:
            own = {w.port for w in found[name].task.writes}
            for read in found[name].task.reads:
                if read.port in channels and read.port not in own:
                    visit(channels[read.port])
            ordered[name] = found[name]

    for name in found:
        visit(name)
    return ordered


def _name(binding: Binding, task: DeclaredTask) -> str:
    return task.name if len(binding.tasks) == 1 else f"{binding.name}.{task.name}"


def graph_of(workflow: Workflow, usable: Usable = lambda _b, _t, _v: True) -> Graph:
    """The workflow with what is promised of it."""
    kept = {c.name: c for c in workflow.channels if c.role is not Role.STATE}
    tasks = tuple(_task(name, place, kept, usable) for name, place in places_of(workflow).items())
    plain = Graph(tuple(Channel(name, conversions=(APPLY,)) for name in kept), tasks)
    pathways = Layout(plain).pathways
    return Graph(tuple(bound(c, kept[c.name].promise, pathways[c.name]) for c in plain.channels), tasks)


def bound(channel: Channel, promise: Promise, pathways: tuple[tuple[str, ...], ...], lead: float = 0.0) -> Channel:
    """A channel with its promise; `lead` seconds before one would be broken, or half its time, it counts as broken."""
    if not promise:
        return channel
    lags = {p: promise.lag_of(p) for p in pathways}
    staleness = {p: int((lag - min(lag / 2, lead)) * MICROSECONDS) for p, lag in lags.items() if lag is not None}
    apart = None if promise.consistency is None else int(promise.consistency * MICROSECONDS)
    accepts = frozenset(s for form in promise.accepts or (Form.BASE, Form.DELTA) for s in _SHAPES[form])
    return replace(channel, bounds=Bounds(staleness, apart), accepts=accepts)


def _task(name: str, place: Place, kept: Mapping[str, Declared], usable: Usable) -> Task:
    task = place.task
    reads = tuple(dict.fromkeys(r.port for r in task.reads if r.port in kept and r.port not in task.states))
    writes = tuple(dict.fromkeys(w.port for w in task.writes if w.port in kept))
    ways = (v for v in task.variants if _is_whole(v) and usable(place.binding, task, v))
    return Task(name, reads, writes, tuple(_variant(task, v, reads, writes, kept) for v in ways))


def _is_whole(variant: DeclaredVariant) -> bool:
    """Is it a way of its own, and not one that takes in part of what another could?"""
    return not variant.name.startswith(f"{Way.INCREMENTAL}:")


def _variant(
    task: DeclaredTask,
    variant: DeclaredVariant,
    reads: tuple[str, ...],
    writes: tuple[str, ...],
    kept: Mapping[str, Declared],
) -> Variant:
    new = {r.port for r in variant.reads if r.mode is Mode.NEW}
    takes = tuple(Take(Shape.STRONG if c in new else Shape.BASE) for c in reads)
    moving = any(take.shape is Shape.STRONG for take in takes)
    kinds = {w.port: w.kind for w in variant.writes}
    delta = Shape.MONOTONE if _only_adds(task) else Shape.STRONG
    makes = tuple(Shape.BASE if kinds[c] is Kind.BASE or not moving else _encoded(delta, task, kept[c]) for c in writes)
    return Variant(variant.name, takes, makes)


def _only_adds(task: DeclaredTask) -> bool:
    code = task.variant.code
    return isinstance(code, Refresh) and isinstance(code.query, Query) and grows(code.query.root)


def _encoded(delta: Shape, task: DeclaredTask, channel: Declared) -> Shape:
    """What a programmed task appends it never takes back."""
    return Shape.MONOTONE if task.refresh is None and isinstance(channel.updates, Append) else delta
