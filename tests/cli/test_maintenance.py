from __future__ import annotations

from tests.cli.program import Program


def test_compact_requires_channels_or_all(starter: Program) -> None:
    for arguments in ([], ["orders", "--all"]):
        result = starter("compact", *arguments)
        assert result.code == 2
        assert "name the channels to compact, or use --all" in result.err


def test_compact_reports_that_there_is_nothing_to_merge(starter: Program) -> None:
    assert starter.json("compact", "orders") == {"compacted": [{"channel": "orders", "block": None}]}
    assert starter.run_ok("compact", "--all").out == "orders: nothing to merge\n"


def test_gc_deletes_unreferenced_blocks(starter: Program) -> None:
    starter.insert_sample()
    starter.run_ok("insert", "orders", starter.project / "orders.csv", "--base")
    starter.run_ok("run", "report")
    document = starter.json("gc")
    assert document["blocks"] > 0
    assert (document["marked"], document["files"]) == (1, 0)
    assert starter.run_ok("gc").out == "garbage-collected 0 blocks, marked 0 files, removed 0\n"
    assert starter.json("gc", "--grace", "0s")["files"] == 1
    kinds = [e["kind"] for e in starter.json("events", "--limit", "1000")["events"]]
    assert kinds.count("block.purged") == kinds.count("files.removed") == 1


def test_gc_scans_the_store_on_request(starter: Program) -> None:
    starter.insert_sample()
    (block,) = starter.project.glob(".tidemill/blocks/runs/1/*/*")
    (block / "orphan.parquet").write_text("written too late by a task")
    for directory in (block, block.parent, block.parent.parent):
        (directory / "foreign.csv").write_text("mine")
    assert starter.json("gc")["scan"] is None
    assert starter.json("gc", "--scan")["scan"] == {"attempts": 1, "marked": 1, "unknown": 0}
    assert (block / "orphan.parquet").exists(), "it was marked just now"
    out = starter.run_ok("gc", "--scan", "--grace", "0s").out
    assert out == (
        "garbage-collected 0 blocks, marked 0 files, removed 1\n"
        "scanned 1 attempt, marked 0 files that nothing references\n"
    )
    assert sorted(p.name for p in block.iterdir()) == ["foreign.csv", "part-00000.parquet"]
    assert len(list(starter.project.glob(".tidemill/blocks/**/foreign.csv"))) == 3


def test_the_grace_period_must_be_a_duration(starter: Program) -> None:
    assert starter("gc", "--grace", "long").code == 5


def test_gc_can_retain_the_history(starter: Program) -> None:
    starter.insert_sample()
    assert starter.json("gc", "--retain", "7 days")["files"] == 0
    assert starter("gc", "--retain", "long").code == 5


def test_maintenance_is_paused_and_resumed(starter: Program) -> None:
    starter.insert_sample()
    document = starter.json("maintenance")
    assert (document["automatic"], document["paused"], document["active"]) == (True, False, [])
    (orders,) = (c for c in document["channels"] if c["channel"] == "orders")
    assert orders["compaction"].startswith("not due: ")
    assert starter.json("maintenance", "--pause")["paused"]
    assert "maintenance is paused; resume with: tidemill maintenance --resume" in starter.run_ok("maintenance").out
    assert starter.json("dispatching")["overrides"] == {}
    assert starter.json("dispatching", "--reset")["overrides"] == {}
    assert starter.json("maintenance")["paused"]
    assert not starter.json("maintenance", "--resume")["paused"]
    assert starter.run_ok("maintenance").out.startswith("maintenance is automatic\n")
    assert starter("maintenance", "--pause", "--resume").code == 2


def test_due_maintenance_is_run(starter: Program) -> None:
    starter.insert_sample()
    assert starter.json("maintenance", "--run")["problems"] == []
    assert starter.run_ok("maintenance", "--run").out == (
        "0 compactions, garbage-collected 0 blocks, removed 0 files, expired 0 runs\n"
    )
    assert starter("maintenance", "--run", "--pause").code == 2


def test_maintenance_reports_that_the_settings_disable_it(starter: Program) -> None:
    settings = starter.project / "tidemill.toml"
    settings.write_text(settings.read_text() + "\n[maintenance]\nautomatic = false\n")
    assert "the settings say so" in starter.run_ok("maintenance").out


def test_the_storage_of_channels_is_compared_with_its_budget(starter: Program) -> None:
    starter.insert_sample()
    assert starter.json("storage")["channels"] is None
    settings = starter.project / "tidemill.toml"
    settings.write_text('[storage]\nchannel_budget = "1 kB"\neviction_threshold = 0.5\n')
    usage = starter.json("storage")["channels"]
    assert (usage["budget"], usage["limit"], usage["used_bytes"] > 500) == (1000, 500, True)
    assert "blocks of channels" in starter.run_ok("storage").out
    (problem,) = starter.json("maintenance", "--run")["problems"]
    assert problem.startswith("blocks of channels use ")
