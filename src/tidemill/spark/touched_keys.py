"""Merging a small change into a large content, each as a single SQL statement.

A frame that is built call by call is analysed at each call, which would take half as long as reading a million rows.
Nearly every row is distinguished from all touched keys by one hash lookup, which is quicker than a string lookup
(docs/benchmarks.md); rows with an equal hash are compared by conditions that Spark does not treat as another join key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.model.change import DELETED, PATCH, Patch
from tidemill.spark.types import quote_name

_KEY = "_tidemill_key"
_HASH = "_tidemill_hash"
_REMOVED = "_tidemill_gone"
_VALUE = "_tidemill_value"


def exclude_touched(content: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is not among the touched keys."""
    return _run_statement(
        f"SELECT {_format_hint('k')} c.* {_format_anti_join(content, key, '{keys}')}", content=content, keys=keys
    )


def select_touched(content: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is among the touched keys."""
    keyed = f"(SELECT {_format_keys(key)} FROM {{keys}}) k"
    text = (
        f"SELECT {_format_hint('k')} c.* FROM {{content}} c "
        f"LEFT SEMI JOIN {keyed} ON {_format_match(content, key, 'k')}"
    )
    return _run_statement(text, content=content, keys=keys)


def merge_upserts(content: DataFrame, rows: DataFrame, latest: DataFrame, key: Sequence[str]) -> DataFrame:
    """The content after upserts; `latest` has the last row of each key."""
    untouched = (
        f"SELECT {_format_hint('k')} {_format_names(content.columns, 'c')} {_format_anti_join(content, key, '{rows}')}"
    )
    new = f"SELECT {_format_names(content.columns)} FROM {{last}} WHERE {_format_false(DELETED)}"
    return _run_statement(f"{untouched} UNION ALL {new}", content=content, rows=rows, last=latest)


def merge_patches(updates: Patch, content: DataFrame, rows: DataFrame) -> DataFrame:
    """The content after patches and upserts, at most one for each value and each key."""
    upserts, patches = (
        f"(SELECT * FROM {{rows}} WHERE {_format_false(PATCH)})",
        f"(SELECT * FROM {{rows}} WHERE {_format_true(PATCH)})",
    )
    values = ", ".join(f"{_quote_name(c)} AS {_VALUE}{i}" for i, c in enumerate(updates.columns))
    patch_table = (
        f"(SELECT {_format_keys(updates.by)}, {values}, {_format_true(DELETED)} AS {_REMOVED} FROM {patches}) p"
    )
    patched = {c: f"IF(p.{_REMOVED} IS NULL, c.{_quote_name(c)}, p.{_VALUE}{i})" for i, c in enumerate(updates.columns)}
    select_list = ", ".join(f"{patched.get(n, f'c.{_quote_name(n)}')} AS {_quote_name(n)}" for n in content.columns)
    untouched = _format_anti_join(content, updates.key, upserts)
    joined = f"{untouched} LEFT JOIN {patch_table} ON {_format_match(content, updates.by, 'p')}"
    new = f"SELECT {_format_names(content.columns)} FROM {upserts} WHERE {_format_false(DELETED)}"
    text = (
        f"SELECT {_format_hint('k, p')} {select_list} {joined} WHERE NOT coalesce(p.{_REMOVED}, false) UNION ALL {new}"
    )
    return _run_statement(text, content=content, rows=rows)


def _run_statement(text: str, **frames: Any) -> DataFrame:
    spark: SparkSession = frames["content"].sparkSession
    return spark.sql(text, **frames)


def _format_anti_join(content: DataFrame, key: Sequence[str], rows: str) -> str:
    touched = f"(SELECT {_format_keys(key)} FROM {rows}) k"
    return f"FROM {{content}} c LEFT ANTI JOIN {touched} ON {_format_match(content, key, 'k')}"


def _format_keys(key: Sequence[str]) -> str:
    """The keys under aliases, and the hash of each."""
    aliased = ", ".join(f"{_quote_name(name)} AS {_KEY}{i}" for i, name in enumerate(key))
    return f"{aliased}, xxhash64({_format_names(key)}) AS {_HASH}"


def _format_match(content: DataFrame, key: Sequence[str], table: str) -> str:
    """The condition that a row `c` of the content matches a touched key, where NULL equals NULL."""
    pairs = [(f"c.{_quote_name(name)}", f"{table}.{_KEY}{i}") for i, name in enumerate(key)]
    if not all(has_stable_hash(content.schema[name].dataType.simpleString()) for name in key):
        return " AND ".join(f"{left} <=> {right}" for left, right in pairs)
    equalities = (f"(({a} IS NULL AND {b} IS NULL) OR ({a} <= {b} AND {a} >= {b}))" for a, b in pairs)
    return f"xxhash64({_format_names(key, 'c')}) = {table}.{_HASH} AND {' AND '.join(equalities)}"


def has_stable_hash(type_name: str) -> bool:
    """Whether equal values of this type have equal hashes. 0.0 and -0.0 are equal, as are strings under a collation."""
    return not any(word in type_name for word in ("float", "double", "collate"))


def _format_hint(tables: str) -> str:
    return f"/*+ BROADCAST({tables}) */"


def _format_true(mark: str) -> str:
    return f"coalesce({_quote_name(mark)}, false)"


def _format_false(mark: str) -> str:
    return f"NOT {_format_true(mark)}"


def _format_names(names: Sequence[str], table: str = "") -> str:
    return ", ".join(f"{table}.{_quote_name(n)}" if table else _quote_name(n) for n in names)


def _quote_name(name: str) -> str:
    """Quote a name in a text where frames are named in braces."""
    return quote_name(name).replace("{", "{{").replace("}", "}}")
