"""A small push with killed and restarted processes; every acknowledged event is stored once."""

from __future__ import annotations

from pathlib import Path

from benchmarks.push import measure, plan_kills


def test_no_event_is_lost_or_duplicated_when_producers_and_server_are_killed(tmp_path: Path) -> None:
    point = measure(tmp_path, producers=3, rate=300, seconds=4, kill=True, on_progress=lambda _: None)
    assert (point["acknowledged"], point["lost"], point["twice"]) == (1200, 0, 0)
    assert (point["producers_killed"], point["servers_killed"]) == (10, 3)  # each while it was running


def test_kills_are_spread_over_the_time() -> None:
    kills = plan_kills(5, 60.0, seed=3)
    assert [kill.at for kill in kills] == sorted(kill.at for kill in kills)
    assert sum(kill.producer is None for kill in kills) == 3
    assert all(0 <= kill.at <= 60 for kill in kills)
