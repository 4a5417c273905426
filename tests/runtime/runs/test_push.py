"""Messages of producers: exactly once, in their order, whatever is sent again, to whichever server, and what fails."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.runs.test_insert_batcher import House

from tidemill.errors import BadInput, Conflict, StorageError
from tidemill.intake import insert_batch
from tidemill.model.block import BlockKind
from tidemill.model.run import ProducerAdvance
from tidemill.runtime.runs.insert import Inserter, InsertResult
from tidemill.runtime.runs.insert_batcher import InsertAnswer, InsertBatcher, SmallInsert
from tidemill.runtime.runs.push import DuplicateMessage, OutOfOrder, PushMessage


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(tmp_path)
    yield made
    made.catalog.close()


def message(number: int, *words: str, producer: str = "p", channel: str = "events") -> PushMessage:
    lines = (json.dumps({"id": number, "word": word}).encode() for word in words or ("w",))
    return PushMessage(channel, producer, number, b"\n".join(lines))


def kinds(answers: list[InsertAnswer]) -> list[type]:
    return [type(answer) for answer in answers]


def ids(house: House) -> list[object]:
    return sorted(row["id"] for row in house.content("events"))


def test_messages_and_inserts_share_a_block(house: House) -> None:
    small = SmallInsert("events", b'{"id": 9, "word": "w"}', "jsonl", "key")
    done = house.gatherer.insert_all([message(1), small, message(1, producer="q"), message(2, "a", "b")])
    assert len({one.block.id for one in done if isinstance(one, InsertResult)}) == 1
    assert ids(house) == [1, 1, 2, 2, 9]
    assert house.catalog.read_producer_sequences("events", ["p", "q", "r"]) == {"p": 2, "q": 1, "r": 0}


def test_what_is_there_and_what_is_too_early(house: House) -> None:
    house.gatherer.insert_all([message(1), message(2)])
    answers = house.gatherer.insert_all([message(2), message(4), message(3), message(3), message(4)])
    assert kinds(answers) == [DuplicateMessage, OutOfOrder, InsertResult, InsertResult, InsertResult]
    assert ids(house) == [1, 2, 3, 4]


def test_a_bad_message_stops_its_producer_and_nobody_else(house: House) -> None:
    bad = PushMessage("events", "p", 2, b'{"id": "x"}')
    answers = house.gatherer.insert_all([message(1), bad, message(3), message(1, producer="q")])
    assert kinds(answers) == [InsertResult, BadInput, OutOfOrder, InsertResult]
    assert str(answers[1]).startswith("message 2: row 1")
    assert ids(house) == [1, 1]
    assert house.catalog.read_producer_sequences("events", ["p"]) == {"p": 1}


def test_an_empty_message_takes_its_number(house: House) -> None:
    assert kinds(house.gatherer.insert_all([PushMessage("events", "p", 1, b""), message(2)])) == [
        InsertResult,
        InsertResult,
    ]
    assert kinds(house.gatherer.insert_all([PushMessage("events", "p", 3, b"")])) == [InsertResult]
    assert ids(house) == [2]
    assert house.catalog.read_producer_sequences("events", ["p"]) == {"p": 3}


def test_of_upserts_the_last_of_a_key_counts_and_one_block_holds_them(house: House) -> None:
    def upsert(number: int, user: int, city: str | None) -> PushMessage:
        row = {"user": user, "city": city} if city else {"user": user, "_deleted": True}
        return PushMessage("users", "p", number, json.dumps(row).encode())

    cities = [(1, "a"), (2, "b"), (1, "c"), (3, "d"), (3, None), (2, "e")]
    house.gatherer.insert_all([upsert(n, *said) for n, said in enumerate(cities, start=1)])
    assert {row["user"]: row["city"] for row in house.content("users")} == {1: "c", 2: "e"}
    assert house.blocks("users") == 1


def test_the_number_moves_only_from_where_it_is(house: House) -> None:
    """As when two servers have the same message in hand: the second to commit changes nothing."""
    house.gatherer.insert_all([message(1)])
    for since in (0, 2):
        with pytest.raises(Conflict, match="is at message 1, not at"):
            _insert(house.inserter, ProducerAdvance("events", "p", since, since + 1))
    with pytest.raises(Conflict, match="is at message 0, not at 4"):
        _insert(house.inserter, ProducerAdvance("events", "q", 4, 5))
    assert ids(house) == [1]


def _insert(inserter: Inserter, move: ProducerAdvance) -> None:
    def fill(_to: object, _schema: object, directory: str, _tag: str) -> tuple[str, int]:
        return "nothing", 0

    inserter.insert_block("events", BlockKind.DELTA, (), fill, (move,))


@dataclass
class Sender:
    """A producer that sends what it has no word of, again and again, to whichever server."""

    name: str
    total: int
    acknowledged: int = 0

    def burst(self, back: int, count: int) -> list[PushMessage]:
        """From somewhere at or before the first that is not acknowledged."""
        first = max(1, self.acknowledged + 1 - back)
        return [message(n, producer=self.name) for n in range(first, min(first + count, self.total + 1))]

    def hear(self, sent: list[PushMessage], answers: list[InsertAnswer]) -> None:
        for one, answer in zip(sent, answers, strict=True):
            if isinstance(answer, Exception):
                return
            self.acknowledged = max(self.acknowledged, one.number)


@dataclass
class Failing:
    """Packs parcels, or fails as the disk may, before or after it has written."""

    plan: list[str] = field(default_factory=list)

    read_batch = staticmethod(insert_batch.read_batch)

    def write_batches(self, batches: object, directory: Path) -> None:
        what = self.plan.pop(0) if self.plan else "well"
        if what == "before":
            raise StorageError("the disk is full")
        insert_batch.write_batches(batches, directory)  # type: ignore[arg-type]
        if what == "after":
            raise StorageError("the disk is gone")


@settings(max_examples=10, deadline=None)
@given(
    bursts=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 4), st.integers(1, 5), st.booleans()), max_size=10),
    plan=st.lists(st.sampled_from(["well", "before", "after"]), max_size=5),
)
def test_whatever_is_sent_again_is_there_once(bursts: list[tuple[int, int, int, bool]], plan: list[str]) -> None:
    """Two producers, whose answers are sometimes lost, two servers in turn, and a disk that fails now and then."""
    with tempfile.TemporaryDirectory() as directory:
        house = House(Path(directory))
        servers = [InsertBatcher(house.inserter, Failing(list(plan))), InsertBatcher(house.inserter, Failing())]
        senders = [Sender("p", 12), Sender("q", 12)]
        for turn, (which, back, count, lost) in enumerate(bursts):
            sent = senders[which].burst(back, count)
            answers = servers[turn % 2].insert_all(sent)
            if not lost:
                senders[which].hear(sent, answers)
        for sender in senders:
            there = house.catalog.read_producer_sequences("events", [sender.name])[sender.name]
            assert there >= sender.acknowledged
        counts = {s.name: house.catalog.read_producer_sequences("events", [s.name])[s.name] for s in senders}
        assert ids(house) == sorted(n for upto in counts.values() for n in range(1, upto + 1))
        house.catalog.close()
