"""Values as JSON that says exactly what they are: equal values give equal JSON, in every process."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any


class NotPlain(TypeError):
    """A value whose content cannot be seen, such as a connection or an open file."""


def plain(value: Any) -> Any:
    """JSON that differs wherever values do; raises `NotPlain` for what cannot be written down.

    >>> plain({"b": (1, 2.0), "a": {"y", "x"}})
    {'dict': [['a', {'set': ['x', 'y']}], ['b', [1, 2.0]]]}
    >>> plain(1) == plain("1") or plain({1: 2}) == plain({"1": 2})
    False
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {"dict": sorted(([plain(k), plain(v)] for k, v in value.items()), key=_text)}
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(plain, value), key=_text)}
    return {_type_name(value): _inside(value)}


def _inside(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, datetime | date | time | timedelta | Decimal | PurePath):
        return str(value)
    if isinstance(value, re.Pattern):
        return [plain(value.pattern), value.flags]
    if is_dataclass(value) and not isinstance(value, type):
        return [[f.name, plain(getattr(value, f.name))] for f in fields(value)]
    raise NotPlain(f"what a {_type_name(value)} holds cannot be told; pass numbers, strings, lists, dicts or dates")


MOST = 100_000
"""Values, and characters of texts, up to which something is small."""


def is_small(value: Any) -> bool:
    """Can a value be written down at little cost? No more of it than that is looked at.

    >>> is_small({"a": [1, 2]}), is_small(range(10)), is_small("x" * MOST), is_small([[0] * MOST])
    (True, True, False, False)
    """
    left = MOST
    waiting: list[Iterator[Any]] = [iter([value])]
    while waiting and left > 0:
        one = next(waiting[-1], waiting)
        if one is waiting:
            waiting.pop()
            continue
        left -= 1 + (len(one) if isinstance(one, str | bytes | bytearray) else 0)
        waiting.append(_held(one))
    return left > 0


def _held(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return iter(value)
    if isinstance(value, dict):
        return (part for pair in value.items() for part in pair)
    if is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, f.name) for f in fields(value))
    return iter(())


def types_in(value: Any) -> Iterator[type]:
    """The types of a plain value and of all that it holds."""
    yield type(value)
    held: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        held = value
    elif isinstance(value, set | frozenset):
        held = sorted(value, key=lambda v: _text(plain(v)))
    elif isinstance(value, dict):
        held = [part for pair in sorted(value.items(), key=lambda p: _text(plain(p))) for part in pair]
    elif is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, f.name) for f in fields(value)]
    for part in held:
        yield from types_in(part)


def _type_name(value: Any) -> str:
    return type(value).__qualname__


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
