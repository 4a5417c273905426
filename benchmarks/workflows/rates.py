"""Cost rates of the simulations: one table for all workflows.

The paper's rates come from practice and are not published. These are round figures for a cluster of commodity machines:
a core reads or writes 100 MB per second, and takes four times as long for rows that are sorted or sent to another
machine. A step costs ten core seconds to start. A task that transforms rows reads all its input and writes its output;
a task that only selects rows, which are stored separately, reads and writes those rows alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import mul

from tidemill.planner.graph import BlockNode, BlockShape, DataSize, PlanningGraph, ShapeConversion
from tidemill.planner.steps import CostEstimate

GIGABYTE = 1e9
ROW = 100.0  # bytes
START = 10 / 3600  # CPU hours
SCAN = 10 / 3600  # CPU hours for a gigabyte
WRITE = SCAN
SHUFFLE = 4 * SCAN


@dataclass(frozen=True, slots=True)
class Work:
    """Work of a variant for each block that it reads."""

    hours: tuple[float, ...]  # per gigabyte of each
    yields: tuple[tuple[float, ...], ...]  # for each written channel, bytes per byte of each block read


def create_map_work(*yields: float) -> Work:
    """Work of a task that reads one block once and writes a share of it to each channel."""
    return Work((SCAN,), tuple((y,) for y in yields))


def create_filter_work(share: float) -> Work:
    """Work of a task that selects a share of the rows of one block."""
    return Work((share * SCAN,), ((share,),))


def create_shuffle_work(yields: float) -> Work:
    return Work((SHUFFLE,), ((yields,),))


CONVERSIONS: Mapping[str, Work] = {
    ShapeConversion(BlockShape.STRONG, BlockShape.BASE).name: Work((SHUFFLE, SHUFFLE), ((1.0, 1.0),)),
    ShapeConversion(BlockShape.WEAK, BlockShape.BASE).name: Work(
        (SHUFFLE, SHUFFLE), ((1.0, 0.5),)
    ),  # half of the rows replace existing ones
    ShapeConversion(BlockShape.WEAK, BlockShape.STRONG).name: Work(
        (SHUFFLE, SHUFFLE), ((0.0, 1.5),)
    ),  # old rows are deleted as well
    ShapeConversion(BlockShape.BASE, BlockShape.STRONG).name: Work((SHUFFLE, SHUFFLE), ((0.0, 0.1),)),
}


class Rates:
    """Cost estimates of a workflow's steps, from the work of its variants."""

    def __init__(self, graph: PlanningGraph, work: Mapping[tuple[str, str], Work]) -> None:
        tasks = {(t.name, v.name): work[t.name, v.name] for t in graph.tasks for v in t.variants}
        conversions = {(c.name, k.name): CONVERSIONS[k.name] for c in graph.channels for k in c.conversions}
        self._work = tasks | conversions

    def __call__(self, task: str, variant: str, reads: Sequence[BlockNode]) -> CostEstimate:
        work = self._work[task, variant]
        read = [block.size.bytes for block in reads]
        written = [sum(map(mul, yields, read)) for yields in work.yields]
        hours = sum(map(mul, work.hours, read)) + WRITE * sum(written)
        return CostEstimate(START + hours / GIGABYTE, tuple([to_size(size) for size in written]))


def to_size(amount: float) -> DataSize:
    return DataSize(amount / ROW, amount)
