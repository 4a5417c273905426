"""Many small inserts at the same time, a block for those that wait together.

A block costs several transactions and forced writes, however few rows it has. While one is being made, others queue
up; the next takes them all. Each insert still succeeds or fails alone: its rows were checked before it joined the
queue, and its key finds its block if it is sent again.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path

from tidemill.errors import Conflict, TidemillError
from tidemill.model.block import Kind
from tidemill.model.channel import Channel
from tidemill.model.schema import Schema
from tidemill.ports import Parcel, Parcels
from tidemill.runtime.insert import Inserted, Inserter

MOST = 100_000
"""Rows of a block that is gathered."""


@dataclass(slots=True)
class _Waiting:
    channel: str
    schema: Schema
    parcel: Parcel
    key: str | None
    done: Future[Inserted] = field(default_factory=Future)

    def fits(self, others: list[_Waiting]) -> bool:
        """May it share a block with these? What is merged by key has each key once, and so has an insert key."""
        first = others[0]
        same = (self.channel, self.schema) == (first.channel, first.schema)
        apart = all(self.parcel.keys.isdisjoint(o.parcel.keys) for o in others)
        once = self.key is None or all(self.key != o.key for o in others)
        return same and apart and once and sum(o.parcel.rows for o in others) + self.parcel.rows <= MOST


class Gatherer:
    """Inserts small files for many callers at once; each waits until its rows are visible."""

    def __init__(self, inserter: Inserter, parcels: Parcels) -> None:
        self._inserter = inserter
        self._parcels = parcels
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="tidemill-inserts", daemon=True)
        self._thread.start()

    def insert(self, channel: str, path: Path, *, format: str | None = None, key: str | None = None) -> Inserted:
        """As `Inserter.file` does with a delta; the block may hold the rows of others too."""
        to, schema = self._inserter.fed(channel)
        parcel = self._parcels.read(path, format=format, schema=schema, updates=to.updates)
        waiting = _Waiting(channel, schema, parcel, key)
        with self._changed:
            if self._closed:
                raise Conflict("this server is stopping; send it again, to another one")
            self._queue.append(waiting)
            self._changed.notify()
        return waiting.done.result()

    def close(self) -> None:
        """Insert what waits, and take no more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while (group := self._next()) is not None:
            self._together(group)

    def _next(self) -> list[_Waiting] | None:
        """The first that waits, and those behind it that can go with it. What cannot keeps its place."""
        with self._changed:
            while not self._queue:
                if self._closed:
                    return None
                self._changed.wait()
            group = [self._queue.popleft()]
            behind = [w for w in self._queue if not _joins(w, group)]
            self._queue = deque(behind)
            return group

    def _together(self, group: list[_Waiting]) -> None:
        rest = list(self._not_repeated(group))
        if not rest:
            return
        keys = tuple(w.key for w in rest if w.key is not None)

        def fill(_to: Channel, _schema: Schema, directory: str, _tag: str) -> str:
            self._parcels.pack([w.parcel for w in rest], Path(directory))
            return " ".join(w.parcel.digest for w in rest)

        try:
            made = self._inserter.insert(rest[0].channel, Kind.DELTA, keys, fill)
        except Conflict as error:
            self._apart(rest, error)
        except BaseException as error:
            for waiting in rest:
                waiting.done.set_exception(error)
        else:
            for waiting in rest:
                waiting.done.set_result(Inserted(made, repeated=False))

    def _apart(self, group: list[_Waiting], error: Conflict) -> None:
        """Another server used one of the keys meanwhile: each for itself."""
        if len(group) > 1:
            for one in group:
                self._together([one])
        else:
            for waiting in self._not_repeated(group):
                waiting.done.set_exception(error)

    def _not_repeated(self, group: list[_Waiting]) -> Iterator[_Waiting]:
        """Those of the group that were not inserted before; the others are told."""
        for waiting in group:
            try:
                found = None if waiting.key is None else self._find(waiting)
            except TidemillError as error:
                waiting.done.set_exception(error)
                continue
            if found is None:
                yield waiting
            else:
                waiting.done.set_result(found)

    def _find(self, waiting: _Waiting) -> Inserted | None:
        assert waiting.key is not None
        block = self._inserter.executor.catalog.inserted(waiting.channel, waiting.key)
        return None if block is None else Inserted(block, repeated=True)


def _joins(waiting: _Waiting, group: list[_Waiting]) -> bool:
    if waiting.fits(group):
        group.append(waiting)
        return True
    return False
