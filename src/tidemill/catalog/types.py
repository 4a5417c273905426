"""Columns that hold values of the model.

Thousands of rows share a few values, which never change: each text is read once, and its value shared.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from sqlalchemy import Dialect, Text, TypeDecorator

from tidemill.model.change import Updates
from tidemill.model.codec import promise_from_json, promise_to_json, updates_from_json, updates_to_json
from tidemill.model.freshness_target import Promise
from tidemill.model.provenance import Provenance
from tidemill.model.schema import Schema


class ProvenanceText(TypeDecorator[Provenance]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Provenance | None, dialect: Dialect) -> str | None:
        return None if value is None else _compact(value.to_json())

    def process_result_value(self, value: str | None, dialect: Dialect) -> Provenance | None:
        return None if value is None else _provenance(value)


class UpdatesText(TypeDecorator[Updates]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Updates | None, dialect: Dialect) -> str | None:
        return None if value is None else _compact(updates_to_json(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Updates | None:
        return None if value is None else _updates(value)


class PromiseText(TypeDecorator[Promise]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Promise | None, dialect: Dialect) -> str | None:
        return None if value is None else _compact(promise_to_json(value))

    def process_result_value(self, value: str | None, dialect: Dialect) -> Promise | None:
        return None if value is None else _promise(value)


class SchemaText(TypeDecorator[Schema]):
    """A schema without columns is one that is not known yet, and stored as NULL."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Schema | None, dialect: Dialect) -> str | None:
        return str(value) if value is not None and value.fields else None

    def process_result_value(self, value: str | None, dialect: Dialect) -> Schema | None:
        return None if value is None else _schema(value)


def _compact(data: Any) -> str:
    return json.dumps(data, separators=(",", ":"))


@lru_cache(maxsize=4096)
def _provenance(text: str) -> Provenance:
    return Provenance.from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _updates(text: str) -> Updates:
    return updates_from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _promise(text: str) -> Promise:
    return promise_from_json(json.loads(text))


@lru_cache(maxsize=1024)
def _schema(text: str) -> Schema:
    return Schema.parse(text)
