"""Linear Road through real runs: exact answers in real time, also after the loss of a process's memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.linear_road.live import Clock, _read_block, compute_verdict, play, summarize, write_rows
from benchmarks.linear_road.rating import Files, compare, find_highest, measure, rate
from benchmarks.linear_road.rows import ANSWERS, HISTORY, INPUT, split_batches, write_history, write_input
from benchmarks.linear_road.tolling import TOLLING, build_workflow
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


class VirtualClock:
    """A clock that sleeping advances, and every read by a fixed amount."""

    def __init__(self, step: float = 0.0) -> None:
        self.time, self._step = 0.0, step

    def clock(self) -> Clock:
        return Clock(self.now, self.sleep)

    def now(self) -> float:
        self.time += self._step
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += seconds


def ignore(_: str) -> None:
    """A progress reporter that discards messages."""


def test_rows_are_answered_when_their_second_has_ended(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    live = play(tmp_path, rows, history, VirtualClock().clock(), ignore)
    result = compute_verdict(live, rows, history)
    assert result.has_passed
    assert result.right == sum(len(live.answers[kind]["time"]) for kind in ANSWERS)
    assert (live.get_response_times("tolls") == 1.0).all(), "one second of waiting, and no other delay"
    assert summarize(live)["response_s"]["tolls"]["p99"] == 1.0


def test_a_slow_run_takes_several_seconds_per_batch_and_fails_in_the_end(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    slow = play(tmp_path / "slow", rows, history, VirtualClock(step=0.7).clock(), ignore)
    assert len(slow.laps) < QUICK.seconds
    assert compute_verdict(slow, rows, history).right > 0
    slower = play(tmp_path / "slower", rows, history, VirtualClock(step=6).clock(), ignore)
    assert not compute_verdict(slower, rows, history).has_passed


@pytest.mark.parametrize("seconds", [60, 12])
def test_answers_are_exact_after_the_loss_of_memory(tmp_path: Path, seconds: int) -> None:
    """Other processes continue after some batches; no answer is missing or repeated."""
    rows, history = generate_traffic(PLAN)
    settings = Settings(maintenance=MaintenanceSettings(automatic=False))
    answers = []
    for number, batch in enumerate(split_batches(rows, seconds)):
        if number % 5 in (0, 1):
            mill = Tidemill(tmp_path, settings, Project((build_workflow(1).build_spec(),)))
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
    assert compare_answers(compute_expected(rows, history), given).has_passed
    assert len(given["accidents"]["time"]) > 0
    assert (given["balances"]["balance"] > 0).any()


def test_files_in_and_out(tmp_path: Path) -> None:
    rows, history = generate_traffic(QUICK)
    write_input(tmp_path / "in.csv", rows)
    write_history(tmp_path / "history.csv", history)
    files = Files(tmp_path / "in.csv", tmp_path / "history.csv", tmp_path / "out.csv", tmp_path / "plot.svg")
    result = measure(tmp_path / "mill", plan=QUICK, files=files, on_progress=ignore, clock=VirtualClock().clock())
    assert result["verdict"] == "passed"
    lines = (tmp_path / "out.csv").read_text().splitlines()
    assert len(lines) == result["right"]
    tolls = np.array([line.split(",") for line in lines if line.startswith("0,")], int)
    assert tolls.shape[1] == 6
    assert (tolls[:, 3] == tolls[:, 2] + 1).all(), "emitted a second after the event"
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_the_rating_is_the_largest_load_that_passes(tmp_path: Path) -> None:
    assert find_highest(lambda n: n <= 5, 1) == 5
    result = rate(tmp_path, plan=replace(QUICK, seconds=3), on_progress=ignore, clock=VirtualClock(step=4).clock())
    assert result["rating"] == 0.0
    assert [t["verdict"] for t in result["tries"]] == ["failed"]


@pytest.mark.parametrize("policy", ["max-benefit", "round-robin"])
def test_two_flows_on_one_track_are_exact_with_every_policy(tmp_path: Path, policy: str) -> None:
    files = Files(plot=tmp_path / "plot.svg")
    plan = replace(QUICK, seconds=4)
    document = compare(
        tmp_path, policies=[policy], plan=plan, files=files, on_progress=ignore, clock=VirtualClock().clock()
    )
    (result,) = document["policies"]
    assert result["verdict"] == "passed"
    assert result["response_s"]["tolls"]["count"] > 0
    assert result["response_s"]["expenditures"]["count"] > 0
    assert f"{policy}, tolls" in files.plot.read_text()


def test_an_unknown_policy_is_rejected_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected a policy among max-benefit"):
        compare(tmp_path, policies=["edf", "fastest"], plan=QUICK, files=Files(), on_progress=ignore)
