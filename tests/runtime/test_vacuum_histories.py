"""Random histories of runs, crashes and vacuums: referenced and foreign files are retained, all others deleted."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.catalog.driver import AT_ONCE, LEASE, WORKFLOW, Driver, FakeClock, file_of

from tidemill.catalog import open_catalog
from tidemill.model.block import BlockKind
from tidemill.model.run import RunClaim
from tidemill.model.store import GracePeriods
from tidemill.ports.engine import Engine
from tidemill.runtime.maintenance.store_ownership import advance_marker
from tidemill.runtime.maintenance.vacuum import VacuumService
from tidemill.runtime.runs.execution import Executor
from tidemill.storage.local import LocalBlockStore

GRACE = GracePeriods(blocks=2.0, orphans=5.0)


@dataclass
class StoreHistory:
    """A catalog, a store with small files, and foreign files in it."""

    driver: Driver
    store: LocalBlockStore
    vacuum: VacuumService
    claims: list[RunClaim] = field(default_factory=list)  # all claims so far
    foreign: list[Path] = field(default_factory=list)

    def write(self, claim: RunClaim) -> RunClaim:
        for slot in claim.reservations.values():
            path = self.store.root_path / file_of(claim, slot).path
            path.parent.mkdir(parents=True)
            path.write_text("block")
        self.claims.append(claim)
        return claim

    def insert(self) -> None:
        self.driver.commit(self.write(self.driver.open_insert()))

    def replace(self) -> None:
        self.driver.commit(self.write(self.driver.open_insert(kind=BlockKind.BASE)))

    def fail(self) -> None:
        claim = self.write(self.driver.open_insert())
        self.driver.catalog.runs.fail(claim.run.id, claim.run.fencing_token, error="no")

    def kill(self) -> None:
        self.driver.catalog.runs.kill(self.write(self.driver.open_insert()).run.id)

    def die(self) -> None:
        """A process dies, and its run is reclaimed."""
        self.write(self.driver.open_insert())
        self.driver.clock.now += LEASE
        self.driver.catalog.runs.reclaim_expired()

    def start(self) -> None:
        self.write(self.driver.open_insert("b"))

    def wait(self) -> None:
        self.driver.clock.now += 3

    def put_foreign(self) -> None:
        inside = [Path(c.directory) for c in self.claims[-2:]]
        directories = [Path(), Path("mine"), Path("runs"), *inside, *(p.parent for p in inside)]
        for directory in directories:
            path = self.store.root_path / directory / f"{len(self.foreign)}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("mine")
            self.foreign.append(path)

    def collect(self) -> None:
        self.vacuum.collect_garbage()

    def scan(self) -> None:
        self.vacuum.scan_store()
        advance_marker(self.driver.catalog, self.store)

    def check(self) -> None:
        assert self.store.find_missing(sorted(self.driver.catalog.files.list_referenced())) == set()
        assert all(path.read_text() == "mine" for path in self.foreign)
        active = self.driver.catalog.files.list_active_directories()
        active_claims = [c for c in self.claims if c.directory in active]
        assert not self.store.find_missing(
            [file_of(c, slot).path for c in active_claims for slot in c.reservations.values()]
        )


STEPS = (
    StoreHistory.insert,
    StoreHistory.replace,
    StoreHistory.fail,
    StoreHistory.kill,
    StoreHistory.die,
    StoreHistory.start,
    StoreHistory.wait,
)
MAINTENANCE = (StoreHistory.put_foreign, StoreHistory.collect, StoreHistory.collect, StoreHistory.scan)


@contextmanager
def open_history(template: Path) -> Iterator[StoreHistory]:
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{shutil.copy(template, directory)}"
        clock = FakeClock()
        catalog = open_catalog(url, clock)
        catalog.workflows.apply(WORKFLOW)
        store = LocalBlockStore(Path(directory) / "blocks")
        executor = Executor(catalog, store, cast(Engine, None), "me")
        try:
            yield StoreHistory(Driver(catalog, clock), store, VacuumService(executor, grace=GRACE))
        finally:
            catalog.close()


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.sampled_from((*STEPS, *MAINTENANCE)), max_size=20))
def test_referenced_and_foreign_files_are_retained_and_others_deleted(
    sqlite_template: Path, steps: list[object]
) -> None:
    with open_history(sqlite_template) as history:
        for step in steps:
            step(history)  # type: ignore[operator]
            history.check()
        for run in {
            c.run.id for c in history.claims if c.directory in history.driver.catalog.files.list_active_directories()
        }:
            history.driver.catalog.runs.kill(run)
        VacuumService(history.vacuum.executor, grace=AT_ONCE).collect_garbage()
        history.check()
        files = {p.relative_to(history.store.root_path).as_posix() for p in history.store.root_path.rglob("*.parquet")}
        assert files == history.driver.catalog.files.list_referenced()
        assert history.driver.catalog.files.list_marked() == set()
