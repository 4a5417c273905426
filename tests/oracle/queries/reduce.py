"""Reduces a failing case; Hypothesis would have to run complete examples for that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.queries.case import Case
from tests.oracle.queries.histories import Insert, contents

Fails = Callable[[Case], bool]
ATTEMPTS = 40


def reduce_case(case: Case, fails: Fails, attempts: int = ATTEMPTS) -> Case:
    """Remove steps, inserts and rows, one by one, while the case still fails and attempts remain."""
    tries = iter(range(attempts))
    while smaller := next((c for _, c in zip(tries, _list_valid_reductions(case), strict=False) if fails(c)), None):
        case = smaller
    return case


def _list_valid_reductions(case: Case) -> Iterator[Case]:
    return filter(_is_valid, _list_reductions(case))


def _list_reductions(case: Case) -> Iterator[Case]:
    """The same case without one of its parts, the largest parts first."""
    steps = [list(step) for step in case.history]
    for i in range(len(steps)):
        yield replace(case, history=steps[:i] + steps[i + 1 :])
    for i, step in enumerate(steps):
        for j, insert in enumerate(step):
            for fewer in _reduce_insert(insert):
                changed = step[:j] + fewer + step[j + 1 :]
                yield replace(case, history=[*steps[:i], changed, *steps[i + 1 :]])


def _reduce_insert(insert: Insert) -> Iterator[list[Insert]]:
    yield []
    for j in range(len(insert.rows)):
        yield [replace(insert, rows=insert.rows[:j] + insert.rows[j + 1 :])]


def _is_valid(case: Case) -> bool:
    """Whether every deletion still has its row."""
    try:
        return len(list(contents(case.inputs, case.history))) > 0
    except ValueError:
        return False
