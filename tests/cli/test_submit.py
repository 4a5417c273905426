"""`submit`, `submissions`, `history`, `storage`, and `explain` of an action, without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import FailingEngine, Program

Json = dict[str, Any]


def one_shot(last: str = "SELECT count(*) AS n FROM words") -> Json:
    words = {"id": 1, "name": "words", "type": "spark-sql", "query": "SELECT 'a' AS word"}
    counts = {"id": 2, "name": "counts", "type": "spark-sql", "query": last, "parentActions": [{"id": 1}]}
    return {"name": "counting", "startActionId": 1, "endActionId": 2, "actions": [words, counts]}


def written(program: Program, document: Json) -> Path:
    path = program.project / "counting.json"
    path.write_text(json.dumps(document))
    return path


def states(document: Json) -> list[tuple[str, str]]:
    return [(a["state"], a["verdict"]) for a in document["actions"]]


def test_a_workflow_is_submitted_and_seen_through(started: Program) -> None:
    path = written(started, one_shot())
    waiting = started.json("submit", path)
    assert states(waiting) == [("ready", "new"), ("waiting", "new")]
    done = started.json("submit", path, "--watch")
    assert states(done) == [("finished", "awaited"), ("finished", "awaited")]
    assert states(started.json("submissions", waiting["id"])) == [("finished", "new"), ("finished", "new")]
    again = started.json("submit", path, "--watch")
    assert states(again) == [("finished", "reused"), ("finished", "reused")]
    assert [s["id"] for s in started.json("submissions")["submissions"]] == [3, 2, 1]
    assert "submission 3 finished: 2 actions, 0 computed" in started.well("submissions", 3).out
    assert "counting" in started.well("submissions", "--limit", 1).out


def test_why_an_action_was_computed_is_explained(started: Program) -> None:
    started("submit", written(started, one_shot()), "--watch")
    started("submit", written(started, one_shot("SELECT 7 AS n FROM words")), "--watch")
    why = started.well("explain", "counts", "--submission", 2).out
    assert "something that it depends on has changed" in why
    assert "SELECT 7 AS n FROM input_0" in why
    assert started.json("explain", "1", "--submission", 2)["verdict"] == "reused"
    assert started("explain", "nope", "--submission", 2).code == 4


def test_what_is_wrong_is_said_with_its_place(started: Program) -> None:
    broken = one_shot()
    broken["actions"][1]["parentActions"] = [{"id": 9}]
    ended = started("submit", written(started, broken))
    assert ended.code == 3
    assert "/actions/1/parentActions/0/id: there is no action with id 9" in ended.err
    assert started.json("submissions") == {"submissions": []}


def test_a_failure_names_the_action_and_its_run(started: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.wiring.SparkEngine", FailingEngine)
    ended = started("submit", written(started, one_shot()), "--watch")
    assert ended.code == 7
    assert "2 of 2 actions of submission 1 failed" in ended.err
    assert "1 (words), run 1: task words: no such column" in ended.err
    assert "about to fail" in started.well("runs", 1, "--log").out


def test_what_is_stored_and_making_room(started: Program) -> None:
    assert "no budget is set" in started.well("storage").out
    started("submit", written(started, one_shot()), "--watch")
    shown = started.json("storage")
    assert {k["name"]: k["why"].partition(":")[0] for k in shown["kept"]} == {
        "words": "until space is short",
        "counts": "leaf of counting",
    }
    assert re.search(r"and 1 smaller one of .+; see them with --limit", started.well("storage", "--limit", 1).out)
    assert "see them with" not in started.well("storage").out
    dry = started.json("storage", "--free", "1", "--dry-run")
    assert ([g["name"] for g in dry["going"]], dry["evicted"]) == (["words"], False)
    assert len(started.json("storage")["kept"]) == 2
    assert started("storage", "--free", "1 GB", "--dry-run").code == 8
    assert started("storage", "--free", "much").code == 5
    assert "were freed" in started.well("storage", "--free", "1").out
    (leaf,) = started.json("storage")["kept"]
    assert started.json("storage", "--drop", leaf["identity"][:12]) == {"dropped": leaf["identity"]}
    assert started.json("storage")["held"] == 0


def test_a_budget_of_the_settings_is_shown_with_what_goes_next(started: Program) -> None:
    settings = started.project / "tidemill.toml"
    settings.write_text('[storage]\nbudget = "1 MB"\nthreshold = 0.5\n')
    started("submit", written(started, one_shot()), "--watch")
    shown = started.json("storage")
    assert (shown["budget"], shown["limit"]) == (1_000_000, 500_000)
    assert [g["name"] for g in shown["going"]] == ["words"]
    assert shown["freed"] == shown["going"][0]["bytes"]
    settings.write_text(settings.read_text().replace("1 MB", "1 parsec"))
    assert "not a size: '1 parsec'" in started("storage").err


def test_refreshes_of_tables_are_part_of_the_past(started: Program) -> None:
    started.insert_sample()
    started.well("run", "report")
    (hour,) = started.json("history", "--by", "hour")["figures"]
    assert (hour["refreshes"], hour["submissions"], hour["failed"]) == (2, 0, 0)  # of both tasks
    assert hour["bytes"] > 0
    tasks = started.json("history", "--per", "task")["figures"]
    assert sum(t["seconds"] for t in tasks) == pytest.approx(hour["seconds"])
    first = tasks[0]["of"].partition("/")[2]
    assert len(started.json("history", "--task", first)["figures"]) == 1
    assert started.json("history", "--task", "other")["figures"] == []


def test_pinning(started: Program) -> None:
    started("submit", written(started, one_shot()), "--watch")
    assert started.json("pin", "counting/words")["pinned"] is True
    assert started("storage", "--free", "1").code == 8
    assert "pinned: it stays" in started.well("storage").out
    assert "no longer pinned" in started.well("unpin", "counting/words").out
    assert started.json("storage", "--free", "1")["evicted"] is True
    assert started("pin", "counting/words").code == 4


def test_a_budget_of_one_workflow(started: Program) -> None:
    (started.project / "tidemill.toml").write_text('[storage.budgets]\ncounting = "1 B"\n')
    started("submit", written(started, one_shot()), "--watch")
    shown = started.json("storage")
    (share,) = shown["workflows"]
    assert (share["workflow"], share["budget"], shown["budget"]) == ("counting", 1, None)
    assert shown["problems"][0].startswith("workflow 'counting': ")
    assert "workflow 'counting'" in started.well("storage").out.replace("\n", " ")
    (started.project / "tidemill.toml").write_text('[storage.budgets]\ncounting = "1 parsec"\n')
    assert "not a size: '1 parsec'" in started("storage").err


def test_figures_of_the_past(started: Program) -> None:
    assert "no usage" in started.well("history").out
    for _ in range(2):
        started("submit", written(started, one_shot()), "--watch")
    (day,) = started.json("history", "--since", "2 days", "--by", "hour")["figures"]
    assert (day["submissions"], day["actions"], day["computed"], day["hits"]) == (2, 4, 2, 2)
    assert "2 (50%)" in started.well("history", "--workflow", "counting").out
    tasks = started.json("history", "--by", "week", "--per", "task", "--until", "0s")["figures"]
    assert [(f["of"], f["actions"]) for f in tasks] == [("counting/counts", 2), ("counting/words", 2)]
    assert started.json("history", "--user", "nobody")["figures"] == []
    assert started("history", "--since", "long").code == 5
