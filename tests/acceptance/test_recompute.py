"""A table whose state was dropped, and the variants that restore it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.acceptance.conftest import Open, name_values

import tidemill as tm
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError

CLICKS = "user bigint, site string"


def workflow() -> tm.Workflow:
    wf = tm.Workflow("search")
    wf.input("clicks", CLICKS)
    wf.sql("seen", "SELECT site, count(DISTINCT user) AS users FROM clicks GROUP BY site")
    return wf


def insert(mill: Tidemill, *rows: tuple[Any, ...]) -> None:
    mill.insert("clicks", name_values(CLICKS, rows))


def refresh(mill: Tidemill, variant: str | None = None) -> tuple[str, dict[str, int]]:
    run, _ = mill.run("seen", variant=variant)
    return run.stats["tasks"]["seen"]["variant"], {r["site"]: r["users"] for r in mill.rows("seen")}


def test_recompute_drops_the_state_and_batch_restores_it(open_mill: Open) -> None:
    mill = open_mill(workflow())
    insert(mill, (1, "a"), (2, "a"), (1, "b"))
    assert refresh(mill) == ("batch", {"a": 2, "b": 1})
    insert(mill, (2, "b"))
    assert refresh(mill, "incremental") == ("incremental", {"a": 2, "b": 2})
    insert(mill, (3, "a"), (3, "a"))
    assert refresh(mill, "recompute") == ("recompute", {"a": 3, "b": 2})
    assert mill.rows("seen.state1") == mill.rows("seen.state2") == []

    insert(mill, (1, "a"), (4, "b"))
    with pytest.raises(ConfigError, match="cannot be refreshed by variant 'incremental' now: its state was dropped"):
        mill.run("seen", variant="incremental")
    assert refresh(mill, "batch") == ("batch", {"a": 3, "b": 3})
    insert(mill, (4, "b"), (5, "b"))
    assert refresh(mill, "incremental") == ("incremental", {"a": 3, "b": 4})
