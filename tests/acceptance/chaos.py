"""Servers on one catalog and the faults that tests inject: kills, pauses, lost connections and clock jumps."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import selectors
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial, wraps
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import TidemillError
from tidemill.model.run import Run
from tidemill.ports.records import Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit
from tidemill.runtime.freshness.controller import FreshnessController
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.service import MaintenanceRules, MaintenanceService
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.server import PeriodicTask, ServerIntervals, ServerLoop
from tidemill.spark.engine import SparkEngine
from tidemill.spark.session import start_session
from tidemill.storage import open_store

INTERVAL = 0.5
LEASE = 1.5
MAINTENANCE_INTERVAL = 1.0
INTERVALS = ServerIntervals(tick=0.05, leader_lease=1.0)
DISPATCH = DispatchConfig("max-benefit", "proportional", tracks=2, catch_up_limit=1.0)
"""A run takes one period's data, so that a backlog is processed in several runs."""

ON_SPARK = bool(os.environ.get("TIDEMILL_SOAK_SPARK"))
"""Whether the servers' engine is Spark, which takes seconds to start, instead of plain Python."""

KEEP_ALL = MaintenanceRules(history=1_000_000)
"""The tests compare all runs; everything else of maintenance has its defaults."""

TABLES = {
    "words": "word string",
    "firsts": "id int, word string",
    "beats": "n int",
    "word_counts": "words int",
    "mark_counts": "marks int, words int",
}

wf = tm.Workflow("soak")
wf.input("events", "id int, word string")
wf.input("marks", "id int")
for name, schema in TABLES.items():
    wf.table(name, schema)


