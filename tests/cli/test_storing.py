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


def test_upkeep_is_paused_and_resumed(started: Program) -> None:
    started.insert_sample()
    document = started.json("upkeep")
    assert (document["automatic"], document["paused"], document["under_way"]) == (True, False, [])
    (orders,) = (c for c in document["channels"] if c["channel"] == "orders")
    assert orders["compaction"].startswith("not due: ")
    assert started.json("upkeep", "--pause")["paused"]
    assert "upkeep is paused; go on with: tidemill upkeep --resume" in started.well("upkeep").out
    assert started.json("dispatching")["wished"] == {}
    assert started.json("dispatching", "--reset")["wished"] == {}
    assert started.json("upkeep")["paused"]
    assert not started.json("upkeep", "--resume")["paused"]
    assert started.well("upkeep").out.startswith("upkeep is automatic\n")
    assert started("upkeep", "--pause", "--resume").code == 2


def test_upkeep_says_that_the_settings_stop_it(started: Program) -> None:
    settings = started.project / "tidemill.toml"
    settings.write_text(settings.read_text() + "\n[upkeep]\nautomatic = false\n")
    assert "the settings say so" in started.well("upkeep").out
