"""Contents of which a change touches little, each as a single statement.

A frame that is built step by step is analysed at each step: saying what to read would take half as long as reading a
million rows does. And nearly every row is told from all that the change touches by looking up one number, which is
quicker than looking up a text (docs/benchmarks.md); what has the same number is compared, in words that Spark does not
take for one more key to look up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemill.model.change import DELETED, PATCH, Patch
from tidemill.spark.types import quote_name

_KEY = "_tidemill_key"
_HASH = "_tidemill_hash"
_GONE = "_tidemill_gone"
_VALUE = "_tidemill_value"


def exclude_touched(content: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is none of the few."""
    return _run_statement(
        f"SELECT {_format_hint('k')} c.* {_format_anti_join(content, key, '{keys}')}", content=content, keys=keys
    )


def select_touched(content: DataFrame, keys: DataFrame, key: Sequence[str]) -> DataFrame:
    """The rows whose key is one of the few."""
    few = f"(SELECT {_format_keys(key)} FROM {{keys}}) k"
    text = (
        f"SELECT {_format_hint('k')} c.* FROM {{content}} c LEFT SEMI JOIN {few} ON {_format_match(content, key, 'k')}"
    )
    return _run_statement(text, content=content, keys=keys)


def merge_upserts(content: DataFrame, rows: DataFrame, last: DataFrame, key: Sequence[str]) -> DataFrame:
    """The content after upserts; `last` has of all their rows the last one of each key."""
    kept = (
        f"SELECT {_format_hint('k')} {_format_names(content.columns, 'c')} {_format_anti_join(content, key, '{rows}')}"
    )
    new = f"SELECT {_format_names(content.columns)} FROM {{last}} WHERE {_format_false(DELETED)}"
    return _run_statement(f"{kept} UNION ALL {new}", content=content, rows=rows, last=last)


def merge_patches(updates: Patch, content: DataFrame, rows: DataFrame) -> DataFrame:
    """The content after a change of patches and upserts, at most one for each value and each key."""
    upserts, patches = (
        f"(SELECT * FROM {{rows}} WHERE {_format_false(PATCH)})",
        f"(SELECT * FROM {{rows}} WHERE {_format_true(PATCH)})",
    )
    values = ", ".join(f"{_quote_name(c)} AS {_VALUE}{i}" for i, c in enumerate(updates.columns))
    few = f"(SELECT {_format_keys(updates.by)}, {values}, {_format_true(DELETED)} AS {_GONE} FROM {patches}) p"
    made = {c: f"IF(p.{_GONE} IS NULL, c.{_quote_name(c)}, p.{_VALUE}{i})" for i, c in enumerate(updates.columns)}
    shown = ", ".join(f"{made.get(n, f'c.{_quote_name(n)}')} AS {_quote_name(n)}" for n in content.columns)
    untouched = _format_anti_join(content, updates.key, upserts)
    kept = f"{untouched} LEFT JOIN {few} ON {_format_match(content, updates.by, 'p')}"
    new = f"SELECT {_format_names(content.columns)} FROM {upserts} WHERE {_format_false(DELETED)}"
    text = f"SELECT {_format_hint('k, p')} {shown} {kept} WHERE NOT coalesce(p.{_GONE}, false) UNION ALL {new}"
    return _run_statement(text, content=content, rows=rows)


def _run_statement(text: str, **frames: Any) -> DataFrame:
    spark: SparkSession = frames["content"].sparkSession
    return spark.sql(text, **frames)


def _format_anti_join(content: DataFrame, key: Sequence[str], rows: str) -> str:
    few = f"(SELECT {_format_keys(key)} FROM {rows}) k"
    return f"FROM {{content}} c LEFT ANTI JOIN {few} ON {_format_match(content, key, 'k')}"


def _format_keys(key: Sequence[str]) -> str:
    """Keys under names of their own, and the number of each."""
    own = ", ".join(f"{_quote_name(name)} AS {_KEY}{i}" for i, name in enumerate(key))
    return f"{own}, xxhash64({_format_names(key)}) AS {_HASH}"


def _format_match(content: DataFrame, key: Sequence[str], few: str) -> str:
    """The rows `c` of the content agree with the key of one of the few, NULL with NULL."""
    pairs = [(f"c.{_quote_name(name)}", f"{few}.{_KEY}{i}") for i, name in enumerate(key)]
    if not all(has_stable_hash(content.schema[name].dataType.simpleString()) for name in key):
        return " AND ".join(f"{mine} <=> {theirs}" for mine, theirs in pairs)
    same = (f"(({a} IS NULL AND {b} IS NULL) OR ({a} <= {b} AND {a} >= {b}))" for a, b in pairs)
    return f"xxhash64({_format_names(key, 'c')}) = {few}.{_HASH} AND {' AND '.join(same)}"


def has_stable_hash(spelled: str) -> bool:
    """Do equal values of this type have equal hashes? 0.0 and -0.0 are one key, and so are texts that collate."""
    return not any(word in spelled for word in ("float", "double", "collate"))


def _format_hint(few: str) -> str:
    return f"/*+ BROADCAST({few}) */"


def _format_true(mark: str) -> str:
    return f"coalesce({_quote_name(mark)}, false)"


def _format_false(mark: str) -> str:
    return f"NOT {_format_true(mark)}"


def _format_names(names: Sequence[str], of: str = "") -> str:
    return ", ".join(f"{of}.{_quote_name(n)}" if of else _quote_name(n) for n in names)


def _quote_name(name: str) -> str:
    """For a text in which frames are named in braces."""
    return quote_name(name).replace("{", "{{").replace("}", "}}")
