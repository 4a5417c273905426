"""A smaller case that goes wrong in the same way: Hypothesis would have to run whole examples to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.oracle.queries.case import Case
from tests.oracle.queries.histories import Insert, contents

Fails = Callable[[Case], bool]
ATTEMPTS = 40


def reduced(case: Case, fails: Fails, attempts: int = ATTEMPTS) -> Case:
    """Leave out steps, inserts and rows, one after another, as long as the case still fails and tries are left."""
    tries = iter(range(attempts))
    while smaller := next((c for _, c in zip(tries, _possible(case), strict=False) if fails(c)), None):
        case = smaller
    return case


def _possible(case: Case) -> Iterator[Case]:
    return filter(_legal, _smaller(case))


def _smaller(case: Case) -> Iterator[Case]:
    """The same case with one thing less, the largest things first."""
    steps = [list(step) for step in case.history]
    for at in range(len(steps)):
        yield replace(case, history=steps[:at] + steps[at + 1 :])
    for at, step in enumerate(steps):
        for place, insert in enumerate(step):
            for fewer in _fewer(insert):
                changed = step[:place] + fewer + step[place + 1 :]
                yield replace(case, history=[*steps[:at], changed, *steps[at + 1 :]])


def _fewer(insert: Insert) -> Iterator[list[Insert]]:
    yield []
    for place in range(len(insert.rows)):
        yield [replace(insert, rows=insert.rows[:place] + insert.rows[place + 1 :])]


def _legal(case: Case) -> bool:
    """Does every deletion still find its row?"""
    try:
        return len(list(contents(case.inputs, case.history))) > 0
    except ValueError:
        return False
