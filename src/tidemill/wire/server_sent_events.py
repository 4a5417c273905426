"""Parsing of server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One message of a stream; without data it only gives the current position."""

    id: int | None
    data: str | None


def parse_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The complete messages. An incomplete message at the end of a broken stream is dropped: it is sent again.

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
