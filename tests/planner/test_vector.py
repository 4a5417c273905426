"""The planner's provenance and the model's are the same thing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.model import provenance as model
from tidemill.model.time import Timeline
from tidemill.planner import vector as fast
from tidemill.planner.bounds import apart
from tidemill.planner.vector import Clock, Vector, packed, unpacked

INPUTS = ("a", "b", "a")
PATHWAYS = (("a",), ("b",), ("a", "m"))

entries = st.lists(st.integers(1, 60), max_size=4, unique=True).map(lambda v: tuple(sorted(v)))
long_entries = st.lists(st.integers(1, 99), min_size=20, max_size=30, unique=True).map(lambda v: tuple(sorted(v)))
vectors: st.SearchStrategy[Vector] = st.tuples(*[st.one_of(entries, entries, long_entries)] * 3)
timelines = st.builds(
    lambda a, b: Timeline({"a": sorted(a), "b": sorted(b)}, 100), *[st.sets(st.integers(1, 99), min_size=1)] * 2
)


def of(vector: Vector) -> model.Provenance:
    return unpacked(vector, PATHWAYS)


@given(vectors)
def test_packing_loses_nothing(vector: Vector) -> None:
    assert packed(of(vector), PATHWAYS) == vector


@given(vectors, timelines)
def test_starts_ends_and_consistency_agree(vector: Vector, time: Timeline) -> None:
    ends = Clock(time, {"c": INPUTS}).ends("c", vector)
    expected = [of(vector).end_of(p, time) for p in PATHWAYS]
    assert [None if e == fast.NEVER else e for e in ends] == expected
    assert fast.end(ends) == of(vector).end(time)
    assert (fast.start(vector) if any(vector) else None) == of(vector).start()
    assert (apart(vector, ends) < 0) == of(vector).consistent(time)


@given(vectors, vectors, timelines)
def test_the_order_agrees(one: Vector, other: Vector, time: Timeline) -> None:
    clock = Clock(time, {"c": INPUTS})
    assert fast.precedes(clock.ends("c", one), clock.ends("c", other)) == of(one).precedes(of(other), time)


moving = st.tuples(vectors, vectors, st.lists(st.booleans(), min_size=3, max_size=3), vectors)


@given(moving)
def test_applying_a_delta_agrees(drawn: tuple[Vector, Vector, list[bool], Vector]) -> None:
    """Half of the pathways start where the base is, so that legal deltas are drawn as well."""
    base, target, meets, elsewhere = drawn
    source = tuple(b if m else e for b, m, e in zip(base, meets, elsewhere, strict=True))
    assert of(fast.applied(base, source, target)) == model.applied(of(base), of(source), of(target))
    if all(base):
        assert fast.legal(base, source, target) == model.applicable(of(base), of(source), of(target))
    assert not fast.legal(base, source, target) or model.applicable(of(base), of(source), of(target))


@pytest.mark.parametrize(
    ("has", "source", "expected"),
    [(((),), ((5,),), False), (((),), ((),), True), (((5,),), ((5,),), True), (((4,),), ((5,),), False)],
)
def test_who_has_nothing_starts_from_nothing(has: Vector, source: Vector, expected: bool) -> None:
    assert fast.legal(has, source, ((6,),)) == expected
