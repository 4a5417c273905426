"""Concurrent small inserts: few blocks, no row lost or duplicated, and a separate answer for each."""

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
from tidemill.intake import insert_batch
from tidemill.intake.loader import load_file
from tidemill.ports.catalog import Clock
from tidemill.runtime.runs.execution import Executor
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertBatcher, SmallInsert
from tidemill.runtime.runs.views import ChannelViews
from tidemill.storage import open_store

wf = tm.Workflow("batching")
wf.input("events", "id int, word string NOT NULL")
wf.input("users", "user int, city string", key="user")


class InsertProject:
    """A project without Spark."""

    def __init__(self, root: Path, clock: Clock | None = None) -> None:
        self.root = root
        self.catalog: SqlCatalog = open_catalog(f"sqlite:///{root / 'catalog.db'}", clock)
        self.catalog.workflows.apply(wf.build_spec())
        store = open_store(str(root / "blocks"))
        self.engine = PlainEngine(store.locate_file)
        self.inserter = Inserter(Executor(self.catalog, store, self.engine, "test"), load_file)
        self.batcher = InsertBatcher(self.inserter, insert_batch)

    def file(self, name: str, *rows: dict[str, object]) -> Path:
        path = self.root / f"{name}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def content(self, channel: str) -> list[dict[str, object]]:
        return self.engine.read_rows(
            ChannelViews(self.catalog, {}).build_snapshot(channel, self.catalog.channels.read(channel).head.seq)
        )

    def blocks(self, channel: str) -> int:
        return self.catalog.channels.read(channel).head.seq

    def insert(self, channel: str, *files: Path, keyed: bool = False) -> list[InsertResult | Exception]:
        return self.batcher.insert_all([self.build_insert(channel, f, keyed) for f in files])

    def build_insert(self, channel: str, file: Path, keyed: bool = False) -> SmallInsert:
        return SmallInsert(channel, file.read_bytes(), "jsonl", file.name if keyed else None)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[InsertProject]:
    project = InsertProject(tmp_path)
    yield project
    project.catalog.close()


def test_concurrent_inserts_become_one_block(project: InsertProject) -> None:
    files = [project.file(f"f{n}", {"id": n, "word": "a"}) for n in range(20)]
    results = project.insert("events", *files, keyed=True)
    assert len({result.block.id for result in results}) == 1
    assert sorted(row["id"] for row in project.content("events")) == list(range(20))
    again = project.insert("events", *files, project.file("new", {"id": 20, "word": "a"}), keyed=True)
    assert [result.repeated for result in again] == [True] * 20 + [False]
    assert project.blocks("events") == 2
    assert len(project.content("events")) == 21


def test_a_bad_file_fails_alone(project: InsertProject) -> None:
    good, bad = project.file("good", {"id": 1, "word": "a"}), project.file("bad", {"id": "x", "word": "a"})
    requests = [
        project.build_insert("events", bad),
        project.build_insert("events", good),
        project.build_insert("nothing", good),
    ]
    rejected, inserted, unknown = project.batcher.insert_all(requests)
    assert isinstance(rejected, BadInput)
    assert str(rejected).startswith("the upload: row 1")
    assert isinstance(inserted, InsertResult)
    assert isinstance(unknown, NotFound)
    assert len(project.content("events")) == 1


def test_the_same_key_in_two_upserts_writes_two_blocks_in_order(project: InsertProject) -> None:
    files = [project.file(f"u{n}", {"user": n % 2, "city": f"c{n}"}) for n in range(6)]
    project.insert("users", *files)
    assert is_same_bag(project.content("users"), [{"user": 0, "city": "c4"}, {"user": 1, "city": "c5"}])
    assert project.blocks("users") == 3


def test_inserts_keep_their_order_within_a_channel_only(project: InsertProject) -> None:
    cities = [project.file(f"u{n}", {"user": u, "city": f"c{n}"}) for n, u in enumerate((1, 1, 2, 2, 1))]
    requests = [project.build_insert("users", f) for f in cities]
    requests.insert(2, project.build_insert("events", project.file("e", {"id": 1, "word": "a"})))
    assert not any(isinstance(result, Exception) for result in project.batcher.insert_all(requests))
    assert is_same_bag(project.content("users"), [{"user": 1, "city": "c4"}, {"user": 2, "city": "c3"}])
    assert len(project.content("events")) == 1


def test_an_insert_that_is_sent_twice_at_once_is_done_once(project: InsertProject) -> None:
    file = project.file("f", {"id": 1, "word": "a"})
    first, second = project.insert("events", file, file, keyed=True)
    assert (first.repeated, second.repeated, second.block) == (False, True, first.block)


def test_a_duplicate_key_in_one_file_is_rejected(project: InsertProject) -> None:
    (rejected,) = project.insert("users", project.file("twice", {"user": 1, "city": "a"}, {"user": 1, "city": "b"}))
    assert "row 2 has the same key as row 1" in str(rejected)


def test_a_key_that_another_server_used_meanwhile_loses_no_other_rows(project: InsertProject) -> None:
    files = [project.file(f"f{n}", {"id": n, "word": "a"}) for n in range(5)]
    real = project.catalog.blocks.find_inserted
    requested: list[str] = []

    def find_and_insert(channel: str, keys: Collection[str]) -> object:
        blocks = real(channel, keys)
        if not requested:
            requested.extend(keys)
            project.inserter.insert_file("events", files[3], key="f3.jsonl")  # the other server
        return blocks

    project.catalog.blocks.find_inserted = find_and_insert  # type: ignore[assignment]
    results = project.insert("events", *files, keyed=True)
    assert sorted(row["id"] for row in project.content("events")) == list(range(5))
    assert [result.repeated for result in results] == [False, False, False, True, False]


def test_a_failed_batch_fails_all_its_inserts(project: InsertProject, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [project.file(f"f{n}", {"id": n, "word": "a"}) for n in range(3)]

    def fail(*_: object) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(insert_batch, "write_batches", fail)
    assert [type(result) for result in project.insert("events", *files)] == [StorageError] * 3
    monkeypatch.undo()
    assert not any(isinstance(result, Exception) for result in project.insert("events", *files))
    assert len(project.content("events")) == 3
