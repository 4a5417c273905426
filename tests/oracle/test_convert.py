"""The six conversions between a base, a strong delta and a weak delta, for every kind and every definition of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.oracle.conversions import CONVERSIONS, convert_rows
from tests.oracle.histories import CUSTOM, KINDS, TAGS, contents, deltas, top_chain, top_diff, top_merge

import tidemill as tm
from tidemill.algebra.reference import chain_deltas, diff_contents, is_same_bag, merge_rows
from tidemill.errors import WorkflowError
from tidemill.model.change import COUNT, Rows, Signed, Updates
from tidemill.model.schema import Schema
from tidemill.testing import check_laws


def top_expand(base: Rows, delta: Rows) -> Rows:
    """The newest block replaces the previous rows."""
    if not delta:
        return []
    return [r | {COUNT: -1} for r in base] + [r | {COUNT: 1} for r in delta if r["tag"] != ""]


def top_contract(signed: Rows) -> Rows:
    """Only for contents with one row per key, where the added rows are the complete content."""
    added = [{c: v for c, v in r.items() if c != COUNT} for r in signed if r[COUNT] > 0]
    return added or [{"k": signed[0]["k"], "tag": "", "score": None}]


DEFINITIONS: dict[str, dict[str, Any]] = {
    "merge and diff": {"merge": top_merge, "diff": top_diff},
    "expand and diff": {"expand": top_expand, "diff": top_diff},
    "merge and contract": {"merge": top_merge, "contract": top_contract},
    "expand and contract": {"expand": top_expand, "contract": top_contract},
    "all": {"merge": top_merge, "expand": top_expand, "diff": top_diff, "contract": top_contract},
}
DEFINED: dict[str, tuple[Updates, Schema]] = {
    n: (tm.custom("k", chain=top_chain, **w), TAGS) for n, w in DEFINITIONS.items()
}
EVERY = KINDS | DEFINED


@st.composite
def changes(draw: st.DrawFn, name: str) -> tuple[Updates, Rows, Rows]:
    """A kind, a content and a delta on it, with one row per key where a contraction needs it."""
    updates, schema = EVERY[name]
    base = draw(contents(updates, schema))
    delta = draw(deltas(updates, schema, base))
    if name in DEFINED:
        base, delta = ([*{r["k"]: r for r in rows}.values()] for rows in (base, delta))
    return updates, base, delta


every_kind = pytest.mark.parametrize("name", EVERY)


@every_kind
@given(data=st.data())
def test_conversions_equal_the_reference(name: str, data: st.DataObject) -> None:
    updates, base, delta = data.draw(changes(name))
    after = merge_rows(updates, base, delta)
    assert is_same_bag(convert_rows(delta, "weak", "base", updates, base), after)
    strong = diff_contents(Signed(), base, after)
    assert is_same_bag(convert_rows(after, "base", "strong", updates, base), strong)
    assert is_same_bag(_net(convert_rows(delta, "weak", "strong", updates, base)), strong)
    assert is_same_bag(convert_rows(strong, "strong", "base", updates, base), after)
    for weak in (
        convert_rows(after, "base", "weak", updates, base),
        convert_rows(strong, "strong", "weak", updates, base),
    ):
        assert is_same_bag(merge_rows(updates, base, weak), after)


@every_kind
@given(data=st.data())
def test_indirect_conversions_equal_direct_ones(name: str, data: st.DataObject) -> None:
    updates, base, delta = data.draw(changes(name))
    forms = {"base": merge_rows(updates, base, delta)}
    forms["strong"] = convert_rows(forms["base"], "base", "strong", updates, base)
    forms["weak"] = convert_rows(forms["base"], "base", "weak", updates, base)  # one of many deltas with this result
    for source, to in CONVERSIONS:
        (between,) = {"base", "strong", "weak"} - {source, to}
        first = convert_rows(forms[source], source, between, updates, base)  # type: ignore[arg-type]
        detour = convert_rows(first, between, to, updates, base)  # type: ignore[arg-type]
        direct = convert_rows(forms[source], source, to, updates, base)
        assert is_same_bag(_net(detour), _net(direct)) if to == "strong" else is_same_bag(detour, direct), (
            source,
            between,
            to,
        )


@pytest.mark.parametrize("name", DEFINED)
@given(data=st.data())
def test_derived_functions_equal_the_given_ones(name: str, data: st.DataObject) -> None:
    updates, base, delta = data.draw(changes(name))
    after = merge_rows(CUSTOM, base, delta)
    assert is_same_bag(merge_rows(updates, base, delta), after)
    assert is_same_bag(diff_contents(updates, base, after), diff_contents(CUSTOM, base, after))
    check_laws(updates, base, [delta, [], diff_contents(updates, after, base)])


def test_contraction_needs_no_previous_content() -> None:
    signed: Rows = [{"k": 1, "v": 2, COUNT: 1}, {"k": 1, "v": 1, COUNT: -1}, {"k": 2, "v": 5, COUNT: -1}]
    assert convert_rows(signed, "strong", "weak", tm.Upsert(("k",)), []) == [
        {"k": 1, "v": 2, "_deleted": False},
        {"k": 2, "v": None, "_deleted": True},
    ]


def test_a_conversion_to_the_same_form_returns_its_input() -> None:
    rows: Rows = [{"k": 1}]
    assert convert_rows(rows, "weak", "weak", tm.Append(), []) is rows


@pytest.mark.parametrize(
    ("define", "problem"),
    [
        (lambda: tm.custom("k", chain=top_chain, diff=top_diff), "a function to apply it: give merge"),
        (lambda: tm.custom("k", chain=top_chain, expand=top_expand), "a function to create it: give diff"),
        (
            lambda: tm.custom("k", chain=top_chain, **DEFINITIONS["all"], delta="k"),
            "the schema of a delta: not a schema",
        ),
    ],
)
def test_an_incomplete_definition_is_rejected_with_the_users_line(define: Callable[[], object], problem: str) -> None:
    with pytest.raises(WorkflowError, match=problem) as error:
        define()
    assert str(error.value).startswith(f"{__file__}:{define.__code__.co_firstlineno}: ")


def test_a_delta_may_have_other_columns_than_the_content() -> None:
    """A counter whose delta is an increment or decrement."""

    def apply_steps(base: Rows, delta: Rows) -> Rows:
        previous = base[0]["n"] if base else 0
        return [{"k": r["k"], "n": previous + r["step"]} for r in delta] or base

    def compute_steps(before: Rows, after: Rows) -> Rows:
        previous = before[0]["n"] if before else 0
        return [{"k": r["k"], "step": r["n"] - previous} for r in after if r["n"] != previous]

    def add_steps(first: Rows, second: Rows) -> Rows:
        rows = first + second
        return [{"k": rows[0]["k"], "step": sum(r["step"] for r in rows)}]

    counter = tm.custom(["k"], merge=apply_steps, diff=compute_steps, chain=add_steps, delta="k int, step int")
    assert counter.delta == Schema.from_ddl("k int, step int")
    step: Rows = [{"k": 1, "step": 2}]
    assert is_same_bag(
        convert_rows(step, "weak", "strong", counter, [{"k": 1, "n": 1}]),
        [{"k": 1, "n": 3, COUNT: 1}, {"k": 1, "n": 1, COUNT: -1}],
    )
    assert chain_deltas(counter, step, step) == [{"k": 1, "step": 4}]


def _net(signed: Rows) -> Rows:
    return chain_deltas(Signed(), signed, [])
