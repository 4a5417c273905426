from __future__ import annotations

import pytest
from tests.cli.program import Program

from tidemill.app.settings import SETTINGS_FILE
from tidemill.app.wiring import Tidemill
from tidemill.ports.records import RECOVERING, Server


def problems(document: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {c["check"]: c["detail"] for c in document["checks"] if not c["ok"]}


def test_all_is_well(started: Program) -> None:
    document = started.json("doctor", "--no-spark")
    assert document["ok"]
    assert [c["check"] for c in document["checks"]] == [
        *("python", "java", "pyspark", "disk"),
        *("settings", "catalog", "storage", "store", "servers", "workflows"),
    ]
    assert "ok   workflows   workflow.py: 0 changes to apply" in started.well("doctor", "--no-spark").out


def test_missing_files_are_named(started: Program) -> None:
    started.insert_sample()
    started.insert_sample()
    assert "2 of 2 referenced files checked, all exist" in started.well("doctor", "--no-spark").out
    (gone, _) = sorted(started.project.glob(".tidemill/blocks/runs/*/*/*/*.parquet"))
    gone.unlink()
    found = problems(started("doctor", "--no-spark", "--json").document)
    assert list(found) == ["store"]
    assert "2 of 2 referenced files checked, 1 of them missing, such as runs/1/" in found["store"]


def test_runs_that_the_catalog_has_yet_to_begin_are_reported(started: Program) -> None:
    """As after a restored copy that is so new that the marker does not tell."""
    started.insert_sample()
    (started.project / ".tidemill/blocks/runs/17").mkdir()
    found = problems(started("doctor", "--no-spark", "--json").document)
    assert "the catalog is older than its block store" in found["store"]
    assert "its newest run is 1" in found["store"]
    assert "directories of later ones, 1 in all, up to run 17" in found["store"]


def test_servers_that_lost_spark_are_reported(started: Program) -> None:
    with Tidemill.open(started.project) as mill:
        mill.catalog.record_heartbeat(Server("well", "work", 1), lease=5.0)
        assert "ok   servers     1 server serving" in started.well("doctor", "--no-spark").out
        mill.catalog.record_heartbeat(Server("ill", "work", 1, state=RECOVERING), lease=5.0)
        found = problems(started("doctor", "--no-spark", "--json").document)
    assert found == {"servers": "ill lost Spark's session and is restarting it; see the server's log"}


def test_without_a_project_the_machine_is_checked(tidemill: Program) -> None:
    tidemill.project.mkdir()
    ended = tidemill("doctor", "--no-spark", "--json")
    assert ended.code == 1
    assert list(problems(ended.document)) == ["settings"]
    assert "tidemill init" in problems(ended.document)["settings"]


@pytest.mark.parametrize(
    ("settings", "broken"),
    [
        ('workflows = ["gone.py"]', "workflows"),
        ('[catalog]\nurl = "sqlite:////proc/none/catalog.db"', "catalog"),
        ('[storage]\nurl = "/proc/none"', "storage"),
        ("[spark]\nmastre = 1", "settings"),
    ],
)
def test_each_problem_is_named(started: Program, settings: str, broken: str) -> None:
    (started.project / SETTINGS_FILE).write_text(settings)
    ended = started("doctor", "--no-spark", "--json")
    assert ended.code == 1
    assert list(problems(ended.document)) == [broken]


@pytest.mark.parametrize(
    ("name", "found", "broken"),
    [
        ("find_java_problem", lambda: "no Java was found", "java"),
        ("version", lambda _: "3.5.0", "pyspark"),
        ("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}), "disk"),
    ],
)
def test_what_the_machine_lacks(
    started: Program, monkeypatch: pytest.MonkeyPatch, name: str, found: object, broken: str
) -> None:
    monkeypatch.setattr(f"tidemill.cli.doctor_checks.{name}", found)
    ended = started("doctor", "--no-spark", "--json")
    assert ended.code == 1
    assert list(problems(ended.document)) == [broken]
