"""The parts of a plan, and the planner's interface to cost models.

Types that a search creates by the dozen are named tuples: a frozen dataclass takes several times as long to create.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from tidemill.planner.graph import BlockNode, DataSize


class CostEstimate(NamedTuple):
    """The estimated cost of a step, and the size of its output on each channel that it writes."""

    cost: float
    sizes: tuple[DataSize, ...]


CostFunction = Callable[[str, str, Sequence[BlockNode]], CostEstimate]
"""Estimates the cost of a task's variant on some blocks; for a conversion, the task is the channel."""


class PlanStep(NamedTuple):
    """One execution of a variant, or of a conversion on a channel."""

    task: str
    variant: str
    reads: tuple[BlockNode, ...]  # in the order of the task's channels, an old base before its delta
    writes: tuple[BlockNode, ...]
    cost: float


class RejectionReason(StrEnum):
    """Why a block of an output was not chosen."""

    COSTLIER = "it costs more"
    UNACCEPTED = "no reader accepts this kind of block"
    ILLEGAL = "the delta does not start where the consumer is"
    STALE = "the output would still be too stale"
    INCONSISTENT = "the output would be too inconsistent"
    NO_PROGRESS = "the output would not advance"
    OUTDONE = "a later block can be written"


class RejectedBlock(NamedTuple):
    """An output block that was considered and not chosen; it has a cost if it was evaluated that far."""

    task: str
    variant: str
    block: BlockNode
    reason: RejectionReason
    cost: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in a valid order, and the block of the goal that is delivered after the last."""

    goal: str
    steps: tuple[PlanStep, ...]
    delivers: BlockNode | None  # None: the steps only prepare (baselines plan one step at a time)
    cost: float


@dataclass(frozen=True, slots=True)
class PlanResult:
    """The result of planning. No plan: no blocks that can be written now would meet every freshness target."""

    plan: Plan | None
    rejected: tuple[RejectedBlock, ...]
    fallbacks: int  # number of pruning rules that were dropped
    generated: int  # blocks that were considered
