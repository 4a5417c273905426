"""Cost of planning: a single call as workflows and histories grow.

Workflows grow in two shapes: a *line*, in which every channel is derived from the one before, and a *tree* of joins, in
which half of the channels are inputs and the output has as many pathways. In both, data have arrived on one input.

A call is timed twice: with cold caches, as in a server, and *warm*, right after the same call. The data of a small call
fit into the processor's caches, so that the warm figures of small and large calls cannot be compared: large calls read
most data from memory in both cases.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

import tidemill as tm
from benchmarks.workflows.inventory import LastingInventory
from tidemill.model.task import Task
from tidemill.model.time import Timeline
from tidemill.planner.block_inventory import BlockInventory
from tidemill.planner.graph import (
    APPLY,
    BlockNode,
    BlockShape,
    ChannelBounds,
    ChannelNode,
    DataSize,
    PlanningGraph,
    PortRequirement,
    TaskNode,
    VariantNode,
)
from tidemill.planner.graph_index import GraphIndex
from tidemill.planner.planner import DynamicProgrammingPlanner
from tidemill.planner.refresh_mode import ChannelReading, StateStatus, TableState
from tidemill.planner.steps import CostEstimate, PlanResult
from tidemill.planner.table_decision import decide_table
from tidemill.planner.vector import Vector

CHANNELS = (10, 30, 100, 300, 1000)
BLOCKS = (1, 10, 100, 1000)
CACHES = 48 * 1024 * 1024
"""Bytes to write to replace the content of the processor's caches."""
TABLE_INPUTS = 8
"""Inputs of the widest join of a single table."""
ACCEPTED = frozenset([BlockShape.BASE, BlockShape.STRONG])

BASE, DELTA = PortRequirement(BlockShape.BASE), PortRequirement(BlockShape.STRONG)
WITH_OLD = PortRequirement(BlockShape.STRONG, needs_old_base=True)
MAP = (VariantNode("batch", (BASE,), (BlockShape.BASE,)), VariantNode("new", (DELTA,), (BlockShape.STRONG,)))
JOIN = (
    VariantNode("batch", (BASE, BASE), (BlockShape.BASE,)),
    VariantNode("both", (WITH_OLD, WITH_OLD), (BlockShape.STRONG,)),
    VariantNode("left", (DELTA, BASE), (BlockShape.STRONG,)),
    VariantNode("right", (BASE, DELTA), (BlockShape.STRONG,)),
)


def measure(*, rounds: int, on_progress: Callable[[str], None]) -> dict[str, Any]:
    """Blocks that a call considers and its CPU milliseconds; microseconds to add an arrival. Medians of rounds.

    For a table without a target, the milliseconds of the whole decision, with the graph that it is planned on.
    """
    by_channels, by_blocks = [], []
    on_progress("calls on lines and trees of channels")
    for n in CHANNELS:
        shapes = {"line": build_line(n), "tree": build_tree(n)}
        figures = {
            f"{shape}_{k}": v for shape, inventory in shapes.items() for k, v in _time_call(inventory, rounds).items()
        }
        by_channels.append({"channels": n, **figures})
    on_progress("calls after many arrivals")
    for n in BLOCKS:
        by_blocks.append({"arrivals": n, **_time_call(build_line(10, n), rounds), "add_us": _time_additions(n, rounds)})
    on_progress("decisions for single tables")
    by_table = [{"table": name, "ms": _time_decision(*table, rounds)} for name, table in build_tables().items()]
    return {"by_channels": by_channels, "by_blocks": by_blocks, "by_table": by_table}


def build_tables() -> dict[str, tuple[Task, TableState]]:
    """Declared tables without a target, each with a small change of a large content."""
    wf = tm.Workflow("tables")
    inputs = [f"i{n}" for n in range(TABLE_INPUTS)]
    for name in inputs:
        wf.input(name, "k bigint, v bigint", key="k")
    wf.sql("filter", "SELECT k, v FROM i0 WHERE v > 0")
    wf.sql("group", "SELECT v, count(*) AS n FROM i0 GROUP BY v")
    wf.sql("join", "SELECT a.k, b.v FROM i0 a JOIN i1 b ON a.k = b.k")
    joins = " ".join(f"JOIN {name} ON i0.k = {name}.k" for name in inputs[1:])
    wf.sql("wide_join", f"SELECT i0.k, i0.v FROM i0 {joins}")
    return {task.name: (task, _build_table_state(task)) for task in wf.build_spec().list_tasks()}


def _build_table_state(task: Task) -> TableState:
    channels = dict.fromkeys(r.port for r in task.reads)
    readings = tuple(ChannelReading(c, 1_000_000, 1_000, 100_000_000, 100_000) for c in channels)
    return TableState(readings, StateStatus.KEPT if len(task.writes) > 1 else StateStatus.NONE)


