"""Scans of channels become operators over the blocks that a run reads."""

from collections.abc import Callable
from dataclasses import dataclass

from tidemill.algebra.operators import BlockScan, Operator
from tidemill.algebra.program import Program

LocalTest = Callable[[BlockScan], bool]
"""Whether the rows of a scan are local: the driver reads them without Spark."""


@dataclass(frozen=True, slots=True)
class RunContext:
    """The facts about a run that its program is rewritten for."""

    expand_operator: Callable[[Operator], Operator]  # replaces the scans of channels by those of blocks
    is_local: LocalTest


def expand_scans(program: Program, run: RunContext) -> Program:
    """The program over blocks instead of channels."""
    return program.map_operators(run.expand_operator)
