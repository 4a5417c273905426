"""The staleness of tables with event time: that of their watermark, along all pathways of their provenance."""

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
VIA: Pathway = ("events", "ordered")


def build_watermark(version: int, watermark: int | None) -> ChannelWatermark:
    return ChannelWatermark({SOURCE: version * S}, None if watermark is None else watermark * S)


WATERMARKS = WatermarkHistory(
    {
        "ordered": [
            build_watermark(10, None),
            build_watermark(100, 90),
            build_watermark(200, 90),
            build_watermark(300, 290),
        ]
    }
)


def build_provenance(at: int, pathway: Pathway, version: int) -> VisibleProvenance:
    return VisibleProvenance(at * S, {pathway: version * S})


HISTORY = StalenessHistory(
    {"events": [10 * S, 100 * S, 200 * S, 300 * S], "plain": [50 * S, 240 * S]},
    {
        "ordered": [
            build_provenance(20, SOURCE, 10),
            build_provenance(110, SOURCE, 100),
            build_provenance(210, SOURCE, 200),
            build_provenance(310, SOURCE, 300),
        ],
        "totals": [build_provenance(130, VIA, 100), build_provenance(330, VIA, 300)],
        "both": [VisibleProvenance(130 * S, {VIA: 100 * S, ("plain",): 50 * S})],
        "raw": [build_provenance(105, SOURCE, 100)],
    },
    watermarks=WATERMARKS,
)


@pytest.mark.parametrize(
    ("table", "time", "staleness"),
    [
        ("ordered", 50, None),  # there is no watermark yet
        ("ordered", 110, 20),
        ("ordered", 250, 160),  # it read more, and the watermark did not advance
        ("ordered", 310, 20),
        ("totals", 320, 230),  # it has not read the newer blocks
        ("totals", 330, 40),
        ("totals", 1290, 1000),  # no events arrived, so the watermark did not advance
        ("both", 140, 50),  # by its events; the other input has no new rows
        ("raw", 150, 0),  # it has no event time
    ],
)
def test_a_table_is_as_stale_as_its_watermark(table: str, time: int, staleness: int | None) -> None:
    assert measure_staleness(HISTORY, table, StalenessMeasure.STALENESS, time) == staleness


def test_age_is_measured_by_event_time() -> None:
    assert measure_staleness(HISTORY, "totals", StalenessMeasure.AGE, 330) == 40
    assert measure_staleness(HISTORY, "both", StalenessMeasure.AGE, 140) == 90  # by the input without event time


def test_future_events_are_not_stale_before_their_time() -> None:
    ahead = StalenessHistory(
        {"events": [10 * S]},
        {"ordered": [build_provenance(10, SOURCE, 10)]},
        watermarks=WatermarkHistory({"ordered": [build_watermark(10, 15)]}),
    )
    (curve,) = compute_curves(ahead, StalenessMeasure.STALENESS, since=10, now=25)
    assert dict(curve.points) == {10.0: 0.0, 15.0: 0.0, 25.0: 10.0}
    assert curve.integral == 50.0


def test_the_earliest_watermark_of_a_pathway_counts() -> None:
    twice = WatermarkHistory({"ordered": [build_watermark(10, 8)], "again": [ChannelWatermark({VIA: 10 * S}, 3 * S)]})
    assert twice.find_watermark("table", (*VIA, "again"), 10 * S) == 3 * S
    assert twice.find_earliest_watermark("table", {(*VIA, "again"): 10 * S, ("plain",): 1 * S}) == 3 * S
    assert twice.find_earliest_watermark("table", {("plain",): 1 * S}) is None
    assert twice.find_watermark("table", (*VIA, "again"), 9 * S) is None  # older than every known watermark
