"""Messages that producers push, and their sequence numbers.

A producer numbers its messages 1, 2, 3, …, separately on each channel. A number that the channel already has is a
duplicate; a gap shows that a message was lost. Only the next number is new.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tidemill.errors import BadInput
from tidemill.model.run import ProducerAdvance


class OutOfOrder(BadInput):
    """A producer's message arrived before its predecessor; nothing was inserted."""


@dataclass(frozen=True, slots=True)
class PushMessage:
    """One message of a producer: events as JSON lines; no data, to skip its number."""

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
    """Messages by position: new ones, answers to all others, and repetitions within the request."""

    new: dict[int, PushMessage] = field(default_factory=dict)
    answers: dict[int, DuplicateMessage | Exception] = field(default_factory=dict)
    duplicates: dict[int, int] = field(default_factory=dict)  # position of a repetition, and of its first occurrence


def classify_messages(messages: Mapping[int, PushMessage], last: Mapping[str, int]) -> MessageClassification:
    """Classify messages, given the last sequence number of each producer that the channel has.

    >>> sent = [PushMessage("c", "p", number, b"") for number in (4, 5, 5, 7)]
    >>> classified = classify_messages(dict(enumerate(sent)), {"p": 4})
    >>> list(classified.new), classified.duplicates, classified.answers[0]
    ([1], {2: 1}, DuplicateMessage(number=4))
    >>> print(classified.answers[3])
    message 7 arrived, but 6 was expected; resend all messages from there, in order
    """
    classification = MessageClassification()
    positions: dict[tuple[str, int], int] = {}
    last_numbers = dict(last)
    for position, message in messages.items():
        identity, expected = (message.producer, message.number), last_numbers[message.producer] + 1
        if message.number == expected:
            classification.new[position] = message
            positions[identity], last_numbers[message.producer] = position, expected
        elif identity in positions:
            classification.duplicates[position] = positions[identity]
        elif message.number < expected:
            classification.answers[position] = DuplicateMessage(message.number)
        else:
            problem = f"message {message.number} arrived, but {expected} was expected"
            classification.answers[position] = OutOfOrder(f"{problem}; resend all messages from there, in order")
    return classification


def compute_advances(messages: Iterable[PushMessage]) -> tuple[ProducerAdvance, ...]:
    """Compute how far consecutive messages advance their producers.

    >>> messages = [PushMessage("c", "p", 5, b""), PushMessage("c", "q", 1, b""), PushMessage("c", "p", 6, b"")]
    >>> [(a.producer, a.since, a.upto) for a in compute_advances(messages)]
    [('p', 4, 6), ('q', 0, 1)]
    """
    return merge_advances(ProducerAdvance(m.channel, m.producer, m.number - 1, m.number) for m in messages)


def merge_advances(advances: Iterable[ProducerAdvance]) -> tuple[ProducerAdvance, ...]:
    """Merge the advances into one for each producer."""
    merged: dict[str, ProducerAdvance] = {}
    for advance in advances:
        first = merged.setdefault(advance.producer, advance)
        merged[advance.producer] = replace(first, upto=advance.upto)
    return tuple(merged.values())
