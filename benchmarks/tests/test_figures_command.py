"""`figures`: output as text, JSON and SVG."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.tests.conftest import Bench


def test_a_figure_as_json(bench: Bench) -> None:
    document = bench.json("figures", "--figure", 7, "--events", 1000, "--seeds", 2)
    assert (document["figure"], document["seeds"], document["events"]) == (7, 2, 1000)
    assert {point["series"] for point in document["points"]} == {"Max Benefit", "EDF", "random"}
    assert isinstance(document["holds"], bool)
    (claim,) = document["claims"]
    assert claim["claim"]
    assert claim["rule"]
    assert claim["by_setup"].keys() == {"5 periods", "20 periods", "100 periods"}
    assert "not given" in document["parameters"]["slow times"]


def test_a_figure_as_text(bench: Bench) -> None:
    out = bench.run_ok("figures", "--figure", 6, "--events", 500).out
    assert "Uniform tables" in out
    assert "Rule: " in out
    assert "Set-up" in out
    assert "tracks: 5 (4.3)" in out
    assert "–" in out  # partitioned tracks where the jobs do not fit


def test_a_figure_as_svg(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    ended = bench("figures", "--figure", 7, "--events", 500, "--plot", path)
    assert (ended.code, ended.err) == (0, f"drawn: {path}\n")
    lines = ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * 3


@pytest.mark.parametrize(("figure", "message"), [(3, "greater than or equal to 4"), (12, "less than or equal to 11")])
def test_an_unknown_figure_is_rejected(bench: Bench, figure: int, message: str) -> None:
    ended = bench("figures", "--figure", figure)
    assert ended.code == 2
    assert message in ended.err
