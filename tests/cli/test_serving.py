"""Commands about workflows, triggers, servers and access."""

from __future__ import annotations

import json
from pathlib import Path

from tests.app.test_registry import SHOP
from tests.cli.program import Program


def registered(started: Program, tmp_path: Path) -> None:
    document = SHOP | {"name": "stand", "inputs": [{"name": "sales", "columns": "item string, price int"}]}
    document["tables"] = [
        {
            "name": "sums",
            "query": "SELECT item, sum(price) AS price FROM sales GROUP BY item",
            "triggers": [{"kind": "every", "seconds": 60}],
        }
    ]
    path = tmp_path / "stand.json"
    path.write_text(json.dumps(document))
    steps = started.json("register", path)["steps"]
    assert [(s["action"], s["what"], s["name"]) for s in steps][:2] == [
        ("add", "channel", "sales"),
        ("add", "channel", "sums"),
    ]


def test_a_document_is_registered_listed_and_removed(started: Program, tmp_path: Path) -> None:
    registered(started, tmp_path)
    assert [w["name"] for w in started.json("workflows")["workflows"]] == ["shop", "stand"]
    assert "every 60 s" in started.well("triggers").out
    (trigger,) = started.json("triggers")["triggers"]
    assert (trigger["flow"], trigger["condition"]) == ("sums", {"kind": "every", "seconds": 60.0})
    assert started.json("remove", "stand") == {"removed": "stand"}
    assert [w["name"] for w in started.json("workflows")["workflows"]] == ["shop"]


def test_what_a_file_declares_is_not_removed(started: Program) -> None:
    ended = started("remove", "shop", "--json")
    assert (ended.code, ended.error["kind"]) == (6, "Conflict")


def test_a_document_that_is_none_is_said_so(started: Program, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{")
    assert "is not JSON" in started("register", path).err
    path.write_text('{"name": "../x"}')
    assert started("register", path).code == 5


def test_a_workflow_is_paused_resumed_and_prioritised(started: Program) -> None:
    assert started.json("pause", "shop")["paused"] is True
    assert "paused" in started.well("workflows").out
    assert started.json("resume", "shop")["paused"] is False
    assert started.json("prioritise", "shop", 7)["priority"] == 7
    assert started("pause", "nope").code == 4


def test_no_servers_are_said_to_be_none(started: Program) -> None:
    assert started.well("servers").out.strip() == "no servers"
    assert started.json("servers") == {"servers": []}


def test_a_token_is_shown_once(started: Program) -> None:
    started.well("access", "user", "ann", "operator")
    issued = started.json("access", "token", "ann", "--for", "laptop", "--lasts", "90 days")
    assert issued["text"].startswith(f"tdm_{issued['id']}_")
    listed = started.well("access", "users", "--json").out
    assert issued["text"] not in listed
    assert json.loads(listed)["users"] == [{"name": "ann", "role": "operator"}]
    assert started.json("access", "revoke", issued["id"])["revoked"] is not None
    assert "revoked" in started.well("access", "users").out


def test_a_workflow_gets_owners(started: Program) -> None:
    started.well("access", "user", "ann", "operator")
    assert started.json("access", "own", "shop", "ann") == {"workflow": "shop", "owners": ["ann"]}
    assert "belongs to no user" in started.well("access", "own", "shop").out


def test_access_refuses_what_it_does_not_know(started: Program) -> None:
    assert started("access", "token", "nobody").code == 4
    started.well("access", "user", "ann", "viewer")
    assert started("access", "token", "ann", "--lasts", "soon").code == 5
