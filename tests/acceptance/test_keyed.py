"""Keyed state through real runs: whatever dies in between, the answers are those of one that never did."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.acceptance.stateful import LATER, Clock, Mill, guarded, killed, opened
from tests.acceptance.test_crash import Tripwire

import tidemill as tm
from tidemill.errors import BadInput, RunFailed, WorkflowError
from tidemill.model.workflow import WorkflowSpec
from tidemill.spark import keyed
from tidemill.stream import Columns, KeyedResult

ROUNDS = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0"))
STRIDE = 1 if ROUNDS else 25


def workflow(*, partitions: int = 1, attempts: int = 1, dies: Path | None = None) -> WorkflowSpec:
    wf = tm.Workflow("bank")
    wf.input("payments", "account bigint, amount bigint")
    wf.input("rates", "account bigint, rate bigint")

    @wf.keyed(
        state="account bigint, balance bigint, payments int",
        by="account",
        writes={"balances": "account bigint, balance bigint, payments int"},
        partitions=partitions,
        attempts=attempts,
        backoff=0,
        parameters={"dies": str(dies) if dies else ""},
    )
    def paying(state: Any, payments: tm.New, rates: tm.All, dies: str) -> KeyedResult:
        if dies and 9 in payments["amount"] and not os.path.exists(dies):  # noqa: PTH110
            open(dies, "x").close()  # noqa: PTH123
            os.kill(os.getpid(), signal.SIGKILL)
        state["balance"] += payments["amount"] * rates["rate"].sum()
        state["payments"] += 1
        told = {
            "account": payments["account"],
            "balance": state["balance"].copy(),
            "payments": state["payments"].copy(),
        }
        return KeyedResult(state, {"balances": told})

    return wf.declared()


def written(directory: Path, rows: list[dict[str, int]]) -> Path:
    path = directory / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def hours(passed: int) -> Clock:
    return lambda: time.time() + LATER * passed


def batch(number: int) -> list[dict[str, int]]:
    return [{"account": (number * 7 + i * i) % 9, "amount": number + i} for i in range(8)]


def expected(batches: int) -> list[tuple[int, int, int]]:
    balances: dict[int, tuple[int, int]] = {}
    told = []
    for number in range(batches):
        for row in batch(number):
            balance, payments = balances.get(row["account"], (0, 0))
            balances[row["account"]] = (balance + 2 * row["amount"], payments + 1)
            told.append((row["account"], *balances[row["account"]]))
    return sorted(told)


def told(mill: Mill) -> list[tuple[int, int, int]]:
    return sorted((r["account"], r["balance"], r["payments"]) for r in mill.rows("balances"))


RATES = [{"account": 0, "rate": 2}]


def test_state_goes_on_from_run_to_run_and_from_process_to_process(tmp_path: Path) -> None:
    wf = workflow()
    for number in range(6):
        if number % 3 == 0:
            restarted = opened(tmp_path, wf)
            mill = restarted.__enter__()
        if number == 0:
            mill.insert("rates", written(tmp_path, RATES))
        mill.insert("payments", written(tmp_path, batch(number)))
        mill.run()
        if number % 3 == 2:
            assert told(mill) == expected(number + 1)
            restarted.__exit__(None, None, None)


def test_what_an_attempt_left_that_was_not_committed_counts_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path, workflow()) as mill:
        mill.insert("rates", written(tmp_path, RATES))
        for number in range(4):
            mill.insert("payments", written(tmp_path, batch(number)))
            with monkeypatch.context() as patched:
                patched.setattr(type(mill.executor.catalog), "commit_run", _refuse)
                with pytest.raises(RunFailed):
                    mill.run()
            mill.run()
        assert told(mill) == expected(4)


def _refuse(*_: object) -> None:
    raise RunFailed("the commit was refused")


def test_a_process_killed_at_any_step_repeats_and_misses_nothing(tmp_path: Path) -> None:
    wf = workflow()
    with opened(tmp_path, wf) as mill:
        mill.insert("rates", written(tmp_path, RATES))
    number, step, kills = 0, 1, 0
    while step:
        died = _killed_at(step, tmp_path, wf, number)
        kills += died
        with opened(tmp_path, wf, clock=hours(number + 1)) as mill:
            mill.executor.catalog.reclaim_expired_runs()
            mill.insert("payments", written(tmp_path, batch(number)), key=str(number))
            mill.run()
            assert told(mill) == expected(number + 1), f"killed at step {step}"
        number, step = number + 1, step + STRIDE if died else 0
    assert kills >= 4


def _killed_at(step: int, root: Path, wf: WorkflowSpec, number: int) -> bool:
    """Insert and run in a process that dies at the given step; False if it finished before that."""

    def work() -> None:
        with opened(root, wf, clock=hours(number)) as mill:
            guarded(mill, Tripwire(step))
            mill.insert("payments", written(root, batch(number)), key=str(number))
            mill.run()

    return killed(work)


def test_workers_give_the_same_answers_and_may_be_killed(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An amount of 9 kills the Python worker that sees it first; the run is tried again."""
    monkeypatch.setattr(keyed, "MIN_ROWS_FOR_WORKERS", 2)
    mark = tmp_path / "died"
    with opened(tmp_path, workflow(partitions=2, attempts=2, dies=mark), lambda: spark) as mill:
        mill.insert("rates", written(tmp_path, RATES))
        for number in range(4):
            mill.insert("payments", written(tmp_path, batch(number)))
            mill.run()
        assert mark.exists(), "no worker was killed"
        assert told(mill) == expected(4)
        mill.insert("payments", written(tmp_path, batch(4)[:1]))
        mill.run()
        first = batch(4)[0]["account"]
        assert len([r for r in told(mill) if r[0] == first]) == len([r for r in expected(4) if r[0] == first]) + 1


def test_a_key_that_is_null_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, workflow()) as mill:
        mill.insert("payments", written(tmp_path, [{"amount": 1}]))
        with pytest.raises(BadInput, match="found NULL in it"):
            mill.run()


@pytest.mark.parametrize(
    ("state", "by", "said"),
    [
        ("account bigint, name string", "account", "'name' is STRING, but a row of state has a fixed width"),
        ("account string, balance bigint", "account", "its key 'account' is STRING; use whole numbers"),
        ("account bigint, balance bigint", "user", "its key 'user' is not a column"),
    ],
)
def test_state_that_cannot_be_is_refused_when_it_is_declared(state: str, by: str, said: str) -> None:
    wf = tm.Workflow("bank")
    wf.input("payments", "account bigint, amount bigint")

    @wf.keyed(state=state, by=by, writes={"balances": "balance bigint"})
    def paying(state: Any, payments: tm.New) -> KeyedResult:
        return KeyedResult(state)

    with pytest.raises(WorkflowError, match=said):
        wf.declared()


def test_a_keyed_task_must_have_one_batch() -> None:
    wf = tm.Workflow("bank")
    with pytest.raises(WorkflowError, match=r"called as fn\(state, batch, …\)"):

        @wf.keyed(state="account bigint, balance bigint", by="account", writes={})
        def paying(state: Any, payments: tm.All) -> Columns:
            return {}
