"""Servers on one catalog, and everything that can happen to them: killed, stopped, cut off, and told another time."""

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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import TidemillError
from tidemill.model.run import Run
from tidemill.ports.records import Server
from tidemill.runtime.freshness.catch_up import CatchUpLimit, attempt_run
from tidemill.runtime.runs.dispatch import DispatchConfig
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.server import ServerIntervals, ServerLoop
from tidemill.storage import open_store

INTERVAL = 0.5
LEASE = 1.5
RHYTHM = ServerIntervals(tick=0.05, leader_lease=1.0)
WAY = DispatchConfig("max-benefit", "proportional", tracks=2, catch_up_limit=1.0)
"""Of all that waits a run takes one period's data, so that whatever piled up is chopped."""

wf = tm.Workflow("soak")
wf.input("events", "id int, word string")
wf.input("marks", "id int")
for name, schema in {"words": "word string", "firsts": "id int, word string", "beats": "n int"}.items():
    wf.table(name, schema)
wf.table("counted", "words int")
wf.table("marked", "marks int, words int")


@wf.task(writes={"firsts": tm.Delta, "words": tm.Delta}, triggers=[tm.on("events")])
def dedupe(events: tm.New, words: tm.All) -> dict[str, tm.Delta]:
    """The first event with each word; the words seen so far are the task's state."""
    seen = {r["word"] for r in words}
    firsts: dict[str, dict[str, object]] = {}
    for event in sorted(events, key=lambda e: e["id"]):
        if event["word"] not in seen:
            firsts.setdefault(event["word"], event)
    return {"firsts": list(firsts.values()), "words": [{"word": w} for w in firsts]}


@wf.task(writes={"counted": tm.Base}, triggers=[tm.after("dedupe")])
def counted(words: tm.All) -> dict[str, tm.Base]:
    return {"counted": [{"words": len(words)}]}


@wf.task(writes={"marked": tm.Base}, triggers=[tm.all_of(tm.on("marks"), tm.after("counted"))])
def marked(marks: tm.All, words: tm.All) -> dict[str, tm.Base]:
    return {"marked": [{"marks": len(marks), "words": len(words)}]}


@wf.task(writes={"beats": tm.Delta}, every=INTERVAL)
def beats(marks: tm.New) -> dict[str, tm.Delta]:
    """One row a run."""
    return {"beats": [{"n": len(marks)}]}


WORKFLOW = wf.declared()
BINDINGS = {b.name: b for b in WORKFLOW.bindings}


@dataclass(frozen=True)
class Clock:
    """The time of day, as far off as a file says, for all who share it."""

    path: Path

    def __call__(self) -> float:
        return time.time() + float(self.path.read_text() or 0)

    def jump(self, seconds: float) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(str(float(self.path.read_text() or 0) + seconds))
        beside.replace(self.path)


def serve(url: str, root: Path, clock: Clock, owner: str) -> None:
    """What one server process does until it is told to stop."""
    logging.disable(logging.CRITICAL)
    catalog = opened(url, clock)
    store = open_store(str(root))
    executor = Executor(catalog, store, PlainEngine(store.locate_file), owner, lease=LEASE)

    def execute(run: Run, portion: CatchUpLimit | None) -> None:
        try:
            attempt_run(executor, run, BINDINGS[run.subject], {}, portion)
        except TidemillError:
            return

    loop = ServerLoop(catalog, Server(owner, "work", WAY.tracks), execute, [], RHYTHM, WAY, executor=executor)
    signal.signal(signal.SIGTERM, lambda *_: loop.drain())
    loop.run()


def opened(url: str, clock: Clock) -> SqlCatalog:
    """The catalog, as soon as it can be reached."""
    while True:
        try:
            return open_catalog(url, clock)
        except TidemillError:
            time.sleep(0.05)


_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.acceptance.chaos"])


@dataclass
class Fleet:
    """Server processes, and what is done to them."""

    arguments: tuple[str, Path, Clock]
    chance: random.Random
    processes: list[BaseProcess] = field(default_factory=list)
    started: int = 0
    done: Counter[str] = field(default_factory=Counter)

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
        self.done["killed"] += 1

    def freeze(self, seconds: float) -> None:
        """Stop one for so long, in the background: it wakes up in a world that has moved on."""
        victim = self.chance.choice(self.processes)
        _signal(victim, signal.SIGSTOP)
        threading.Timer(seconds, _signal, [victim, signal.SIGCONT]).start()
        self.done["frozen"] += 1

    def stop(self) -> list[int | None]:
        """Ask all of them to drain; returns how they ended."""
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
    """A socket between servers and their database that can be cut."""

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
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def cut(self, seconds: float) -> None:
        """Every connection breaks, and none can be made for so long."""
        self._cut.set()
        threading.Timer(seconds, self._cut.clear).start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        for end in list(self._pairs):
            self._drop(end)
        self._listener.close()
        self._selector.close()

    def _carry(self) -> None:
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
                    self._pass(end)

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

    def _pass(self, end: socket.socket) -> None:
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
        if other is not None:  # not yet dropped along with the other
            self._pairs.pop(other)
            for each in (end, other):
                self._selector.unregister(each)
                each.close()


@contextmanager
def fleet(url: str, root: Path, clock: Clock, *, servers: int, seed: int) -> Iterator[Fleet]:
    made = Fleet((url, root, clock), random.Random(seed))
    try:
        for _ in range(servers):
            made.start()
        yield made
    finally:
        made.destroy()
