"""A server: fires due triggers, reclaims runs of dead servers, and executes runs on its tracks.

All its state is in the catalog, so any number of servers may share one catalog, and any of them may die. One of them is
the leader: it fires triggers, reclaims expired runs and does maintenance. A tick makes a fixed number of queries; each
finds the due work by an index, independent of the amount of work that is not due.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from tidemill.errors import ConfigError, EngineLost, TidemillError
from tidemill.model.run import Run
from tidemill.ports.catalog import Catalog
from tidemill.ports.engine import Engine
from tidemill.ports.records import RECOVERING, SERVING, Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.runs.dispatch import DispatchConfig, DispatchedRun, RunDispatcher, TrackQuotas
from tidemill.runtime.runs.execution import Executor

log = logging.getLogger("tidemill.server")

DISPATCH_WINDOW = 1000
"""Runs from which the dispatcher chooses at a time."""

MAX_TRACKS = 64
"""Maximum number of tracks of a server, and of its backfill tracks."""

TRIGGERS_PER_TICK = 100
"""Triggers fired in one tick; the rest waits for the next tick, which follows at once."""


Execute = Callable[[Run, CatchUpLimit | None], None]


@dataclass(frozen=True, slots=True)
class ServerIntervals:
    """Intervals of a server's work, in seconds."""

    tick: float = 1.0  # between two ticks while idle
    rest: float = 0.05  # minimum between two ticks under load
    leader_lease: float = 5.0  # leadership lease: another server leads after this long without a heartbeat


class PeriodicTask:
    """Work that the leader starts at intervals and runs in the background."""

    def __init__(self, name: str, interval: float, work: Callable[[], None]) -> None:
        self.name = name
        self._interval = interval  # seconds
        self._work = work
        self._started_at = float("-inf")
        self._future: Future[None] | None = None

    def is_busy(self) -> bool:
        return self._future is not None and not self._future.done()

    def start_if_due(self, pool: ThreadPoolExecutor) -> None:
        """Start the work unless it is running or not yet due."""
        now = time.monotonic()
        if not self.is_busy() and now - self._started_at >= self._interval:
            self._started_at = now
            self._future = pool.submit(self._run_work)

    def _run_work(self) -> None:
        try:
            self._work()
        except Exception:
            log.exception("%s", self.name)


def _is_running(work: Future[None] | None) -> bool:
    return work is not None and not work.done()


