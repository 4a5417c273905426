"""Waves: a wave is complete with the last of its events, in whatever order they come."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.model.wave import LineageTag, RootGenerator, WaveBarrier, WaveProgress, merge_tags


@st.composite
def waves(draw: st.DrawFn) -> list[LineageTag]:
    """The events of a wave after some tasks have worked on some of them; a result of nothing stays as the word."""
    tags = [LineageTag(draw(st.integers(-5, 5)))]
    for _ in range(draw(st.integers(0, 6))):
        place = draw(st.integers(0, len(tags) - 1))
        tags[place : place + 1] = tags[place].derive_tags(draw(st.integers(1, 4)))
    return tags


def is_complete(came: list[LineageTag], prefix: tuple[int, ...] = ()) -> bool:
    """From scratch: the event itself has come, or it is known how many results it has and each is complete."""
    if any(tag.serials == prefix for tag in came):
        return True
    below = [tag.path[len(prefix)] for tag in came if tag.serials[: len(prefix)] == prefix]
    lasts = {step.serial for step in below if step.last}
    return bool(lasts) and all(is_complete(came, (*prefix, n)) for n in range(1, max(lasts) + 1))


@given(waves(), st.randoms())
def test_a_wave_is_complete_when_nothing_is_missing(tags: list[LineageTag], order: random.Random) -> None:
    order.shuffle(tags)
    progress = WaveProgress()
    for number, tag in enumerate(tags, start=1):
        assert progress.add_tag(tag) == (number == len(tags))
        assert progress.is_complete == is_complete(tags[:number]) == (number == len(tags))


@given(waves(), st.randoms())
def test_events_that_come_twice_count_once(tags: list[LineageTag], order: random.Random) -> None:
    twice = [*tags, *tags]
    order.shuffle(twice)
    progress = WaveProgress()
    completed = [progress.add_tag(tag) for tag in twice]
    assert sum(completed) == 1
    came = completed.index(True) + 1
    assert set(twice[:came]) == set(tags)


@given(st.dictionaries(st.sampled_from(["fares", "hotels", "cars"]), waves(), min_size=1), st.randoms())
def test_branches_meet_when_all_are_complete(branches: dict[str, list[LineageTag]], order: random.Random) -> None:
    arrivals = [(name, LineageTag(1, tag.path)) for name, tags in branches.items() for tag in tags]
    order.shuffle(arrivals)
    synch = WaveBarrier(branches)
    met = [synch.add_tag(name, tag) for name, tag in arrivals]
    assert met == [False] * (len(arrivals) - 1) + [True]
    assert synch.incomplete_waves == frozenset()


@given(waves())
def test_tags_are_read_as_written_and_sort_as_they_were_made(tags: list[LineageTag]) -> None:
    assert [LineageTag.from_text(str(tag)) for tag in tags] == tags
    assert sorted(tags) == tags


@given(waves())
def test_lineage_leads_back_to_the_event_from_outside(tags: list[LineageTag]) -> None:
    for tag in tags:
        chain = [*tag.list_ancestors(), tag]
        assert chain[0] == LineageTag(tag.root)
        assert all(later.is_derived_from(earlier) for earlier, later in pairwise(chain))
        assert not tag.is_derived_from(tag)


@given(waves())
def test_what_is_merged_derives_from_what_all_have_in_common(tags: list[LineageTag]) -> None:
    common = merge_tags(tags)
    assert all(tag == common or tag.is_derived_from(common) for tag in tags)
    assert merge_tags([common, *tags]) == common


def test_an_order_is_shipped_when_all_its_items_are() -> None:
    """The seed's example: an order of three items, of which the second is sent in two parcels."""
    order = LineageTag(100)
    first, second, third = order.derive_tags(3)
    parcels = second.derive_tags(2)
    shipped = WaveProgress()
    assert [shipped.add_tag(t) for t in (third, parcels[1], first)] == [False] * 3
    assert shipped.add_tag(parcels[0])
    assert str(merge_tags([first, *parcels, third]).derive_tags(1)[0]) == "100.1!"


def test_roots_are_the_times_of_events_made_unique() -> None:
    roots = RootGenerator()
    assert [roots.generate_tag(time).root for time in (5, 5, 5, 3, 20)] == [5, 6, 7, 8, 20]


@pytest.mark.parametrize("text", ["", "x", "17.0", "17..1", "17.1!!", "17.!"])
def test_what_is_no_tag_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="not a wave tag"):
        LineageTag.from_text(text)