def _time_decision(task: Task, table: TableState, rounds: int) -> float:
    """Milliseconds to decide how to refresh a table now."""
    seconds = [_time_action(lambda: decide_table(task, table, {}), with_cold_caches=True) for _ in range(rounds)]
    return round(1000 * median(seconds), 2)


def build_line(channels: int, arrivals: int = 1) -> BlockInventory:
    """A line in which all content is at version 1, and deltas have arrived since."""
    names = [f"c{i}" for i in range(channels)]
    tasks = tuple(TaskNode(f"to {b}", (a,), (b,), MAP) for a, b in pairwise(names))
    return _build_inventory(names, tasks, arrivals)


def build_tree(channels: int) -> BlockInventory:
    """A tree of joins; half of the channels are inputs."""
    leaves = [f"i{i}" for i in range((channels + 1) // 2)]
    names, level = list(leaves), leaves
    tasks: list[TaskNode] = []
    while len(level) > 1:
        joined = [f"{a}+{len(tasks) + k}" for k, a in enumerate(level[0:-1:2])]
        tasks += [
            TaskNode(f"to {j}", (a, b), (j,), JOIN) for j, a, b in zip(joined, level[::2], level[1::2], strict=False)
        ]
        names += joined
        level = joined + level[len(level) - len(level) % 2 :]
    return _build_inventory(names, tuple(tasks), 1)


def _build_inventory(names: list[str], tasks: tuple[TaskNode, ...], arrivals: int) -> BlockInventory:
    """An inventory in which version 1 is processed, and the first channel has a number of later deltas."""
    first, output = names[0], names[-1]
    pathways = GraphIndex(PlanningGraph(tuple(map(ChannelNode, names)), tasks)).pathways
    fresh = ChannelBounds(dict.fromkeys(pathways[output], 0))
    channels = [ChannelNode(name, conversions=(APPLY,)) for name in names[:-1]]
    index = GraphIndex(PlanningGraph((*channels, ChannelNode(output, fresh, ACCEPTED)), tasks))
    inventory = LastingInventory(index)
    for name in names:
        inventory.add_block(BlockNode(name, BlockShape.BASE, None, ((1,),) * len(pathways[name]), DataSize(1e6, 1e8)))
    inventory.deliver_block(BlockNode(output, BlockShape.BASE, None, ((1,),) * len(pathways[output])))
    for block in _create_deltas(first, arrivals):
        inventory.add_block(block)
    return inventory


def _create_deltas(channel: str, count: int) -> list[BlockNode]:
    """One change split into blocks; the total size is constant, so that the planner considers the same plans."""

    def to_vector(version: int) -> Vector:
        return ((version,),)

    return [
        BlockNode(channel, BlockShape.STRONG, to_vector(v), to_vector(v + 1), DataSize(1e3 / count, 1e5 / count))
        for v in range(1, count + 1)
    ]


def _estimate_cost(_task: str, _variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    bytes_read = sum(b.size.bytes for b in reads)
    return CostEstimate(1.0 + bytes_read, (DataSize(bytes_read / 100, bytes_read),))


def _time_call(inventory: BlockInventory, rounds: int) -> dict[str, float]:
    """The number of blocks considered, and milliseconds to plan for the last channel.

    The first call, which also reads the workflow, does not count.
    """
    output = inventory.index.graph.outputs[0]
    newest = max(b.target[0][0] for c in inventory.index.channels for b in inventory.list_blocks(c))
    inputs = {p[0] for p in inventory.index.pathways[output]}
    arrived = next(iter(inventory.index.channels))
    versions = {name: list(range(1, newest + 1)) if name == arrived else [1] for name in inputs}
    planner = DynamicProgrammingPlanner(inventory.index, _estimate_cost)

    def plan() -> PlanResult:
        return planner.find_plan(inventory, output, Timeline(versions, newest + 1))

    result = plan()
    if result.plan is None:
        raise AssertionError("expected a plan, found none")
    warm = median(_time_action(plan) for _ in range(rounds))
    cold = median(_time_action(plan, with_cold_caches=True) for _ in range(rounds))
    return {"blocks": result.generated, "ms": round(1000 * cold, 2), "warm_ms": round(1000 * warm, 2)}


def _time_additions(blocks: int, rounds: int) -> float:
    """Microseconds to add an arriving delta."""

    def add() -> None:
        for block in deltas:
            inventory.add_block(block)

    seconds = []
    for _ in range(rounds):
        inventory, deltas = build_line(10, 0), _create_deltas("c0", blocks)
        seconds.append(_time_action(add))
    return round(1e6 * median(seconds) / blocks, 1)


def _time_action(action: Callable[[], object], *, with_cold_caches: bool = False) -> float:
    if with_cold_caches:
        b"x" * CACHES
    began = time.process_time()
    action()
    return time.process_time() - began
