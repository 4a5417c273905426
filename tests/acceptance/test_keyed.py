"""Keyed state in real runs: after any kill, the results are those of an undisturbed process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.acceptance.stateful import LATER, Clock, Mill, guard_all_steps, is_killed, open_stateful_mill
from tests.acceptance.test_crash import Tripwire

import tidemill as tm
from tidemill.errors import BadInput, RunFailed, WorkflowError
from tidemill.model.workflow import WorkflowSpec
from tidemill.spark import keyed
from tidemill.stream import Columns, KeyedResult

ROUNDS = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0"))
STRIDE = 1 if ROUNDS else 25


def workflow(
    *, partitions: int = 1, attempts: int = 1, kill_marker: Path | None = None, account: str = "bigint"
) -> WorkflowSpec:
    wf = tm.Workflow("bank")
    wf.input("payments", f"account {account}, amount bigint")
    wf.input("rates", "account bigint, rate bigint")

    @wf.keyed(
        state="account bigint, balance bigint, payments int",
        by="account",
        writes={"balances": "account bigint, balance bigint, payments int"},
        partitions=partitions,
        attempts=attempts,
        backoff=0,
        parameters={"kill_marker": str(kill_marker) if kill_marker else ""},
    )
    def update_balances(state: Any, payments: tm.New, rates: tm.All, kill_marker: str) -> KeyedResult:
        if kill_marker and 9 in payments["amount"] and not os.path.exists(kill_marker):  # noqa: PTH110
            open(kill_marker, "x").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        state["balance"] += payments["amount"] * rates["rate"].sum()
        state["payments"] += 1
        changed = {
            "account": payments["account"],
            "balance": state["balance"].copy(),
            "payments": state["payments"].copy(),
        }
        return KeyedResult(state, {"balances": changed})

    return wf.build_spec()


def write_rows(directory: Path, rows: Sequence[Mapping[str, float]]) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def advance_clock(hours: int) -> Clock:
    return lambda: time.time() + LATER * hours


def batch(number: int) -> list[dict[str, int]]:
    return [{"account": (number * 7 + i * i) % 9, "amount": number + i} for i in range(8)]


def compute_expected_balances(batches: int) -> list[tuple[int, int, int]]:
    balances: dict[int, tuple[int, int]] = {}
    rows = []
    for number in range(batches):
        for row in batch(number):
            balance, payments = balances.get(row["account"], (0, 0))
            balances[row["account"]] = (balance + 2 * row["amount"], payments + 1)
            rows.append((row["account"], *balances[row["account"]]))
    return sorted(rows)


def read_balances(mill: Mill) -> list[tuple[int, int, int]]:
    return sorted((r["account"], r["balance"], r["payments"]) for r in mill.rows("balances"))


RATES = [{"account": 0, "rate": 2}]


def test_state_is_kept_between_runs_and_processes(tmp_path: Path) -> None:
    wf = workflow()
    for number in range(6):
        if number % 3 == 0:
            restarted = open_stateful_mill(tmp_path, wf)
            mill = restarted.__enter__()
        if number == 0:
            mill.insert("rates", write_rows(tmp_path, RATES))
        mill.insert("payments", write_rows(tmp_path, batch(number)))
        mill.run()
        if number % 3 == 2:
            assert read_balances(mill) == compute_expected_balances(number + 1)
            restarted.__exit__(None, None, None)


def test_the_state_of_an_uncommitted_attempt_is_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_stateful_mill(tmp_path, workflow()) as mill:
        mill.insert("rates", write_rows(tmp_path, RATES))
        for number in range(4):
            mill.insert("payments", write_rows(tmp_path, batch(number)))
            with monkeypatch.context() as patched:
                patched.setattr(type(mill.executor.catalog.runs), "commit", _fail_commit)
                with pytest.raises(RunFailed):
                    mill.run()
            mill.run()
        assert read_balances(mill) == compute_expected_balances(4)


def _fail_commit(*_: object) -> None:
    raise RunFailed("the commit failed")


def test_a_process_killed_at_any_step_repeats_and_skips_nothing(tmp_path: Path) -> None:
    wf = workflow()
    with open_stateful_mill(tmp_path, wf) as mill:
        mill.insert("rates", write_rows(tmp_path, RATES))
    number, step, kills = 0, 1, 0
    while step:
        was_killed = _is_killed_at(step, tmp_path, wf, number)
        kills += was_killed
        with open_stateful_mill(tmp_path, wf, clock=advance_clock(number + 1)) as mill:
            mill.executor.catalog.runs.reclaim_expired()
            mill.insert("payments", write_rows(tmp_path, batch(number)), key=str(number))
            mill.run()
            assert read_balances(mill) == compute_expected_balances(number + 1), f"killed at step {step}"
        number, step = number + 1, step + STRIDE if was_killed else 0
    assert kills >= 4


def _is_killed_at(step: int, root: Path, wf: WorkflowSpec, number: int) -> bool:
    """Insert and run in a process that is killed at the given step; False if it finished before that."""

    def work() -> None:
        with open_stateful_mill(root, wf, clock=advance_clock(number)) as mill:
            guard_all_steps(mill, Tripwire(step))
            mill.insert("payments", write_rows(root, batch(number)), key=str(number))
            mill.run()

    return is_killed(work)


@pytest.mark.long
def test_workers_compute_the_same_result_even_if_one_is_killed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An amount of 9 kills the Python worker that reads it first; the run is tried again."""
    monkeypatch.setattr(keyed, "MIN_ROWS_FOR_WORKERS", 2)
    marker = tmp_path / "died"
    with open_stateful_mill(tmp_path, workflow(partitions=2, attempts=2, kill_marker=marker), lambda: spark) as mill:
        mill.insert("rates", write_rows(tmp_path, RATES))
        for number in range(4):
            mill.insert("payments", write_rows(tmp_path, batch(number)))
            mill.run()
        assert marker.exists(), "no worker was killed"
        assert read_balances(mill) == compute_expected_balances(4)
        mill.insert("payments", write_rows(tmp_path, batch(4)[:1]))
        mill.run()
        first = batch(4)[0]["account"]
        assert (
            len([r for r in read_balances(mill) if r[0] == first])
            == len([r for r in compute_expected_balances(4) if r[0] == first]) + 1
        )


