"""Several servers under fault injection: firings are handled exactly once, tables equal their recomputation."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.acceptance import chaos
from tests.acceptance.mill import batch, compute_expected_firsts
from tests.acceptance.plain import PlainEngine

from tidemill.algebra.reference import is_same_bag
from tidemill.catalog import SqlCatalog
from tidemill.intake.loader import load_file
from tidemill.model.run import ACTIVE_STATES, MAX_LOST_ATTEMPTS, PENDING_STATES, RunKind, RunState
from tidemill.model.trigger import IntervalTrigger
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import open_store

SECONDS = float(os.environ.get("TIDEMILL_SOAK", "8"))
"""Seconds of fault injection."""
SEED = int(os.environ.get("TIDEMILL_SEED", "7"))
SERVERS = 3
PAUSE = 2.0 if chaos.ON_SPARK else 0.1
"""Seconds between two faults."""
PATIENCE = 150.0  # a run whose attempts were lost too often waits a minute


@pytest.fixture
def wire(postgresql_url: str, url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, chaos.Wire]]:
    """The database's address through a socket that can be disconnected."""
    parts = urlsplit(url)
    directory = Path(parse_qs(parts.query)["host"][0])
    port = parts.port or 5432
    near = tmp_path_factory.mktemp("wire")
    proxy = chaos.Wire(near / f".s.PGSQL.{port}", directory / f".s.PGSQL.{port}")
    yield url.replace(parse_qs(parts.query)["host"][0], str(near)), proxy
    proxy.close()


@pytest.mark.long
@pytest.mark.parametrize("backend", ["postgresql"])
def test_servers_under_fault_injection_lose_and_repeat_nothing(
    wire: tuple[str, chaos.Wire], url: str, tmp_path: Path
) -> None:
    proxied_url, proxy = wire
    clock = chaos.Clock(tmp_path / "clock")
    clock.path.write_text("0")
    store = open_store(str(tmp_path / "blocks"))
    engine = PlainEngine(store.locate_file)
    with closing(chaos.connect(url, clock)) as catalog:
        catalog.workflows.apply(chaos.WORKFLOW)
        inserter = Inserter(Executor(catalog, store, engine, "driver"), load_file)
        with chaos.fleet(proxied_url, tmp_path / "blocks", clock, servers=SERVERS, seed=SEED) as fleet:
            batches = _insert_with_faults(inserter, fleet, proxy, clock, tmp_path)
            _wait_until_idle(catalog)
            # The next run reads the rows of a run that used up its attempts.
            _insert(inserter, tmp_path, batches)
            batches += 1
            _wait_until_idle(catalog)
            assert fleet.stop() == [0] * SERVERS  # the beats continue until then
        _check(catalog, engine, batches)


def _insert_with_faults(
    inserter: Inserter, fleet: chaos.Fleet, proxy: chaos.Wire, clock: chaos.Clock, directory: Path
) -> int:
    """Insert batches for the set time and inject faults in between; returns the number of batches."""
    chance = random.Random(SEED)
    batches, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        _insert(inserter, directory, batches)
        batches += 1
        _inject_fault(chance, fleet, proxy, clock)
        time.sleep(PAUSE)
    return batches


def _insert(inserter: Inserter, directory: Path, number: int) -> None:
    """Insert a batch of events, and a mark with every third batch."""
    inserter.insert_file("events", batch(directory, number))
    if number % 3 == 0:
        inserter.insert_file("marks", _write_mark(directory, number))


def _write_mark(directory: Path, number: int) -> Path:
    path = directory / f"mark{number}.jsonl"
    path.write_text(f'{{"id": {number}}}\n')
    return path


def _inject_fault(chance: random.Random, fleet: chaos.Fleet, proxy: chaos.Wire, clock: chaos.Clock) -> None:
    draw = chance.random()
    if draw < 0.12:
        fleet.kill()
    elif draw < 0.24:
        fleet.freeze(chance.uniform(0.2, 3.0))
    elif draw < 0.32:
        proxy.cut(chance.uniform(0.05, 0.5))
    elif draw < 0.38:
        clock.jump(chance.choice([-1.0, 3.0, 30.0]))


