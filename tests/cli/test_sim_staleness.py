"""`sim staleness`: workloads, with readable and JSON output."""

from __future__ import annotations

import json
from pathlib import Path

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


def test_a_workload_is_simulated(tidemill: Program, workload: Path) -> None:
    document = tidemill.json("sim", "staleness", "--workload", workload, "--events", 1000)
    assert [t["table"] for t in document["tables"]] == ["orders", "report"]
    assert [row["tracks"] for row in document["by_tracks"]] == [1, 2, 3, 4]
    out = tidemill.run_ok("sim", "staleness", "--workload", workload, "--events", 1000).out
    assert "max-benefit on 2 tracks, single" in out


def test_a_workload_may_be_json(tidemill: Program, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text(json.dumps({"tables": {"t": {"period": 60, "cost": 6}}}))
    assert tidemill.json("sim", "staleness", "--workload", path, "--events", 200)["load"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("staleness",), "Missing option '--workload'"),
        (("staleness", "--figure", 6), "`python -m benchmarks figures --figure`"),
        (("workflows", "--table", 5), "run `python -m benchmarks workflows`"),
    ],
)
def test_a_figure_that_cannot_be_simulated_is_rejected(
    tidemill: Program, arguments: tuple[str | int, ...], message: str
) -> None:
    result = tidemill("sim", *arguments)
    assert result.code == 2
    assert message in result.err


def test_an_invalid_workload_file_is_rejected(tidemill: Program, tmp_path: Path) -> None:
    path = tmp_path / "tables.toml"
    path.write_text("tables = [")
    assert "is neither TOML nor" in tidemill("sim", "staleness", "--workload", path).err
    listed = tmp_path / "tables.json"
    listed.write_text("[]")
    assert "expected tables by name, found list" in tidemill("sim", "staleness", "--workload", listed).err
