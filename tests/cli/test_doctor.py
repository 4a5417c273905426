from __future__ import annotations

import pytest
from tests.cli.program import Program

from tidemill.settings import FILE


def problems(document: dict[str, list[dict[str, str]]]) -> dict[str, str]:
    return {c["check"]: c["detail"] for c in document["checks"] if not c["ok"]}


def test_all_is_well(started: Program) -> None:
    document = started.json("doctor", "--no-spark")
    assert document["ok"]
    assert [c["check"] for c in document["checks"]] == [
        *("python", "java", "pyspark", "disk"),
        *("settings", "catalog", "storage", "workflows"),
    ]
    assert "ok   workflows   workflow.py: 0 changes to apply" in started.well("doctor", "--no-spark").out


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
    (started.project / FILE).write_text(settings)
    ended = started("doctor", "--no-spark", "--json")
    assert ended.code == 1
    assert list(problems(ended.document)) == [broken]


@pytest.mark.parametrize(
    ("name", "found", "broken"),
    [
        ("java_problem", lambda: "no Java was found", "java"),
        ("version", lambda _: "3.5.0", "pyspark"),
        ("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}), "disk"),
    ],
)
def test_what_the_machine_lacks(
    started: Program, monkeypatch: pytest.MonkeyPatch, name: str, found: object, broken: str
) -> None:
    monkeypatch.setattr(f"tidemill.cli.checks.{name}", found)
    ended = started("doctor", "--no-spark", "--json")
    assert ended.code == 1
    assert list(problems(ended.document)) == [broken]
