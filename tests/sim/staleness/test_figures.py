"""The conclusions of the paper's figures, from fewer events than the paper took; and that checks can fail.

All eight, with as many events as one likes: TIDEMILL_FIGURE_EVENTS=1000000 pytest tests/sim/staleness/test_figures.py
"""

from __future__ import annotations

import os
from functools import cache

import pytest

from tidemill.sim.staleness.experiment import Curves, Result, measured
from tidemill.sim.staleness.figures import FIGURES

MANY = os.environ.get("TIDEMILL_FIGURE_EVENTS")
QUICK = (6, 7, 8)
"""Those that show after a few thousand events. In the others slow times or periods are long."""


@pytest.mark.parametrize("figure", FIGURES if MANY else QUICK)
def test_the_conclusion_holds(figure: int) -> None:
    assert measured(FIGURES[figure], int(MANY or 6000)).doubts == []


@cache
def roughly(figure: int) -> Result:
    return measured(FIGURES[figure], 300)


@pytest.mark.parametrize("figure", FIGURES)
def test_every_part_of_a_conclusion_can_fail(figure: int) -> None:
    """Were all curves the same, upside down, or one of them far above the others."""
    curves = roughly(figure).curves
    same = {name: {x: 1.0 + x for x in FIGURES[figure].values} for name in curves}
    upside_down = {name: {x: 3.0 - y for x, y in curve.items()} for name, curve in curves.items()}
    for check in FIGURES[figure].checks:
        assert not all(check.holds(wrong) for wrong in [same, upside_down, *_raised(curves)]), check.says


def _raised(curves: Curves) -> list[Curves]:
    return [{**curves, name: {x: 10 * y for x, y in curve.items()}} for name, curve in curves.items()]


def test_results_for_programs() -> None:
    document = roughly(6).to_json()
    assert (document["figure"], document["events"], document["seeds"]) == (6, 300, 1)
    assert {"series", "x", "lateness"} == document["points"][0].keys()
    assert document["holds"] == (not document["doubts"])


def test_partitioned_tracks_have_no_points_where_the_jobs_do_not_fit() -> None:
    curve = roughly(6).curves["partitioned"]
    assert 0.85 in curve
    assert 0.9 not in curve  # each job needs 0.15 of a track, five fit on one, and there are thirty