def _wait_until_idle(catalog: SqlCatalog) -> None:
    """Wait until nothing but the next beat is due, twice with the same runs: a run may change between two queries.

    A backlog may take long on a busy machine: the patience begins anew whenever another run has finished.
    """
    deadline, finished, known = time.monotonic() + PATIENCE, 0, None
    while time.monotonic() < deadline:
        pending = [t for t in catalog.triggers.list() if t.due is not None and not isinstance(t.leaf, IntervalTrigger)]
        runs = [r for r in catalog.runs.list(limit=100_000) if r.subject != "beats"]
        active = [r for r in runs if r.state in (*PENDING_STATES, *ACTIVE_STATES)]
        if not pending and not active and runs == known:
            return
        if (count := sum(r.state is RunState.FINISHED for r in runs)) > finished:
            deadline, finished = time.monotonic() + PATIENCE, count
        known = runs
        time.sleep(0.1)
    raise AssertionError(f"not idle: {pending}, {active}")


def _check(catalog: SqlCatalog, engine: PlainEngine, batches: int) -> None:
    def content(channel: str) -> list[dict[str, object]]:
        return engine.read_rows(
            ChannelViews(catalog, {}).build_snapshot(channel, catalog.channels.read(channel).head.seq)
        )

    words = len(compute_expected_firsts(batches))
    assert len(content("events")) == 4 * batches
    assert is_same_bag(content("firsts"), compute_expected_firsts(batches))
    assert len(content("words")) == words
    assert content("word_counts") == [{"words": words}]
    marks = len(content("marks"))
    assert marks == (batches + 2) // 3
    counts = content("mark_counts")
    assert not counts or (counts[0]["marks"], counts[0]["words"]) <= (marks, words)
    _check_firings(catalog, len(content("beats")))
    _check_read_once(catalog)


def _check_read_once(catalog: SqlCatalog) -> None:
    """Check that each run continued where the previous one ended, and that the last left nothing."""
    finished_runs = sorted(
        catalog.runs.list(subject="dedupe", state=RunState.FINISHED, limit=100_000), key=lambda r: r.fencing_token
    )
    assert any(r.stats.get("pending_blocks") for r in finished_runs)
    reads = [reading for r in finished_runs for reading in catalog.runs.list_reads(r.id) if reading.channel == "events"]
    assert [(earlier.upto, later.since) for earlier, later in pairwise(reads) if earlier.upto != later.since] == []
    assert (reads[0].since, reads[-1].upto) == (0, catalog.channels.read("events").head.seq)


def _check_firings(catalog: SqlCatalog, beats: int) -> None:
    """Check that every due time is in exactly one firing, as fired or missed, and every firing in one run."""
    firings = catalog.triggers.list_firings(limit=100_000)
    runs = {r.id: r for r in catalog.runs.list(limit=100_000) if r.kind is RunKind.FLOW}
    assert all(f.run in runs and runs[f.run].subject == f.flow for f in firings)
    failed = {r.id for r in runs.values() if r.state is RunState.FAILED}
    assert [runs[r] for r in failed if runs[r].attempt != 1 + MAX_LOST_ATTEMPTS] == []
    assert len(failed) <= len(runs) / 100
    assert not any(r.state is RunState.KILLED for r in runs.values())
    beat_firings = [f for f in firings if f.flow == "beats"]
    (leaf,) = catalog.triggers.list("beats")
    registered = min(
        e.at for e in catalog.events.list(limit=100_000) if e.kind == "binding.applied" and e.subject == "beats"
    )
    assert leaf.due is not None
    due_times = round((leaf.due - registered) / chaos.INTERVAL) - 1
    assert sum(1 + f.missed for f in beat_firings) == due_times
    finished = {r.id for r in runs.values() if r.subject == "beats" and r.state is RunState.FINISHED}
    assert beats == len(finished)
    pending = {r.id for r in runs.values() if r.state in PENDING_STATES}
    assert {f.run for f in beat_firings} - finished <= pending | failed
