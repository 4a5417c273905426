"""A project of the release before the renaming opens, migrates and runs; names that changed fail with the new name."""

from __future__ import annotations

import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidemill.app import Tidemill
from tidemill.errors import WorkflowError
from tidemill.model.run import RunState
from tidemill.runtime.maintenance.service import is_paused

FIXTURE = Path(__file__).parents[1] / "fixtures" / "project_before_renaming.tgz"

RENAMED = {
    "Step": "KeyedResult",
    "together=": "refresh_group=",
    "wf.settled": "wf.watermark",
    "disorder=": "delay=",
}
"""Names in the project's workflow file, and what they are called now, in the order in which loading meets them."""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The project as the earlier release left it."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path / "shop"


@pytest.fixture
def renamed_project(project: Path) -> Path:
    """The project after its user renamed what the error messages name."""
    workflow = project / "workflow.py"
    text = workflow.read_text()
    for old, new in RENAMED.items():
        text = text.replace(old, new)
    workflow.write_text(text)
    return project


@pytest.fixture
def mill(renamed_project: Path, spark: SparkSession) -> Iterator[Tidemill]:
    with Tidemill.open(renamed_project) as opened:
        yield opened


def test_each_renamed_name_fails_with_the_new_one(project: Path) -> None:
    workflow = project / "workflow.py"
    for old, new in RENAMED.items():
        with Tidemill.open(project) as opened, pytest.raises(WorkflowError, match=new.strip("=").split(".")[-1]):
            opened.plan()
        workflow.write_text(workflow.read_text().replace(old, new))


def test_content_and_history_survive_the_migration(mill: Tidemill) -> None:
    assert sorted(row["id"] for row in mill.rows("orders")) == [1, 2, 3, 4, 5]
    assert [run.state for run in mill.catalog.runs.list(subject="report")] == [RunState.FINISHED] * 2
    assert mill.catalog.blocks.read(31).pinned
    assert {trigger.flow for trigger in mill.catalog.triggers.list("report")} == {"report"}
    assert sorted(row["user"] for row in mill.rows("ordered.pending") if row["user"] is not None) == [1]
    assert is_paused(mill.catalog.servers)
    overrides = mill.dispatch_config.select_overrides(mill.catalog.servers.read_setting_overrides())
    assert overrides == {"policy": "edf", "catch_up_limit": 3.0}
    (submission,) = mill.catalog.datasets.list_submissions()
    assert [(action.name, action.verdict) for action in submission.actions] == [("numbers", "new"), ("evens", "new")]


def test_every_flow_continues_from_its_state(mill: Tidemill) -> None:
    mill.apply()
    mill.insert("orders", [{"id": 6, "city": "Ulm", "amount": 1000}])
    mill.insert("payments", [{"account": 1, "amount": 100}])
    mill.insert("clicks", [{"user": 2, "at": datetime(2026, 5, 1, 12, 40, tzinfo=UTC)}])
    for flow in ("report", "sales", "dear", "ordered", "pace", "busy", "paying", "cities"):
        run, _ = mill.run(flow)
        assert run.state is RunState.FINISHED, flow
    assert {r["city"]: (r["orders"], r["total"]) for r in mill.rows("city_totals")} == {
        "Ulm": (3, 1450),
        "Bonn": (1, 500),
        "Kiel": (1, 100),
    }
    assert {r["city"]: r["total"] for r in mill.rows("by_city")} == {"Ulm": 1450, "Bonn": 550, "Kiel": 100}
    assert [(r["cities"], r["best"]) for r in mill.rows("cities")] == [(3, 1450)]
    assert sorted(r["item"] for r in mill.rows("dear")) == ["book", "pen"]
    assert {r["account"]: r["balance"] for r in mill.rows("paying.state")} == {1: 115, 2: 20}
    assert len(mill.rows("ordered")) + len([r for r in mill.rows("ordered.pending") if r["user"] is not None]) == 4


def test_a_task_with_the_name_of_a_renamed_key_keeps_its_name(renamed_project: Path) -> None:
    stats = {"tasks": {"left": {"rows_in": 1, "edge": 7.0}, "edge": {"rows_in": 2}}, "left": 3, "plan": {"why": "due"}}
    with closing(sqlite3.connect(renamed_project / ".tidemill" / "catalog.db")) as catalog:
        (run,) = catalog.execute("SELECT max(id) FROM runs WHERE subject = 'report'").fetchone()
        catalog.execute("UPDATE runs SET stats = ? WHERE id = ?", (json.dumps(stats), run))
        catalog.commit()
    with Tidemill.open(renamed_project) as opened:
        assert opened.catalog.runs.read(run).stats == {
            "tasks": {"left": {"rows_in": 1, "watermark": 7.0}, "edge": {"rows_in": 2}},
            "pending_blocks": 3,
            "plan": {"reason": "due"},
        }
