"""No more columns are read than are asked for."""

from __future__ import annotations

from dataclasses import replace

from tidemill.algebra.expression import column, expression
from tidemill.algebra.operators import (
    Filter,
    Fold,
    Group,
    Join,
    JoinKind,
    Named,
    Operator,
    Project,
    Ref,
    Scan,
    Top,
    Union,
    Window,
    scans,
    select,
)
from tidemill.algebra.program import Output, Program
from tidemill.algebra.prune import pruned
from tidemill.model.change import Append

A = Scan("a", ("k", "v", "w", "x"))
B = Scan("b", ("j", "n", "m"))


def read(op: Operator, **steps: Operator) -> dict[str, set[tuple[str, ...]]]:
    """The columns that are read of each channel."""
    made = pruned(Program(steps, (Output("t", op, Append()),)))
    rows = made.outputs[0].rows
    assert rows is not None
    assert rows.columns == op.columns
    found: dict[str, set[tuple[str, ...]]] = {}
    for scan in (s for part in (rows, *made.steps.values()) for s in scans(part)):
        found.setdefault(scan.channel, set()).add(scan.columns)
    return found


def test_what_is_selected_computed_and_asked_about_is_read() -> None:
    kept = Filter(A, expression("w > 0"))
    assert read(Project(kept, (Named("y", expression("v + 1")),))) == {"a": {("v", "w")}}


def test_both_sides_of_a_join_give_their_keys() -> None:
    met = Join(A, B, JoinKind.LEFT, (("k", "j"),), expression("x < m"))
    assert read(select(met, ("v", "n"))) == {"a": {("k", "v", "x")}, "b": {("j", "n", "m")}}


def test_of_what_only_has_to_be_there_the_keys_are_enough() -> None:
    met = Join(A, B, JoinKind.ANTI, (("k", "j"),), safe=True)
    assert read(select(met, ("v",))) == {"a": {("k", "v")}, "b": {("j",)}}


def test_groups_need_their_keys_and_what_they_fold() -> None:
    folds = (Fold("n", "count"), Fold("most", "max", (column("v"),)), Fold("least", "min", (column("x"),)))
    assert read(select(Group(A, ("k",), folds), ("n", "most"))) == {"a": {("k", "v")}}
    assert read(Group(A, ("k",))) == {"a": {("k",)}}


def test_a_fold_in_its_own_words_needs_the_columns_in_them() -> None:
    fold = Fold("l", "listagg", (), text="listagg(v, w)")
    assert read(Group(A, ("k",), (fold,))) == {"a": {("k", "v", "w")}}


def test_a_window_needs_what_it_ranks_by_and_keeps() -> None:
    ranked = Named("r", expression("rank() OVER (PARTITION BY k ORDER BY v)"))
    window = Window(A, ("k",), (ranked,))
    assert read(select(window, ("r",))) == {"a": {("k", "v")}}
    assert read(select(replace(window, keep=expression("x > 0")), ("r",))) == {"a": {("k", "v", "x")}}


def test_the_children_of_a_union_keep_the_same_columns() -> None:
    both = Union((Filter(A, expression("x > 0")), A))
    assert read(select(both, ("w",))) == {"a": {("w", "x"), ("w",)}}


def test_the_first_rows_need_what_they_are_ordered_by() -> None:
    assert read(select(Top(A, (column("w"),), 3), ("k",))) == {"a": {("k", "w")}}


def test_rows_without_columns_would_not_be_counted() -> None:
    assert read(Project(A, (Named("one", expression("1")),))) == {"a": {("k",)}}


def test_steps_are_made_of_what_others_ask_of_them() -> None:
    first, second = Filter(A, expression("x > 0")), select(Ref("first", A.columns), ("v", "w"))
    assert read(select(Ref("second", ("v", "w")), ("v",)), first=first, second=second) == {"a": {("v", "x")}}