def test_a_null_key_is_rejected(tmp_path: Path) -> None:
    with open_stateful_mill(tmp_path, workflow()) as mill:
        mill.insert("payments", write_rows(tmp_path, [{"amount": 1}]))
        with pytest.raises(BadInput, match="found NULL in it"):
            mill.run()


def test_a_key_that_is_no_whole_number_is_rejected(tmp_path: Path) -> None:
    with open_stateful_mill(tmp_path, workflow(account="double")) as mill:
        mill.insert("payments", write_rows(tmp_path, [{"account": 1.5, "amount": 1}]))
        with pytest.raises(BadInput, match="a whole number as its key in the column 'account', found values of type"):
            mill.run()


@pytest.mark.parametrize(
    ("state", "by", "message"),
    [
        ("account bigint, name string", "account", "'name' is STRING, but a row of state has a fixed width"),
        ("account string, balance bigint", "account", "its key 'account' is STRING; use whole numbers"),
        ("account bigint, balance bigint", "user", "its key 'user' is not a column"),
    ],
)
def test_an_invalid_state_schema_is_rejected_when_it_is_declared(state: str, by: str, message: str) -> None:
    wf = tm.Workflow("bank")
    wf.input("payments", "account bigint, amount bigint")

    @wf.keyed(state=state, by=by, writes={"balances": "balance bigint"})
    def update_balances(state: Any, payments: tm.New) -> KeyedResult:
        return KeyedResult(state)

    with pytest.raises(WorkflowError, match=message):
        wf.build_spec()


def test_a_keyed_task_must_have_one_batch() -> None:
    wf = tm.Workflow("bank")
    with pytest.raises(WorkflowError, match=r"called as fn\(state, batch, …\)"):

        @wf.keyed(state="account bigint, balance bigint", by="account", writes={})
        def update_balances(state: Any, payments: tm.All) -> Columns:
            return {}
