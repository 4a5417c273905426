"""Waves: a wave is complete with the last of its events, in any order of arrival."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag, RootGenerator, WaveBarrier, WaveProgress


@st.composite
def waves(draw: st.DrawFn) -> list[LineageTag]:
    """The events of a wave after tasks have derived events from some of them."""
    tags = [LineageTag(draw(st.integers(-5, 5)))]
    for _ in range(draw(st.integers(0, 6))):
        position = draw(st.integers(0, len(tags) - 1))
        tags[position : position + 1] = tags[position].derive_tags(draw(st.integers(1, 4)))
    return tags


def is_complete(arrived: list[LineageTag], prefix: tuple[int, ...] = ()) -> bool:
    """From scratch: the event has arrived, or the number of its results is known and each is complete."""
    if any(tag.serials == prefix for tag in arrived):
        return True
    steps = [tag.path[len(prefix)] for tag in arrived if tag.serials[: len(prefix)] == prefix]
    lasts = {step.serial for step in steps if step.last}
    return bool(lasts) and all(is_complete(arrived, (*prefix, n)) for n in range(1, max(lasts) + 1))


@given(waves(), st.randoms())
def test_a_wave_is_complete_when_no_event_is_missing(tags: list[LineageTag], order: random.Random) -> None:
    order.shuffle(tags)
    progress = WaveProgress()
    for number, tag in enumerate(tags, start=1):
        assert progress.add_tag(tag) == (number == len(tags))
        assert progress.is_complete == is_complete(tags[:number]) == (number == len(tags))


@given(waves(), st.randoms())
def test_duplicate_events_count_once(tags: list[LineageTag], order: random.Random) -> None:
    twice = [*tags, *tags]
    order.shuffle(twice)
    progress = WaveProgress()
    completed = [progress.add_tag(tag) for tag in twice]
    assert sum(completed) == 1
    arrived = completed.index(True) + 1
    assert set(twice[:arrived]) == set(tags)


@given(st.dictionaries(st.sampled_from(["fares", "hotels", "cars"]), waves(), min_size=1), st.randoms())
def test_a_barrier_is_passed_when_all_branches_are_complete(
    branches: dict[str, list[LineageTag]], order: random.Random
) -> None:
    arrivals = [(name, LineageTag(1, tag.path)) for name, tags in branches.items() for tag in tags]
    order.shuffle(arrivals)
    barrier = WaveBarrier(branches)
    passed = [barrier.add_tag(name, tag) for name, tag in arrivals]
    assert passed == [False] * (len(arrivals) - 1) + [True]
    assert not barrier._waves, "the progress of a complete wave takes no memory"


@given(waves())
def test_tags_are_restored_from_text_and_sort_by_creation(tags: list[LineageTag]) -> None:
    assert [LineageTag.from_text(str(tag)) for tag in tags] == tags
    assert sorted(tags) == tags


@given(waves())
def test_the_lineage_of_a_tag_begins_with_its_root(tags: list[LineageTag]) -> None:
    for tag in tags:
        chain = [*tag.list_ancestors(), tag]
        assert chain[0] == LineageTag(tag.root)
        assert all(later.is_derived_from(earlier) for earlier, later in pairwise(chain))
        assert not tag.is_derived_from(tag)


def test_a_wave_of_nested_results_is_complete_with_the_last() -> None:
    """The paper's example: an order of three items, of which the second is sent in two packages."""
    order = LineageTag(100)
    first, second, third = order.derive_tags(3)
    packages = second.derive_tags(2)
    shipped = WaveProgress()
    assert [shipped.add_tag(t) for t in (third, packages[1], first)] == [False] * 3
    assert shipped.add_tag(packages[0])


def test_roots_are_unique_event_times() -> None:
    roots = RootGenerator()
    assert [roots.generate_tag(time).root for time in (5, 5, 5, 3, 20)] == [5, 6, 7, 8, 20]


@pytest.mark.parametrize("text", ["", "x", "17.0", "17..1", "17.1!!", "17.!"])
def test_invalid_tags_are_rejected(text: str) -> None:
    with pytest.raises(BadInput, match="not a wave tag"):
        LineageTag.from_text(text)
