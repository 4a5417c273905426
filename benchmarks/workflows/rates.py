"""What things cost in simulations: one table for all workflows.

The paper says that its rates come from practice and does not print them. These are round figures for a cluster of
commodity machines: a core reads or writes 100 MB a second, and takes four times as long where rows have to be sorted or
sent to another machine. A step costs ten seconds of a core to start. Whoever makes something of rows reads all that it
is given and writes what it makes; whoever only picks rows, told apart when they were written, reads and writes those.
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
    """What a variant does with each block that it reads."""

    hours: tuple[float, ...]  # for a gigabyte of each
    yields: tuple[tuple[float, ...], ...]  # for each channel that is written, bytes for a byte of each block read


def create_map_work(*yields: float) -> Work:
    """One block, read once; so much is written to each channel."""
    return Work((SCAN,), tuple((y,) for y in yields))


def create_filter_work(share: float) -> Work:
    """This share of the rows of one block, as they are."""
    return Work((share * SCAN,), ((share,),))


def create_shuffle_work(yields: float) -> Work:
    return Work((SHUFFLE,), ((yields,),))


CONVERSIONS: Mapping[str, Work] = {
    ShapeConversion(BlockShape.STRONG, BlockShape.BASE).name: Work((SHUFFLE, SHUFFLE), ((1.0, 1.0),)),
    ShapeConversion(BlockShape.WEAK, BlockShape.BASE).name: Work(
        (SHUFFLE, SHUFFLE), ((1.0, 0.5),)
    ),  # half replaces what was there
    ShapeConversion(BlockShape.WEAK, BlockShape.STRONG).name: Work(
        (SHUFFLE, SHUFFLE), ((0.0, 1.5),)
    ),  # old rows taken back as well
    ShapeConversion(BlockShape.BASE, BlockShape.STRONG).name: Work((SHUFFLE, SHUFFLE), ((0.0, 0.1),)),
}


class Rates:
    """The costs of a workflow's steps, given what its variants do."""

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
