"""A small push under fire: real processes, killed and started again; every acknowledged event is there, once."""

from __future__ import annotations

from pathlib import Path

from benchmarks.push import measure, plan_kills


def test_producers_and_server_are_killed_and_nothing_is_lost_or_twice(tmp_path: Path) -> None:
    point = measure(tmp_path, producers=3, rate=300, seconds=4, kill=True, on_progress=lambda _: None)
    assert (point["acknowledged"], point["lost"], point["twice"]) == (1200, 0, 0)
    assert (point["producers_killed"], point["servers_killed"]) == (10, 3)  # each while it was alive


def test_strikes_are_spread_over_the_time() -> None:
    planned = plan_kills(5, 60.0, seed=3)
    assert [s.at for s in planned] == sorted(s.at for s in planned)
    assert sum(s.producer is None for s in planned) == 3
    assert all(0 <= s.at <= 60 for s in planned)
