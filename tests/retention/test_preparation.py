"""The actions that a submission requires, compared with a plain reference, and their results."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from tidemill.model.states import PRODUCING_STATES, READABLE_STATES, Dataset
from tidemill.model.states import DatasetState as D
from tidemill.model.submission import RequestedAction
from tidemill.retention.preparation import Preparation, prepare_submission

Graph = list[RequestedAction]
Stored = dict[str, Dataset]
MISSING = (None, D.DELETED, D.DELETING)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Graph, Stored]:
    """A random graph with datasets in random states; names do not follow the order."""
    size = draw(st.integers(1, 9))
    names = draw(st.permutations([f"d{i}" for i in range(size)]))
    graph = []
    for i, name in enumerate(names):
        parents = draw(st.lists(st.sampled_from(names[:i]), unique=True, max_size=3)) if i else []
        keep, pinned = (draw(st.integers(0, 9)) == 0 for _ in range(2))
        graph.append(RequestedAction(name, tuple(parents), keep, pinned))
    states = draw(st.lists(st.sampled_from([None, None, *D]), min_size=size, max_size=size))
    return graph, {n: Dataset(s) for n, s in zip(names, states, strict=True) if s is not None}


def state(stored: Mapping[str, Dataset], name: str) -> D | None:
    return stored[name].state if name in stored else None


def find_goals(graph: Graph) -> set[str]:
    """The datasets that must exist in the end."""
    return {a.identity for a in graph if a.is_leaf or a.pinned or not any(a.identity in b.parents for b in graph)}


def find_required_actions(graph: Graph, stored: Stored) -> set[str]:
    """The reference: a missing dataset is computed if it is a goal or an input of a computed dataset."""
    ends = find_goals(graph)
    missing = {a.identity for a in graph if state(stored, a.identity) in MISSING}
    computed: set[str] = set()
    while True:
        needed = ends | {p for a in graph if a.identity in computed for p in a.parents}
        if needed & missing == computed:
            return computed
        computed = needed & missing


@given(case=cases())
def test_exactly_the_required_actions_run(case: tuple[Graph, Stored]) -> None:
    graph, stored = case
    assert {r.identity for r in prepare_submission(graph, stored).run} == find_required_actions(graph, stored)


@given(case=cases())
def test_the_order_of_actions_and_other_datasets_do_not_matter(case: tuple[Graph, Stored]) -> None:
    graph, stored = case
    one, other = (
        prepare_submission(graph, stored),
        prepare_submission(graph[::-1], stored | {"other": Dataset(D.STORED)}),
    )
    assert set(one.run) == set(other.run)
    assert (one.wait, one.reuse, one.transitions) == (
        other.wait,
        other.reuse,
        other.transitions,
    )


@given(case=cases())
def test_every_input_of_a_run_is_awaited_or_claimed(case: tuple[Graph, Stored]) -> None:
    graph, stored = case
    plan = prepare_submission(graph, stored)
    parents = {a.identity: set(a.parents) for a in graph}
    runs = {r.identity for r in plan.run}
    for running in plan.run:
        assert running.awaits | running.claims == parents[running.identity]
        assert running.awaits <= runs | plan.wait
        assert running.claims <= plan.reuse
        assert running.after_deletion == (state(stored, running.identity) is D.DELETING)
    assert {state(stored, i) for i in plan.wait} <= PRODUCING_STATES


def execute(graph: Graph, stored: Stored, plan: Preparation) -> Stored:
    """Execute a preparation as servers do: other runs finish, files are deleted, and ready actions run."""
    now = dict(stored)
    for name, (_, after) in plan.transitions.items():
        now[name] = now[name].transition_to(after) if name in now else Dataset(after)
    for running in plan.run:
        for claimed in running.claims:
            now[claimed] = now[claimed].add_claim()
    for name, dataset in now.items():
        if dataset.state in PRODUCING_STATES and name not in {r.identity for r in plan.run}:
            now[name] = dataset.transition_to(COMPLETED_STATES[dataset.state])
        elif dataset.state is D.DELETING:
            now[name] = dataset.transition_to(D.DELETED).transition_to(D.TO_STORE)
    remaining = list(plan.run)
    while remaining:
        ready = [r for r in remaining if all(now[a].state in READABLE_STATES for a in r.awaits)]
        assert ready, "no action can run"
        for running in ready:
            now[running.identity] = now[running.identity].transition_to(COMPLETED_STATES[now[running.identity].state])
            remaining.remove(running)
    return now


COMPLETED_STATES = {D.TO_STORE: D.STORED, D.TO_LEAF: D.LEAF, D.TO_DELETE: D.STORED_TO_DELETE}


@given(case=cases())
def test_all_goals_are_stored_in_the_end_and_a_second_submission_runs_nothing(
    case: tuple[Graph, Stored],
) -> None:
    graph, stored = case
    after = execute(graph, stored, prepare_submission(graph, stored))
    assert all(after[e].state in READABLE_STATES for e in find_goals(graph))
    again = prepare_submission(graph, after)
    assert not again.run
    assert not again.wait


def test_an_edge_between_two_runs_is_kept_if_the_child_comes_first() -> None:
    """a → b → d and a → d, with b stored: when d is visited, it is not known yet that a will run."""
    graph = [RequestedAction("a"), RequestedAction("b", ("a",)), RequestedAction("d", ("b", "a"))]
    last = next(r for r in prepare_submission(graph, {"b": Dataset(D.STORED)}).run if r.identity == "d")
    assert (last.awaits, last.claims) == ({"a"}, {"b"})


def test_two_actions_with_the_same_output_run_once() -> None:
    graph = [
        RequestedAction("a"),
        RequestedAction("b", ("a",)),
        RequestedAction("b", ("a",), is_leaf=True),
        RequestedAction("c", ("b",)),
    ]
    plan = prepare_submission(graph, {})
    assert [r.identity for r in plan.run] == ["a", "b", "c"]
    assert plan.transitions["b"] == (None, D.TO_LEAF)


def test_a_pinned_dataset_is_recomputed_and_is_no_leaf() -> None:
    plan = prepare_submission(
        [RequestedAction("a", pinned=True), RequestedAction("b", ("a",))],
        {"a": Dataset(D.DELETED), "b": Dataset(D.LEAF)},
    )
    assert plan.transitions == {"a": (D.DELETED, D.TO_STORE)}


def test_an_intermediate_dataset_of_another_workflow_may_become_a_leaf() -> None:
    assert prepare_submission([RequestedAction("a")], {"a": Dataset(D.STORED)}).transitions == {"a": (D.STORED, D.LEAF)}
    assert prepare_submission([RequestedAction("a")], {"a": Dataset(D.TO_DELETE)}).transitions == {
        "a": (D.TO_DELETE, D.TO_LEAF)
    }
