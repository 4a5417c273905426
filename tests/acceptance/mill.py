"""A small workflow on a real catalog and real files, for tests that kill its process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.acceptance.plain import PlainEngine
from tests.catalog.driver import AT_ONCE

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.intake.loader import load_file
from tidemill.model.change import Rows
from tidemill.model.flow import BoundFlow
from tidemill.ports.storage import BlockStore
from tidemill.retention.compaction import CompactionLimits
from tidemill.runtime.maintenance.compaction import Compactor
from tidemill.runtime.maintenance.vacuum import MaintenanceResult, VacuumService
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import open_store

wf = tm.Workflow("killing")
wf.input("events", "id int, word string")
wf.table("words", "word string")
wf.table("firsts", "id int, word string")


@wf.task(writes={"firsts": tm.Delta, "words": tm.Delta})
def dedupe(events: tm.New, words: tm.All) -> dict[str, tm.Delta]:
    """Write the first event with each word; the words seen so far are the task's state."""
    known_words = {r["word"] for r in words}
    firsts: dict[str, dict[str, object]] = {}
    for event in sorted(events, key=lambda e: e["id"]):
        if event["word"] not in known_words:
            firsts.setdefault(event["word"], event)
    return {"firsts": list(firsts.values()), "words": [{"word": w} for w in firsts]}


WORKFLOW = wf.build_spec()
DEDUPE: BoundFlow = WORKFLOW.bindings[0]
LIMITS = CompactionLimits(fan=2, floor=4, small_file=720)
"""Low limits: a few batches cause minor and major compactions and files that blocks share."""
HISTORY = 3
LATER = 3600.0
"""Clock offset of a restarted process: every lease has expired by then."""


@dataclass(frozen=True)
class Mill:
    """One process's catalog, files and executor."""

    catalog: SqlCatalog
    store: BlockStore
    executor: Executor

    def insert(self, file: Path) -> None:
        Inserter(self.executor, load_file).insert_file("events", file, key=file.name)

    def run(self) -> None:
        self.executor.run_flow(DEDUPE, {})

    def compact(self, *channels: str) -> None:
        for channel in channels:
            Compactor(self.executor, {}, LIMITS).compact_major(channel)

    def run_maintenance(self, *channels: str) -> MaintenanceResult:
        compactor = Compactor(self.executor, {}, LIMITS)
        return VacuumService(self.executor, grace=AT_ONCE).maintain_channels(channels, compactor, history=HISTORY)

    def collect(self) -> None:
        VacuumService(self.executor, grace=AT_ONCE).collect_garbage()

    def content(self, channel: str) -> Rows:
        views = ChannelViews(self.catalog, {})
        return self.executor.engine.read_rows(
            views.build_snapshot(channel, self.catalog.channels.read(channel).head.seq)
        )

    def leftovers(self) -> set[str]:
        """The files that no block references and the references without a file."""
        return set(self.store.list_all_files()) ^ self.catalog.files.list_referenced()


@contextmanager
def open_plain_mill(url: str, root: Path, *, later: float = 0.0, owner: str = "test") -> Iterator[Mill]:
    catalog = open_catalog(url, clock=lambda: time.time() + later)
    store = open_store(str(root))
    executor = Executor(catalog, store, PlainEngine(store.locate_file), owner)
    try:
        yield Mill(catalog, store, executor)
    finally:
        catalog.close()


def batch(directory: Path, number: int) -> Path:
    """Write a file of events; words repeat within and between batches."""
    path = directory / f"batch{number}.jsonl"
    events = [{"id": number * 10 + i, "word": f"w{(number + i * i) % 7}"} for i in range(4)]
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    return path


def compute_expected_firsts(batches: int) -> Rows:
    """The content of `firsts` after this many batches."""
    firsts: dict[str, int] = {}
    for number in range(batches):
        for i in range(4):
            firsts.setdefault(f"w{(number + i * i) % 7}", number * 10 + i)
    return [{"id": i, "word": w} for w, i in firsts.items()]
