"""Server-sent events, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One message of a stream; without data it only says how far the stream has come."""

    id: int | None
    data: str | None


def parse_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The messages that are whole. What a broken stream ends in is dropped: it will come again.

    >>> list(parse_events(["id: 7", "event: run.finished", "data: {}", "", ": ping", "", "id: 8", "data: {"]))
    [ServerSentEvent(id=7, data='{}')]
    """
    number: int | None = None
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        match name:
            case "id":
                number = int(value)
            case "data":
                data.append(value.removeprefix(" "))
            case "" if not line and (number is not None or data):
                yield ServerSentEvent(number, "\n".join(data) if data else None)
                number, data = None, []
