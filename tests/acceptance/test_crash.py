"""Processes killed for real at every step of the commit protocol: nothing lost, nothing doubled, no orphan."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine, event
from tests.acceptance.mill import DEDUPE, LATER, WORKFLOW, Mill, batch, expected, opened

from tidemill.algebra.reference import is_same_bag
from tidemill.errors import Conflict, LeaseLost
from tidemill.model.block import BlockKind, BlockOrigin, BlockState
from tidemill.model.run import PENDING_STATES, RunClaim, RunKind, RunOutcome, build_claim_request
from tidemill.runtime.runs.flow import FlowAttempt
from tidemill.runtime.runs.lease import Lease
from tidemill.runtime.runs.log import RunLog

ROUNDS = int(os.environ.get("TIDEMILL_CRASH_ROUNDS", "0"))
"""How often to die at every step; without it (in the suite) once at every fourth."""

STRIDE = 1 if ROUNDS else 11

Work = Callable[[Mill], None]


class Tripwire:
    """Kills this process, without any farewell, at the n-th step it passes."""

    def __init__(self, at: int) -> None:
        self.left = at

    def step(self, *_args: object, **_kwargs: object) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def guard(self, door: object, *names: str) -> None:
        """Put a step before and after each of the door's methods."""
        for name in names:
            object.__setattr__(door, name, self._stepping(getattr(door, name)))

    def _stepping(self, call: Callable[..., object]) -> Callable[..., object]:
        def stepping(*args: object, **kwargs: object) -> object:
            self.step()
            result = call(*args, **kwargs)
            self.step()
            return result

        return stepping


def killed_at(step: int, url: str, root: Path, work: Work) -> bool:
    """Do the work in a process that dies at the given step; False if it finished before that."""
    child = os.fork()
    if child == 0:
        wire = Tripwire(step)
        try:
            with opened(url, root, owner=f"doomed-{step}") as mill:
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


def recovered(url: str, root: Path, work: Work, batches: int) -> None:
    """What a restarted process does: reclaim what expired, and do the work again. Then all must be well."""
    with opened(url, root, later=LATER) as mill:
        mill.catalog.reclaim_expired_runs()
        for run in (r for state in PENDING_STATES for r in mill.catalog.list_runs(state=state)):
            mill.catalog.kill_run(run.id)
        work(mill)
        check(mill, batches)
        assert not [b for b in mill.catalog.list_blocks(limit=100) if b.state is BlockState.RESERVED]
        if batches % 20 == 0:
            mill.compact("events", "firsts", "words")
        mill.collect()
        assert mill.leftovers() == set()


def check(mill: Mill, batches: int) -> None:
    """Nothing lost, nothing doubled."""
    assert is_same_bag(mill.content("firsts"), expected(batches))
    assert len(mill.content("words")) == len(expected(batches))
    assert len(mill.content("events")) == 4 * batches


@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_killed_anywhere_nothing_is_lost_or_doubled(url: str, tmp_path: Path, round_: int) -> None:
    root = tmp_path / "blocks"
    with opened(url, root) as mill:
        mill.catalog.apply_workflow(WORKFLOW)
    for batches in count(1):
        file = batch(tmp_path, batches - 1)

        def work(mill: Mill, file: Path = file) -> None:
            mill.insert(file)
            mill.run()

        died = killed_at(batches * STRIDE, url, root, work)
        recovered(url, root, work, batches)
        if not died:
            break
    assert batches * STRIDE > 100, "the protocol has more steps than that; the tripwire missed some"


@pytest.mark.parametrize("round_", range(max(ROUNDS, 1)))
def test_killed_while_folding_collecting_and_forgetting(url: str, tmp_path: Path, round_: int) -> None:
    root = tmp_path / "blocks"
    with opened(url, root) as mill:
        mill.catalog.apply_workflow(WORKFLOW)

    def work(mill: Mill) -> None:
        mill.tidy("events")
        mill.compact("words")
        mill.collect()

    seen: set[str] = set()
    for batches in count(1):
        with opened(url, root, later=LATER) as mill:
            mill.insert(batch(tmp_path, batches - 1))
            mill.run()
        died = killed_at(batches * STRIDE, url, root, work)
        with opened(url, root, later=LATER) as mill:
            check(mill, batches)
        recovered(url, root, work, batches)
        with opened(url, root) as mill:
            seen |= done_to(mill, "events")
        if not died:
            break
    assert seen == {"folded", "shared", "forgotten"}
    assert batches * STRIDE > 30, "there are more steps than that; the tripwire missed some"


