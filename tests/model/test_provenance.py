"""Provenance in the worked example of the paper: crawls and click scores of three days."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.model.provenance_rules import find_end, is_applicable, is_before, is_consistent

from tidemill.model.block import (
    INITIAL_POSITION,
    Block,
    BlockKind,
    ChannelPosition,
    advance_position,
    assign_version,
    link_block,
)
from tidemill.model.provenance import EMPTY_PROVENANCE, MAX_VERSIONS, Provenance, apply_delta, merge_provenances
from tidemill.model.schema import Schema
from tidemill.model.time import Timeline

# Hours since Sunday midnight.
SUN_3PM, MON_1AM, MON_8AM, TUE_1AM, TUE_11AM, TUE_5PM = 15, 25, 32, 49, 59, 65
WED_1AM, WED_2PM, NOW = 73, 86, 90
CRAWL, SCORE = ("crawl",), ("score",)
TIME = Timeline({"crawl": [SUN_3PM, MON_8AM, TUE_11AM, TUE_5PM, WED_2PM], "score": [MON_1AM, TUE_1AM, WED_1AM]}, NOW)


def snapshot(crawl: int, *scores: int) -> Provenance:
    return Provenance.from_pathways({CRAWL: [crawl], SCORE: scores})


@pytest.mark.parametrize(
    ("provenance", "start", "end", "consistent"),
    [
        (snapshot(MON_8AM, MON_1AM), MON_8AM, TUE_1AM, True),
        (snapshot(MON_8AM, TUE_1AM), TUE_1AM, TUE_11AM, True),
        (snapshot(TUE_11AM, MON_1AM), TUE_11AM, TUE_1AM, False),
        (snapshot(WED_2PM, MON_1AM, TUE_1AM, WED_1AM), WED_2PM, TUE_1AM, False),
    ],
)
def test_start_end_and_consistency(provenance: Provenance, start: int, end: int, consistent: bool) -> None:
    assert (provenance.find_start(), find_end(provenance, TIME)) == (start, end)
    assert is_consistent(provenance, TIME) == consistent


def test_asynchronous_deltas_mix_the_versions_of_the_lookup() -> None:
    base = snapshot(SUN_3PM, MON_1AM)
    steps = [(SUN_3PM, MON_8AM, MON_1AM), (MON_8AM, TUE_11AM, TUE_1AM), (TUE_11AM, TUE_5PM, TUE_1AM)]
    steps.append((TUE_5PM, WED_2PM, WED_1AM))
    results = []
    for since, upto, score in steps:
        source, target = snapshot(since, score), snapshot(upto, score)
        assert is_applicable(base, source, target)
        base = apply_delta(base, source, target)
        results.append(base)
    assert results == [
        snapshot(MON_8AM, MON_1AM),
        snapshot(TUE_11AM, MON_1AM, TUE_1AM),
        snapshot(TUE_5PM, MON_1AM, TUE_1AM),
        snapshot(WED_2PM, MON_1AM, TUE_1AM, WED_1AM),
    ]


def test_a_delta_from_another_version_does_not_apply() -> None:
    base = snapshot(MON_8AM, MON_1AM)
    assert not is_applicable(base, snapshot(TUE_11AM, MON_1AM), snapshot(TUE_5PM, MON_1AM))


def test_a_one_sided_union_does_not_change_the_other_pathway() -> None:
    base = Provenance.from_pathways({("a",): [9], ("b",): [9]})
    source, target = Provenance.from_pathways({("b",): [9]}), Provenance.from_pathways({("b",): [10]})
    assert is_applicable(base, source, target)
    assert apply_delta(base, source, target) == Provenance.from_pathways({("a",): [9], ("b",): [10]})


def test_replacing_old_versions_without_new_input_is_progress() -> None:
    mixed = snapshot(WED_2PM, MON_1AM, WED_1AM)
    assert is_before(mixed, snapshot(WED_2PM, WED_1AM), TIME)
    assert not is_before(snapshot(WED_2PM, WED_1AM), mixed, TIME)
    assert not is_before(mixed, mixed, TIME)


def test_reading_a_derived_channel_extends_the_pathway() -> None:
    assert Provenance.from_pathways({("articles",): [3]}).append_channel("templates") == Provenance.from_pathways(
        {("articles", "templates"): [3]}
    )


@given(st.lists(st.integers(0, 400), min_size=1, max_size=120))
def test_the_number_of_versions_is_limited_without_changing_decisions(lookups: list[int]) -> None:
    time = Timeline({"crawl": range(1000, 2000), "score": range(401)}, 5000)
    base = snapshot(1000, lookups[0])
    for crawl, score in enumerate(lookups, 1001):
        source, target = snapshot(crawl - 1, score), snapshot(crawl, score)
        assert is_applicable(base, source, target)
        base = apply_delta(base, source, target)
    assert len(base[SCORE]) <= MAX_VERSIONS
    assert base.find_pathway_end(SCORE, time) == min(time.find_end("score", v) for v in lookups)
    assert (min(base[SCORE]), max(base[SCORE])) == (min(lookups), max(lookups))
    repaired = snapshot(1000 + len(lookups), 400)
    assert is_before(base, repaired, time) == (min(lookups) < 400)


versions = st.frozensets(st.integers(1, 9), max_size=3)
provenances = st.dictionaries(st.sampled_from([("a",), ("b",), ("a", "t")]), versions).map(Provenance.from_pathways)


@given(provenances)
def test_provenance_is_restored_from_json(provenance: Provenance) -> None:
    assert Provenance.from_json(provenance.to_json()) == provenance


@given(provenances, provenances)
def test_every_delta_applies_to_the_empty_base(source: Provenance, target: Provenance) -> None:
    assert is_applicable(EMPTY_PROVENANCE, source, target)
    assert apply_delta(EMPTY_PROVENANCE, source, target) == target


@given(st.lists(provenances))
def test_a_union_reflects_all_parts(parts: list[Provenance]) -> None:
    whole = merge_provenances(parts)
    assert all(part[p] <= whole[p] for part in parts for p in part.pathways)


def test_the_provenance_of_an_input_is_its_newest_version() -> None:
    schema = Schema.from_ddl("a int")
    position = INITIAL_POSITION
    for seq, version in ((1, 100), (3, 170)):
        block = assign_version(position, Block(seq, "in", seq, BlockKind.DELTA, schema, identity=f"i{seq}"), version)
        linked = link_block(position, block)
        assert linked.since == position.seq
        position = advance_position(position, linked)
        assert (linked.channel_provenance, linked.content_identity) == (position.provenance, position.content_identity)
    assert position.provenance == Provenance.from_pathways({("in",): [170]})


def test_a_base_replaces_the_earlier_provenance() -> None:
    schema = Schema.from_ddl("a int")
    target = Provenance.from_pathways({("in",): [5]})
    after = advance_position(
        ChannelPosition(4, snapshot(1, 2), "x"), Block(9, "c", 5, BlockKind.BASE, schema, target=target, identity="i")
    )
    assert after == ChannelPosition(5, target, "i")
