"""Commands about workflows, triggers, servers and access."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.test_registry import SHOP
from tests.cli.program import Program


def register_document(starter: Program, tmp_path: Path) -> None:
    document = SHOP | {"name": "stall", "inputs": [{"name": "sales", "columns": "item string, price int"}]}
    document["tables"] = [
        {
            "name": "sums",
            "query": "SELECT item, sum(price) AS price FROM sales GROUP BY item",
            "triggers": [{"kind": "every", "seconds": 60}],
        }
    ]
    path = tmp_path / "stall.json"
    path.write_text(json.dumps(document))
    steps = starter.json("register", path)["steps"]
    assert [(s["action"], s["what"], s["name"]) for s in steps][:2] == [
        ("add", "channel", "sales"),
        ("add", "channel", "sums"),
    ]


def test_a_document_is_registered_listed_and_removed(starter: Program, tmp_path: Path) -> None:
    register_document(starter, tmp_path)
    assert [w["name"] for w in starter.json("workflows")["workflows"]] == ["shop", "stall"]
    assert "every 60 s" in starter.run_ok("triggers").out
    (trigger,) = starter.json("triggers")["triggers"]
    assert (trigger["flow"], trigger["condition"]) == ("sums", {"kind": "every", "seconds": 60.0})
    assert starter.json("remove", "stall") == {"removed": "stall"}
    assert [w["name"] for w in starter.json("workflows")["workflows"]] == ["shop"]


def test_a_workflow_declared_in_a_file_is_not_removed(starter: Program) -> None:
    result = starter("remove", "shop", "--json")
    assert (result.code, result.error["kind"]) == (6, "Conflict")


def test_an_invalid_document_is_rejected(starter: Program, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    assert "is not JSON" in starter("register", path).err
    path.write_text('{"name": "../x"}')
    assert starter("register", path).code == 5


def test_a_workflow_is_paused_resumed_and_prioritised(starter: Program) -> None:
    assert starter.json("pause", "shop")["paused"] is True
    assert "paused" in starter.run_ok("workflows").out
    assert starter.json("resume", "shop")["paused"] is False
    assert starter.json("prioritise", "shop", 7)["priority"] == 7
    assert starter("pause", "nope").code == 4


def test_an_empty_list_of_servers_is_reported(starter: Program) -> None:
    assert starter.run_ok("servers").out.strip() == "no servers"
    assert starter.json("servers") == {"servers": []}


def test_a_token_is_shown_once(starter: Program) -> None:
    starter.run_ok("access", "user", "ann", "operator")
    issued = starter.json("access", "token", "ann", "--label", "laptop", "--expires-in", "90 days")
    assert issued["text"].startswith(f"tdm_{issued['id']}_")
    listed = starter.run_ok("access", "users", "--json").out
    assert issued["text"] not in listed
    (user,) = json.loads(listed)["users"]
    assert (user["name"], user["role"]) == ("ann", "operator")
    assert starter.json("access", "revoke", issued["id"])["revoked"] is not None
    assert "revoked" in starter.run_ok("access", "users").out


def test_a_workflow_gets_owners(starter: Program) -> None:
    starter.run_ok("access", "user", "ann", "operator")
    assert starter.json("access", "owners", "shop", "ann") == {"workflow": "shop", "owners": ["ann"]}
    assert "belongs to no user" in starter.run_ok("access", "owners", "shop").out


def test_access_rejects_unknown_users_and_invalid_durations(starter: Program) -> None:
    assert starter("access", "token", "stranger").code == 4
    starter.run_ok("access", "user", "ann", "viewer")
    assert starter("access", "token", "ann", "--expires-in", "soon").code == 5


def test_commands_that_change_something_are_audited(starter: Program) -> None:
    starter.run_ok("access", "user", "ann", "developer")
    starter.run_ok("status")
    starter("pause", "nope")
    newest, older = starter.json("access", "audit", "--limit", 2)["entries"]
    assert (newest["action"], newest["outcome"]) == ("COMMAND tidemill pause workflow=nope", 404)
    assert (older["action"], older["outcome"]) == ("COMMAND tidemill access user name=ann role=developer", 200)
    assert (newest["role"], newest["token"], newest["address"]) == (None, None, "this machine")
    assert "access user" in starter.run_ok("access", "audit").out
