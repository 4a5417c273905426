"""Dataset identities: equal and different tasks, and explanations of the differences."""

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
from tidemill.model.submission import RequestedAction
from tidemill.model.task import Command, Function, ReadMode, Sql, Task, TaskInput, TaskOutput, Variant
from tidemill.retention.memo import IdentifiedNode, MemoNode, ReuseVerdict, explain_reuse, identify_nodes
from tidemill.retention.preparation import prepare_submission


def task(code: str = "run", inputs: int = 0, **options: Any) -> Task:
    reads = tuple(TaskInput(f"i{n}", f"c{n}", ReadMode.ALL) for n in range(inputs))
    return Task(
        "t", (Variant("programmed", reads, (TaskOutput("o", "o", BlockKind.BASE),), Command((code,))),), **options
    )


def find_no_description(_identity: str) -> None:
    return None


def identify(nodes: Sequence[MemoNode], generations: Mapping[str, int] | None = None) -> dict[str, IdentifiedNode]:
    return identify_nodes(nodes, find_no_description, generations or {})


values = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
parameters = st.dictionaries(st.text(max_size=3), values, max_size=4)


@given(one=parameters, other=parameters)
def test_parameters_are_part_of_the_identity_in_any_order(one: dict[str, Any], other: dict[str, Any]) -> None:
    def compute_identity(options: dict[str, Any]) -> str:
        return compute_dataset_identity(describe_output(task(parameters=options), "o", []))

    def list_values(options: dict[str, Any]) -> list[tuple[str, str]]:
        return sorted((name, repr(value)) for name, value in options.items())

    assert compute_identity(one) == compute_identity(dict(reversed(one.items())))
    assert (compute_identity(one) == compute_identity(other)) == (list_values(one) == list_values(other))


def test_the_structure_of_the_graph_is_part_of_the_identity() -> None:
    """x(p), y and x, y(p) are equal in breadth-first order."""
    x1, y0 = task("x", 1), task("y")
    x0, y1 = task("x"), task("y", 1)
    join, p = task("join", 2), task("p")
    left = identify(
        [MemoNode("p", p), MemoNode("x", x1, ("p",)), MemoNode("y", y0), MemoNode("join", join, ("x", "y"))]
    )
    right = identify(
        [MemoNode("p", p), MemoNode("x", x0), MemoNode("y", y1, ("p",)), MemoNode("join", join, ("x", "y"))]
    )
    assert left["join"].identity != right["join"].identity


def test_inputs_count_in_port_order_and_task_names_do_not_count() -> None:
    a, b, join = task("a"), task("b"), task("join", 2)
    one = identify([MemoNode("a", a), MemoNode("b", b), MemoNode("j", join, ("a", "b"))])
    other = identify([MemoNode("b", b), MemoNode("z", replace(a, name="z")), MemoNode("j", join, ("z", "b"))])
    assert one["j"].identity == other["j"].identity
    assert (
        one["j"].identity
        != identify([MemoNode("a", a), MemoNode("b", b), MemoNode("j", join, ("b", "a"))])["j"].identity
    )


def test_version_and_environment_count_and_secrets_are_not_stored() -> None:
    plain, declared = task(), task(environment=("TOKEN",))
    first, second = ({"TOKEN": secret, "OTHER": "1"} for secret in ("hush", "psst"))
    assert describe_output(plain, "o", [], first) == describe_output(plain, "o", [], second)
    assert describe_output(declared, "o", [], first) != describe_output(declared, "o", [], second)
    assert "hush" not in str(describe_output(declared, "o", [], first))
    assert describe_output(replace(plain, version="2"), "o", []) != describe_output(plain, "o", [])


CHAIN = [MemoNode("a", task("a")), MemoNode("b", task("b", 1), ("a",)), MemoNode("c", task("c", 1), ("b",))]


def test_a_forced_task_and_its_descendants_are_new_and_then_reused() -> None:
    before = identify(CHAIN)
    forced = identify([CHAIN[0], replace(CHAIN[1], force=True), CHAIN[2]])
    assert forced["a"] == before["a"]
    assert forced["b"].plain == before["b"].plain
    assert {forced["b"].identity, forced["c"].identity}.isdisjoint({before["b"].identity, before["c"].identity})
    later = identify(CHAIN, {forced["b"].plain: forced["b"].generation})
    assert [later[k].identity for k in "abc"] == [forced[k].identity for k in "abc"]
    again = identify([CHAIN[0], replace(CHAIN[1], force=True), CHAIN[2]], {forced["b"].plain: 1})
    assert again["b"].generation == 2


