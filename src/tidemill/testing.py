"""Support for users' tests: checks that the functions of a custom merge obey the laws of merging."""

from collections.abc import Sequence
from itertools import pairwise

from tidemill.algebra.reference import chain_deltas, diff_contents, is_same_bag, merge_rows
from tidemill.model.change import Rows, Updates


def check_laws(updates: Updates, base: Rows, deltas: Sequence[Rows]) -> None:
    """Raise `AssertionError` unless the laws of merging hold for this content and these deltas, oldest first.

    >>> from tidemill import Upsert
    >>> check_laws(Upsert(("k",)), [{"k": 1, "v": 1}], [[{"k": 1, "v": 2}], [{"k": 2, "v": 3}]])
    """
    contents = [base]
    for delta in deltas:
        contents.append(merge_rows(updates, contents[-1], delta))
    for i, (first, second) in enumerate(pairwise(deltas)):
        one_delta = merge_rows(updates, contents[i], chain_deltas(updates, first, second))
        problem = f"merging deltas {i} and {i + 1} differs from merging their chain"
        _law(is_same_bag(one_delta, contents[i + 2]), problem, updates)
    for i, (a, b, c) in enumerate(zip(deltas, deltas[1:], deltas[2:], strict=False)):
        left = chain_deltas(updates, chain_deltas(updates, a, b), c)
        right = chain_deltas(updates, a, chain_deltas(updates, b, c))
        _law(is_same_bag(left, right), f"chaining deltas {i} to {i + 2} is not associative", updates)
    for i, (before, after) in enumerate(pairwise(contents)):
        merged = merge_rows(updates, before, diff_contents(updates, before, after))
        problem = f"merging the diff of the contents around delta {i} does not give the content after it"
        _law(is_same_bag(merged, after), problem, updates)


def _law(holds: bool, problem: str, updates: Updates) -> None:
    if not holds:
        raise AssertionError(f"{updates.name} merge: {problem}")
