"""Workers that users' code harms fail alone, with a reason, and are replaced; real processes, without Spark."""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import psutil
import pytest

from tidemill.errors import EngineError, WorkerFailed, WorkflowError
from tidemill.model.block import BlockKind
from tidemill.workers.pool import OnChange, WorkerPool
from tidemill.workers.process import SCRATCH_PREFIX, WorkerLimits, WorkerProcess, build_command

ROOT = Path(__file__).parents[2]

LIMITS = WorkerLimits(
    memory=400 << 20,
    processes=30,
    disk=64 << 20,
    silence=4.0,
    idle_cpu=0.25,
    idle_seconds=1.0,
    nice=3,
    call_seconds=30.0,
)

FATAL = {
    "allocate_memory": "exceeded its memory limit",
    "start_bomb": "exceeded its limit of 30 processes",
    "fill_disk": "of temporary files|exceeded its memory limit",  # files in memory count as memory
    "close_descriptors": "closed its connection|ended with status 1",
    "hold_interpreter": "gave no sign of life",
    "kill_process": "ended with signal SIGSEGV",
    "exit_process": "ended with status 3",
    "send_garbage": "a worker sent",
    "return_exploit": "a worker sent",
}
"""Calls that end their worker, each with a part of the reason."""

LEFT_BEHIND = {
    "leave_thread": "a thread of users' code did not end",
    "leave_program": "programs that users' code started did not end",
    "leave_daemon": "programs that users' code started did not end",
    "replace_function": "users' code replaced tidemill.model.units.format_size",
    "spin_in_background": "computed although no run was going on",
}
"""Calls that succeed, but whose worker is replaced."""


@dataclass
class Pool:
    workers: WorkerPool
    ended: list[WorkerProcess] = field(default_factory=list)

    def call(self, operation: str, *arguments: object) -> object:
        return self.workers.call(operation, *arguments)


OpenPool = Callable[..., Pool]


@pytest.fixture(scope="module")
def open_pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenPool]:
    pools: list[Pool] = []

    def open_pool(size: int = 1, module: str = "tests.workers.operations") -> Pool:
        ended: list[WorkerProcess] = []

        def start_worker(number: int, on_change: OnChange) -> WorkerProcess:
            return WorkerProcess(number, build_command(module), pickle.dumps(None), LIMITS, on_change)

        pools.append(Pool(WorkerPool(start_worker, size, ended.append), ended))
        return pools[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "src")]))
        patch.setattr("tempfile.tempdir", str(tmp_path_factory.mktemp("scratch")))
        yield open_pool
        for pool in pools:
            pool.workers.stop()


@pytest.fixture(scope="module")
def shared_pool(open_pool: OpenPool) -> Pool:
    return open_pool(size=2)


@pytest.fixture
def pool(shared_pool: Pool) -> Pool:
    """A pool of two workers, some of which earlier tests may have ended."""
    shared_pool.ended.clear()
    return shared_pool


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def test_a_call_returns_values_of_the_model(pool: Pool) -> None:
    times = [datetime(2026, 1, 2, tzinfo=zone) for zone in (None, UTC, ZoneInfo("UTC"), ZoneInfo("Europe/Brussels"))]
    values = [1, "a", None, {"times": times}, date(2026, 1, 2), Decimal("1.5"), BlockKind.BASE]
    assert pool.call("echo", values) == values


def test_a_call_raises_the_error_of_the_operation(pool: Pool) -> None:
    with pytest.raises(WorkflowError) as refused:
        pool.call("raise_refusal")
    assert refused.value.problems == ("workflow.py:3: first", "workflow.py:4: second")
    with pytest.raises(WorkerFailed, match="ZeroDivisionError"):
        pool.call("raise_foreign")
    with pytest.raises(WorkerFailed, match="SystemExit"):
        pool.call("raise_exit")
    with pytest.raises(WorkerFailed, match="pickle"):
        pool.call("return_lambda")
    with pytest.raises(WorkerFailed, match="AttributeError"):
        pool.call("missing")
    assert not pool.ended


