"""`figures`: for people, for programs and as pictures."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks.tests.conftest import Bench


def test_a_figure_for_programs(bench: Bench) -> None:
    found = bench.json("figures", "--figure", 7, "--events", 1000, "--seeds", 2)
    assert (found["figure"], found["seeds"], found["events"]) == (7, 2, 1000)
    assert {point["series"] for point in found["points"]} == {"Max Benefit", "EDF", "random"}
    assert isinstance(found["holds"], bool)
    (claim,) = found["claims"]
    assert claim["claim"]
    assert claim["rule"]
    assert claim["by_setup"].keys() == {"5 periods", "20 periods", "100 periods"}
    assert "not given" in found["parameters"]["slow times"]


def test_a_figure_for_people(bench: Bench) -> None:
    out = bench.well("figures", "--figure", 6, "--events", 500).out
    assert "Uniform tables" in out
    assert "Rule: " in out
    assert "Set-up" in out
    assert "tracks: 5 (4.3)" in out
    assert "–" in out  # partitioned tracks where the jobs do not fit


def test_a_figure_as_a_picture(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    ended = bench("figures", "--figure", 7, "--events", 500, "--plot", path)
    assert (ended.code, ended.err) == (0, f"drawn: {path}\n")
    lines = ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * 3


@pytest.mark.parametrize(("figure", "said"), [(3, "greater than or equal to 4"), (12, "less than or equal to 11")])
def test_a_figure_that_the_paper_lacks_is_refused(bench: Bench, figure: int, said: str) -> None:
    ended = bench("figures", "--figure", figure)
    assert ended.code == 2
    assert said in ended.err
