"""How fresh what has event time is: as its safe trailing edge, wherever provenance leads from there."""

from __future__ import annotations

import pytest

from tidemill.model.provenance import Pathway
from tidemill.runtime.freshness.staleness import (
    StalenessHistory,
    StalenessMeasure,
    VisibleProvenance,
    compute_curves,
    measure_staleness,
)
from tidemill.runtime.freshness.watermarks import ChannelWatermark, WatermarkHistory

S = 1_000_000
SOURCE: Pathway = ("events",)
VIA: Pathway = ("events", "settled")


def mark(version: int, edge: int | None) -> ChannelWatermark:
    return ChannelWatermark({SOURCE: version * S}, None if edge is None else edge * S)


EDGES = WatermarkHistory({"settled": [mark(10, None), mark(100, 90), mark(200, 90), mark(300, 290)]})


def reach(at: int, pathway: Pathway, version: int) -> VisibleProvenance:
    return VisibleProvenance(at * S, {pathway: version * S})


HISTORY = StalenessHistory(
    {"events": [10 * S, 100 * S, 200 * S, 300 * S], "plain": [50 * S, 240 * S]},
    {
        "settled": [reach(20, SOURCE, 10), reach(110, SOURCE, 100), reach(210, SOURCE, 200), reach(310, SOURCE, 300)],
        "totals": [reach(130, VIA, 100), reach(330, VIA, 300)],
        "both": [VisibleProvenance(130 * S, {VIA: 100 * S, ("plain",): 50 * S})],
        "raw": [reach(105, SOURCE, 100)],
    },
    watermarks=EDGES,
)


@pytest.mark.parametrize(
    ("table", "moment", "stale"),
    [
        ("settled", 50, None),  # nobody can say yet
        ("settled", 110, 20),
        ("settled", 250, 160),  # it read more, and the edge did not move
        ("settled", 310, 20),
        ("totals", 320, 230),  # it has not read on
        ("totals", 330, 40),
        ("totals", 1290, 1000),  # nothing came: nobody says that nothing is missing
        ("both", 140, 50),  # by its events; of the other there is nothing new
        ("raw", 150, 0),  # it does not ask for event time
    ],
)
def test_a_table_is_as_stale_as_the_edge_of_what_it_reflects(table: str, moment: int, stale: int | None) -> None:
    assert measure_staleness(HISTORY, table, StalenessMeasure.STALENESS, moment) == stale


def test_age_is_by_event_time_too() -> None:
    assert measure_staleness(HISTORY, "totals", StalenessMeasure.AGE, 330) == 40
    assert measure_staleness(HISTORY, "both", StalenessMeasure.AGE, 140) == 90  # of the plain input


def test_events_of_the_future_are_not_stale_until_then() -> None:
    ahead = StalenessHistory(
        {"events": [10 * S]},
        {"settled": [reach(10, SOURCE, 10)]},
        watermarks=WatermarkHistory({"settled": [mark(10, 15)]}),
    )
    (curve,) = compute_curves(ahead, StalenessMeasure.STALENESS, since=10, now=25)
    assert dict(curve.points) == {10.0: 0.0, 15.0: 0.0, 25.0: 10.0}
    assert curve.integral == 50.0


def test_of_several_channels_with_event_time_on_the_way_the_earliest_edge_counts() -> None:
    twice = WatermarkHistory({"settled": [mark(10, 8)], "again": [ChannelWatermark({VIA: 10 * S}, 3 * S)]})
    assert twice.find_watermark("table", (*VIA, "again"), 10 * S) == 3 * S
    assert twice.find_earliest_watermark("table", {(*VIA, "again"): 10 * S, ("plain",): 1 * S}) == 3 * S
    assert twice.find_earliest_watermark("table", {("plain",): 1 * S}) is None
    assert twice.find_watermark("table", (*VIA, "again"), 9 * S) is None  # older than what is known of any edge
