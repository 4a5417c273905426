"""Messages of producers are inserted exactly once and in order, with any resends, servers and failures."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.runs.test_insert_batcher import InsertProject

from tidemill.errors import BadInput, Conflict, StorageError
from tidemill.intake import insert_batch
from tidemill.model.block import BlockKind
from tidemill.model.run import ProducerAdvance
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertAnswer, InsertBatcher, SmallInsert
from tidemill.runtime.runs.push import DuplicateMessage, OutOfOrder, PushMessage


@pytest.fixture
def project(tmp_path: Path) -> Iterator[InsertProject]:
    project = InsertProject(tmp_path)
    yield project
    project.catalog.close()


def message(number: int, *words: str, producer: str = "p", channel: str = "events") -> PushMessage:
    lines = (json.dumps({"id": number, "word": word}).encode() for word in words or ("w",))
    return PushMessage(channel, producer, number, b"\n".join(lines))


def list_types(answers: list[InsertAnswer]) -> list[type]:
    return [type(answer) for answer in answers]


def read_ids(project: InsertProject) -> list[object]:
    return sorted(row["id"] for row in project.content("events"))


def test_messages_and_inserts_share_a_block(project: InsertProject) -> None:
    small = SmallInsert("events", b'{"id": 9, "word": "w"}', "jsonl", "key")
    results = project.batcher.insert_all([message(1), small, message(1, producer="q"), message(2, "a", "b")])
    assert len({result.block.id for result in results if isinstance(result, InsertResult)}) == 1
    assert read_ids(project) == [1, 1, 2, 2, 9]
    assert project.catalog.channels.read_producer_sequences("events", ["p", "q", "r"]) == {"p": 2, "q": 1, "r": 0}


def test_duplicate_and_early_messages_are_recognised(project: InsertProject) -> None:
    project.batcher.insert_all([message(1), message(2)])
    answers = project.batcher.insert_all([message(2), message(4), message(3), message(3), message(4)])
    assert list_types(answers) == [DuplicateMessage, OutOfOrder, InsertResult, InsertResult, InsertResult]
    assert read_ids(project) == [1, 2, 3, 4]


def test_a_bad_message_stops_only_its_producer(project: InsertProject) -> None:
    bad = PushMessage("events", "p", 2, b'{"id": "x"}')
    answers = project.batcher.insert_all([message(1), bad, message(3), message(1, producer="q")])
    assert list_types(answers) == [InsertResult, BadInput, OutOfOrder, InsertResult]
    assert str(answers[1]).startswith("message 2: row 1")
    assert read_ids(project) == [1, 1]
    assert project.catalog.channels.read_producer_sequences("events", ["p"]) == {"p": 1}


def test_an_empty_message_uses_its_number(project: InsertProject) -> None:
    assert list_types(project.batcher.insert_all([PushMessage("events", "p", 1, b""), message(2)])) == [
        InsertResult,
        InsertResult,
    ]
    assert list_types(project.batcher.insert_all([PushMessage("events", "p", 3, b"")])) == [InsertResult]
    assert read_ids(project) == [2]
    assert project.catalog.channels.read_producer_sequences("events", ["p"]) == {"p": 3}


def test_the_last_upsert_of_a_key_counts_within_one_block(project: InsertProject) -> None:
    def upsert(number: int, user: int, city: str | None) -> PushMessage:
        row = {"user": user, "city": city} if city else {"user": user, "_deleted": True}
        return PushMessage("users", "p", number, json.dumps(row).encode())

    cities = [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (3, None), (2, "e")]
    project.batcher.insert_all([upsert(n, *change) for n, change in enumerate(cities, start=1)])
    assert {row["user"]: row["city"] for row in project.content("users")} == {1: "c", 2: "e"}
    assert project.blocks("users") == 1


def test_a_producer_advances_only_from_its_current_number(project: InsertProject) -> None:
    """As when two servers process the same message: the second commit changes nothing."""
    project.batcher.insert_all([message(1)])
    for since in (0, 2):
        with pytest.raises(Conflict, match="is at message 1, not at"):
            _insert(project.inserter, ProducerAdvance("events", "p", since, since + 1))
    with pytest.raises(Conflict, match="is at message 0, not at 4"):
        _insert(project.inserter, ProducerAdvance("events", "q", 4, 5))
    assert read_ids(project) == [1]


def _insert(inserter: Inserter, advance: ProducerAdvance) -> None:
    def fill(_to: object, _schema: object, directory: str, _tag: str) -> tuple[str, int]:
        return "nothing", 0

    inserter.insert_block("events", BlockKind.DELTA, (), fill, (advance,))


@dataclass
class Sender:
    """A producer that resends unacknowledged messages, to any server."""

    name: str
    total: int
    acknowledged: int = 0

    def build_burst(self, back: int, count: int) -> list[PushMessage]:
        """Messages that start at or before the first unacknowledged one."""
        first = max(1, self.acknowledged + 1 - back)
        return [message(n, producer=self.name) for n in range(first, min(first + count, self.total + 1))]

    def process_answers(self, sent: list[PushMessage], answers: list[InsertAnswer]) -> None:
        for sent_message, answer in zip(sent, answers, strict=True):
            if isinstance(answer, Exception):
                return
            self.acknowledged = max(self.acknowledged, sent_message.number)


@dataclass
class FailingWriter:
    """Writes insert batches, or fails like a disk, before or after writing."""

    plan: list[str] = field(default_factory=list)

    read_batch = staticmethod(insert_batch.read_batch)

    def write_batches(self, batches: object, directory: Path) -> None:
        outcome = self.plan.pop(0) if self.plan else "ok"
        if outcome == "before":
            raise StorageError("the disk is full")
        insert_batch.write_batches(batches, directory)  # type: ignore[arg-type]
        if outcome == "after":
            raise StorageError("the disk is gone")


@settings(max_examples=10, deadline=None)
@given(
    bursts=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(1, 5), st.booleans()), max_size=10),
    plan=st.lists(st.sampled_from(["ok", "before", "after"]), max_size=5),
)
def test_resent_messages_are_inserted_once(bursts: list[tuple[int, int, int, bool]], plan: list[str]) -> None:
    """Two producers whose answers are sometimes lost, two alternating servers, and a disk that sometimes fails."""
    with tempfile.TemporaryDirectory() as directory:
        project = InsertProject(Path(directory))
        servers = [
            InsertBatcher(project.inserter, FailingWriter(list(plan))),
            InsertBatcher(project.inserter, FailingWriter()),
        ]
        senders = [Sender("p", 12), Sender("q", 12)]
        for turn, (which, back, count, lost) in enumerate(bursts):
            sent = senders[which].build_burst(back, count)
            answers = servers[turn % 2].insert_all(sent)
            if not lost:
                senders[which].process_answers(sent, answers)
        for sender in senders:
            stored = project.catalog.channels.read_producer_sequences("events", [sender.name])[sender.name]
            assert stored >= sender.acknowledged
        counts = {s.name: project.catalog.channels.read_producer_sequences("events", [s.name])[s.name] for s in senders}
        assert read_ids(project) == sorted(n for upto in counts.values() for n in range(1, upto + 1))
        project.catalog.close()
