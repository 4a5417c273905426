"""Processes killed at every step of the commit protocol: nothing is lost or duplicated, and no orphan file remains."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.acceptance.mill import DEDUPE, LATER, WORKFLOW, Mill, batch, compute_expected_firsts, open_plain_mill
from tests.databases import LONG_ON_POSTGRESQL

from tidemill.algebra.reference import is_same_bag
from tidemill.errors import Conflict, LeaseLost
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.run import PENDING_STATES, RunClaim, RunKind, RunOutcome, build_claim_request
from tidemill.runtime.runs.flow import FlowAttempt
from tidemill.runtime.runs.leases import Lease
from tidemill.runtime.runs.log import RunLog

ROUNDS = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0"))
"""Rounds over all steps; without it (in the suite) one round over every eleventh step."""

STRIDE = 1 if ROUNDS else 11

Work = Callable[[Mill], None]


class Tripwire:
    """Kills this process with SIGKILL at the n-th step."""

    def __init__(self, step: int) -> None:
        self.remaining = step

    def step(self, *_args: object, **_kwargs: object) -> None:
        self.remaining -= 1
        if self.remaining == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def guard(self, target: object, *names: str) -> None:
        """Insert a step before and after each of these methods of the target."""
        for name in names:
            object.__setattr__(target, name, self._wrap_call(getattr(target, name)))

    def _wrap_call(self, call: Callable[..., object]) -> Callable[..., object]:
        def call_between_steps(*args: object, **kwargs: object) -> object:
            self.step()
            result = call(*args, **kwargs)
            self.step()
            return result

        return call_between_steps


def is_killed_at(step: int, url: str, root: Path, work: Work) -> bool:
    """Do the work in a process that is killed at the given step; False if it finished before that."""
    child = os.fork()
    if child == 0:
        wire = Tripwire(step)
        try:
            with open_plain_mill(url, root, owner=f"doomed-{step}") as mill:
                event.listen(Engine, "before_cursor_execute", wire.step)
                event.listen(Engine, "commit", wire.step)
                wire.guard(mill.store, "stage_directory", "publish_files", "delete_files")
                wire.guard(mill.executor.engine, "run_task", "write_frame", "write_view")
                work(mill)
            os._exit(0)
        except BaseException:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the work failed by itself"
    return os.WIFSIGNALED(status)


def recover_and_check(url: str, root: Path, work: Work, batches: int) -> None:
    """Do what a restarted process does: reclaim expired runs and repeat the work. Then check the result."""
    with open_plain_mill(url, root, later=LATER) as mill:
        mill.catalog.runs.reclaim_expired()
        for run in (r for state in PENDING_STATES for r in mill.catalog.runs.list(state=state)):
            mill.catalog.runs.kill(run.id)
        work(mill)
        check_content(mill, batches)
        assert not [b for b in mill.catalog.blocks.list(limit=100) if b.state is BlockState.RESERVED]
        if batches % 20 == 0:
            mill.compact("events", "firsts", "words")
        mill.collect()
        assert mill.leftovers() == set()


def check_content(mill: Mill, batches: int) -> None:
    """Check that nothing is lost or duplicated."""
    assert is_same_bag(mill.content("firsts"), compute_expected_firsts(batches))
    assert len(mill.content("words")) == len(compute_expected_firsts(batches))
    assert len(mill.content("events")) == 4 * batches


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_a_process_killed_at_any_step_loses_and_duplicates_nothing(url: str, tmp_path: Path, round_: int) -> None:
    root = tmp_path / "blocks"
    with open_plain_mill(url, root) as mill:
        mill.catalog.workflows.apply(WORKFLOW)
    for batches in count(1):
        file = batch(tmp_path, batches - 1)

        def work(mill: Mill, file: Path = file) -> None:
            mill.insert(file)
            mill.run()

        was_killed = is_killed_at(batches * STRIDE, url, root, work)
        recover_and_check(url, root, work, batches)
        if not was_killed:
            break
    assert batches * STRIDE > 100, "the protocol has more steps than that; the tripwire missed some"


@pytest.mark.long
@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_a_process_killed_during_maintenance_loses_nothing(url: str, tmp_path: Path, round_: int) -> None:
    root = tmp_path / "blocks"
    with open_plain_mill(url, root) as mill:
        mill.catalog.workflows.apply(WORKFLOW)

    def work(mill: Mill) -> None:
        mill.run_maintenance("events")
        mill.compact("words")
        mill.collect()

    effects: set[str] = set()
    for batches in count(1):
        with open_plain_mill(url, root, later=LATER) as mill:
            mill.insert(batch(tmp_path, batches - 1))
            mill.run()
        was_killed = is_killed_at(batches * STRIDE, url, root, work)
        with open_plain_mill(url, root, later=LATER) as mill:
            check_content(mill, batches)
        recover_and_check(url, root, work, batches)
        with open_plain_mill(url, root) as mill:
            effects |= find_maintenance_effects(mill, "events")
        if not was_killed:
            break
    assert effects == {"compacted", "shared", "expired"}
    assert batches * STRIDE > 30, "there are more steps than that; the tripwire missed some"


def find_maintenance_effects(mill: Mill, channel: str) -> set[str]:
    """The effects of maintenance that are visible on a channel."""
    compacted = [
        b for b in mill.catalog.blocks.list(channel) if b.origin is BlockOrigin.COMPACTION and b.kind is BlockKind.DELTA
    ]
    foreign = [f for b in compacted for f in b.files if not f.path.startswith(f"runs/{b.run}/")]
    oldest = min(r.id for r in mill.catalog.runs.list(limit=10_000))
    effects = {"compacted": bool(compacted), "shared": bool(foreign), "expired": oldest > 1}
    return {name for name, is_found in effects.items() if is_found}


@pytest.mark.parametrize("backend", LONG_ON_POSTGRESQL)
def test_one_of_two_processes_that_race_for_a_run_commits(url: str, tmp_path: Path) -> None:
    with open_plain_mill(url, tmp_path / "blocks") as mill:
        mill.catalog.workflows.apply(WORKFLOW)
    for number in range(10):
        with open_plain_mill(url, tmp_path / "blocks") as mill:
            mill.insert(batch(tmp_path, number))
            run = mill.catalog.runs.request(RunKind.FLOW, DEDUPE.name)
        racers = [_start_racer(url, tmp_path / "blocks", run.id) for _ in range(2)]
        committed = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in racers]
        assert sorted(committed) == [0, 3], "exactly one of the two must commit"
        with open_plain_mill(url, tmp_path / "blocks") as mill:
            check_content(mill, number + 1)


def _start_racer(url: str, root: Path, run: int) -> int:
    """Start a process that tries to execute the run: its exit code is 0 if it committed, 3 if it lost."""
    child = os.fork()
    if child:
        return child
    try:
        with open_plain_mill(url, root, owner=f"racer-{os.getpid()}") as mill:
            claim = mill.catalog.runs.claim(run, build_claim_request(DEDUPE), owner=f"racer-{os.getpid()}", lease=30)
            mill.executor.run_once(
                claim, lambda c, log, lease: mill.catalog.runs.commit(c, _compute_outcome(mill, c, log, lease))
            )
        os._exit(0)
    except Conflict:
        os._exit(3)
    except BaseException:
        os._exit(1)
    raise AssertionError("not reached")


def _compute_outcome(mill: Mill, claim: RunClaim, log: RunLog, lease: Lease) -> RunOutcome:
    services = (mill.catalog, mill.store, mill.executor.engine)
    return FlowAttempt(*services, DEDUPE, {}, claim, log, lease, None, {}).run_tasks()


def test_a_process_that_resumes_after_its_lease_expired_cannot_commit(url: str, tmp_path: Path) -> None:
    """Stop a process between its writes and its commit, let another take the run over, and resume it."""
    root = tmp_path / "blocks"
    with open_plain_mill(url, root) as mill:
        mill.catalog.workflows.apply(WORKFLOW)
        mill.insert(batch(tmp_path, 0))
        run = mill.catalog.runs.request(RunKind.FLOW, DEDUPE.name, attempts=2)
    stopped = os.fork()
    if stopped == 0:
        try:
            with open_plain_mill(url, root, owner="stopped") as mill:
                claim = mill.catalog.runs.claim(run.id, build_claim_request(DEDUPE), owner="stopped", lease=30)

                def commit(c: RunClaim, log: RunLog, lease: Lease) -> object:
                    outcome = _compute_outcome(mill, c, log, lease)
                    os.kill(os.getpid(), signal.SIGSTOP)
                    return mill.catalog.runs.commit(claim, outcome)

                mill.executor.run_once(claim, commit)
            os._exit(0)
        except LeaseLost:
            os._exit(4)
        except BaseException:
            os._exit(1)
    os.waitpid(stopped, os.WUNTRACED)
    with open_plain_mill(url, root, later=LATER, owner="successor") as mill:
        assert [r.id for r in mill.catalog.runs.reclaim_expired()] == [run.id]
        claim = mill.catalog.runs.claim(run.id, build_claim_request(DEDUPE), owner="successor", lease=30)
        mill.executor.run_once(
            claim, lambda c, log, lease: mill.catalog.runs.commit(c, _compute_outcome(mill, c, log, lease))
        )
    os.kill(stopped, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(stopped, 0)[1]) == 4
    with open_plain_mill(url, root, later=LATER) as mill:
        check_content(mill, 1)
        mill.collect()
        assert mill.leftovers() == set()
