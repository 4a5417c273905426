"""What planning itself costs: a single call as workflows and histories grow.

Two ways for a workflow to grow: a *line*, in which every channel is made of the one before, and a *tree* of joins, in
which half of the channels are inputs and the output has as many pathways. In both, something has arrived on one input.

A call is timed twice: as it comes in a server, after something else, and *warm*, right after the same call. What a
small call looks at fits into the processor's caches, so that the warm figures of small and large ones cannot be
compared: of the large ones, most comes from memory either way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median
from typing import Any

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
from tidemill.planner.steps import CostEstimate, PlanResult
from tidemill.planner.vector import Vector

CHANNELS = (10, 30, 100, 300, 1000)
BLOCKS = (1, 10, 100, 1000)
CACHES = 48 * 1024 * 1024
"""Bytes to write so that nothing is left in the processor's caches of what was there."""
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


def measure(*, rounds: int, tell: Callable[[str], None]) -> dict[str, Any]:
    """Blocks that a call weighs and its milliseconds of CPU; microseconds to take in an arrival. Medians of rounds."""
    by_channels, by_blocks = [], []
    tell("calls on lines and trees of channels")
    for n in CHANNELS:
        shapes = {"line": line(n), "tree": tree(n)}
        called = {f"{shape}_{k}": v for shape, stock in shapes.items() for k, v in _call(stock, rounds).items()}
        by_channels.append({"channels": n, **called})
    tell("calls after many arrivals")
    for n in BLOCKS:
        by_blocks.append({"arrivals": n, **_call(line(10, n), rounds), "add_us": _added(n, rounds)})
    return {"by_channels": by_channels, "by_blocks": by_blocks}


def line(channels: int, arrivals: int = 1) -> BlockInventory:
    """A line in which all content is at 1, and deltas have arrived since."""
    names = [f"c{i}" for i in range(channels)]
    tasks = tuple(TaskNode(f"to {b}", (a,), (b,), MAP) for a, b in pairwise(names))
    return _after(names, tasks, arrivals)


def tree(channels: int) -> BlockInventory:
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
    return _after(names, tuple(tasks), 1)


def _after(names: list[str], tasks: tuple[TaskNode, ...], arrivals: int) -> BlockInventory:
    """Everything has been processed at 1, and the first channel got so many deltas since."""
    first, output = names[0], names[-1]
    pathways = GraphIndex(PlanningGraph(tuple(map(ChannelNode, names)), tasks)).pathways
    fresh = ChannelBounds(dict.fromkeys(pathways[output], 0))
    channels = [ChannelNode(name, conversions=(APPLY,)) for name in names[:-1]]
    layout = GraphIndex(PlanningGraph((*channels, ChannelNode(output, fresh, ACCEPTED)), tasks))
    stock = BlockInventory(layout)
    for name in names:
        stock.add_block(BlockNode(name, BlockShape.BASE, None, ((1,),) * len(pathways[name]), DataSize(1e6, 1e8)))
    stock.deliver_block(BlockNode(output, BlockShape.BASE, None, ((1,),) * len(pathways[output])))
    for block in _deltas(first, arrivals):
        stock.add_block(block)
    return stock


def _deltas(channel: str, count: int) -> list[BlockNode]:
    """One change in so many blocks: as large in all, so that what is worth weighing is the same."""

    def at(version: int) -> Vector:
        return ((version,),)

    return [
        BlockNode(channel, BlockShape.STRONG, at(v), at(v + 1), DataSize(1e3 / count, 1e5 / count))
        for v in range(1, count + 1)
    ]


def _costs(_task: str, _variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
    read = sum(b.size.bytes for b in reads)
    return CostEstimate(1.0 + read, (DataSize(read / 100, read),))


def _call(stock: BlockInventory, rounds: int) -> dict[str, float]:
    """Blocks weighed, and milliseconds to plan for the last channel.

    The first call, which also looks at the workflow, does not count.
    """
    output = stock.index.graph.outputs[0]
    newest = max(b.target[0][0] for c in stock.index.channels for b in stock.list_blocks(c))
    inputs = {p[0] for p in stock.index.pathways[output]}
    arrived = next(iter(stock.index.channels))
    versions = {name: list(range(1, newest + 1)) if name == arrived else [1] for name in inputs}
    planner = DynamicProgrammingPlanner(stock.index, _costs)

    def plan() -> PlanResult:
        return planner.find_plan(stock, output, Timeline(versions, newest + 1))

    answer = plan()
    if answer.plan is None:
        raise AssertionError("there is a plan, and it was not found")
    warm = median(_seconds(plan) for _ in range(rounds))
    called = median(_seconds(plan, after_something_else=True) for _ in range(rounds))
    return {"blocks": answer.generated, "ms": round(1000 * called, 2), "warm_ms": round(1000 * warm, 2)}


def _added(blocks: int, rounds: int) -> float:
    """Microseconds to take in a delta that arrives."""

    def add() -> None:
        for block in deltas:
            stock.add_block(block)

    taken = []
    for _ in range(rounds):
        stock, deltas = line(10, 0), _deltas("c0", blocks)
        taken.append(_seconds(add))
    return round(1e6 * median(taken) / blocks, 1)


def _seconds(action: Callable[[], object], *, after_something_else: bool = False) -> float:
    if after_something_else:
        b"x" * CACHES
    began = time.process_time()
    action()
    return time.process_time() - began
