"""Small inserts at the same time: few blocks, nothing lost, nothing twice, each with an answer of its own."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest
from tests.acceptance.plain import PlainEngine

import tidemill as tm
from tidemill.algebra.reference import is_same_bag
from tidemill.catalog import SqlCatalog, open_catalog
from tidemill.errors import BadInput, NotFound, StorageError
from tidemill.intake import insert_batch, load_file
from tidemill.ports.catalog import Clock
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import open_store

wf = tm.Workflow("gathering")
wf.input("events", "id int, word string NOT NULL")
wf.input("users", "user int, city string", key="user")


class House:
    """A project without Spark."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.catalog: SqlCatalog = open_catalog(f"sqlite:///{root / 'catalog.db'}", clock)
        self.catalog.apply_workflow(wf.declared())
        store = open_store(str(root / "blocks"))
        self.engine = PlainEngine(store.locate_file)
        self.inserter = Inserter(Executor(self.catalog, store, self.engine, "test"), load_file)
        self.gatherer = InsertBatcher(self.inserter, insert_batch)

    def file(self, name: str, *rows: dict[str, object]) -> Path:
        path = self.root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def content(self, channel: str) -> list[dict[str, object]]:
        return self.engine.read_rows(
            ChannelViews(self.catalog, {}).build_snapshot(channel, self.catalog.read_channel(channel).head.seq)
        )

    def blocks(self, channel: str) -> int:
        return self.catalog.read_channel(channel).head.seq

    def insert(self, channel: str, *files: Path, keyed: bool = False) -> list[InsertResult | Exception]:
        return self.gatherer.insert_all([self.small(channel, f, keyed) for f in files])

    def small(self, channel: str, file: Path, keyed: bool = False) -> SmallInsert:
        return SmallInsert(channel, file.read_bytes(), "jsonl", file.name if keyed else None)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.catalog.close()


def test_what_comes_together_becomes_one_block(house: House) -> None:
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(20)]
    done = house.insert("events", *files, keyed=True)
    assert len({one.block.id for one in done}) == 1
    assert sorted(row["id"] for row in house.content("events")) == list(range(20))
    again = house.insert("events", *files, house.file("new", {"id": 20, "word": "a"}), keyed=True)
    assert [one.repeated for one in again] == [True] * 20 + [False]
    assert house.blocks("events") == 2
    assert len(house.content("events")) == 21


def test_a_bad_file_fails_alone(house: House) -> None:
    good, bad = house.file("good", {"id": 1, "word": "a"}), house.file("bad", {"id": "x", "word": "a"})
    wanted = [house.small("events", bad), house.small("events", good), house.small("nothing", good)]
    refused, inserted, unknown = house.gatherer.insert_all(wanted)
    assert isinstance(refused, BadInput)
    assert str(refused).startswith("the upload: row 1")
    assert isinstance(inserted, InsertResult)
    assert isinstance(unknown, NotFound)
    assert len(house.content("events")) == 1


def test_the_same_key_in_two_upserts_makes_two_blocks_in_their_order(house: House) -> None:
    files = [house.file(f"u{n}", {"user": n % 2, "city": f"c{n}"}) for n in range(6)]
    house.insert("users", *files)
    assert is_same_bag(house.content("users"), [{"user": 0, "city": "c4"}, {"user": 1, "city": "c5"}])
    assert house.blocks("users") == 3


def test_nobody_overtakes_on_a_channel_and_everybody_else_does(house: House) -> None:
    cities = [house.file(f"u{n}", {"user": u, "city": f"c{n}"}) for n, u in enumerate((1, 1, 2, 2, 1))]
    wanted = [house.small("users", f) for f in cities]
    wanted.insert(2, house.small("events", house.file("e", {"id": 1, "word": "a"})))
    assert not any(isinstance(one, Exception) for one in house.gatherer.insert_all(wanted))
    assert is_same_bag(house.content("users"), [{"user": 1, "city": "c4"}, {"user": 2, "city": "c3"}])
    assert len(house.content("events")) == 1


def test_the_same_insert_twice_at_once_is_done_once(house: House) -> None:
    file = house.file("f", {"id": 1, "word": "a"})
    first, second = house.insert("events", file, file, keyed=True)
    assert (first.repeated, second.repeated, second.block) == (False, True, first.block)


def test_a_key_twice_in_one_file_is_refused(house: House) -> None:
    (refused,) = house.insert("users", house.file("twice", {"user": 1, "city": "a"}, {"user": 1, "city": "b"}))
    assert "row 2 has the same key as row 1" in str(refused)


def test_a_key_that_another_server_used_meanwhile_loses_nobody_elses_rows(house: House) -> None:
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(5)]
    real = house.catalog.find_inserted_blocks
    asked: list[str] = []

    def inserted(channel: str, keys: Collection[str]) -> object:
        found = real(channel, keys)
        if not asked:
            asked.extend(keys)
            house.inserter.insert_file("events", files[3], key="f3.jsonl")  # the other server
        return found

    object.__setattr__(house.catalog, "find_inserted_blocks", inserted)
    done = house.insert("events", *files, keyed=True)
    assert sorted(row["id"] for row in house.content("events")) == list(range(5))
    assert [one.repeated for one in done] == [False, False, False, True, False]


def test_what_fails_is_told_to_all_who_were_in_it(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [house.file(f"f{n}", {"id": n, "word": "a"}) for n in range(3)]

    def broken(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(insert_batch, "write_batches", broken)
    assert [type(one) for one in house.insert("events", *files)] == [StorageError] * 3
    monkeypatch.undo()
    assert not any(isinstance(one, Exception) for one in house.insert("events", *files))
    assert len(house.content("events")) == 3
