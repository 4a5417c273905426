"""Whether pushing holds: many producers, a steady rate, and processes that are killed meanwhile."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import push_producer
from tidemill.app.wiring import Tidemill
from tidemill.runtime.inspect.change_feed import find_next_block
from tidemill.wire.client_sockets import format_address

CHANNEL = "events"
_LEASE = 3  # seconds after which a killed server's slots are given up
_PATIENCE = 120.0  # seconds for processes to come up, and for the end after the last event was due
_STARTING = 3.0  # seconds that producers have to connect before the first event is due
_LOOK = 0.05

_WORKFLOW = f"""import tidemill as tm

wf = tm.Workflow("push")
wf.input("{CHANNEL}", "producer int, n bigint, word string")
"""


@dataclass(slots=True)
class Stage:
    """The processes, each of which can be killed and started again."""

    directory: Path
    producers: int
    rate: float
    seconds: float
    start: float = 0.0
    port: int = field(default_factory=lambda: _free_port())
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)  # producers, by number
    server: subprocess.Popen[bytes] | None = None

    @property
    def events(self) -> int:
        """Of each producer."""
        return round(self.rate * self.seconds / self.producers)

    def prepare(self) -> None:
        settings = f"[api]\nport = {self.port}\n[runs]\nlease = {_LEASE}\n"
        (self.directory / "tidemill.toml").write_text(settings)
        (self.directory / "workflow.py").write_text(_WORKFLOW)

    def serve(self) -> None:
        self.server = self._process(["-m", "benchmarks.push_server", str(self.directory)], "server.log")

    def wait_for_server(self) -> None:
        assert self.server is not None
        deadline = time.monotonic() + _PATIENCE
        while not _answers(self.port):
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not come up: {(self.directory / 'server.log').read_text()[-2000:]}")
            time.sleep(_LOOK)

    def produce(self, number: int) -> None:
        name = f"p{number}"
        url = format_address(f"http://127.0.0.1:{self.port}", "channels", CHANNEL, "push", producer=name)
        wanted = [
            str(number),
            str(self.rate / self.producers),
            str(self.events),
            repr(self.start),
            str(self.journal(number)),
        ]
        self.running[number] = self._process(["-P", push_producer.__file__, url, *wanted], f"{name}.log")

    def journal(self, number: int) -> Path:
        return self.directory / f"p{number}.acknowledged"

    def end(self) -> None:
        for process in (*self.running.values(), self.server):
            if process is not None and process.poll() is None:
                process.send_signal(signal.SIGTERM)
                process.wait(_PATIENCE)

    def _process(self, arguments: Sequence[str], log: str) -> subprocess.Popen[bytes]:
        with (self.directory / log).open("ab") as out:
            return subprocess.Popen([sys.executable, *arguments], stdout=out, stderr=out, env={**os.environ})


@dataclass(frozen=True, slots=True)
class Strike:
    """A process is killed: a producer by its number, or the server."""

    at: float  # seconds after the first event is due
    producer: int | None


def strikes(producers: int, seconds: float, seed: int) -> list[Strike]:
    """In every tenth of the time a producer, and in three of them the server."""
    chance = random.Random(seed)
    tenth = seconds / 10
    those = [Strike((n + chance.random()) * tenth, chance.randrange(producers)) for n in range(10)]
    return sorted((*those, *(Strike((n + 0.5) * tenth, None) for n in (2, 5, 8))), key=lambda s: s.at)


def measure(
    directory: Path,
    *,
    producers: int,
    rate: float,
    seconds: float,
    kill: bool,
    tell: Callable[[str], None],
    seed: int = 1,
) -> dict[str, Any]:
    """Push at this rate for so long; every acknowledged event must be in the channel, and every event once."""
    stage = Stage(directory, producers, rate, seconds)
    planned = strikes(producers, seconds, seed) if kill else []
    stage.prepare()
    try:
        stage.serve()
        stage.wait_for_server()
        tell(f"{producers} producers, {rate:g} events a second for {seconds:g} s" + (", under fire" if kill else ""))
        stage.start = time.time() + _STARTING
        for number in range(producers):
            stage.produce(number)
        killed = _run(stage, planned)
        took = time.time() - stage.start
    finally:
        stage.end()
    return _judged(stage, killed, took)


def _run(stage: Stage, planned: Sequence[Strike]) -> list[Strike]:
    """Until every producer has ended by itself; returns the strikes that hit something alive."""
    waiting, hits = list(planned), list[Strike]()
    deadline = stage.start + stage.seconds + _PATIENCE
    while any(process.poll() is None for process in stage.running.values()):
        if waiting and time.time() >= stage.start + waiting[0].at:
            strike = waiting.pop(0)
            hits += [strike] if _killed(stage, strike) else []
        if time.time() > deadline:
            raise RuntimeError(f"producers did not come to their end; see the logs in {stage.directory}")
        time.sleep(_LOOK)
    return hits


def _killed(stage: Stage, strike: Strike) -> bool:
    victim = stage.server if strike.producer is None else stage.running[strike.producer]
    assert victim is not None
    if victim.poll() is not None:
        return False
    victim.kill()
    victim.wait()
    if strike.producer is None:
        stage.serve()
    else:
        stage.produce(strike.producer)
    return True


def _judged(stage: Stage, killed: Sequence[Strike], took: float) -> dict[str, Any]:
    stored, blocks = _stored(stage.directory)
    acknowledged = [_acknowledged(stage.journal(number)) for number in range(stage.producers)]
    due, sent = (np.sort(np.concatenate([a[kind] for a in acknowledged])) for kind in ("due", "sent"))
    total = sum(a["last"] for a in acknowledged)
    lost = sum(len(_missing(stored, number, a["last"])) for number, a in enumerate(acknowledged))
    return {
        "producers": stage.producers,
        "rate": stage.rate,
        "seconds": stage.seconds,
        "acknowledged": total,
        "a_second": round(total / took, 1),
        "p50_ms": _percentile(due, 0.5),
        "p99_ms": _percentile(due, 0.99),
        "sent_p50_ms": _percentile(sent, 0.5),
        "sent_p99_ms": _percentile(sent, 0.99),
        "lost": lost,
        "twice": stored.num_rows - len(_distinct(stored)),
        "blocks": blocks,
        "producers_killed": sum(s.producer is not None for s in killed),
        "servers_killed": sum(s.producer is None for s in killed),
    }


def _stored(directory: Path) -> tuple[pa.Table, int]:
    """Every event that is visible in the end, and in how many blocks."""
    with Tidemill.open(directory) as mill:
        deadline = time.monotonic() + _PATIENCE
        while (
            mill.catalog.read_channel(CHANNEL).reserved and time.monotonic() < deadline
        ):  # by servers that were killed
            mill.catalog.reclaim_expired_runs()
            time.sleep(_LOOK)
        at, head, found, blocks = 0, mill.catalog.read_channel(CHANNEL).head.seq, list[pa.Table](), 0
        while at < head:
            block = find_next_block(mill.catalog, CHANNEL, at, head)
            for file in block.files:
                with mill.store.open_file(file.path) as source:
                    found.append(pq.read_table(source, columns=["producer", "n"]))
            at, blocks = block.seq, blocks + 1
    return pa.concat_tables(found), blocks


def _distinct(stored: pa.Table) -> set[tuple[int, int]]:
    return set(zip(stored["producer"].to_pylist(), stored["n"].to_pylist(), strict=True))


def _missing(stored: pa.Table, producer: int, last: int) -> set[int]:
    theirs = stored.filter(pa.compute.equal(stored["producer"], producer))["n"].to_pylist()
    return set(range(1, last + 1)) - set(theirs)


def _acknowledged(journal: Path) -> dict[str, Any]:
    """The last number, and how long acknowledgements took; of a line that a kill cut off, nothing."""
    last, times = 0, list[str]()
    for line in journal.read_text().splitlines(keepends=True):
        number, *taken = line.split()
        if line.endswith("\n"):
            last = max(last, int(number))
            times += taken
    pairs = np.array([[float(part) for part in t.split(":")] for t in times]).reshape(-1, 2)
    return {"last": last, "due": pairs[:, 0], "sent": pairs[:, 1]}


def _percentile(ascending: np.ndarray[Any, Any], share: float) -> float:
    return float(ascending[min(int(len(ascending) * share), len(ascending) - 1)])


def _answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
