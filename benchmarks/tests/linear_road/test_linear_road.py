"""Answers of Linear Road are exact: on traffic of several seeds, and on arbitrary rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from benchmarks.linear_road.rows import (
    ANSWERS,
    FEET,
    HISTORY,
    INPUT,
    Columns,
    answer_columns,
    read_history,
    read_input,
    split_batches,
    write_csv,
    write_history,
    write_input,
)
from benchmarks.linear_road.traffic import Plan, generate_traffic
from benchmarks.linear_road.validator import Expected, Verdict, compare_answers, compute_expected
from benchmarks.linear_road.workflow import LinearRoad
from hypothesis import given
from hypothesis import strategies as st

from tidemill.errors import BadInput
from tidemill.stream.keyed import merge_outputs

BUSY = Plan(
    expressways=1.5, seconds=480, start=1200, accident_every=60, cleared_after=(20, 60), trip=240, returning=0.5,
    balance_queries=0.05, expenditure_queries=0.02, last_rate=1_200,
)  # fmt: skip


def compute_answers(
    rows: Columns, history: Columns, expressways: int, *, seconds: int = 1, partitions: int = 1
) -> Columns:
    road = LinearRoad(expressways, history, partitions)
    return merge_outputs([road.run(batch)[0] for batch in split_batches(rows, seconds)])


def check_verdict(verdict: Verdict) -> int:
    """The number of right answers, after checks that none is missing or extra."""
    assert {k: v[:3] for k, v in verdict.missing.items() if v} == {}
    assert {k: v[:3] for k, v in verdict.extra.items() if v} == {}
    assert verdict.has_passed
    return verdict.right


@dataclass(frozen=True)
class Case:
    rows: Columns
    history: Columns
    expected: Expected

    @classmethod
    def of(cls, plan: Plan) -> Case:
        rows, history = generate_traffic(plan)
        return cls(rows, history, compute_expected(rows, history))


@pytest.fixture(scope="module")
def busy() -> Case:
    return Case.of(BUSY)


@pytest.mark.parametrize("seed", [2, 3])
def test_answers_are_exact(seed: int) -> None:
    case = Case.of(replace(BUSY, seed=seed))
    answers = compute_answers(case.rows, case.history, 2)
    assert check_verdict(compare_answers(case.expected, answers)) > 10_000
    assert (answers["tolls"]["toll"] > 0).any(), "no vehicle paid: the traffic does not cover tolls"
    assert (answers["balances"]["balance"] > 0).any()
    assert (answers["expenditures"]["balance"] > 0).any()
    assert len(answers["accidents"]["time"]) > 0


def test_accidents_begin_and_clear_and_vehicles_return(busy: Case) -> None:
    """The traffic covers the cases that tests need."""
    rows, accidents = busy.rows, busy.expected["accidents"]
    end = int(rows["time"][-1])
    last = {(xway, direction, seg): time for time, xway, seg, direction, _ in sorted(accidents)}
    assert len(last) >= 3
    assert any(time < end - 120 for time in last.values()), "no accident was cleared"
    exits = (rows["type"] == 0) & (rows["lane"] == 4)
    left = dict(zip(rows["vid"][exits].tolist(), rows["time"][exits].tolist(), strict=True))
    seen = dict(zip(rows["vid"].tolist(), rows["time"].tolist(), strict=True))
    assert sum(seen[vid] > left[vid] for vid in left) > 10, "no vehicle returned"


@pytest.mark.parametrize(("seconds", "partitions"), [(7, 3), (10_000, 1)])
def test_answers_do_not_depend_on_batches_and_partitions(busy: Case, seconds: int, partitions: int) -> None:
    answers = compute_answers(busy.rows, busy.history, 2, seconds=seconds, partitions=partitions)
    assert check_verdict(compare_answers(busy.expected, answers)) > 10_000


@pytest.mark.parametrize("partitions", [1, 3])
def test_state_is_restored_from_deltas(busy: Case, partitions: int) -> None:
    """The operator is rebuilt from deltas repeatedly; no answer is repeated or missing."""
    blocks: dict[str, list[pa.Table]] = defaultdict(list)
    road, answers = LinearRoad(2, busy.history, partitions), []
    for number, batch in enumerate(split_batches(busy.rows, 7)):
        if number % 20 == 19:
            road = LinearRoad(2, busy.history, partitions)
            road.restore(blocks)
        batch_answers, deltas = road.run(batch)
        answers.append(batch_answers)
        for name, parts in deltas.items():
            blocks[name].extend(parts)
    assert check_verdict(compare_answers(busy.expected, merge_outputs(answers))) > 10_000


def test_traffic_follows_the_specification() -> None:
    """Every vehicle reports every 30 seconds, and from every segment that it passes."""
    rows, _ = generate_traffic(replace(BUSY, returning=0.0))
    for vid in np.unique(rows["vid"])[:300]:
        reports = np.flatnonzero((rows["vid"] == vid) & (rows["type"] == 0))
        assert (np.diff(rows["time"][reports]) == 30).all()
        assert (abs(np.diff(rows["seg"][reports])) <= 1).all()
        assert (rows["seg"][reports] == rows["pos"][reports] // FEET).all()
        assert (rows["lane"][reports][:-1] != 4).all()
    assert (np.diff(rows["time"]) >= 0).all()
    assert (rows["dir"][rows["xway"] == 1] <= 0).all(), "half an expressway has one direction"


def test_the_same_seed_generates_the_same_traffic(busy: Case) -> None:
    again = generate_traffic(BUSY)
    assert all((busy.rows[name] == again[0][name]).all() for name in INPUT)
    assert all((busy.history[name] == again[1][name]).all() for name in HISTORY)
    assert len(generate_traffic(replace(BUSY, seed=9))[0]["time"]) != len(again[0]["time"])


def test_files_contain_the_written_rows(busy: Case, tmp_path: Path) -> None:
    rows, history = busy.rows, busy.history
    write_input(tmp_path / "input.csv", rows)
    write_history(tmp_path / "history.csv", history)
    first = (tmp_path / "input.csv").read_text().splitlines()[0]
    assert first == ",".join(str(rows[name][0]) for name in INPUT)
    assert all((read_input(tmp_path / "input.csv")[n] == rows[n]).all() for n in INPUT)
    assert all((read_history(tmp_path / "history.csv")[n] == history[n]).all() for n in HISTORY)


def test_answers_are_written_in_the_columns_of_the_specification(tmp_path: Path) -> None:
    one = {name: np.array([n + 1]) for n, name in enumerate(("vid", "time", "emit", "lav", "toll"))}
    write_csv(tmp_path / "tolls.csv", answer_columns("tolls", one))
    assert (tmp_path / "tolls.csv").read_text() == "0,1,2,3,4,5\n"
    assert [number for number, _ in ANSWERS.values()] == [0, 1, 2, 3]


def test_a_file_with_other_columns_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "input.csv").write_text("0,1,x\n")
    with pytest.raises(BadInput, match="expected rows of 15 whole numbers"):
        read_input(tmp_path / "input.csv")


def build_rows(numbers: list[tuple[int, ...]]) -> Columns:
    """Rows by time: each has the seconds since the previous one, a kind, and the position of the vehicle."""
    table = {name: [] for name in INPUT}
    time = 0
    for number, (after, kind, vid, lane, direction, seg, offset) in enumerate(numbers):
        time += after
        report = {
            "spd": seg * 7 % 50,
            "xway": 0,
            "lane": lane,
            "dir": direction,
            "seg": seg,
            "pos": seg * FEET + offset,
        }
        query = {"qid": number, "day": 1 + number % 3, "xway": 0}
        row = dict.fromkeys(INPUT, -1) | {"type": kind, "time": time, "vid": vid} | (report if kind == 0 else query)
        for name in INPUT:
            table[name].append(row[name])
    return {name: np.array(column, np.int64) for name, column in table.items()}


arbitrary_rows = st.tuples(
    st.sampled_from([0, 0, 1, 5, 30, 60, 61]),
    st.sampled_from([0, 0, 0, 0, 0, 0, 2, 3]),
    st.integers(0, 3),
    st.sampled_from([0, 1, 1, 1, 2, 4]),
    st.sampled_from([0, 0, 1]),
    st.sampled_from([0, 1, 1, 4, 5, 97, 99]),
    st.just(7),
)


@given(st.lists(arbitrary_rows, min_size=1, max_size=80), st.sampled_from([1, 10, 1000]), st.integers(1, 2))
def test_answers_to_arbitrary_rows_are_exact(numbers: list[tuple[int, ...]], seconds: int, partitions: int) -> None:
    """Many reports a second, jumps, exits and entries anywhere: vehicles 0 to 3 stop, collide, leave and return."""
    rows = build_rows(numbers)
    history = {"vid": [0, 1, 1], "day": [1, 2, 2], "xway": [0, 0, 0], "toll": [3, 4, 5]}
    tolls = {name: np.array(column) for name, column in history.items()}
    check_verdict(
        compare_answers(
            compute_expected(rows, tolls), compute_answers(rows, tolls, 1, seconds=seconds, partitions=partitions)
        )
    )


def test_wrong_missing_and_late_answers_are_detected(busy: Case) -> None:
    exact = compute_answers(busy.rows, busy.history, 2, seconds=100)
    answers = {kind: dict(columns) for kind, columns in exact.items()}
    answers["tolls"]["toll"] = answers["tolls"]["toll"].copy()
    answers["tolls"]["toll"][5] += 1
    answers["balances"] = {name: column[1:] for name, column in answers["balances"].items()}
    answers["expenditures"]["emit"] = answers["expenditures"]["time"] + 11
    verdict = compare_answers(busy.expected, answers)
    assert (len(verdict.missing["tolls"]), len(verdict.extra["tolls"])) == (1, 1)
    assert (len(verdict.missing["balances"]), len(verdict.extra["balances"])) == (1, 0)
    assert verdict.slow == len(answers["expenditures"]["time"])
    assert not verdict.has_passed


STOPPED_REPORTS = [(30 if v == 0 else 0, 0, v, 1, 0, 20, 100) for _ in range(5) for v in (0, 1)]
"""Two vehicles that report from one place five times: the fourth report is the accident, at second 120."""


def test_an_accident_is_in_force_from_the_next_minute_to_the_one_in_which_it_is_cleared() -> None:
    """Detected in minute 3 (second 120 to 179) and cleared in minute 4: in force in minute 4 alone."""
    cleared = [(45, 0, 0, 1, 0, 21, 100)]
    passing = [(n, 0, 10 + n, 1, 0, seg, 0) for n, seg in enumerate((16, 15, 20))]
    after = [(60, 0, 20, 1, 0, 16, 0)]
    rows = build_rows([*STOPPED_REPORTS, *cleared, *passing, *after])
    nothing = {name: np.array([], np.int64) for name in HISTORY}
    expected = compute_expected(rows, nothing)
    assert sorted(expected["accidents"]) == [(195, 0, 20, 0, 10), (198, 0, 20, 0, 12)]
    check_verdict(compare_answers(expected, compute_answers(rows, nothing, 1)))
