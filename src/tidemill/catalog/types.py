"""Column types for values of the model.

Thousands of rows share a few immutable values: each text is parsed once, and its value shared.
"""

import json
from collections.abc import Callable
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator

from tidemill.model.codec import target_from_json, target_to_json, updates_from_json, updates_to_json
from tidemill.model.provenance import Provenance
from tidemill.model.schema import Schema


class ValueText(TypeDecorator[Any]):
    """A value as text: `to_text` formats it, and `from_text`, which must be a pure function, parses it."""

    impl = Text
    cache_ok = True  # both functions have the names of the arguments, so that they are part of the cache's key

    def __init__(self, to_text: Callable[[Any], str | None], from_text: Callable[[str], Any]) -> None:
        super().__init__()
        self.to_text = to_text
        self.from_text = from_text

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        return None if value is None else self.to_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Any:
        return None if value is None else self.from_text(value)


def _build_json_type(to_json: Callable[[Any], Any], from_json: Callable[[Any], Any]) -> ValueText:
    return ValueText(
        lambda value: json.dumps(to_json(value), separators=(",", ":")),
        lru_cache(maxsize=4096)(lambda text: from_json(json.loads(text))),
    )


def build_enum_type(kind: type[StrEnum]) -> ValueText:
    return ValueText(str, kind)


PROVENANCE = _build_json_type(Provenance.to_json, Provenance.from_json)
UPDATES = _build_json_type(updates_to_json, updates_from_json)
FRESHNESS_TARGET = _build_json_type(target_to_json, target_from_json)
SCHEMA = ValueText(lambda schema: str(schema) if schema.fields else None, lru_cache(maxsize=1024)(Schema.from_ddl))
