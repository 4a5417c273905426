"""Messages that producers push, and their numbers.

A producer numbers its messages 1, 2, 3, …, on each channel for itself. A number that the channel has is a message sent
again; one that leaves others out shows that something was lost on the way. Only the next one is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidemill.errors import BadInput
from tidemill.model.run import ProducerAdvance


class OutOfOrder(BadInput):
    """A producer's message came before the one that it must follow; nothing was inserted."""


@dataclass(frozen=True, slots=True)
class PushMessage:
    """What a producer pushes at a time: events as JSON lines; none, to leave its number out."""

    channel: str
    producer: str
    number: int
    data: bytes


@dataclass(frozen=True, slots=True)
class DuplicateMessage:
    """The message is in the channel already."""

    number: int


@dataclass(slots=True)
class MessageClassification:
    """By where they stood: what is new, answers to what is not, and what came twice in one go."""

    fresh: dict[int, PushMessage] = field(default_factory=dict)
    answers: dict[int, DuplicateMessage | Exception] = field(default_factory=dict)
    twice: dict[int, int] = field(default_factory=dict)  # where, and where the same one stood before


def classify_messages(messages: Mapping[int, PushMessage], last: Mapping[str, int]) -> MessageClassification:
    """Which messages are new, if the channel has those of each producer up to `last`?

    >>> sent = [PushMessage("c", "p", number, b"") for number in (4, 5, 5, 7)]
    >>> found = classify_messages(dict(enumerate(sent)), {"p": 4})
    >>> list(found.fresh), found.twice, found.answers[0]
    ([1], {2: 1}, DuplicateMessage(number=4))
    >>> print(found.answers[3])
    message 7 came, but 6 was expected; send all from there on, in their order
    """
    found = MessageClassification()
    first: dict[tuple[str, int], int] = {}
    reached = dict(last)
    for at, message in messages.items():
        this, expected = (message.producer, message.number), reached[message.producer] + 1
        if message.number == expected:
            found.fresh[at], first[this], reached[message.producer] = message, at, expected
        elif this in first:
            found.twice[at] = first[this]
        elif message.number < expected:
            found.answers[at] = DuplicateMessage(message.number)
        else:
            found.answers[at] = _build_gap_error(message.number, expected)
    return found


def _build_gap_error(number: int, expected: int) -> OutOfOrder:
    return OutOfOrder(f"message {number} came, but {expected} was expected; send all from there on, in their order")


def build_refusal_error(message: PushMessage) -> OutOfOrder:
    return OutOfOrder(f"message {message.number} was not taken: one before it was refused; send it after that one")


def join_messages(messages: Iterable[PushMessage]) -> bytes:
    return b"\n".join(message.data for message in messages)


def compute_advances(messages: Iterable[PushMessage]) -> tuple[ProducerAdvance, ...]:
    """How far producers come by messages that follow each other.

    >>> messages = [PushMessage("c", "p", 5, b""), PushMessage("c", "q", 1, b""), PushMessage("c", "p", 6, b"")]
    >>> [(a.producer, a.since, a.upto) for a in compute_advances(messages)]
    [('p', 4, 6), ('q', 0, 1)]
    """
    return merge_advances(ProducerAdvance(m.channel, m.producer, m.number - 1, m.number) for m in messages)


def merge_advances(moves: Iterable[ProducerAdvance]) -> tuple[ProducerAdvance, ...]:
    """One move for each producer."""
    found: dict[str, ProducerAdvance] = {}
    for move in moves:
        before = found.setdefault(move.producer, move)
        found[move.producer] = replace(before, upto=move.upto)
    return tuple(found.values())
