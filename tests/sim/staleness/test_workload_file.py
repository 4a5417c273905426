"""Workload files of users: all settings, and the messages for invalid ones."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tidemill.errors import ConfigError
from tidemill.scheduler.hierarchy import PriorityInheritance
from tidemill.scheduler.job import UpdateCost
from tidemill.sim.staleness.sizing import size_tracks
from tidemill.sim.staleness.workload import SimulationConfig
from tidemill.sim.staleness.workload_file import parse_workload

TABLES: dict[str, Any] = {
    "orders": {"period": "1 minute", "cost": {"start": "2s", "rate": 0.1}, "priority": 10},
    "clicks": {"period": 300, "cost": 20},
    "report": {"cost": "5 s", "parents": ["orders", "clicks"]},
}


def test_every_setting_is_parsed() -> None:
    parsed = parse_workload(
        {"tracks": 3, "policy": "edf", "placement": "single", "inheritance": "sum", "catch_up_limit": 3, "patience": 5,
         "batch_limit": 7, "tables": TABLES}
    )  # fmt: skip
    tables = {t.name: t for t in parsed.workload.tables}
    assert parsed.workload.tracks == 3
    assert tables["orders"].cost == UpdateCost(2.0, 0.1)
    assert (tables["clicks"].period, tables["clicks"].cost, tables["clicks"].priority) == (
        300.0,
        UpdateCost(20.0, 0.0),
        1.0,
    )
    assert tables["report"].period == 300.0
    config = parsed.config
    assert (config.policy, config.placement, config.inheritance) == ("edf", "single", PriorityInheritance.SUM)
    assert (config.catch_up_periods, config.batch_limit, config.patience) == (3.0, 7, 5.0)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "expected tables, found none"),
        ({"tables": {"a": 5}}, "table a: expected a period and a cost, found 5"),
        ({"tables": {"a": {"cost": 1}}}, "table a: period: expected a time above 0 .* found None"),
        ({"tables": {"a": {"period": "soon", "cost": 1}}}, "table a: period: .* found 'soon'"),
        ({"tables": {"a": {"period": -1, "cost": 1}}}, "table a: period: .* found -1"),
        ({"tables": {"a": {"period": 1, "cost": True}}}, "table a: cost: .* found True"),
        (
            {"tables": {"a": {"period": 1, "cost": {"start": 1, "rate": -2}}}},
            "cost.rate: expected a number of at least 0",
        ),
        ({"tables": {"a": {"period": 1, "cost": {"slope": 1}}}}, "table a: cost: expected start, rate, found slope"),
        ({"tables": {"a": {"period": 1, "cost": 1, "prio": 2}}}, "table a: expected period, .* found prio"),
        ({"tables": {"a": {"period": 1, "cost": 1, "parents": ["b"]}}}, "expected parents among the tables, found b"),
        ({"tables": TABLES, "policy": "best"}, "policy: expected one of max-benefit, .* found 'best'"),
        ({"tables": TABLES, "tracks": 0}, "tracks: expected a number of at least 1, found 0"),
        ({"tables": TABLES, "catch_up_limit": 0.5}, "catch_up_limit: expected a number of at least 1, found 0.5"),
        ({"tables": TABLES, "track": 2}, "the workload: expected tracks, .* found track"),
    ],
)
def test_invalid_settings_are_named(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_workload(document)


def test_more_tracks_reduce_lateness() -> None:
    sizing = size_tracks(
        parse_workload({"tracks": 2, "tables": {f"t{i}": {"period": 60, "cost": 15} for i in range(7)}}), 4000
    )
    assert list(sizing.lateness) == [1, 2, 3, 4]
    assert sizing.lateness[1] > sizing.lateness[2] > sizing.lateness[4] >= 1.0
    assert sizing.workload_file.workload.load == pytest.approx(7 * 15 / 60 / 2)
    assert all(t.staleness >= t.best * 0.99 for t in sizing.tables)


def test_too_few_tracks_are_left_out() -> None:
    tables = {f"t{i}": {"period": 60, "cost": 15} for i in range(6)}
    sizing = size_tracks(parse_workload({"tracks": 2, "placement": "partitioned", "tables": tables}), 1000)
    assert list(sizing.lateness) == [2, 3, 4]


def test_the_workload_in_the_guide_is_valid() -> None:
    guide = (Path(__file__).parents[3] / "docs" / "scheduling.md").read_text(encoding="utf-8")
    example = re.search(r"```toml\n(# tables\.toml.*?)```", guide, re.DOTALL)
    assert example is not None
    parsed = parse_workload(tomllib.loads(example[1]))
    assert parsed.config == SimulationConfig(
        placement="proportional", catch_up_periods=3.0, patience=10.0, batch_limit=5
    )
    assert [t.name for t in parsed.workload.tables] == ["orders", "catalogue", "report"]
