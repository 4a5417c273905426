"""Push load: many producers at a steady rate, optionally with killed processes."""

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
_LEASE = 3  # seconds after which reservations of a killed server expire
_PATIENCE = 120.0  # seconds for processes to start, and to end after the due time of the last event
_START_DELAY = 3.0  # seconds in which producers connect before the first event is due
_POLL_INTERVAL = 0.05

_WORKFLOW = f"""import tidemill as tm

wf = tm.Workflow("push")
wf.input("{CHANNEL}", "producer int, n bigint, word string")
"""


@dataclass(slots=True)
class ProcessGroup:
    """The server and the producers, each of which can be killed and restarted."""

    directory: Path
    producers: int
    rate: float
    seconds: float
    start: float = 0.0
    port: int = field(default_factory=lambda: _find_free_port())
    running: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)  # producers, by number
    server: subprocess.Popen[bytes] | None = None

    @property
    def events(self) -> int:
        """Events of each producer."""
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
        while not _is_listening(self.port):
            if self.server.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {(self.directory / 'server.log').read_text()[-2000:]}")
            time.sleep(_POLL_INTERVAL)

    def produce(self, number: int) -> None:
        name = f"p{number}"
        url = format_address(f"http://127.0.0.1:{self.port}", "channels", CHANNEL, "push", producer=name)
        arguments = [
            str(number),
            str(self.rate / self.producers),
            str(self.events),
            repr(self.start),
            str(self.journal(number)),
        ]
        self.running[number] = self._process(["-P", push_producer.__file__, url, *arguments], f"{name}.log")

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
class PlannedKill:
    """A planned SIGKILL of a producer, by its number, or of the server (None)."""

    at: float  # seconds after the first event is due
    producer: int | None


def plan_kills(producers: int, seconds: float, seed: int) -> list[PlannedKill]:
    """Kill one producer in every tenth of the time, and the server in three of them."""
    chance = random.Random(seed)
    tenth = seconds / 10
    producer_kills = [PlannedKill((n + chance.random()) * tenth, chance.randrange(producers)) for n in range(10)]
    return sorted((*producer_kills, *(PlannedKill((n + 0.5) * tenth, None) for n in (2, 5, 8))), key=lambda s: s.at)


def measure(
    directory: Path,
    *,
    producers: int,
    rate: float,
    seconds: float,
    kill: bool,
    on_progress: Callable[[str], None],
    seed: int = 1,
) -> dict[str, Any]:
    """Push at this rate; every acknowledged event must be in the channel, and every event once."""
    stage = ProcessGroup(directory, producers, rate, seconds)
    kills = plan_kills(producers, seconds, seed) if kill else []
    stage.prepare()
    try:
        stage.serve()
        stage.wait_for_server()
        on_progress(
            f"{producers} producers, {rate:g} events a second for {seconds:g} s" + (", with kills" if kill else "")
        )
        stage.start = time.time() + _START_DELAY
        for number in range(producers):
            stage.produce(number)
        done_kills = _run_until_end(stage, kills)
        elapsed = time.time() - stage.start
    finally:
        stage.end()
    return _summarize(stage, done_kills, elapsed)


def _run_until_end(stage: ProcessGroup, kills: Sequence[PlannedKill]) -> list[PlannedKill]:
    """Run until every producer has ended by itself; returns the kills that hit a running process."""
    pending, done_kills = list(kills), list[PlannedKill]()
    deadline = stage.start + stage.seconds + _PATIENCE
    while any(process.poll() is None for process in stage.running.values()):
        if pending and time.time() >= stage.start + pending[0].at:
            kill = pending.pop(0)
            done_kills += [kill] if _kill_process(stage, kill) else []
        if time.time() > deadline:
            raise RuntimeError(f"producers did not end in time; see the logs in {stage.directory}")
        time.sleep(_POLL_INTERVAL)
    return done_kills


def _kill_process(stage: ProcessGroup, kill: PlannedKill) -> bool:
    process = stage.server if kill.producer is None else stage.running[kill.producer]
    assert process is not None
    if process.poll() is not None:
        return False
    process.kill()
    process.wait()
    if kill.producer is None:
        stage.serve()
    else:
        stage.produce(kill.producer)
    return True


def _summarize(stage: ProcessGroup, kills: Sequence[PlannedKill], elapsed: float) -> dict[str, Any]:
    stored, blocks = _read_stored_events(stage.directory)
    acknowledged = [_read_journal(stage.journal(number)) for number in range(stage.producers)]
    due, sent = (np.sort(np.concatenate([a[kind] for a in acknowledged])) for kind in ("due", "sent"))
    total = sum(a["last"] for a in acknowledged)
    lost = sum(len(_find_missing(stored, number, a["last"])) for number, a in enumerate(acknowledged))
    return {
        "producers": stage.producers,
        "rate": stage.rate,
        "seconds": stage.seconds,
        "acknowledged": total,
        "a_second": round(total / elapsed, 1),
        "p50_ms": _get_percentile(due, 0.5),
        "p99_ms": _get_percentile(due, 0.99),
        "sent_p50_ms": _get_percentile(sent, 0.5),
        "sent_p99_ms": _get_percentile(sent, 0.99),
        "lost": lost,
        "twice": stored.num_rows - len(_list_distinct(stored)),
        "blocks": blocks,
        "producers_killed": sum(s.producer is not None for s in kills),
        "servers_killed": sum(s.producer is None for s in kills),
    }


def _read_stored_events(directory: Path) -> tuple[pa.Table, int]:
    """All visible events at the end, and their number of blocks."""
    with Tidemill.open(directory) as mill:
        deadline = time.monotonic() + _PATIENCE
        while mill.catalog.channels.read(CHANNEL).reserved and time.monotonic() < deadline:  # by killed servers
            mill.catalog.runs.reclaim_expired()
            time.sleep(_POLL_INTERVAL)
        seq, head, tables, blocks = 0, mill.catalog.channels.read(CHANNEL).head.seq, list[pa.Table](), 0
        while seq < head:
            block = find_next_block(mill.catalog.blocks, CHANNEL, seq, head)
            for file in block.files:
                with mill.store.open_file(file.path) as source:
                    tables.append(pq.read_table(source, columns=["producer", "n"]))
            seq, blocks = block.seq, blocks + 1
    return pa.concat_tables(tables), blocks


def _list_distinct(stored: pa.Table) -> set[tuple[int, int]]:
    return set(zip(stored["producer"].to_pylist(), stored["n"].to_pylist(), strict=True))


def _find_missing(stored: pa.Table, producer: int, last: int) -> set[int]:
    numbers = stored.filter(pa.compute.equal(stored["producer"], producer))["n"].to_pylist()
    return set(range(1, last + 1)) - set(numbers)


def _read_journal(journal: Path) -> dict[str, Any]:
    """The last acknowledged number, and the times to acknowledgement; incomplete lines are ignored."""
    last, times = 0, list[str]()
    for line in journal.read_text().splitlines(keepends=True):
        number, *timings = line.split()
        if line.endswith("\n"):
            last = max(last, int(number))
            times += timings
    pairs = np.array([[float(part) for part in t.split(":")] for t in times]).reshape(-1, 2)
    return {"last": last, "due": pairs[:, 0], "sent": pairs[:, 1]}


def _get_percentile(ascending: np.ndarray[Any, Any], share: float) -> float:
    return float(ascending[min(int(len(ascending) * share), len(ascending) - 1)])


def _is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
