"""`sim staleness`: figures and workloads, for people, for programs and as pictures."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.cli.program import Program

WORKLOAD = """
tracks = 2
placement = "single"

[tables.orders]
period = "1 minute"
cost = { start = 2, rate = 0.2 }
priority = 10

[tables.report]
cost = "20 s"
parents = ["orders"]
"""


@pytest.fixture
def workload(tmp_path: Path) -> Path:
    path = tmp_path / "tables.toml"
    path.write_text(WORKLOAD)
    return path


def test_a_figure_for_programs(tidemill: Program) -> None:
    found = tidemill.json("sim", "staleness", "--figure", 7, "--events", 1000, "--seeds", 2)
    assert (found["figure"], found["seeds"], found["events"]) == (7, 2, 1000)
    assert {point["series"] for point in found["points"]} == {"Max Benefit", "EDF", "random"}
    assert isinstance(found["holds"], bool)
    (claim,) = found["claims"]
    assert claim["claim"]
    assert claim["rule"]
    assert claim["by_setup"].keys() == {"5 periods", "20 periods", "100 periods"}
    assert "not given" in found["parameters"]["slow times"]


def test_a_figure_for_people(tidemill: Program) -> None:
    out = tidemill.well("sim", "staleness", "--figure", 6, "--events", 500).out
    assert "Uniform tables" in out
    assert "Rule: " in out
    assert "Set-up" in out
    assert "tracks: 5 (4.3)" in out
    assert "–" in out  # partitioned tracks where the jobs do not fit


def test_a_figure_as_a_picture(tidemill: Program, tmp_path: Path) -> None:
    path = tmp_path / "figure.svg"
    ended = tidemill("sim", "staleness", "--figure", 7, "--events", 500, "--plot", path)
    assert (ended.code, ended.err) == (0, f"drawn: {path}\n")
    lines = ElementTree.parse(path).getroot().findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 3 * 3


def test_a_workload_for_programs_and_people(tidemill: Program, workload: Path) -> None:
    found = tidemill.json("sim", "staleness", "--workload", workload, "--events", 1000)
    assert [t["table"] for t in found["tables"]] == ["orders", "report"]
    assert [row["tracks"] for row in found["by_tracks"]] == [1, 2, 3, 4]
    out = tidemill.well("sim", "staleness", "--workload", workload, "--events", 1000).out
    assert "max-benefit on 2 tracks, single" in out


def test_a_workload_in_json(tidemill: Program, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"tables": {"t": {"period": 60, "cost": 6}}}))
    assert tidemill.json("sim", "staleness", "--workload", path, "--events", 200)["load"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "expected either --figure or --workload"),
        (("--figure", 3), "should be greater than or equal to 4"),
        (("--figure", 12), "should be less than or equal to 11"),
    ],
)
def test_what_cannot_be_simulated_is_refused(tidemill: Program, arguments: tuple[str | int, ...], said: str) -> None:
    ended = tidemill("sim", "staleness", *arguments)
    assert ended.code == 2
    assert said in ended.err


def test_a_file_that_says_nothing_sensible_is_refused(tidemill: Program, tmp_path: Path) -> None:
    path = tmp_path / "tables.toml"
    path.write_text("tables = [")
    assert "is neither TOML nor" in tidemill("sim", "staleness", "--workload", path).err
    listed = tmp_path / "tables.json"
    listed.write_text("[]")
    assert "expected tables by name, found list" in tidemill("sim", "staleness", "--workload", listed).err
