"""A server: fires what is due, gives up what died, and executes runs on its tracks.

All it knows is in the catalog, so that any number of servers may share one, and any of them may die. One of them leads:
it fires triggers, reclaims the runs of the dead and keeps house. A tick asks a fixed number of questions, each of which
finds what is due by an index, however much there is that is not.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tidemill.errors import ConfigError, EngineLost, TidemillError
from tidemill.model.run import Run
from tidemill.ports.catalog import CatalogWriter
from tidemill.ports.engine import Engine
from tidemill.ports.records import RECOVERING, SERVING, Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.runs.dispatch import DispatchConfig, DispatchedRun, RunDispatcher
from tidemill.runtime.runs.execution import Executor

log = logging.getLogger("tidemill.server")

OFFERED = 1000
"""Runs among which the dispatcher chooses at once."""

MOST = 64
"""Tracks of a server, and as many for backfills."""

AT_ONCE = 100
"""Triggers that are fired in one tick; the rest has to wait for the next, which follows at once."""


Execute = Callable[[Run, CatchUpLimit | None], None]


@dataclass(frozen=True, slots=True)
class ServerIntervals:
    """How often a server does what, in seconds."""

    tick: float = 1.0  # between two looks while nothing happens
    rest: float = 0.05  # between two looks however much happens
    lead: float = 5.0  # after so long without a word from the leader another server leads


class PeriodicTask:
    """What the leader does besides, at intervals, for as long as it takes."""

    def __init__(self, what: str, every: float, work: Callable[[], None]) -> None:
        self.what = what
        self._every = every  # seconds
        self._work = work
        self._begun = float("-inf")
        self._done: Future[None] | None = None

    def is_busy(self) -> bool:
        return self._done is not None and not self._done.done()

    def start_if_due(self, pool: ThreadPoolExecutor) -> None:
        """Do it once more, unless it is being done or its time has not come."""
        now = time.monotonic()
        if not self.is_busy() and now - self._begun >= self._every:
            self._begun = now
            self._done = pool.submit(self._run_work)

    def _run_work(self) -> None:
        try:
            self._work()
        except Exception:
            log.exception("%s", self.what)


def _is_running(work: Future[None] | None) -> bool:
    return work is not None and not work.done()


class ServerLoop:
    """One server's loop. `execute` makes one attempt at a run, with a portion of what waits, and returns at its end.

    `stopping` is set once it drains: what nobody waits for need not go on to its end. While the engine of `executor` is
    lost, it is started again and no run is taken; if it stays lost the loop ends, and `run` raises `EngineLost`.
    """

    def __init__(
        self,
        catalog: CatalogWriter,
        server: Server,
        execute: Execute,
        chores: Sequence[PeriodicTask],
        rhythm: ServerIntervals,
        way: DispatchConfig | None = None,
        stopping: threading.Event | None = None,
        executor: Executor | None = None,
    ) -> None:
        self.server = server
        self._way = way or DispatchConfig(tracks=server.tracks)
        self._dispatch = RunDispatcher(catalog, self._way)
        self.leading = False
        self._catalog = catalog
        self._execute = execute
        self._chores = chores
        self._executor = executor
        self._restart: Future[None] | None = None
        self._gave_up: str | None = None
        self._rhythm = rhythm
        self._attended = float("-inf")
        self._ahead = 0.0  # of this process's steady clock, by the catalog's, in seconds
        self._under_way: dict[int, Future[None]] = {}
        self._wished: Mapping[str, Any] = {}
        self._wake = threading.Event()
        self._stopping = stopping or threading.Event()
        self._tracks = ThreadPoolExecutor(2 * MOST + len(chores), thread_name_prefix="tidemill-track")

    def run(self) -> None:
        """Serve until `drain` was called and what was under way has ended."""
        failing = False
        while not (self._stopping.is_set() and not self._is_busy()):
            looked = time.monotonic()
            try:
                again = self.tick()
                failing = False
            except TidemillError as error:
                if not failing:
                    log.error("the catalog does not answer; trying again: %s", error)
                again, failing = False, True
            if not again:
                self._wake.wait(self._rhythm.tick)
                self._stopping.wait(max(0.0, looked + self._rhythm.rest - time.monotonic()))
            self._wake.clear()
        self._tracks.shutdown()
        self._deregister_server()
        if self._gave_up is not None:
            raise EngineLost(f"gave up: {self._gave_up}")

    def drain(self) -> None:
        """Take no more runs; those under way go on to their end."""
        self._stopping.set()
        self.server = replace(self.server, state="draining")
        self._attended = float("-inf")
        self.wake()

    def wake(self) -> None:
        """Something happened that may be of interest: look now."""
        self._wake.set()

    def tick(self) -> bool:
        """Look once; True if there may be more to do at once."""
        if self._executor is not None:
            self._check_engine(self._executor.engine)
        self._send_heartbeat()
        if self._executor is not None:
            self._executor.own.recover_claims()
        full = self._fire_triggers() if self.leading else False
        self._start_runs()
        if self.leading and not self._stopping.is_set():
            for chore in self._chores:
                chore.start_if_due(self._tracks)
        return full

    def _check_engine(self, engine: Engine) -> None:
        """Serve only while there is an engine; start one that was lost again when it is time."""
        health = engine.report_health()
        if health.gave_up and not self._stopping.is_set():
            self._gave_up = health.problem
            log.error("gave up: %s", health.problem)
            self.drain()
        elif health.problem is not None and not health.retry_in and not _is_running(self._restart):
            log.error("%s; starting it again", health.problem)
            self._restart = self._tracks.submit(self._restart_engine, engine)
        self._set_state(SERVING if health.problem is None else RECOVERING)

    def _restart_engine(self, engine: Engine) -> None:
        try:
            engine.start()
            log.info("the engine is back")
        except TidemillError as error:
            log.error("the engine did not start again: %s", error)
        self.wake()

    def _set_state(self, state: str) -> None:
        if self.server.state in (SERVING, RECOVERING) and self.server.state != state:
            self.server = replace(self.server, state=state)
            self._attended = float("-inf")

    def _send_heartbeat(self) -> None:
        now = time.monotonic()
        if now - self._attended >= self._rhythm.lead / 3:
            leads = self._catalog.record_heartbeat(self.server, lease=self._rhythm.lead)
            self._ahead = self._catalog.read_time() - time.monotonic()
            if leads != self.leading:
                log.info("%s %s", self.server.name, "leads" if leads else "no longer leads")
            self.leading, self._attended = leads, now
            self._apply_overrides(self._catalog.read_setting_overrides())

    def _get_catalog_time(self) -> float:
        """The catalog's time, from which those of runs come."""
        return time.monotonic() + self._ahead

    def _fire_triggers(self) -> bool:
        due = self._catalog.list_due_triggers(AT_ONCE)
        for leaf in due:
            self._catalog.fire_trigger(leaf)
        for run in self._catalog.reclaim_expired_runs():
            log.warning("run %d of %s was given up by its server: %s", run.id, run.subject, run.error)
        return len(due) == AT_ONCE

    def _start_runs(self) -> None:
        """Put runs on free tracks, as the dispatcher says."""
        self._under_way = {run: work for run, work in self._under_way.items() if not work.done()}
        free = self._dispatch.way.all_tracks - len(self._under_way)
        if free <= 0 or self._stopping.is_set() or self.server.state != SERVING:
            return
        runnable = [r for r in self._catalog.list_runnable_runs(OFFERED) if r.id not in self._under_way]
        if runnable:
            for started in self._dispatch.start_runs(runnable, self._get_catalog_time()):
                self._under_way[started.run.id] = self._tracks.submit(self._attempt_run, started)

    def _apply_overrides(self, wished: Mapping[str, Any]) -> None:
        """Dispatch as people wish by now; what is wished and makes no sense is told once."""
        if wished == self._wished:
            return
        self._wished = wished
        try:
            way = self._way.apply_overrides(wished)
        except ConfigError as error:
            log.error("a wish is not heeded: %s", error)
            return
        self.server = replace(self.server, tracks=min(MOST, way.tracks))
        self._dispatch.change_config(replace(way, tracks=self.server.tracks), self._get_catalog_time())

    def _attempt_run(self, started: DispatchedRun) -> None:
        run = started.run
        try:
            self._execute(run, started.portion)
        except Exception:
            log.exception("run %d of %s", run.id, run.subject)
        finally:
            self._dispatch.finish_run(started, self._get_catalog_time())
            self.wake()

    def _is_busy(self) -> bool:
        return any(c.is_busy() for c in self._chores) or any(map(_is_running, self._under_way.values()))

    def _deregister_server(self) -> None:
        try:
            self._catalog.deregister_server(self.server)
        except TidemillError as error:
            log.error("could not say good-bye to the catalog: %s", error)
