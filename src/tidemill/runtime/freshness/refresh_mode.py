"""Choosing how each declared table of a bound flow is refreshed, from what the catalog knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidemill.algebra.operators import scans
from tidemill.algebra.program import Query, Way
from tidemill.errors import ConfigError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import Binding
from tidemill.model.run import VOID
from tidemill.model.task import Refresh, Task
from tidemill.model.view import Chain, Converted, Difference, blocks_of
from tidemill.planner.cost import Learnt
from tidemill.planner.graph import Size
from tidemill.planner.refresh_mode import Choice, Reading, State, choose
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.runs.views import Views

Costs = Mapping[tuple[str, str], Learnt]
"""What runs of a flow have taught, by task and variant."""


def chosen(
    catalog: CatalogReader, binding: Binding, updates: Mapping[str, Updates], *, variant: str | None = None
) -> tuple[Binding, dict[str, Choice]]:
    """The binding with one variant for each task, and why for each declared table."""
    costs = learnt(catalog, binding.name) if any(t.refresh is not None for t in binding.tasks) else {}
    choices: dict[str, Choice] = {}
    tasks: list[Task] = []
    anew: set[str] = set()
    for task in binding.tasks:
        if task.refresh is None:
            tasks.append(task)
            continue
        choice = weigh(catalog, binding.name, task, updates, costs, anew=anew, variant=variant)
        choices[task.name] = choice
        tasks.append(task.choosing(choice.way) if len(task.variants) > 1 else task)
        if choice.way in (Way.BATCH, Way.RECOMPUTE):
            anew |= {w.port for w in tasks[-1].writes}
    return replace(binding, tasks=tuple(tasks)), choices


def weigh(
    catalog: CatalogReader,
    flow: str,
    task: Task,
    updates: Mapping[str, Updates],
    costs: Costs,
    *,
    anew: set[str] | None = None,
    variant: str | None = None,
) -> Choice:
    """The ways to refresh a declared table now; `anew` are channels that the same run writes anew before."""
    names = [v.name for v in task.variants]
    if variant is not None and variant not in names:
        why = f" ({task.batch_because})" if task.batch_because else ""
        raise ConfigError(f"table {task.name!r} has no variant {variant!r}{why}; its variants are {', '.join(names)}")
    code, views = task.variant.code, Views(catalog, updates)
    readings, states = list[Reading](), list[str]()
    if isinstance(code, Refresh):
        cursors = {c.channel: c.position.seq for c in catalog.cursors() if (c.binding, c.task) == (flow, task.name)}
        readings = list(_readings(views, code.query, cursors, anew or set()))
        states = [s.channel for s in code.query.states().values()]
    choice = choose(
        readings,
        {variant: known for (name, variant), known in costs.items() if name == task.name},
        wanted=variant or task.refresh or "auto",
        only_batch=task.batch_because,
        state=_state(views, states),
    )
    if variant is not None and choice.way != variant:
        raise ConfigError(f"table {task.name!r} cannot be refreshed by variant {variant!r} now: {choice.why}")
    return choice if variant is None else replace(choice, why=f"variant {variant!r} was asked for")


def _readings(views: Views, query: Query, cursors: Mapping[str, int], anew: set[str]) -> Iterator[Reading]:
    growing = {s.channel for s in scans(query.root) if s.append}
    for channel in query.channels:
        known = views.channel(channel)
        if known.channel.schema is None or channel not in cursors:
            yield Reading(channel, known.rows, known.rows, known.bytes, known.bytes, consumed=False)
            continue
        content = size_of(blocks_of(views.snapshot(channel, known.head.seq)))
        view = views.change(channel, cursors[channel], known.head.seq)
        change = content if isinstance(view, Difference) else size_of(deltas_of(view))
        replaced = isinstance(view, Difference) or channel in anew
        rows, size = (int(content.rows), int(change.rows)), (int(content.bytes), int(change.bytes))
        yield Reading(channel, *rows, *size, replaced=replaced, grows=channel in growing)


def _state(views: Views, channels: list[str]) -> State:
    if not channels:
        return State.NONE
    known = [(name, views.channel(name)) for name in channels]
    if any(found.channel.schema is None and found.head.seq for _, found in known):
        return State.DROPPED  # by the very first refresh: its columns were never known
    bases = [views.snapshot(name, found.head.seq).base for name, found in known if found.channel.schema is not None]
    return State.DROPPED if any(b is not None and b.identity == VOID for b in bases) else State.KEPT


def deltas_of(view: Chain | Converted) -> Sequence[Block]:
    return (view.chain if isinstance(view, Converted) else view).deltas


def size_of(blocks: Iterable[Block]) -> Size:
    found = list(blocks)
    return Size(sum(b.rows for b in found), sum(b.bytes for b in found))


def learnt(catalog: CatalogReader, flow: str) -> Costs:
    return {key: Learnt.from_json(data) for key, data in catalog.costs(flow).items()}