@pytest.mark.parametrize(("operation", "reason"), FATAL.items())
def test_a_harmful_call_fails_alone(operation: str, reason: str, pool: Pool) -> None:
    with pytest.raises(WorkerFailed, match=reason):
        pool.call(operation)
    (ended,) = pool.ended
    assert ended.is_fault
    assert not _list_descendants(ended.pid)
    assert not list(Path(tempfile.gettempdir()).glob(f"*/{SCRATCH_PREFIX}*/part*"))
    assert not Path("exploited").exists()
    assert pool.call("get_process") != ended.pid


def test_a_worker_and_what_it_starts_have_a_lower_priority_than_the_server(pool: Pool) -> None:
    expected = psutil.Process().nice() + LIMITS.nice
    worker = pool.call("get_process")
    assert isinstance(worker, int)
    assert (psutil.Process(worker).nice(), pool.call("measure_niceness")) == (expected, expected)


def test_a_file_cannot_be_larger_than_the_limit(pool: Pool) -> None:
    with pytest.raises(WorkerFailed, match="OSError.*too large"):
        pool.call("write_large_file")
    assert not pool.ended


def test_a_call_restores_the_process(open_pool: OpenPool) -> None:
    pool = open_pool()
    before = pool.call("get_process"), pool.call("describe_process"), pool.call("get_handler")
    pool.call("change_process")
    assert (pool.call("get_process"), pool.call("describe_process"), pool.call("get_handler")) == before


@pytest.mark.parametrize(("operation", "reason"), LEFT_BEHIND.items())
def test_a_worker_is_replaced_if_something_was_left_behind(operation: str, reason: str, pool: Pool) -> None:
    pool.call(operation)
    wait_until(lambda: bool(pool.ended))
    assert reason in (pool.ended[0].end_reason or "")
    assert not _list_descendants(pool.ended[0].pid)
    assert pool.call("get_process") != pool.ended[0].pid
    assert pool.workers.report_health().problem is None


def test_a_worker_whose_engine_is_gone_is_replaced(pool: Pool) -> None:
    pool.call("lose_engine")
    wait_until(lambda: bool(pool.ended))
    assert (pool.ended[0].end_reason, pool.ended[0].is_fault) == ("the engine is gone", False)
    pool.call("get_process")


def test_a_killed_worker_is_not_a_fault_of_users_code(pool: Pool) -> None:
    process = pool.call("get_process")
    assert isinstance(process, int)
    os.kill(process, 9)
    wait_until(lambda: bool(pool.ended))
    assert not pool.ended[0].is_fault


def test_a_worker_killed_during_a_call_is_not_a_fault_of_users_code(pool: Pool) -> None:
    with ThreadPoolExecutor(1) as threads:
        call = threads.submit(pool.call, "hold_interpreter")
        wait_until(lambda: any(w.is_busy for w in pool.workers._workers))
        os.kill(next(w.pid for w in pool.workers._workers if w.is_busy), 9)
        with pytest.raises(WorkerFailed, match="ended with signal SIGKILL"):
            call.result()
    assert not pool.ended[0].is_fault


def test_calls_at_the_same_time_get_workers_of_their_own(open_pool: OpenPool) -> None:
    pool = open_pool(size=1)
    first = pool.workers._acquire_worker()
    assert pool.call("get_process") != first.pid


def test_a_worker_that_cannot_start_is_reported(open_pool: OpenPool) -> None:
    with pytest.raises(EngineError, match="ended with status 1"):
        open_pool(module="tests.workers.missing").workers.start()


def test_everything_ends_with_the_pool(open_pool: OpenPool) -> None:
    pool = open_pool()
    process = pool.call("get_process")
    assert isinstance(process, int)
    (worker,) = pool.workers._workers
    assert worker._scratch.exists()
    pool.workers.stop()
    assert not psutil.pid_exists(process)
    assert not worker._scratch.exists()


def _list_descendants(session: int) -> list[int]:
    """The processes of a session; those that began their own belong to init, since their parent has ended."""
    return [p.pid for p in psutil.process_iter() if _get_session(p) == session]


def _get_session(process: psutil.Process) -> int | None:
    try:
        return None if process.status() == psutil.STATUS_ZOMBIE else os.getsid(process.pid)
    except (ProcessLookupError, psutil.NoSuchProcess):
        return None
