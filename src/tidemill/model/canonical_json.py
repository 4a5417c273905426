"""Canonical JSON: equal values give equal JSON in every process, and different values give different JSON."""

import json
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any


class NotSerializable(TypeError):
    """A value whose content cannot be serialized, such as a connection or an open file."""


def to_canonical_json(value: Any) -> Any:
    """The canonical JSON of a value; raises `NotSerializable` for values that have no JSON form.

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
        items = ([to_canonical_json(key), to_canonical_json(member)] for key, member in value.items())
        return {"dict": sorted(items, key=_dump_json)}
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
        f"the content of a {_get_type_name(value)} cannot be serialized; pass numbers, strings, lists, dicts or dates"
    )


MAX_SMALL_SIZE = 100_000
"""The greatest number of values, plus characters of strings, that counts as small."""


def is_small(value: Any) -> bool:
    """Whether a value can be serialized at little cost. Visits at most `MAX_SMALL_SIZE` values.

    >>> is_small({"a": [1, 2]}), is_small(range(10)), is_small("x" * MAX_SMALL_SIZE), is_small([[0] * MAX_SMALL_SIZE])
    (True, True, False, False)
    """
    budget = MAX_SMALL_SIZE
    stack: list[Iterator[Any]] = [iter([value])]
    while stack and budget > 0:
        member = next(stack[-1], stack)
        if member is stack:
            stack.pop()
            continue
        budget -= 1 + (len(member) if isinstance(member, str | bytes | bytearray) else 0)
        stack.append(_iterate_members(member))
    return budget > 0


def _iterate_members(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | set | frozenset):
        return iter(value)
    if isinstance(value, dict):
        return (member for item in value.items() for member in item)
    if is_dataclass(value) and not isinstance(value, type):
        return (getattr(value, f.name) for f in fields(value))
    return iter(())


def list_types(value: Any) -> Iterator[type]:
    """The types of a serializable value and of all values inside it, in an order that is equal in every process."""
    yield type(value)
    if isinstance(value, dict | set | frozenset):
        unordered = value.items() if isinstance(value, dict) else value
        value = sorted(unordered, key=lambda member: _dump_json(to_canonical_json(member)))
    for member in _iterate_members(value):
        yield from list_types(member)


def _get_type_name(value: Any) -> str:
    return type(value).__qualname__


def _dump_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
