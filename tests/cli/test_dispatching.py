"""`dispatching`, `statistics` and `sim policies`."""

from __future__ import annotations

from tests.cli.program import Program


def test_a_policy_is_changed_while_servers_run(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    assert tidemill.json("dispatching")["policy"] == "max-benefit"
    changed = tidemill.json("dispatching", "--policy", "edf", "--tracks", "3")
    assert (changed["policy"], changed["tracks"], changed["overrides"]) == ("edf", 3, {"policy": "edf", "tracks": 3})
    assert tidemill.json("dispatching")["policy"] == "edf"
    other = tidemill.json("dispatching", "--catch-up-limit", "3", "--backfill-tracks", "2")
    assert (other["catch_up_limit"], other["backfill_tracks"], other["policy"]) == (3.0, 2, "edf")
    assert tidemill.json("dispatching", "--reset")["overrides"] == {}
    rejected = tidemill("dispatching", "--policy", "best")
    assert (rejected.code, "expected a policy among max-benefit" in rejected.err) == (2, True)


def test_statistics_name_every_task(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    tidemill.run_ok("apply", "--yes")
    tasks = tidemill.json("statistics")["tasks"]
    assert tasks
    assert all(t["runs"] == 0 and t["seconds"] is None and t["queue"] == 0 for t in tasks)


def test_a_replay_without_past_runs_is_rejected(tidemill: Program) -> None:
    tidemill.run_ok("init", tidemill.project)
    tidemill.run_ok("apply", "--yes")
    rejected = tidemill("sim", "policies")
    assert (rejected.code != 0, "nothing to replay" in rejected.err) == (True, True)


def test_a_replay_creates_and_changes_no_catalog(tidemill: Program) -> None:
    missing, other = tidemill.project / "missing.db", tidemill.project / "other.db"
    tidemill.project.mkdir()
    other.write_bytes(b"")
    for path in (missing, other):
        rejected = tidemill("sim", "policies", "--catalog", f"sqlite:///{path}")
        assert rejected.code == 9
    assert not missing.exists()
    assert other.read_bytes() == b""
