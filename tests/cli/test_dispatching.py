"""`dispatching`, `statistics` and `sim policies`."""

from __future__ import annotations

from tests.cli.program import Program


def test_a_policy_is_changed_while_servers_run(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    assert tidemill.json("dispatching")["policy"] == "max-benefit"
    changed = tidemill.json("dispatching", "--policy", "edf", "--tracks", "3")
    assert (changed["policy"], changed["tracks"], changed["wished"]) == ("edf", 3, {"policy": "edf", "tracks": 3})
    assert tidemill.json("dispatching")["policy"] == "edf"
    other = tidemill.json("dispatching", "--chop", "3", "--backfill-tracks", "2")
    assert (other["chop"], other["backfill_tracks"], other["policy"]) == (3.0, 2, "edf")
    assert tidemill.json("dispatching", "--reset")["wished"] == {}
    refused = tidemill("dispatching", "--policy", "best")
    assert (refused.code, "expected a policy among max-benefit" in refused.err) == (2, True)


def test_statistics_name_every_task(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    tidemill.well("apply", "--yes")
    found = tidemill.json("statistics")["tasks"]
    assert found
    assert all(t["runs"] == 0 and t["seconds"] is None and t["queue"] == 0 for t in found)


def test_where_nothing_ran_there_is_nothing_to_replay(tidemill: Program) -> None:
    tidemill.well("init", tidemill.project)
    tidemill.well("apply", "--yes")
    refused = tidemill("sim", "policies")
    assert (refused.code != 0, "nothing to replay" in refused.err) == (True, True)
