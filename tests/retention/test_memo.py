"""What is recognised, what is told apart, and what is said about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.block import BlockKind
from tidemill.model.code import Json
from tidemill.model.description import compute_dataset_identity, describe_output, diff_descriptions
from tidemill.model.states import Dataset
from tidemill.model.states import DatasetState as D
from tidemill.model.task import Command, Function, ReadMode, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.retention.memo import IdentifiedNode, MemoNode, ReuseVerdict, explain_reuse, identify_nodes
from tidemill.retention.preparation import RequestedAction, prepare_submission


def task(code: str = "run", inputs: int = 0, **options: Any) -> Task:
    reads = tuple(TaskInput(f"i{n}", f"c{n}", ReadMode.ALL) for n in range(inputs))
    return Task(
        "t", (Variant("programmed", reads, (TaskOutput("o", "o", BlockKind.BASE),), Command((code,))),), **options
    )


def nothing(_identity: str) -> None:
    return None


def names(nodes: Sequence[MemoNode], generations: Mapping[str, int] | None = None) -> dict[str, IdentifiedNode]:
    return identify_nodes(nodes, nothing, generations or {})


values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
parameters = st.dictionaries(st.text(max_size=3), values, max_size=4)


@given(one=parameters, other=parameters)
def test_parameters_count_whatever_their_order(one: dict[str, Any], other: dict[str, Any]) -> None:
    def known(given: dict[str, Any]) -> str:
        return compute_dataset_identity(describe_output(task(parameters=given), "o", []))

    def spelled(given: dict[str, Any]) -> list[tuple[str, str]]:
        return sorted((name, repr(value)) for name, value in given.items())

    assert known(one) == known(dict(reversed(one.items())))
    assert (known(one) == known(other)) == (spelled(one) == spelled(other))


def test_structure_counts_and_not_the_sequence_of_its_parts() -> None:
    """x(p), y and x, y(p) are the same seen breadth first."""
    x1, y0 = task("x", 1), task("y")
    x0, y1 = task("x"), task("y", 1)
    join, p = task("join", 2), task("p")
    left = names([MemoNode("p", p), MemoNode("x", x1, ("p",)), MemoNode("y", y0), MemoNode("join", join, ("x", "y"))])
    right = names([MemoNode("p", p), MemoNode("x", x0), MemoNode("y", y1, ("p",)), MemoNode("join", join, ("x", "y"))])
    assert left["join"].identity != right["join"].identity


def test_inputs_count_in_port_order_and_names_of_tasks_do_not() -> None:
    a, b, join = task("a"), task("b"), task("join", 2)
    one = names([MemoNode("a", a), MemoNode("b", b), MemoNode("j", join, ("a", "b"))])
    other = names([MemoNode("b", b), MemoNode("z", replace(a, name="z")), MemoNode("j", join, ("z", "b"))])
    assert one["j"].identity == other["j"].identity
    assert (
        one["j"].identity != names([MemoNode("a", a), MemoNode("b", b), MemoNode("j", join, ("b", "a"))])["j"].identity
    )


def test_version_and_environment_count_and_secrets_are_not_kept() -> None:
    plain, declared = task(), task(environment=("TOKEN",))
    here, there = ({"TOKEN": secret, "OTHER": "1"} for secret in ("hush", "psst"))
    assert describe_output(plain, "o", [], here) == describe_output(plain, "o", [], there)
    assert describe_output(declared, "o", [], here) != describe_output(declared, "o", [], there)
    assert "hush" not in str(describe_output(declared, "o", [], here))
    assert describe_output(replace(plain, version="2"), "o", []) != describe_output(plain, "o", [])


CHAIN = [MemoNode("a", task("a")), MemoNode("b", task("b", 1), ("a",)), MemoNode("c", task("c", 1), ("b",))]


def test_what_is_forced_is_new_with_all_that_follows_and_is_found_again_afterwards() -> None:
    before = names(CHAIN)
    forced = names([CHAIN[0], replace(CHAIN[1], force=True), CHAIN[2]])
    assert forced["a"] == before["a"]
    assert forced["b"].plain == before["b"].plain
    assert {forced["b"].identity, forced["c"].identity}.isdisjoint({before["b"].identity, before["c"].identity})
    later = names(CHAIN, {forced["b"].plain: forced["b"].generation})
    assert [later[k].identity for k in "abc"] == [forced[k].identity for k in "abc"]
    again = names([CHAIN[0], replace(CHAIN[1], force=True), CHAIN[2]], {forced["b"].plain: 1})
    assert again["b"].generation == 2


def test_a_task_that_differs_each_time_is_never_taken_for_an_earlier_one() -> None:
    for varying in (task(deterministic=False), replace(task(), variants=_sql("SELECT rand() AS x"))):
        first = names([MemoNode("a", varying)])["a"]
        assert first.identity != names([MemoNode("a", varying)], {first.plain: first.generation})["a"].identity
    steady = replace(task(deterministic=True), variants=_sql("SELECT rand(7) AS x"))
    assert not names([MemoNode("a", steady)])["a"].forced


def _sql(query: str) -> tuple[Variant, ...]:
    return (Variant("programmed", (), (TaskOutput("o", "o", BlockKind.BASE),), Sql(query)),)


def test_code_that_cannot_be_looked_into_needs_a_version() -> None:
    made: dict[str, Any] = {}
    exec("def f(): return 1", made)
    hidden = replace(task(), variants=(Variant("programmed", (), (), Function(made["f"])),))
    assert not hidden.is_repeatable
    assert replace(hidden, version="1").is_repeatable


def test_a_collision_of_hashes_does_no_harm() -> None:
    plain = names([MemoNode("a", task())])["a"]
    other: Json = {"something": "else"}
    stored = {plain.identity: other}
    collided = identify_nodes([MemoNode("a", task())], stored.get, {})["a"]
    assert collided.identity != plain.identity
    stored[collided.identity] = collided.description
    assert identify_nodes([MemoNode("a", task())], stored.get, {})["a"] == collided


# -- explanations ------------------------------------------------------------------------------------------------


def _explained(before: Task, after: Task) -> list[str]:
    return [
        d.part for d in diff_descriptions(describe_output(before, "o", [["x"]]), describe_output(after, "o", [["x"]]))
    ]


def test_what_differs_is_named() -> None:
    one = task(parameters={"n": 1, "m": 1})
    assert _explained(one, replace(one, parameters={"n": 2, "m": 1})) == ["parameter n"]
    assert _explained(one, replace(one, version="2")) == ["version"]
    assert _explained(one, replace(task("walk"), parameters=one.parameters)) == ["command"]
    assert _explained(one, one) == []


def test_an_explanation_shows_the_lines_that_changed() -> None:
    before = {"code": [{"function": [{"name": "f", "text": "def f(x):\n    return x", "uses": {}}], "unseen": []}]}
    after = {"code": [{"function": [{"name": "f", "text": "def f(x):\n    return 1", "uses": {}}], "unseen": []}]}
    (found,) = diff_descriptions(before, after)
    assert found.part == "code of f"
    assert "-    return x\n+    return 1" in str(found)


def test_every_verdict_is_given_for_its_reason() -> None:
    wanted = names([MemoNode("a", task())])["a"]
    forced = names([MemoNode("a", task(), force=True)])["a"]
    other = describe_output(task("walk"), "o", [])
    said = {
        ReuseVerdict.REUSED: explain_reuse(wanted, D.STORED, None),
        ReuseVerdict.AWAITED: explain_reuse(wanted, D.TO_STORE, None),
        ReuseVerdict.DELETED: explain_reuse(wanted, D.DELETED, None),
        ReuseVerdict.NEW: explain_reuse(wanted, None, None),
        ReuseVerdict.CHANGED: explain_reuse(wanted, None, other),
        ReuseVerdict.FORCED: explain_reuse(forced, None, other),
    }
    assert all(verdict is found.verdict for verdict, found in said.items())
    assert "command was ['walk'] and is ['run']" in str(said[ReuseVerdict.CHANGED])


# -- together with preparation -----------------------------------------------------------------------------------


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[MemoNode], int]:
    size = draw(st.integers(1, 7))
    nodes = []
    for n in range(size):
        parents = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=2)) if n else []
        nodes.append(MemoNode(str(n), task(f"do {n}", len(parents)), tuple(map(str, parents))))
    return nodes, draw(st.integers(0, size - 1))


@given(case=edits(), force=st.booleans())
def test_editing_or_forcing_one_task_runs_it_and_what_follows_and_nothing_else(
    case: tuple[list[MemoNode], int], force: bool
) -> None:
    nodes, at = case
    before = names(nodes)
    changed = list(nodes)
    changed[at] = (
        replace(nodes[at], force=True) if force else replace(nodes[at], task=task("new", len(nodes[at].parents)))
    )
    after = names(changed)
    follows = {nodes[at].key}
    for node in nodes:
        if follows & set(node.parents):
            follows.add(node.key)
    stored = {n.identity: Dataset(D.STORED) for n in before.values()}
    wanted = [RequestedAction(after[n.key].identity, tuple(after[p].identity for p in n.parents)) for n in changed]
    run = {r.identity for r in prepare_submission(wanted, stored).run}
    assert run == {after[key].identity for key in follows}
