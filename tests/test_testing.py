"""`check_laws`, with which users test their update functions."""

from __future__ import annotations

import pytest

from tidemill import Append, Custom
from tidemill.model.change import Rows
from tidemill.testing import check_laws


def longest(first: Rows, second: Rows) -> Rows:
    return sorted(first + second, key=lambda r: (-len(r["t"]), r["t"]))[:1]


def diff_rows(before: Rows, after: Rows) -> Rows:
    return [] if before == after else after


def newest(first: Rows, second: Rows) -> Rows:
    return second or first


NOTES = [[{"k": 1, "t": "aa"}], [{"k": 1, "t": "b"}, {"k": 2, "t": "c"}], [{"k": 2, "t": "ccc"}]]


def test_functions_that_obey_the_laws_are_accepted() -> None:
    check_laws(Custom(("k",), longest, longest, diff_rows), [], NOTES)
    check_laws(Append(), [{"k": 1}], [[{"k": 1}], []])


@pytest.mark.parametrize(
    ("merge", "chain", "diff", "message"),
    [
        (longest, newest, diff_rows, "differs from merging their chain"),
        (newest, newest, lambda before, after: [], "does not give the content after it"),
    ],
)
def test_functions_that_break_the_laws_are_rejected(merge: object, chain: object, diff: object, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_laws(Custom(("k",), merge, chain, diff), [], NOTES)  # type: ignore[arg-type]
