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


class NotSerializable(TypeError):
    """A value whose content cannot be seen, such as a connection or an open file."""


def to_canonical_json(value: Any) -> Any:
    """JSON that differs wherever values do; raises `NotPlain` for what cannot be written down.

    >>> to_canonical_json({"b": (1, 2.0), "a": {"y", "x"}})
    {'dict': [['a', {'set': ['x', 'y']}], ['b', [1, 2.0]]]}
    >>> to_canonical_json(1) == to_canonical_json("1") or to_canonical_json({1: 2}) == to_canonical_json({"1": 2})
    False
    """
    if value is None or (isinstance(value, bool | int | float | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, list | tuple):
        return [to_canonical_json(v) for v in value]
    if isinstance(value, dict):
        return {
            "dict": sorted(([to_canonical_json(k), to_canonical_json(v)] for k, v in value.items()), key=_dump_json)
        }
    if isinstance(value, set | frozenset):
        return {"set": sorted(map(to_canonical_json, value), key=_dump_json)}
    return {_get_type_name(value): _to_json_content(value)}


def _to_json_content(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, datetime | date | time | timedelta | Decimal | PurePath):
        return str(value)
    if isinstance(value, re.Pattern):
        return [to_canonical_json(value.pattern), value.flags]
    if is_dataclass(value) and not isinstance(value, type):
        return [[f.name, to_canonical_json(getattr(value, f.name))] for f in fields(value)]
    raise NotSerializable(
        f"what a {_get_type_name(value)} holds cannot be told; pass numbers, strings, lists, dicts or dates"
    )


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
        waiting.append(_iterate_members(one))
    return left > 0


def _iterate_members(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return iter(value)
    if isinstance(value, dict):
        return (part for pair in value.items() for part in pair)
    if is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, f.name) for f in fields(value))
    return iter(())


def list_types(value: Any) -> Iterator[type]:
    """The types of a plain value and of all that it holds."""
    yield type(value)
    held: Iterable[Any] = ()
    if isinstance(value, list | tuple):
        held = value
    elif isinstance(value, set | frozenset):
        held = sorted(value, key=lambda v: _dump_json(to_canonical_json(v)))
    elif isinstance(value, dict):
        held = [part for pair in sorted(value.items(), key=lambda p: _dump_json(to_canonical_json(p))) for part in pair]
    elif is_dataclass(value) and not isinstance(value, type):
        held = [getattr(value, f.name) for f in fields(value)]
    for part in held:
        yield from list_types(part)


def _get_type_name(value: Any) -> str:
    return type(value).__qualname__


def _dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