def test_a_nondeterministic_task_is_never_reused() -> None:
    for nondeterministic in (task(deterministic=False), replace(task(), variants=_sql("SELECT rand() AS x"))):
        first = identify([MemoNode("a", nondeterministic)])["a"]
        assert (
            first.identity != identify([MemoNode("a", nondeterministic)], {first.plain: first.generation})["a"].identity
        )
    deterministic = replace(task(deterministic=True), variants=_sql("SELECT rand(7) AS x"))
    assert not identify([MemoNode("a", deterministic)])["a"].forced


def _sql(query: str) -> tuple[Variant, ...]:
    return (Variant("programmed", (), (TaskOutput("o", "o", BlockKind.BASE),), Sql(query)),)


def test_code_without_source_needs_a_version() -> None:
    namespace: dict[str, Any] = {}
    exec("def f(): return 1", namespace)
    hidden = replace(task(), variants=(Variant("programmed", (), (), Function(namespace["f"])),))
    assert not hidden.is_repeatable
    assert replace(hidden, version="1").is_repeatable


def test_a_hash_collision_is_resolved() -> None:
    plain = identify([MemoNode("a", task())])["a"]
    other: Json = {"something": "else"}
    stored = {plain.identity: other}
    collided = identify_nodes([MemoNode("a", task())], stored.get, {})["a"]
    assert collided.identity != plain.identity
    stored[collided.identity] = collided.description
    assert identify_nodes([MemoNode("a", task())], stored.get, {})["a"] == collided


# -- explanations ------------------------------------------------------------------------------------------------


def _list_differences(before: Task, after: Task) -> list[str]:
    return [
        d.part for d in diff_descriptions(describe_output(before, "o", [["x"]]), describe_output(after, "o", [["x"]]))
    ]


def test_differences_are_named() -> None:
    one = task(parameters={"n": 1, "m": 1})
    assert _list_differences(one, replace(one, parameters={"n": 2, "m": 1})) == ["parameter n"]
    assert _list_differences(one, replace(one, version="2")) == ["version"]
    assert _list_differences(one, replace(task("walk"), parameters=one.parameters)) == ["command"]
    assert _list_differences(one, one) == []


def test_an_explanation_shows_changed_lines() -> None:
    before = {"code": [{"function": [{"name": "f", "text": "def f(x):\n    return x", "uses": {}}], "unseen": []}]}
    after = {"code": [{"function": [{"name": "f", "text": "def f(x):\n    return 1", "uses": {}}], "unseen": []}]}
    (difference,) = diff_descriptions(before, after)
    assert difference.part == "code of f"
    assert "-    return x\n+    return 1" in str(difference)


def test_every_verdict_has_its_reason() -> None:
    node = identify([MemoNode("a", task())])["a"]
    forced = identify([MemoNode("a", task(), force=True)])["a"]
    other = describe_output(task("walk"), "o", [])
    explanations = {
        ReuseVerdict.REUSED: explain_reuse(node, D.STORED, None),
        ReuseVerdict.AWAITED: explain_reuse(node, D.TO_STORE, None),
        ReuseVerdict.DELETED: explain_reuse(node, D.DELETED, None),
        ReuseVerdict.NEW: explain_reuse(node, None, None),
        ReuseVerdict.CHANGED: explain_reuse(node, None, other),
        ReuseVerdict.FORCED: explain_reuse(forced, None, other),
    }
    assert all(verdict is explanation.verdict for verdict, explanation in explanations.items())
    assert "command was ['walk'] and is ['run']" in str(explanations[ReuseVerdict.CHANGED])


# -- with preparation --------------------------------------------------------------------------------------------


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[MemoNode], int]:
    size = draw(st.integers(1, 7))
    nodes = []
    for n in range(size):
        parents = draw(st.lists(st.sampled_from(range(n)), unique=True, max_size=2)) if n else []
        nodes.append(MemoNode(str(n), task(f"do {n}", len(parents)), tuple(map(str, parents))))
    return nodes, draw(st.integers(0, size - 1))


@given(case=edits(), force=st.booleans())
def test_editing_or_forcing_a_task_runs_only_it_and_its_descendants(
    case: tuple[list[MemoNode], int], force: bool
) -> None:
    nodes, position = case
    before = identify(nodes)
    changed = list(nodes)
    changed[position] = (
        replace(nodes[position], force=True)
        if force
        else replace(nodes[position], task=task("new", len(nodes[position].parents)))
    )
    after = identify(changed)
    affected = {nodes[position].key}
    for node in nodes:
        if affected & set(node.parents):
            affected.add(node.key)
    stored = {n.identity: Dataset(D.STORED) for n in before.values()}
    requested = [RequestedAction(after[n.key].identity, tuple(after[p].identity for p in n.parents)) for n in changed]
    run = {r.identity for r in prepare_submission(requested, stored).run}
    assert run == {after[key].identity for key in affected}
