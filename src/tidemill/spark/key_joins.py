"""Joins of many rows with few keys.

Nearly every row is distinguished from all keys by one hash lookup, which is quicker than a string lookup
(docs/benchmarks.md); rows with an equal hash are compared by conditions that Spark does not treat as another join key.
Each join is a single statement: a frame that is built call by call is analysed at each call.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame

from tidemill.algebra.expression import quote_name

Pairs = Sequence[tuple[str, str]]
"""Columns of the rows, each with the key column that it must equal; NULL equals NULL."""

_KEY = "_tidemill_key"
_HASH = "_tidemill_hash"

_FIXED = {"tinyint", "smallint", "int", "bigint", "date", "timestamp", "timestamp_ntz"}
"""Types of a fixed width, whose values are mostly distinct."""


def select_matching(rows: DataFrame, keys: DataFrame, on: Pairs) -> DataFrame:
    """The rows that match one of the keys; parts of a fixed width are checked first: hashing strings is costly."""
    if not _has_comparable_hashes(rows, keys, on):
        return _join_keys(rows, keys, on, "LEFT SEMI", _format_equality(on))
    fixed = [(c, k) for c, k in on if _format_type(rows, c) in _FIXED]
    for pairs in [fixed, on] if 0 < len(fixed) < len(on) else [on]:
        rows = _join_keys(rows, keys, pairs, "LEFT SEMI", _format_hash_equality(pairs))
    return _join_keys(rows, keys, on, "LEFT SEMI", _format_equality(on))


def exclude_matching(rows: DataFrame, keys: DataFrame, on: Pairs) -> DataFrame:
    """The rows that match none of the keys, which are so few that every executor gets them all."""
    if _has_comparable_hashes(rows, keys, on):
        sides = zip(*_list_sides(on), strict=True)
        equal = [f"(({a} IS NULL AND {b} IS NULL) OR ({a} <= {b} AND {a} >= {b}))" for a, b in sides]
        condition = " AND ".join([_format_hash_equality(on), *equal])
    else:
        condition = _format_equality(on)
    return _join_keys(rows, keys, on, "LEFT ANTI", condition, hint="/*+ BROADCAST(k) */ ")


def _join_keys(rows: DataFrame, keys: DataFrame, on: Pairs, kind: str, condition: str, hint: str = "") -> DataFrame:
    aliased = ", ".join(f"{_quote_name(key)} AS {_KEY}{i}" for i, (_, key) in enumerate(on))
    hashed = f"xxhash64({', '.join(_quote_name(key) for _, key in on)}) AS {_HASH}"
    text = f"SELECT {hint}c.* FROM {{rows}} c {kind} JOIN (SELECT {aliased}, {hashed} FROM {{keys}}) k ON {condition}"
    return rows.sparkSession.sql(text, rows=rows, keys=keys)


def _has_comparable_hashes(rows: DataFrame, keys: DataFrame, on: Pairs) -> bool:
    """Whether equal keys have equal hashes: 0.0 and -0.0 are equal, as are strings under a collation."""
    types = [(_format_type(rows, c), _format_type(keys, k)) for c, k in on]
    return all(a == b and not any(w in a for w in ("float", "double", "collate")) for a, b in types)


def _format_type(rows: DataFrame, name: str) -> str:
    return rows.schema[name].dataType.simpleString()


def _format_equality(on: Pairs) -> str:
    return " AND ".join(f"{left} <=> {right}" for left, right in zip(*_list_sides(on), strict=True))


def _format_hash_equality(on: Pairs) -> str:
    return f"xxhash64({', '.join(_list_sides(on)[0])}) = k.{_HASH}"


def _list_sides(on: Pairs) -> tuple[list[str], list[str]]:
    return [f"c.{_quote_name(name)}" for name, _ in on], [f"k.{_KEY}{i}" for i in range(len(on))]


def _quote_name(name: str) -> str:
    """Quote a name in a text where frames are named in braces."""
    return quote_name(name).replace("{", "{{").replace("}", "}}")
