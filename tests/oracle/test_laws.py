"""The three laws of merge kinds, on the reference that Spark is compared with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.histories import KINDS, contents, deltas

from tidemill.algebra.reference import chain_deltas, diff_contents, is_same_bag, merge_rows
from tidemill.model.change import Append

every_kind = pytest.mark.parametrize("name", KINDS)


@every_kind
@given(data=st.data())
def test_merging_twice_is_merging_the_chain(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    base = data.draw(contents(updates, schema))
    first = data.draw(deltas(updates, schema, base))
    between = merge_rows(updates, base, first)
    second = data.draw(deltas(updates, schema, between))
    assert is_same_bag(
        merge_rows(updates, between, second), merge_rows(updates, base, chain_deltas(updates, first, second))
    )


@every_kind
@given(data=st.data())
def test_chain_is_associative(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    content = data.draw(contents(updates, schema))
    three = []
    for _ in range(3):
        three.append(data.draw(deltas(updates, schema, content)))
        content = merge_rows(updates, content, three[-1])
    a, b, c = three
    left, right = (
        chain_deltas(updates, chain_deltas(updates, a, b), c),
        chain_deltas(updates, a, chain_deltas(updates, b, c)),
    )
    assert is_same_bag(map(_plain, left), map(_plain, right))


@every_kind
@given(data=st.data())
def test_diff_inverts_merge(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    before = data.draw(contents(updates, schema))
    after = data.draw(contents(updates, schema))
    if isinstance(updates, Append):
        after = before + after
    assert is_same_bag(merge_rows(updates, before, diff_contents(updates, before, after)), after)


@every_kind
@given(data=st.data())
def test_diff_of_equal_contents_is_empty(name: str, data: st.DataObject) -> None:
    updates, schema = KINDS[name]
    content = data.draw(contents(updates, schema))
    assert diff_contents(updates, content, list(reversed(content))) == []


def test_an_append_channel_cannot_lose_rows() -> None:
    with pytest.raises(ValueError, match="removed more often"):
        diff_contents(Append(), [{"a": 1}, {"a": 1}], [{"a": 1}])


def _plain(row: dict[str, object]) -> dict[str, object]:
    """An absent deletion mark and a false one mean the same."""
    return {k: bool(v) if k == "_deleted" else v for k, v in row.items()}
