"""Linear Road through real runs: exact, on its clock, and whatever is lost in between."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.linear_road.live import Clock, _read_block, play, summary, verdict, write_rows
from benchmarks.linear_road.rating import Files, compare, find_highest, measure, rate
from benchmarks.linear_road.rows import ANSWERS, HISTORY, INPUT, split_batches, write_history, write_input
from benchmarks.linear_road.tolling import TOLLING, workflow
from benchmarks.linear_road.traffic import Plan, generate_traffic
from benchmarks.linear_road.validator import compare_answers, compute_expected

from tidemill.app.project import Project
from tidemill.app.settings import MaintenanceSettings, Settings
from tidemill.app.wiring import Tidemill
from tidemill.errors import ConfigError
from tidemill.stream.keyed import merge_outputs

PLAN = Plan(
    expressways=0.5, seconds=240, start=1200, accident_every=30, cleared_after=(20, 60), trip=240, last_rate=2_000,
    balance_queries=0.05, expenditure_queries=0.05,
)  # fmt: skip
QUICK = replace(PLAN, seconds=8, last_rate=300)


class Virtual:
    """A clock that only sleeping moves, and every look a little."""

    def __init__(self, look: float = 0.0) -> None:
        self.time, self._look = 0.0, look

    def clock(self) -> Clock:
        return Clock(self.now, self.sleep)

    def now(self) -> float:
        self.time += self._look
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def quiet(_: str) -> None:
    """Nobody listens."""


def test_rows_are_answered_when_their_second_is_over(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    live = play(tmp_path, rows, history, Virtual().clock(), quiet)
    found = verdict(live, rows, history)
    assert found.passed
    assert found.right == sum(len(live.answers[kind]["time"]) for kind in ANSWERS)
    assert (live.responses("tolls") == 1.0).all(), "a second of waiting, and no time for anything else"
    assert summary(live)["response_s"]["tolls"]["p99"] == 1.0


def test_whoever_is_behind_takes_several_seconds_at_once_and_is_too_slow_in_the_end(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    slow = play(tmp_path / "slow", rows, history, Virtual(look=0.7).clock(), quiet)
    assert len(slow.laps) < QUICK.seconds
    assert verdict(slow, rows, history).right > 0
    slower = play(tmp_path / "slower", rows, history, Virtual(look=6).clock(), quiet)
    assert not verdict(slower, rows, history).passed


@pytest.mark.parametrize("seconds", [60, 12])
def test_all_that_a_process_has_in_memory_may_be_lost(tmp_path: Path, seconds: int) -> None:
    """After each batch another process goes on: the answers are exact, none missing, none repeated."""
    rows, history = generate_traffic(PLAN)
    upkeep = Settings(maintenance=MaintenanceSettings(automatic=False))
    answers = []
    for number, batch in enumerate(split_batches(rows, seconds)):
        if number % 5 in (0, 1):
            mill = Tidemill(tmp_path, upkeep, Project((workflow(1).declared(),)))
            mill.apply()
        if number == 0:
            mill.insert("history", write_rows(tmp_path, history, HISTORY))
        mill.insert("reports", write_rows(tmp_path, batch, INPUT))
        blocks = [b for b in mill.run(TOLLING)[1] if b.channel in ANSWERS and b.files]
        tables: dict[str, pa.Table] = {b.channel: _read_block(mill, b) for b in blocks}
        answers.append({kind: {n: t[n].to_numpy() for n in t.column_names} for kind, t in tables.items()})
        if number % 5 in (0, 4):
            mill.close()
    given = merge_outputs(answers)
    assert compare_answers(compute_expected(rows, history), given).passed
    assert len(given["accidents"]["time"]) > 0
    assert (given["balances"]["balance"] > 0).any()


def test_files_in_and_out(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    write_input(tmp_path / "in.csv", rows)
    write_history(tmp_path / "history.csv", history)
    files = Files(tmp_path / "in.csv", tmp_path / "history.csv", tmp_path / "out.csv", tmp_path / "plot.svg")
    found = measure(tmp_path / "mill", plan=QUICK, files=files, on_progress=quiet, clock=Virtual().clock())
    assert found["verdict"] == "passed"
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == found["right"]
    tolls = np.array([line.split(",") for line in lines if line.startswith("0,")], int)
    assert tolls.shape[1] == 6
    assert (tolls[:, 3] == tolls[:, 2] + 1).all(), "emitted a second after the event"
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_the_rating_is_the_most_that_passes(tmp_path: Path) -> None:
    assert find_highest(lambda n: n <= 5, 1) == 5
    found = rate(tmp_path, plan=replace(QUICK, seconds=3), on_progress=quiet, clock=Virtual(look=4).clock())
    assert found["rating"] == 0.0
    assert [t["verdict"] for t in found["tries"]] == ["failed"]


@pytest.mark.parametrize("policy", ["max-benefit", "round-robin"])
def test_two_flows_on_one_track_give_the_same_answers_under_any_policy(tmp_path: Path, policy: str) -> None:
    files = Files(plot=tmp_path / "plot.svg")
    plan = replace(QUICK, seconds=4)
    found = compare(tmp_path, policies=[policy], plan=plan, files=files, on_progress=quiet, clock=Virtual().clock())
    (one,) = found["policies"]
    assert one["verdict"] == "passed"
    assert one["response_s"]["tolls"]["count"] > 0
    assert one["response_s"]["expenditures"]["count"] > 0
    assert f"{policy}, tolls" in files.plot.read_text()


def test_a_policy_that_is_none_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a policy among max-benefit"):
        compare(tmp_path, policies=["edf", "fastest"], plan=QUICK, files=Files(), on_progress=quiet)
