"""Chooses the refresh mode of each declared table of a bound flow, from the state in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from tidemill.algebra.operators import list_scans
from tidemill.algebra.program import DeclaredQuery, RefreshMode
from tidemill.errors import ConfigError
from tidemill.model.block import Block
from tidemill.model.change import Updates
from tidemill.model.flow import BoundFlow
from tidemill.model.run import VOID_IDENTITY
from tidemill.model.task import Refresh, Task
from tidemill.model.view import ConvertedDelta, DeltaChain, SnapshotDiff, list_blocks
from tidemill.planner.cost import CostModel
from tidemill.planner.graph import DataSize
from tidemill.planner.refresh_mode import ChannelReading, RefreshChoice, StateStatus, choose_mode
from tidemill.ports.catalog import CatalogReader
from tidemill.runtime.runs.views import ChannelViews

Costs = Mapping[tuple[str, str], CostModel]
"""Cost models fitted from past runs of a flow, by task and variant."""


def choose_variants(
    catalog: CatalogReader, binding: BoundFlow, updates: Mapping[str, Updates], *, variant: str | None = None
) -> tuple[BoundFlow, dict[str, RefreshChoice]]:
    """Return the binding with one variant for each task, and the reasons for each declared table."""
    costs = read_cost_models(catalog, binding.name) if any(t.refresh is not None for t in binding.tasks) else {}
    choices: dict[str, RefreshChoice] = {}
    tasks: list[Task] = []
    rewritten: set[str] = set()
    for task in binding.tasks:
        if task.refresh is None:
            tasks.append(task)
            continue
        choice = compare_modes(catalog, binding.name, task, updates, costs, rewritten=rewritten, variant=variant)
        choices[task.name] = choice
        tasks.append(task.select_variant(choice.mode) if len(task.variants) > 1 else task)
        if choice.mode in (RefreshMode.BATCH, RefreshMode.RECOMPUTE):
            rewritten |= {w.port for w in tasks[-1].writes}
    return replace(binding, tasks=tuple(tasks)), choices


def compare_modes(
    catalog: CatalogReader,
    flow: str,
    task: Task,
    updates: Mapping[str, Updates],
    costs: Costs,
    *,
    rewritten: set[str] | None = None,
    variant: str | None = None,
) -> RefreshChoice:
    """Compare the refresh modes of a declared table now; `rewritten` are channels that the same run rewrites before."""
    names = [v.name for v in task.variants]
    if variant is not None and variant not in names:
        reason = f" ({task.batch_reason})" if task.batch_reason else ""
        raise ConfigError(
            f"table {task.name!r} has no variant {variant!r}{reason}; its variants are {', '.join(names)}"
        )
    code, views = task.variant.code, ChannelViews(catalog, updates)
    readings, states = list[ChannelReading](), list[str]()
    if isinstance(code, Refresh):
        cursors = {
            c.channel: c.position.seq for c in catalog.read_cursors() if (c.binding, c.task) == (flow, task.name)
        }
        readings = list(_build_readings(views, code.query, cursors, rewritten or set()))
        states = [s.channel for s in code.query.build_states().values()]
    choice = choose_mode(
        readings,
        {variant: model for (name, variant), model in costs.items() if name == task.name},
        declared=variant or task.refresh or "auto",
        only_batch=task.batch_reason,
        state=_find_state(views, states),
    )
    if variant is not None and choice.mode != variant:
        raise ConfigError(f"table {task.name!r} cannot be refreshed by variant {variant!r} now: {choice.reason}")
    return choice if variant is None else replace(choice, reason=f"variant {variant!r} was requested")


def _build_readings(
    views: ChannelViews, query: DeclaredQuery, cursors: Mapping[str, int], rewritten: set[str]
) -> Iterator[ChannelReading]:
    growing = {s.channel for s in list_scans(query.root) if s.append_only}
    for channel in query.channels:
        registered = views.get_channel(channel)
        if registered.channel.schema is None or channel not in cursors:
            yield ChannelReading(
                channel, registered.rows, registered.rows, registered.bytes, registered.bytes, consumed=False
            )
            continue
        content = compute_size(list_blocks(views.build_snapshot(channel, registered.head.seq)))
        view = views.build_change(channel, cursors[channel], registered.head.seq)
        change = content if isinstance(view, SnapshotDiff) else compute_size(list_deltas(view))
        replaced = isinstance(view, SnapshotDiff) or channel in rewritten
        rows, size = (int(content.rows), int(change.rows)), (int(content.bytes), int(change.bytes))
        yield ChannelReading(channel, *rows, *size, replaced=replaced, append_only=channel in growing)


def _find_state(views: ChannelViews, channels: list[str]) -> StateStatus:
    if not channels:
        return StateStatus.NONE
    registered = [(name, views.get_channel(name)) for name in channels]
    if any(record.channel.schema is None and record.head.seq for _, record in registered):
        return StateStatus.DROPPED  # by the first refresh: its columns were never known
    bases = [
        views.build_snapshot(name, record.head.seq).base
        for name, record in registered
        if record.channel.schema is not None
    ]
    return (
        StateStatus.DROPPED if any(b is not None and b.identity == VOID_IDENTITY for b in bases) else StateStatus.KEPT
    )


def list_deltas(view: DeltaChain | ConvertedDelta) -> Sequence[Block]:
    return (view.chain if isinstance(view, ConvertedDelta) else view).deltas


def compute_size(blocks: Iterable[Block]) -> DataSize:
    block_list = list(blocks)
    return DataSize(sum(b.rows for b in block_list), sum(b.bytes for b in block_list))


def read_cost_models(catalog: CatalogReader, flow: str) -> Costs:
    return {key: CostModel.from_json(data) for key, data in catalog.read_costs(flow).items()}
