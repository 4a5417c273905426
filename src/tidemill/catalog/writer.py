"""The catalog as the rest of Tidemill sees it: every transition, each in one transaction."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, Protocol, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from tidemill.catalog import (
    claims,
    commits,
    flow_facts,
    garbage_collection,
    merge_costs,
    notices,
    pins,
    producers,
    registration,
    removals,
    run_expiry,
    runs,
    servers,
    triggers,
)
from tidemill.catalog.engine import collided, engine_for, for_writing, one_writer, translated
from tidemill.catalog.group_commit import Together
from tidemill.catalog.migrate import ensure_current
from tidemill.catalog.reader import SqlCatalogReader
from tidemill.catalog.rows import run_of
from tidemill.catalog.transaction import Transaction
from tidemill.model.block import Block
from tidemill.model.codec import Json
from tidemill.model.notice import Notice
from tidemill.model.run import Claim, Demand, Outcome, Run, RunKind
from tidemill.model.workflow import Workflow
from tidemill.ports.catalog import Clock
from tidemill.ports.records import Forgotten, Server

_TRIES = 10
_PAUSE = 0.05  # seconds, at most, before a transaction that collided is tried again

T = TypeVar("T")


class SqlCatalog(SqlCatalogReader):
    """A `CatalogWriter` over SQL. It may be used from several threads."""

    def __init__(self, engine: Engine, clock: Clock | None = None) -> None:
        """`clock`: in place of the database's."""
        super().__init__(engine, clock)
        self._write = _writer(for_writing(engine))

    def apply(self, workflow: Workflow, document: Json | None = None) -> None:
        self.transact(lambda tx: registration.apply(tx, workflow, document))

    def remove(self, workflow: str) -> None:
        self.transact(lambda tx: registration.remove(tx, workflow))

    def remember_analyses(self, answers: Mapping[str, Json]) -> None:
        self.transact(lambda tx: registration.remember_analyses(tx, answers))

    def request(self, kind: RunKind, subject: str, *, attempts: int = 1, backfill: bool = False) -> Run:
        return self.transact(lambda tx: runs.request(tx, kind, subject, attempts=attempts, backfill=backfill))

    def claim(self, run: int, demand: Demand, *, owner: str, lease: float, fence: int | None = None) -> Claim:
        return self.transact(lambda tx: claims.claim(tx, run, demand, owner=owner, lease=lease, fence=fence))

    def begin(self, kind: RunKind, subject: str, demand: Demand, *, owner: str, lease: float) -> Claim:
        return self.transact(lambda tx: claims.begin(tx, kind, subject, demand, owner=owner, lease=lease))

    def renew(self, run: int, fence: int, *, lease: float) -> None:
        self.transact(lambda tx: runs.renew(tx, run, fence, lease=lease))

    def commit(self, claim: Claim, outcome: Outcome) -> list[Block]:
        return self.transact(lambda tx: commits.commit(tx, claim, outcome))

    def compacted(self, claim: Claim, made: Block, *, log: str = "", rewriting: Json | None = None) -> Block:
        return self.transact(lambda tx: commits.compacted(tx, claim, made, log, rewriting))

    def merged(self, paid: Mapping[str, float]) -> None:
        self.transact(lambda tx: merge_costs.add(tx, paid, asked=True))

    def fail(
        self,
        run: int,
        fence: int,
        *,
        error: str,
        log: str = "",
        retry_in: float | None = None,
        lost: bool = False,
    ) -> Run:
        return self.transact(lambda tx: runs.fail(tx, run, fence, error=error, log=log, retry_in=retry_in, lost=lost))

    def kill(self, run: int) -> Run:
        return self.transact(lambda tx: runs.kill(tx, run))

    def reclaim(self) -> list[Run]:
        """Cancel the slots of runs whose lease has expired, each in its own transaction."""
        with self._read() as connection:
            late = runs.expired(connection, self._now(connection))
        given_up = [self.transact(partial(runs.reclaim, run=run)) for run in late]
        return [run for run in given_up if run is not None]

    def reclaim_from(self, owner: str, keep: Collection[int]) -> list[Run]:
        with self._read() as connection:
            unknown = [run for run in runs.owned_by(connection, owner) if run not in keep]
        given_up = [self.transact(partial(runs.reclaim_from, run=run, owner=owner)) for run in unknown]
        return [run for run in given_up if run is not None]

    def fire(self, leaf: int) -> int | None:
        return self.transact(lambda tx: triggers.fire(tx, leaf))

    def take(self, run: int, *, owner: str, lease: float) -> Run:
        return self.transact(lambda tx: claims.take(tx, run, owner=owner, lease=lease))

    def began(self, run: int, fence: int) -> None:
        self.transact(lambda tx: runs.began(tx, run, fence))

    def release(self, run: int, fence: int, *, seconds: float) -> None:
        self.transact(lambda tx: runs.release(tx, run, fence, seconds=seconds))

    def wish(self, wanted: Mapping[str, Any]) -> None:
        self.transact(lambda tx: flow_facts.wish(tx, wanted))

    def remind(self, flow: str, at: float) -> None:
        self.transact(lambda tx: triggers.remind(tx, flow, at))

    def expect(self, flow: str, seconds: float) -> None:
        self.transact(lambda tx: triggers.expect(tx, flow, seconds))

    def pause(self, workflow: str, *, paused: bool) -> None:
        self.transact(lambda tx: triggers.pause(tx, workflow, paused))

    def prioritise(self, workflow: str, priority: int) -> None:
        self.transact(lambda tx: triggers.prioritise(tx, workflow, priority))

    def attend(self, server: Server, *, lease: float) -> bool:
        return self.transact(lambda tx: servers.attend(tx, server, lease))

    def resign(self, server: Server) -> None:
        self.transact(lambda tx: servers.resign(tx, server))

    def hold(self, name: str, owner: str, *, lease: float) -> bool:
        return self.transact(lambda tx: servers.lead(tx, name, owner, lease))

    def let_go(self, name: str, owner: str) -> None:
        self.transact(lambda tx: servers.let_go(tx, name, owner))

    def move_place(self, name: str, since: int | None, upto: int) -> None:
        self.transact(lambda tx: producers.move_offset(tx, name, since, upto))

    def forget_producers(self, age: float) -> int:
        return self.transact(lambda tx: producers.forget(tx, age))

    def due_triggers(self, limit: int = 100) -> list[int]:
        with self._read() as connection:
            return triggers.due(connection, self._now(connection), limit)

    def runnable(self, limit: int = 100) -> list[Run]:
        """Backfills go last, runs of workflows with a larger priority first; those of actions have none."""
        with self._read() as connection:
            now = self._now(connection)
            found = [(-row.priority, row) for row in triggers.runnable(connection, now, limit)]
            found += [(0, row) for row in runs.runnable_actions(connection, now, limit)]
        in_order = sorted(found, key=lambda ranked: (ranked[1].backfill, ranked[0], ranked[1].id))
        return [run_of(row) for _, row in in_order[:limit]]

    def make_notices(self, receivers: list[str]) -> int:
        with self._read() as connection:
            if not notices.unseen(connection):
                return 0
        return self.transact(lambda tx: notices.make(tx, receivers))

    def due_notices(self, limit: int = 100) -> list[tuple[str, Notice]]:
        with self._read() as connection:
            return notices.due(connection, self._now(connection), limit)

    def delivered(self, notice: int) -> None:
        self.transact(lambda tx: notices.delivered(tx, notice))

    def refused(self, notice: int, error: str) -> None:
        self.transact(lambda tx: notices.refused(tx, notice, error))

    def collect(self, blocks: Iterable[int]) -> int:
        wanted = set(blocks)
        return self.transact(lambda tx: garbage_collection.collect(tx, wanted))

    def pin(self, block: int, keeps: Collection[int]) -> None:
        self.transact(lambda tx: pins.pin(tx, block, keeps))

    def unpin(self, block: int) -> None:
        self.transact(lambda tx: pins.unpin(tx, block))

    def purge(self) -> list[str]:
        return self.transact(garbage_collection.purge)

    def mark_orphans(self, run: int, paths: Collection[str]) -> int:
        return self.transact(lambda tx: removals.mark_orphans(tx, run, paths))

    def finish_removals(self, paths: Collection[str]) -> None:
        self.transact(lambda tx: removals.finish(tx, paths))

    def note_adoption(self, store: str, before: str | None) -> None:
        self.transact(lambda tx: removals.note_adoption(tx, store, before))

    def forget(self, subject: str, *, keep: int) -> Forgotten:
        """A few at a time, each time in its own transaction."""
        forgotten = some = self.transact(lambda tx: run_expiry.forget(tx, subject, keep))
        while some.runs == run_expiry.AT_ONCE:
            some = self.transact(lambda tx: run_expiry.forget(tx, subject, keep))
            forgotten += some
        return forgotten

    def transact(self, work: Callable[[Transaction], T]) -> T:
        """Do all of `work` in one transaction, or nothing; again, if it collided with somebody else's."""
        with translated(self._engine):
            for _ in range(_TRIES - 1):
                try:
                    return self._once(work)
                except DBAPIError as error:
                    if not collided(error):
                        raise
                    time.sleep(random.uniform(0, _PAUSE))
            return self._once(work)

    def _once(self, work: Callable[[Transaction], T]) -> T:
        def written(connection: Connection) -> T:
            # The time is read once the write lock is held: waiting for it may outlast a lease.
            tx = Transaction(connection, self._now(connection))
            result = work(tx)
            tx.finish()
            return result

        return self._write(written)


class _Writer(Protocol):
    """Runs work in a transaction."""

    def __call__(self, work: Callable[[Connection], T]) -> T: ...


def _writer(engine: Engine) -> _Writer:
    if one_writer(engine):
        return Together(engine)

    def write(work: Callable[[Connection], T]) -> T:
        with engine.begin() as connection:
            return work(connection)

    return write


def open_catalog(url: str, clock: Clock | None = None) -> SqlCatalog:
    """Open a catalog by its URL; create it, or bring it up to date, if need be. Its clock is the database's."""
    engine = engine_for(url)
    try:
        ensure_current(engine)
    except BaseException:
        engine.dispose()
        raise
    return SqlCatalog(engine, clock)
