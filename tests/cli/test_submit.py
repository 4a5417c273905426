"""`submit`, `submissions`, `history`, `storage`, and `explain` of an action, without Spark."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.program import FailingEngine, Program

Json = dict[str, Any]


def build_workflow(last: str = "SELECT count(*) AS n FROM words") -> Json:
    words = {"id": 1, "name": "words", "type": "spark-sql", "query": "SELECT 'a' AS word"}
    counts = {"id": 2, "name": "counts", "type": "spark-sql", "query": last, "parentActions": [{"id": 1}]}
    return {"name": "counting", "startActionId": 1, "endActionId": 2, "actions": [words, counts]}


def write_workflow(program: Program, document: Json) -> Path:
    path = program.project / "counting.json"
    path.write_text(json.dumps(document))
    return path


def list_states(document: Json) -> list[tuple[str, str]]:
    return [(a["state"], a["verdict"]) for a in document["actions"]]


def test_a_workflow_is_submitted_and_watched(starter: Program) -> None:
    path = write_workflow(starter, build_workflow())
    waiting = starter.json("submit", path)
    assert list_states(waiting) == [("ready", "new"), ("waiting", "new")]
    finished = starter.json("submit", path, "--watch")
    assert list_states(finished) == [("finished", "awaited"), ("finished", "awaited")]
    assert list_states(starter.json("submissions", waiting["id"])) == [("finished", "new"), ("finished", "new")]
    again = starter.json("submit", path, "--watch")
    assert list_states(again) == [("finished", "reused"), ("finished", "reused")]
    assert [s["id"] for s in starter.json("submissions")["submissions"]] == [3, 2, 1]
    assert "submission 3 finished: 2 actions, 0 computed" in starter.run_ok("submissions", 3).out
    assert "counting" in starter.run_ok("submissions", "--limit", 1).out


def test_the_reason_for_computing_an_action_is_explained(starter: Program) -> None:
    starter("submit", write_workflow(starter, build_workflow()), "--watch")
    starter("submit", write_workflow(starter, build_workflow("SELECT 7 AS n FROM words")), "--watch")
    explanation = starter.run_ok("explain", "counts", "--submission", 2).out
    assert "something that it depends on has changed" in explanation
    assert "SELECT 7 AS n FROM input_0" in explanation
    assert starter.json("explain", "1", "--submission", 2)["verdict"] == "reused"
    assert starter("explain", "nope", "--submission", 2).code == 4


def test_an_invalid_workflow_is_reported_with_its_position(starter: Program) -> None:
    broken = build_workflow()
    broken["actions"][1]["parentActions"] = [{"id": 9}]
    result = starter("submit", write_workflow(starter, broken))
    assert result.code == 3
    assert "/actions/1/parentActions/0/id: there is no action with id 9" in result.err
    assert starter.json("submissions") == {"submissions": []}


def test_a_failure_names_the_action_and_its_run(starter: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemill.app.lazy_imports.SparkEngine", FailingEngine)
    result = starter("submit", write_workflow(starter, build_workflow()), "--watch")
    assert result.code == 7
    assert "2 of 2 actions of submission 1 failed" in result.err
    assert "1 (words), run 1: task words: no such column" in result.err
    assert "about to fail" in starter.run_ok("runs", 1, "--log").out


def test_stored_datasets_are_listed_and_evicted(starter: Program) -> None:
    assert "no budget is set" in starter.run_ok("storage").out
    starter("submit", write_workflow(starter, build_workflow()), "--watch")
    shown = starter.json("storage")
    assert {k["name"]: k["reason"].partition(":")[0] for k in shown["retained"]} == {
        "words": "until space is short",
        "counts": "leaf of counting",
    }
    assert re.search(r"and 1 smaller one of .+; see them with --limit", starter.run_ok("storage", "--limit", 1).out)
    assert "see them with" not in starter.run_ok("storage").out
    dry = starter.json("storage", "--free", "1", "--dry-run")
    assert ([g["name"] for g in dry["evictions"]], dry["evicted"]) == (["words"], False)
    assert len(starter.json("storage")["retained"]) == 2
    assert starter("storage", "--free", "1 GB", "--dry-run").code == 8
    assert starter("storage", "--free", "much").code == 5
    assert "were freed" in starter.run_ok("storage", "--free", "1").out
    (leaf,) = starter.json("storage")["retained"]
    assert starter.json("storage", "--drop", leaf["identity"][:12]) == {"dropped": leaf["identity"]}
    assert starter.json("storage")["used_bytes"] == 0


def test_the_budget_of_the_settings_is_shown_with_the_next_evictions(starter: Program) -> None:
    settings = starter.project / "tidemill.toml"
    settings.write_text('[storage]\nbudget = "1 MB"\neviction_threshold = 0.5\n')
    starter("submit", write_workflow(starter, build_workflow()), "--watch")
    shown = starter.json("storage")
    assert (shown["budget"], shown["limit"]) == (1_000_000, 500_000)
    assert [g["name"] for g in shown["evictions"]] == ["words"]
    assert shown["freed_bytes"] == shown["evictions"][0]["bytes"]
    settings.write_text(settings.read_text().replace("1 MB", "1 parsec"))
    assert "not a size: '1 parsec'" in starter("storage").err


def test_refreshes_of_tables_are_part_of_the_usage_history(starter: Program) -> None:
    starter.insert_sample()
    starter.run_ok("run", "report")
    (hour,) = starter.json("history", "--by", "hour")["figures"]
    assert (hour["refreshes"], hour["submissions"], hour["failed"]) == (2, 0, 0)  # of both tasks
    assert hour["bytes"] > 0
    tasks = starter.json("history", "--per", "task")["figures"]
    assert sum(t["seconds"] for t in tasks) == pytest.approx(hour["seconds"])
    first = tasks[0]["group"].partition("/")[2]
    assert len(starter.json("history", "--task", first)["figures"]) == 1
    assert starter.json("history", "--task", "other")["figures"] == []


def test_a_pinned_dataset_is_not_evicted(starter: Program) -> None:
    starter("submit", write_workflow(starter, build_workflow()), "--watch")
    assert starter.json("pin", "counting/words")["pinned"] is True
    assert starter("storage", "--free", "1").code == 8
    assert "pinned: it stays" in starter.run_ok("storage").out
    assert "no longer pinned" in starter.run_ok("unpin", "counting/words").out
    assert starter.json("storage", "--free", "1")["evicted"] is True
    assert starter("pin", "counting/words").code == 4


def test_one_workflow_may_have_a_budget(starter: Program) -> None:
    (starter.project / "tidemill.toml").write_text('[storage.budgets]\ncounting = "1 B"\n')
    starter("submit", write_workflow(starter, build_workflow()), "--watch")
    shown = starter.json("storage")
    (share,) = shown["workflows"]
    assert (share["workflow"], share["budget"], shown["budget"]) == ("counting", 1, None)
    assert shown["problems"][0].startswith("workflow 'counting': ")
    assert "workflow 'counting'" in starter.run_ok("storage").out.replace("\n", " ")
    (starter.project / "tidemill.toml").write_text('[storage.budgets]\ncounting = "1 parsec"\n')
    assert "not a size: '1 parsec'" in starter("storage").err


def test_the_usage_history_counts_actions_and_hits(starter: Program) -> None:
    assert "no usage" in starter.run_ok("history").out
    for _ in range(2):
        starter("submit", write_workflow(starter, build_workflow()), "--watch")
    (day,) = starter.json("history", "--since", "2 days", "--by", "hour")["figures"]
    assert (day["submissions"], day["actions"], day["computed"], day["hits"]) == (2, 4, 2, 2)
    assert "2 (50%)" in starter.run_ok("history", "--workflow", "counting").out
    tasks = starter.json("history", "--by", "week", "--per", "task", "--until", "0s")["figures"]
    assert [(f["group"], f["actions"]) for f in tasks] == [("counting/counts", 2), ("counting/words", 2)]
    assert starter.json("history", "--user", "stranger")["figures"] == []
    assert starter("history", "--since", "long").code == 5
