"""The log of a compaction says where it was computed, and why."""

import os
from pathlib import Path

import pytest

import tidemill as tm
from tidemill.app.project import Project
from tidemill.app.settings import Settings
from tidemill.app.wiring import Tidemill
from tidemill.model.run import RunKind

PLACES = [("off", "place: spark (local execution is off)")]
if os.environ.get("TIDEMILL_ENGINE_LOCAL") != "off":  # `make test-spark-only`
    PLACES.append(("auto", "place: driver ("))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(("local", "place"), PLACES)
def test_the_log_names_the_place(local: str, place: str, tmp_path: Path) -> None:
    workflow = tm.Workflow("people")
    workflow.input("users", "id int, city string", key="id")
    settings = Settings.model_validate({"engine": {"local": local}})
    with Tidemill(tmp_path, settings, Project((workflow.build_spec(),))) as mill:
        mill.apply()
        for city in ("here", "there"):
            mill.insert("users", [{"id": 1, "city": city}])
        mill.compact("users")
        (run,) = [r for r in mill.catalog.runs.list(subject="users") if r.kind is RunKind.COMPACTION]
        assert place in mill.catalog.runs.read_log(run.id)
        assert mill.rows("users") == [{"id": 1, "city": "there"}]
