from __future__ import annotations

from tests.cli.program import Program


def test_compact_wants_channels_or_all(started: Program) -> None:
    for arguments in ([], ["orders", "--all"]):
        ended = started("compact", *arguments)
        assert ended.code == 2
        assert "name the channels to compact, or use --all" in ended.err


def test_where_there_is_nothing_to_merge(started: Program) -> None:
    assert started.json("compact", "orders") == {"compacted": [{"channel": "orders", "block": None}]}
    assert started.well("compact", "--all").out == "orders: nothing to merge\n"


def test_gc_deletes_what_nobody_needs(started: Program) -> None:
    started.insert_sample()
    started.well("insert", "orders", started.project / "orders.csv", "--base")
    started.well("run", "report")
    document = started.json("gc")
    assert document["blocks"] > 0
    assert (document["marked"], document["files"]) == (1, 0)
    assert started.well("gc").out == "garbage-collected 0 blocks, marked 0 files, removed 0\n"
    assert started.json("gc", "--grace", "0s")["files"] == 1
    kinds = [e["kind"] for e in started.json("events", "--limit", "1000")["events"]]
    assert kinds.count("block.purged") == kinds.count("files.removed") == 1


def test_gc_scans_the_store_when_asked(started: Program) -> None:
    started.insert_sample()
    (block,) = started.project.glob(".tidemill/blocks/runs/1/*/*")
    (block / "left.parquet").write_text("left by a task that wrote too late")
    for place in (block, block.parent, block.parent.parent):
        (place / "foreign.csv").write_text("mine")
    assert started.json("gc")["scan"] is None
    assert started.json("gc", "--scan")["scan"] == {"attempts": 1, "marked": 1, "unknown": 0}
    assert (block / "left.parquet").exists(), "it was marked just now"
    out = started.well("gc", "--scan", "--grace", "0s").out
    assert out == (
        "garbage-collected 0 blocks, marked 0 files, removed 1\n"
        "scanned 1 attempt, marked 0 files that nothing references\n"
    )
    assert sorted(p.name for p in block.iterdir()) == ["foreign.csv", "part-00000.parquet"]
    assert len(list(started.project.glob(".tidemill/blocks/**/foreign.csv"))) == 3


def test_a_grace_time_is_a_duration(started: Program) -> None:
    assert started("gc", "--grace", "long").code == 5


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
    assert "maintenance is paused; resume with: tidemill upkeep --resume" in started.well("upkeep").out
    assert started.json("dispatching")["wished"] == {}
    assert started.json("dispatching", "--reset")["wished"] == {}
    assert started.json("upkeep")["paused"]
    assert not started.json("upkeep", "--resume")["paused"]
    assert started.well("upkeep").out.startswith("maintenance is automatic\n")
    assert started("upkeep", "--pause", "--resume").code == 2


def test_upkeep_says_that_the_settings_stop_it(started: Program) -> None:
    settings = started.project / "tidemill.toml"
    settings.write_text(settings.read_text() + "\n[upkeep]\nautomatic = false\n")
    assert "the settings say so" in started.well("upkeep").out
