from __future__ import annotations

import pytest
from tests.cli.program import Program

from tidemill.app.settings import SETTINGS_FILE
from tidemill.app.wiring import Tidemill
from tidemill.ports.records import RECOVERING, Server


def find_problems(document: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {c["check"]: c["detail"] for c in document["checks"] if not c["ok"]}


def test_every_check_passes(starter: Program) -> None:
    document = starter.json("doctor", "--no-spark")
    assert document["ok"]
    assert [c["check"] for c in document["checks"]] == [
        *("python", "java", "pyspark", "disk"),
        *("settings", "catalog", "storage", "store", "servers", "workflows"),
    ]
    assert "ok   workflows   workflow.py: 0 changes to apply" in starter.run_ok("doctor", "--no-spark").out


def test_missing_files_are_named(starter: Program) -> None:
    starter.insert_sample()
    starter.insert_sample()
    assert "2 of 2 referenced files checked, all exist" in starter.run_ok("doctor", "--no-spark").out
    (missing, _) = sorted(starter.project.glob(".tidemill/blocks/runs/*/*/*/*.parquet"))
    missing.unlink()
    problems = find_problems(starter("doctor", "--no-spark", "--json").document)
    assert list(problems) == ["store"]
    assert "2 of 2 referenced files checked, 1 of them missing, such as runs/1/" in problems["store"]


def test_runs_newer_than_the_catalog_are_reported(starter: Program) -> None:
    """As after restoring a catalog backup that is too recent for the store's marker to detect."""
    starter.insert_sample()
    (starter.project / ".tidemill/blocks/runs/17").mkdir()
    problems = find_problems(starter("doctor", "--no-spark", "--json").document)
    assert "the catalog is older than its block store" in problems["store"]
    assert "its newest run is 1" in problems["store"]
    assert "directories of later ones, 1 in all, up to run 17" in problems["store"]


def test_servers_that_lost_spark_are_reported(starter: Program) -> None:
    with Tidemill.open(starter.project) as mill:
        mill.catalog.servers.record_heartbeat(Server("well", "work", 1), lease=5.0)
        assert "ok   servers     1 server serving" in starter.run_ok("doctor", "--no-spark").out
        mill.catalog.servers.record_heartbeat(Server("ill", "work", 1, state=RECOVERING), lease=5.0)
        problems = find_problems(starter("doctor", "--no-spark", "--json").document)
    assert problems == {"servers": "ill lost Spark's session and is restarting it; see the server's log"}


def test_without_a_project_the_machine_is_checked(tidemill: Program) -> None:
    tidemill.project.mkdir()
    result = tidemill("doctor", "--no-spark", "--json")
    assert result.code == 1
    assert list(find_problems(result.document)) == ["settings"]
    assert "tidemill init" in find_problems(result.document)["settings"]


@pytest.mark.parametrize(
    ("settings", "broken"),
    [
        ('workflows = ["gone.py"]', "workflows"),
        ('[catalog]\nurl = "sqlite:////proc/none/catalog.db"', "catalog"),
        ('[storage]\nurl = "/proc/none"', "storage"),
        ("[spark]\nmastre = 1", "settings"),
    ],
)
def test_each_problem_is_named(starter: Program, settings: str, broken: str) -> None:
    (starter.project / SETTINGS_FILE).write_text(settings)
    result = starter("doctor", "--no-spark", "--json")
    assert result.code == 1
    assert list(find_problems(result.document)) == [broken]


@pytest.mark.parametrize(
    ("name", "replacement", "broken"),
    [
        ("lazy_imports.find_java_problem", lambda: "no Java was found", "java"),
        ("version", lambda _: "3.5.0", "pyspark"),
        ("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}), "disk"),
    ],
)
def test_missing_software_and_disk_space_are_reported(
    starter: Program, monkeypatch: pytest.MonkeyPatch, name: str, replacement: object, broken: str
) -> None:
    monkeypatch.setattr(f"tidemill.cli.doctor.{name}", replacement)
    result = starter("doctor", "--no-spark", "--json")
    assert result.code == 1
    assert list(find_problems(result.document)) == [broken]
