"""Column types for values of the model.

Thousands of rows share a few immutable values: each text is parsed once, and its value shared.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator

from tidemill.model.change import Updates
from tidemill.model.codec import target_from_json, target_to_json, updates_from_json, updates_to_json
from tidemill.model.freshness_target import FreshnessTarget
from tidemill.model.provenance import Provenance
from tidemill.model.schema import Schema


class ProvenanceText(TypeDecorator[Provenance]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Provenance | None, dialect: Dialect) -> str | None:
        return None if value is None else _to_compact_json(value.to_json())

    def process_result_value(self, value: str | None, dialect: Dialect) -> Provenance | None:
        return None if value is None else _parse_provenance(value)


class UpdatesText(TypeDecorator[Updates]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Updates | None, dialect: Dialect) -> str | None:
        return None if value is None else _to_compact_json(updates_to_json(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Updates | None:
        return None if value is None else _parse_updates(value)


class FreshnessTargetText(TypeDecorator[FreshnessTarget]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: FreshnessTarget | None, dialect: Dialect) -> str | None:
        return None if value is None else _to_compact_json(target_to_json(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> FreshnessTarget | None:
        return None if value is None else _parse_freshness_target(value)


class SchemaText(TypeDecorator[Schema]):
    """A schema. One without columns is unknown, and stored as NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Schema | None, dialect: Dialect) -> str | None:
        return str(value) if value is not None and value.fields else None

    def process_result_value(self, value: str | None, dialect: Dialect) -> Schema | None:
        return None if value is None else _parse_schema(value)


def _to_compact_json(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


@lru_cache(maxsize=4096)
def _parse_provenance(text: str) -> Provenance:
    return Provenance.from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _parse_updates(text: str) -> Updates:
    return updates_from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _parse_freshness_target(text: str) -> FreshnessTarget:
    return target_from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _parse_schema(text: str) -> Schema:
    return Schema.from_ddl(text)
