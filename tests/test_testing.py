"""The laws, as users check them."""

from __future__ import annotations

import pytest

from tidemill import Append, Custom
from tidemill.model.change import Rows
from tidemill.testing import check_laws


def longest(first: Rows, second: Rows) -> Rows:
    return sorted(first + second, key=lambda r: (-len(r["t"]), r["t"]))[:1]


def changed(before: Rows, after: Rows) -> Rows:
    return [] if before == after else after


def newest(first: Rows, second: Rows) -> Rows:
    return second or first


NOTES = [[{"k": 1, "t": "aa"}], [{"k": 1, "t": "b"}, {"k": 2, "t": "c"}], [{"k": 2, "t": "ccc"}]]


def test_functions_that_obey() -> None:
    check_laws(Custom(("k",), longest, longest, changed), [], NOTES)
    check_laws(Append(), [{"k": 1}], [[{"k": 1}], []])


@pytest.mark.parametrize(
    ("merge", "chain", "diff", "complaint"),
    [
        (longest, newest, changed, "differs from merging their chain"),
        (newest, newest, lambda before, after: [], "does not give the content after it"),
    ],
)
def test_functions_that_do_not(merge: object, chain: object, diff: object, complaint: str) -> None:
    with pytest.raises(AssertionError, match=complaint):
        check_laws(Custom(("k",), merge, chain, diff), [], NOTES)  # type: ignore[arg-type]