class ServerLoop:
    """The main loop of one server. `execute` makes one attempt at a run, within a catch-up limit, until its end.

    `stopping` is set when the server drains: background work may then end early. While the engine of `executor` is
    lost, the loop restarts it and takes no runs; if it stays lost the loop ends, and `run` raises `EngineLost`.
    `limit_tracks` returns the tracks that each workflow may use.
    """

    def __init__(
        self,
        catalog: Catalog,
        server: Server,
        execute: Execute,
        periodic_tasks: Sequence[PeriodicTask],
        intervals: ServerIntervals,
        config: DispatchConfig | None = None,
        stopping: threading.Event | None = None,
        executor: Executor | None = None,
        limit_tracks: TrackQuotas = dict,
    ) -> None:
        self.server = server
        self._config = config or DispatchConfig(tracks=server.tracks)
        self._dispatcher = RunDispatcher(catalog.flows, self._config, limit_tracks=limit_tracks)
        self.is_leader = False
        self.has_started = False
        self._catalog = catalog
        self._execute = execute
        self._periodic_tasks = periodic_tasks
        self._executor = executor
        self._restart: Future[None] | None = None
        self._failure: str | None = None
        self._intervals = intervals
        self._heartbeat_at = float("-inf")
        self._clock_offset = 0.0  # seconds by which the catalog's clock is ahead of this process's monotonic clock
        self._running: dict[int, Future[None]] = {}
        self._overrides: Mapping[str, Any] = {}
        self._wake = threading.Event()
        self._stopping = stopping or threading.Event()
        self._tracks = ThreadPoolExecutor(2 * MAX_TRACKS + len(periodic_tasks), thread_name_prefix="tidemill-track")

    def run(self) -> None:
        """Serve until `drain` was called and running work has ended."""
        self.has_started = True
        failing = False
        while not (self._stopping.is_set() and not self._is_busy()):
            started = time.monotonic()
            try:
                has_more = self.tick()
                failing = False
            except TidemillError as error:
                if not failing:
                    log.error("the catalog does not answer; retrying: %s", error)
                has_more, failing = False, True
            if not has_more:
                self._wake.wait(self._intervals.tick)
                self._stopping.wait(max(0.0, started + self._intervals.rest - time.monotonic()))
            self._wake.clear()
        self._tracks.shutdown()
        self._deregister_server()
        if self._failure is not None:
            raise EngineLost(f"gave up: {self._failure}")

    def drain(self) -> None:
        """Take no more runs; running ones continue to their end."""
        self._stopping.set()
        self.server = replace(self.server, state="draining")
        self._heartbeat_at = float("-inf")
        self.wake()

    def wake(self) -> None:
        """Start the next tick now, because an event may have made work due."""
        self._wake.set()

    def tick(self) -> bool:
        """Do one round of work; True if more work may be due at once."""
        if self._executor is not None:
            self._check_engine(self._executor.engine)
        self._send_heartbeat()
        if self._executor is not None:
            self._executor.process_runs.recover_claims()
        full = self._fire_triggers() if self.is_leader else False
        self._start_runs()
        if self.is_leader and not self._stopping.is_set():
            for task in self._periodic_tasks:
                task.start_if_due(self._tracks)
        return full

    def _check_engine(self, engine: Engine) -> None:
        """Restart a lost engine when its back-off is over, and serve only while the engine is available."""
        health = engine.report_health()
        if health.has_given_up and not self._stopping.is_set():
            self._failure = health.problem
            log.error("gave up: %s", health.problem)
            self.drain()
        elif health.problem is not None and not health.retry_in and not _is_running(self._restart):
            log.error("%s; restarting it", health.problem)
            self._restart = self._tracks.submit(self._restart_engine, engine)
        self._set_state(SERVING if health.problem is None else RECOVERING)

    def _restart_engine(self, engine: Engine) -> None:
        try:
            engine.start()
            log.info("the engine is available again")
        except TidemillError as error:
            log.error("the engine did not restart: %s", error)
        self.wake()

    def _set_state(self, state: str) -> None:
        if self.server.state in (SERVING, RECOVERING) and self.server.state != state:
            self.server = replace(self.server, state=state)
            self._heartbeat_at = float("-inf")

    def _send_heartbeat(self) -> None:
        now = time.monotonic()
        if now - self._heartbeat_at >= self._intervals.leader_lease / 3:
            is_leader = self._catalog.servers.record_heartbeat(self.server, lease=self._intervals.leader_lease)
            self._clock_offset = self._catalog.read_time() - time.monotonic()
            if is_leader != self.is_leader:
                log.info("%s %s", self.server.name, "leads" if is_leader else "no longer leads")
            self.is_leader, self._heartbeat_at = is_leader, now
            self._apply_overrides(self._catalog.servers.read_setting_overrides())

    def _get_catalog_time(self) -> float:
        """Return the catalog's time, the clock of all timestamps of runs."""
        return time.monotonic() + self._clock_offset

    def _fire_triggers(self) -> bool:
        due = self._catalog.triggers.list_due(TRIGGERS_PER_TICK)
        for trigger in due:
            self._catalog.triggers.fire(trigger)
        for run in self._catalog.runs.reclaim_expired():
            log.warning("run %d of %s was reclaimed from its server: %s", run.id, run.subject, run.error)
        return len(due) == TRIGGERS_PER_TICK

    def _start_runs(self) -> None:
        """Start runs on free tracks, as the dispatcher decides."""
        self._running = {run: work for run, work in self._running.items() if not work.done()}
        free = self._dispatcher.config.all_tracks - len(self._running)
        if free <= 0 or self._stopping.is_set() or self.server.state != SERVING:
            return
        runnable = [r for r in self._catalog.runs.list_runnable(DISPATCH_WINDOW) if r.id not in self._running]
        if runnable:
            for started in self._dispatcher.start_runs(runnable, self._get_catalog_time()):
                self._running[started.run.id] = self._tracks.submit(self._execute_run, started)

    def _apply_overrides(self, overrides: Mapping[str, Any]) -> None:
        """Apply changed setting overrides; an invalid override is logged once and ignored."""
        if overrides == self._overrides:
            return
        self._overrides = overrides
        try:
            config = self._config.apply_overrides(overrides)
        except ConfigError as error:
            log.error("a setting override is ignored: %s", error)
            return
        self.server = replace(self.server, tracks=min(MAX_TRACKS, config.tracks))
        self._dispatcher.change_config(replace(config, tracks=self.server.tracks), self._get_catalog_time())

    def _execute_run(self, started: DispatchedRun) -> None:
        run = started.run
        try:
            self._execute(run, started.limit)
        except Exception:
            log.exception("run %d of %s", run.id, run.subject)
        finally:
            self._dispatcher.finish_run(started, self._get_catalog_time())
            self.wake()

    def _is_busy(self) -> bool:
        return any(c.is_busy() for c in self._periodic_tasks) or any(map(_is_running, self._running.values()))

    def _deregister_server(self) -> None:
        try:
            self._catalog.servers.deregister(self.server)
        except TidemillError as error:
            log.error("could not deregister this server from the catalog: %s", error)