def done_to(mill: Mill, channel: str) -> set[str]:
    """What upkeep left to see on a channel."""
    folds = [
        b for b in mill.catalog.list_blocks(channel) if b.origin is BlockOrigin.COMPACTION and b.kind is BlockKind.DELTA
    ]
    foreign = [f for b in folds for f in b.files if not f.path.startswith(f"runs/{b.run}/")]
    oldest = min(r.id for r in mill.catalog.list_runs(limit=10_000))
    signs = {"folded": bool(folds), "shared": bool(foreign), "forgotten": oldest > 1}
    return {name for name, is_so in signs.items() if is_so}


def test_two_processes_race_for_one_run(url: str, tmp_path: Path) -> None:
    with opened(url, tmp_path / "blocks") as mill:
        mill.catalog.apply_workflow(WORKFLOW)
    for number in range(10):
        with opened(url, tmp_path / "blocks") as mill:
            mill.insert(batch(tmp_path, number))
            run = mill.catalog.request_run(RunKind.FLOW, DEDUPE.name)
        racers = [_race(url, tmp_path / "blocks", run.id) for _ in range(2)]
        committed = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in racers]
        assert sorted(committed) == [0, 3], "exactly one of the two must commit"
        with opened(url, tmp_path / "blocks") as mill:
            check(mill, number + 1)


def _race(url: str, root: Path, run: int) -> int:
    """Start a process that tries to execute the run: it ends with 0 if it committed, 3 if it lost."""
    child = os.fork()
    if child:
        return child
    try:
        with opened(url, root, owner=f"racer-{os.getpid()}") as mill:
            claim = mill.catalog.claim_run(run, build_claim_request(DEDUPE), owner=f"racer-{os.getpid()}", lease=30)
            mill.executor.run_once(
                claim, lambda c, log, lease: mill.catalog.commit_run(c, _outcome(mill, c, log, lease))
            )
        os._exit(0)
    except Conflict:
        os._exit(3)
    except BaseException:
        os._exit(1)
    raise AssertionError("not reached")


def _outcome(mill: Mill, claim: RunClaim, log: RunLog, lease: Lease) -> RunOutcome:
    doors = (mill.catalog, mill.store, mill.executor.engine)
    return FlowAttempt(*doors, DEDUPE, {}, claim, log, lease, None, {}).run_tasks()


def test_a_stopped_process_that_wakes_up_cannot_commit(url: str, tmp_path: Path) -> None:
    """SIGSTOP a process between its writing and its commit, let another take the run over, and wake it."""
    root = tmp_path / "blocks"
    with opened(url, root) as mill:
        mill.catalog.apply_workflow(WORKFLOW)
        mill.insert(batch(tmp_path, 0))
        run = mill.catalog.request_run(RunKind.FLOW, DEDUPE.name, attempts=2)
    zombie = os.fork()
    if zombie == 0:
        try:
            with opened(url, root, owner="zombie") as mill:
                claim = mill.catalog.claim_run(run.id, build_claim_request(DEDUPE), owner="zombie", lease=30)

                def commit(c: RunClaim, log: RunLog, lease: Lease) -> object:
                    outcome = _outcome(mill, c, log, lease)
                    os.kill(os.getpid(), signal.SIGSTOP)
                    return mill.catalog.commit_run(claim, outcome)

                mill.executor.run_once(claim, commit)
            os._exit(0)
        except LeaseLost:
            os._exit(4)
        except BaseException:
            os._exit(1)
    os.waitpid(zombie, os.WUNTRACED)
    with opened(url, root, later=LATER, owner="heir") as mill:
        assert [r.id for r in mill.catalog.reclaim_expired_runs()] == [run.id]
        claim = mill.catalog.claim_run(run.id, build_claim_request(DEDUPE), owner="heir", lease=30)
        mill.executor.run_once(claim, lambda c, log, lease: mill.catalog.commit_run(c, _outcome(mill, c, log, lease)))
    os.kill(zombie, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(zombie, 0)[1]) == 4
    with opened(url, root, later=LATER) as mill:
        check(mill, 1)
        mill.collect()
        assert mill.leftovers() == set()
