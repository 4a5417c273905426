"""Goals: limits of figures, declared before anything is measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure that must not exceed a limit."""

    figure: str
    limit: float
    claim: str


def judge_goals(goals: Sequence[Goal], figures: Mapping[str, float]) -> dict[str, Any]:
    """Each goal with the measured figure and whether it holds; all together, they hold if each does.

    >>> judge_goals([Goal("start_s", 3.0, "a start takes at most 3 s")], {"start_s": 2.5})["holds"]
    True
    """
    verdicts = [_judge_goal(goal, figures[goal.figure]) for goal in goals]
    return {"goals": verdicts, "holds": all(verdict["holds"] for verdict in verdicts)}


def exit_unless_held(document: Mapping[str, Any]) -> None:
    """Exit with 1 if a goal does not hold."""
    if not document["holds"]:
        raise typer.Exit(1)


def _judge_goal(goal: Goal, measured: float) -> dict[str, Any]:
    rule = f"{goal.figure} <= {goal.limit:g}"
    return {"claim": goal.claim, "rule": rule, "measured": measured, "holds": measured <= goal.limit}
