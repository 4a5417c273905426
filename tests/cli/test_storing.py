from __future__ import annotations

from tests.cli.program import Program


def test_compact_wants_channels_or_all(started: Program) -> None:
    for arguments in ([], ["orders", "--all"]):
        ended = started("compact", *arguments)
        assert ended.code == 2
        assert "name the channels to compact, or say --all" in ended.err


def test_where_there_is_nothing_to_merge(started: Program) -> None:
    assert started.json("compact", "orders") == {"compacted": [{"channel": "orders", "block": None}]}
    assert started.well("compact", "--all").out == "orders: nothing to merge\n"


def test_gc_deletes_what_nobody_needs(started: Program) -> None:
    started.insert_sample()
    started.well("insert", "orders", started.project / "orders.csv", "--base")
    started.well("run", "report")
    document = started.json("gc")
    assert document["blocks"] > 0
    assert document["files"] == 1
    assert started.well("gc").out == "deleted 0 blocks and 0 files\n"


def test_gc_can_keep_the_past(started: Program) -> None:
    started.insert_sample()
    assert started.json("gc", "--keep", "7 days")["files"] == 0
    assert started("gc", "--keep", "long").code == 5