def pass_rows(function: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Pass lists of rows to a task, and take them from it, with Spark, too."""

    @wraps(function)
    def call(**inputs: DataFrame) -> dict[str, DataFrame]:
        results = function(**{name: [row.asDict() for row in frame.collect()] for name, frame in inputs.items()})
        spark = SparkSession.active()
        return {name: spark.createDataFrame(rows, TABLES[name]) for name, rows in results.items()}

    return call if ON_SPARK else function


@wf.task(writes={"firsts": tm.Delta, "words": tm.Delta}, triggers=[tm.on("events")])
@pass_rows
def dedupe(events: tm.New, words: tm.All) -> dict[str, tm.Delta]:
    """The first event with each word; the words seen so far are the task's state."""
    known_words = {r["word"] for r in words}
    firsts: dict[str, dict[str, object]] = {}
    for event in sorted(events, key=lambda e: e["id"]):
        if event["word"] not in known_words:
            firsts.setdefault(event["word"], event)
    return {"firsts": list(firsts.values()), "words": [{"word": w} for w in firsts]}


@wf.task(writes={"word_counts": tm.Base}, triggers=[tm.after("dedupe")])
@pass_rows
def count_words(words: tm.All) -> dict[str, tm.Base]:
    return {"word_counts": [{"words": len(words)}]}


@wf.task(writes={"mark_counts": tm.Base}, triggers=[tm.all_of(tm.on("marks"), tm.after("count_words"))])
@pass_rows
def count_marks(marks: tm.All, words: tm.All) -> dict[str, tm.Base]:
    return {"mark_counts": [{"marks": len(marks), "words": len(words)}]}


@wf.task(writes={"beats": tm.Delta}, every=INTERVAL)
@pass_rows
def beats(marks: tm.New) -> dict[str, tm.Delta]:
    """Write one row per run."""
    return {"beats": [{"n": len(marks)}]}


WORKFLOW = wf.build_spec()
BINDINGS = {b.name: b for b in WORKFLOW.bindings}


@dataclass(frozen=True)
class Clock:
    """The system time plus an offset in a file, shared by all processes that read the file."""

    path: Path

    def __call__(self) -> float:
        return time.time() + float(self.path.read_text() or 0)

    def jump(self, seconds: float) -> None:
        replacement = self.path.with_suffix(".new")
        replacement.write_text(str(float(self.path.read_text() or 0) + seconds))
        replacement.replace(self.path)


def serve(url: str, root: Path, clock: Clock, owner: str) -> None:
    """Run one server process until it receives SIGTERM."""
    logging.disable(logging.CRITICAL)
    catalog = connect(url, clock)
    store = open_store(str(root))
    engine = SparkEngine(partial(start_session, "local[1]"), store.locate_file) if ON_SPARK else None
    executor = Executor(catalog, store, engine or PlainEngine(store.locate_file), owner, lease=LEASE)
    maintenance = MaintenanceService(executor, lambda: Compactor(executor, {}), KEEP_ALL)

    def execute(run: Run, limit: CatchUpLimit | None) -> None:
        try:
            FreshnessController(executor, {}, WORKFLOW).execute_run(run, BINDINGS[run.subject], limit)
        except TidemillError:
            return

    maintain = PeriodicTask("maintenance", MAINTENANCE_INTERVAL, lambda: _maintain(maintenance))
    loop = ServerLoop(
        catalog, Server(owner, "work", DISPATCH.tracks), execute, [maintain], INTERVALS, DISPATCH, executor=executor
    )
    signal.signal(signal.SIGTERM, lambda *_: loop.drain())
    loop.run()


def _maintain(maintenance: MaintenanceService) -> None:
    with suppress(TidemillError):
        maintenance.maintain_channels()


def connect(url: str, clock: Clock) -> SqlCatalog:
    """Open the catalog, retrying until it is reachable."""
    while True:
        try:
            return open_catalog(url, clock)
        except TidemillError:
            time.sleep(0.05)


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.acceptance.chaos"])


@dataclass
class Fleet:
    """Server processes and the faults injected into them."""

    arguments: tuple[str, Path, Clock]
    chance: random.Random
    processes: list[BaseProcess] = field(default_factory=list)
    started: int = 0
    faults: Counter[str] = field(default_factory=Counter)

    def start(self) -> None:
        process = _processes.Process(target=serve, args=(*self.arguments, f"server-{self.started}"), daemon=True)
        process.start()
        self.started += 1
        self.processes.append(process)

    def kill(self) -> None:
        victim = self.processes.pop(self.chance.randrange(len(self.processes)))
        victim.kill()
        victim.join()
        self.start()
        self.faults["killed"] += 1

    def freeze(self, seconds: float) -> None:
        """Stop one server for some seconds, in the background; when it resumes, its leases have expired."""
        victim = self.chance.choice(self.processes)
        _signal(victim, signal.SIGSTOP)
        threading.Timer(seconds, _signal, [victim, signal.SIGCONT]).start()
        self.faults["frozen"] += 1

    def stop(self) -> list[int | None]:
        """Ask all servers to drain; returns their exit codes."""
        for process in self.processes:
            _signal(process, signal.SIGCONT)
            _signal(process, signal.SIGTERM)
        for process in self.processes:
            process.join()
        return [process.exitcode for process in self.processes]

    def destroy(self) -> None:
        for process in self.processes:
            process.kill()
            process.join()


def _signal(process: BaseProcess, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        if process.pid is not None and process.exitcode is None:
            os.kill(process.pid, number)


class Wire:
    """A socket between servers and their database that can be disconnected."""

    def __init__(self, near: Path, far: Path) -> None:
        self._far = far
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(near))
        self._listener.listen(64)
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._cut = threading.Event()
        self._closed = threading.Event()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._thread.start()

    def cut(self, seconds: float) -> None:
        """Break every connection and accept none for some seconds."""
        self._cut.set()
        threading.Timer(seconds, self._cut.clear).start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for end in list(self._pairs):
            self._drop(end)
        self._listener.close()
        self._selector.close()

    def _forward(self) -> None:
        while not self._closed.is_set():
            if self._cut.is_set():
                for end in list(self._pairs):
                    self._drop(end)
            for key, _ in self._selector.select(timeout=0.02):
                end = key.fileobj
                assert isinstance(end, socket.socket)
                if end is self._listener:
                    self._accept()
                elif end in self._pairs:
                    self._forward_data(end)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.socket(socket.AF_UNIX)
        if self._cut.is_set():
            near.close()
            far.close()
            return
        far.connect(str(self._far))
        for one, other in ((near, far), (far, near)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward_data(self, end: socket.socket) -> None:
        try:
            data = end.recv(65536)
            if data:
                self._pairs[end].sendall(data)
                return
        except OSError:
            pass
        self._drop(end)

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        if other is not None:  # not yet dropped together with its peer
            self._pairs.pop(other)
            for endpoint in (end, other):
                self._selector.unregister(endpoint)
                endpoint.close()


@contextmanager
def fleet(url: str, root: Path, clock: Clock, *, servers: int, seed: int) -> Iterator[Fleet]:
    servers_under_test = Fleet((url, root, clock), random.Random(seed))
    try:
        for _ in range(servers):
            servers_under_test.start()
        yield servers_under_test
    finally:
        servers_under_test.destroy()
