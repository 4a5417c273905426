"""For users' own tests: do the functions of a custom merge obey the laws?"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from tidemill.algebra.reference import chain, diff, merge, same
from tidemill.model.change import Rows, Updates


def check_laws(updates: Updates, base: Rows, deltas: Sequence[Rows]) -> None:
    """Raise `AssertionError` unless the laws of merging hold for this content and these deltas, oldest first.

    >>> from tidemill import Upsert
    >>> check_laws(Upsert(("k",)), [{"k": 1, "v": 1}], [[{"k": 1, "v": 2}], [{"k": 2, "v": 3}]])
    """
    contents = [base]
    for delta in deltas:
        contents.append(merge(updates, contents[-1], delta))
    for i, (first, second) in enumerate(pairwise(deltas)):
        one_delta = merge(updates, contents[i], chain(updates, first, second))
        _law(same(one_delta, contents[i + 2]), f"merging deltas {i} and {i + 1} is not merging their chain", updates)
    for i, (a, b, c) in enumerate(zip(deltas, deltas[1:], deltas[2:], strict=False)):
        left, right = chain(updates, chain(updates, a, b), c), chain(updates, a, chain(updates, b, c))
        _law(same(left, right), f"chaining deltas {i} to {i + 2} depends on where one begins", updates)
    for i, (before, after) in enumerate(pairwise(contents)):
        again = merge(updates, before, diff(updates, before, after))
        _law(same(again, after), f"the difference that delta {i} makes does not lead where it leads", updates)


def _law(holds: bool, complaint: str, updates: Updates) -> None:
    if not holds:
        raise AssertionError(f"{updates.name} merge: {complaint}")
