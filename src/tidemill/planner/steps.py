"""What a plan is made of, and what the planner asks of whoever knows what things cost.

What a search makes dozens of is a named tuple: a frozen dataclass takes several times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import NamedTuple, Protocol

from tidemill.planner.graph import BlockNode, DataSize


class CostEstimate(NamedTuple):
    """What a step would cost, and how large what it makes would be, for each channel that it writes."""

    cost: float
    sizes: tuple[DataSize, ...]


class CostFunction(Protocol):
    """What a variant of a task costs on some blocks; for a conversion, `task` is the channel."""

    def __call__(self, task: str, variant: str, reads: Sequence[BlockNode], /) -> CostEstimate: ...


class PlanStep(NamedTuple):
    """One execution of a variant, or of a conversion on a channel."""

    task: str
    variant: str
    reads: tuple[BlockNode, ...]  # in the order of the task's channels, an old base before its delta
    makes: tuple[BlockNode, ...]
    cost: float


class RejectionReason(StrEnum):
    """Why a block of an output is not the one that was chosen."""

    DEAR = "it costs more"
    UNACCEPTED = "nobody accepts this kind of block"
    ILLEGAL = "the delta does not start where the consumer is"
    STALE = "the output would still be too stale"
    INCONSISTENT = "the output would be too inconsistent"
    BACKWARDS = "the output would not go forward"
    OUTDONE = "a later block can be made"


class RejectedBlock(NamedTuple):
    """An output block that was weighed and not chosen; it has a cost if it came so far."""

    task: str
    variant: str
    block: BlockNode
    reason: RejectionReason
    cost: float | None = None


@dataclass(frozen=True)
class Plan:
    """Steps in an order in which they can run, and the block of the goal that is handed over after the last."""

    goal: str
    steps: tuple[PlanStep, ...]
    delivers: BlockNode | None  # None: the steps only prepare (baselines plan one step at a time)
    cost: float

    @cached_property
    def reads(self) -> tuple[BlockNode, ...]:
        """What must exist before the first step."""
        made = {b for step in self.steps for b in step.makes}
        return tuple(dict.fromkeys(b for step in self.steps for b in step.reads if b not in made))


@dataclass(frozen=True, slots=True)
class PlanResult:
    """What planning came to. No plan: nothing that can be made now would keep every promise."""

    plan: Plan | None
    rejected: tuple[RejectedBlock, ...]
    fallbacks: int  # how many rules had to be dropped
    generated: int  # blocks that were weighed
    pruned: Mapping[str, int]  # by rule, how many of them it left out
