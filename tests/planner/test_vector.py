"""The planner's vectors are equivalent to the model's provenance."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model import provenance_rules as rules
from tests.planner.random_workflows import unpack_vector

from tidemill.model import provenance as model
from tidemill.model.time import Timeline
from tidemill.planner import vector as fast
from tidemill.planner.bounds import compute_inconsistency
from tidemill.planner.vector import PlanningClock, Vector, pack_provenance

INPUTS = ("a", "b", "a")
PATHWAYS = (("a",), ("b",), ("a", "m"))

entries = st.lists(st.integers(1, 60), max_size=4, unique=True).map(lambda v: tuple(sorted(v)))
long_entries = st.lists(st.integers(1, 99), min_size=20, max_size=30, unique=True).map(lambda v: tuple(sorted(v)))
vectors: st.SearchStrategy[Vector] = st.tuples(*[st.one_of(entries, entries, long_entries)] * 3)
timelines = st.builds(
    lambda a, b: Timeline({"a": sorted(a), "b": sorted(b)}, 100), *[st.sets(st.integers(1, 99), min_size=1)] * 2
)


def to_provenance(vector: Vector) -> model.Provenance:
    return unpack_vector(vector, PATHWAYS)


@given(vectors)
def test_packing_is_lossless(vector: Vector) -> None:
    assert pack_provenance(to_provenance(vector), PATHWAYS) == vector


@given(vectors, timelines)
def test_starts_ends_and_consistency_agree(vector: Vector, time: Timeline) -> None:
    ends = PlanningClock(time, {"c": INPUTS}).find_ends("c", vector)
    expected = [to_provenance(vector).find_pathway_end(p, time) for p in PATHWAYS]
    assert [None if e == fast.NEVER else e for e in ends] == expected
    assert min((e for e in ends if e != fast.NEVER), default=None) == rules.find_end(to_provenance(vector), time)
    assert (fast.find_start(vector) if any(vector) else None) == to_provenance(vector).find_start()
    assert (compute_inconsistency(vector, ends) < 0) == rules.is_consistent(to_provenance(vector), time)


@given(vectors, vectors, timelines)
def test_the_order_agrees(one: Vector, other: Vector, time: Timeline) -> None:
    clock = PlanningClock(time, {"c": INPUTS})
    assert fast.is_before(clock.find_ends("c", one), clock.find_ends("c", other)) == rules.is_before(
        to_provenance(one), to_provenance(other), time
    )


deltas = st.tuples(vectors, vectors, st.lists(st.booleans(), min_size=3, max_size=3), vectors)


@given(deltas)
def test_applying_a_delta_agrees(drawn: tuple[Vector, Vector, list[bool], Vector]) -> None:
    """Half of the pathways start at the base, so that legal deltas are drawn as well."""
    base, target, meets, elsewhere = drawn
    source = tuple(b if m else e for b, m, e in zip(base, meets, elsewhere, strict=True))
    assert to_provenance(fast.apply_delta(base, source, target)) == model.apply_delta(
        to_provenance(base), to_provenance(source), to_provenance(target)
    )
    if all(base):
        assert fast.is_legal_delta(base, source, target) == rules.is_applicable(
            to_provenance(base), to_provenance(source), to_provenance(target)
        )
    assert not fast.is_legal_delta(base, source, target) or rules.is_applicable(
        to_provenance(base), to_provenance(source), to_provenance(target)
    )


@pytest.mark.parametrize(
    ("delivered", "source", "expected"),
    [(((),), ((5,),), False), (((),), ((),), True), (((5,),), ((5,),), True), (((4,),), ((5,),), False)],
)
def test_an_empty_consumer_starts_from_an_empty_source(delivered: Vector, source: Vector, expected: bool) -> None:
    assert fast.is_legal_delta(delivered, source, ((6,),)) == expected
