"""Small inserts at the same time: few blocks, nothing lost, nothing twice, each with an answer of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import BadInput, Conflict
from tidemill.intake import load, parcel
from tidemill.runtime.execute import Executor
from tidemill.runtime.gather import Gatherer
from tidemill.runtime.insert import Inserted, Inserter
from tidemill.runtime.views import Views
from tidemill.storage import open_store

wf = tm.Workflow("gathering")
wf.input("events", "id int, word string NOT NULL")
wf.input("users", "user int, city string", key="user")


class House:
    """A project without Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.catalog: SqlCatalog = open_catalog(f"sqlite:///{root / 'catalog.db'}")
        self.catalog.apply(wf.declared())
        store = open_store(str(root / "blocks"))
        self.engine = PlainEngine(store.locate)
        self.inserter = Inserter(Executor(self.catalog, store, self.engine, "test"), load)
        self.gatherer = Gatherer(self.inserter, parcel)

    def file(self, name: str, *rows: dict[str, object]) -> Path:
        path = self.root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def content(self, channel: str) -> list[dict[str, object]]:
        return self.engine.rows(Views(self.catalog, {}).snapshot(channel, self.catalog.channel(channel).head.seq))

    def blocks(self, channel: str) -> int:
        return self.catalog.channel(channel).head.seq

    def together(self, *inserts: Callable[[], Inserted]) -> list[Future[Inserted]]:
        """All of them wait before the first block is made."""
        gate = threading.Event()
        real = self.inserter.executor.catalog.request

        def request(*args: object, **kwargs: object) -> object:
            gate.wait(30)
            return real(*args, **kwargs)  # type: ignore[arg-type]

        object.__setattr__(self.catalog, "request", request)
        with ThreadPoolExecutor(len(inserts)) as pool:
            futures = [pool.submit(insert) for insert in inserts]
            while sum(f.running() for f in futures) < len(inserts) or len(self.gatherer._queue) < len(inserts) - 1:
                if any(f.done() for f in futures):
                    break
            gate.set()
        return futures


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.gatherer.close()
    made.catalog.close()


def test_what_waits_together_becomes_one_block(house: House) -> None:
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(20)]
    done = house.together(*(lambda f=f: house.gatherer.insert("events", f, key=f.name) for f in files))
    assert len({f.result().block.id for f in done}) == 2  # the first did not wait
    assert sorted(row["id"] for row in house.content("events")) == list(range(20))
    again = [house.gatherer.insert("events", f, key=f.name) for f in files]
    assert all(i.repeated for i in again)
    assert house.blocks("events") == 2


def test_a_bad_file_fails_alone(house: House) -> None:
    good, bad = house.file("good", {"id": 1, "word": "a"}), house.file("bad", {"id": "x", "word": "a"})
    with pytest.raises(BadInput):
        house.gatherer.insert("events", bad)
    house.gatherer.insert("events", good)
    assert len(house.content("events")) == 1


def test_the_same_key_in_two_upserts_makes_two_blocks_in_their_order(house: House) -> None:
    files = [house.file(f"u{n}", {"user": n % 2, "city": f"c{n}"}) for n in range(6)]
    house.together(*(lambda f=f: house.gatherer.insert("users", f) for f in files))
    assert {row["user"] for row in house.content("users")} == {0, 1}
    assert 3 <= house.blocks("users") <= 6


def test_a_key_twice_in_one_file_is_refused(house: House) -> None:
    with pytest.raises(BadInput, match="row 2 has the same key as row 1"):
        house.gatherer.insert("users", house.file("twice", {"user": 1, "city": "a"}, {"user": 1, "city": "b"}))


def test_a_key_that_another_server_used_meanwhile_loses_nobody_elses_rows(house: House) -> None:
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(5)]
    real = house.catalog.inserted
    asked: list[str] = []

    def inserted(channel: str, key: str) -> object:
        found = real(channel, key)
        if key == "f3.jsonl" and not asked:
            asked.append(key)
            house.inserter.file("events", files[3], key=key)  # the other server
        return found

    object.__setattr__(house.catalog, "inserted", inserted)
    done = house.together(*(lambda f=f: house.gatherer.insert("events", f, key=f.name) for f in files))
    assert sorted(row["id"] for row in house.content("events")) == list(range(5))
    assert [f.result().repeated for f in done] == [False, False, False, True, False]


def test_a_closed_gatherer_finishes_and_takes_no_more(house: House) -> None:
    house.gatherer.insert("events", house.file("a", {"id": 1, "word": "a"}))
    house.gatherer.close()
    with pytest.raises(Conflict, match="stopping"):
        house.gatherer.insert("events", house.file("b", {"id": 2, "word": "a"}))
