"""Reference semantics of merge, chain and diff on plain Python rows: slow and simple.

Spark's implementations are tested against these. A row is a dict; a block's rows are a list, read as a bag.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

from tidemill.model.change import (
    COUNT,
    DELETED,
    PATCH,
    RESERVED_COLUMNS,
    Append,
    Custom,
    Increment,
    Patch,
    Rows,
    Signed,
    Updates,
    Upsert,
)

Row = dict[str, Any]
Key = tuple[Hashable, ...]
Counts = dict[Hashable, int]
Amounts = tuple[bool, Row | None]
"""The content of an increment delta for one key: whether to discard the old row, and the amounts to add, if any."""


def merge_rows(updates: Updates, base: Rows, delta: Rows) -> Rows:
    """The content after applying `delta` to `base`."""
    match updates:
        case Append():
            return base + delta
        case Signed():
            return _expand_counts(_add_counts(_count_rows(base), _count_rows(delta)), base + delta)
        case Upsert():
            rows = _index_by_key(updates.key, base) | _index_by_key(updates.key, delta)
            return [_drop_reserved(r) for r in rows.values() if not r.get(DELETED)]
        case Increment():
            return _merge_increments(updates, base, delta)
        case Patch():
            patched = [r for row in base if (r := _apply_patches(updates, row, delta)) is not None]
            return merge_rows(Upsert(updates.key), patched, _select_upserts(delta))
        case Custom():
            return apply_per_key(updates.key, updates.merge, base, delta)


def chain_deltas(updates: Updates, first: Rows, second: Rows) -> Rows:
    """The single delta that has the effect of `first` followed by `second`."""
    match updates:
        case Append():
            return first + second
        case Signed():
            return _to_signed_rows(_add_counts(_count_rows(first), _count_rows(second)), first + second)
        case Upsert():
            return list((_index_by_key(updates.key, first) | _index_by_key(updates.key, second)).values())
        case Increment():
            return _chain_increments(updates, first, second)
        case Patch():
            return _chain_patches(updates, first, second)
        case Custom():
            return apply_per_key(updates.key, updates.chain, first, second)


def diff_contents(updates: Updates, before: Rows, after: Rows) -> Rows:
    """The delta that turns `before` into `after`."""
    match updates:
        case Append():
            return _expand_counts(_add_counts(_count_rows(after), _count_rows(before), -1), after)
        case Signed():
            return _to_signed_rows(_add_counts(_count_rows(after), _count_rows(before), -1), before + after)
        case Upsert() | Increment():
            return _diff_by_key(updates, before, after)
        case Patch():
            return [r | {PATCH: False} for r in _diff_by_key(Upsert(updates.key), before, after)]
        case Custom():
            return apply_per_key(updates.key, updates.diff, before, after)


def is_same_bag(left: Iterable[Row], right: Iterable[Row]) -> bool:
    return Counter(map(to_hashable, left)) == Counter(map(to_hashable, right))


def _count_rows(rows: Rows) -> Counts:
    counts: Counter[Hashable] = Counter()
    for row in rows:
        counts[to_hashable(_drop_reserved(row))] += row.get(COUNT, 1)
    return counts


def _add_counts(left: Counts, right: Counts, sign: int = 1) -> Counts:
    return {k: left.get(k, 0) + sign * right.get(k, 0) for k in dict.fromkeys([*left, *right])}


def _expand_counts(counts: Counts, rows: Rows) -> Rows:
    if any(n < 0 for n in counts.values()):
        raise ValueError("a row is removed more often than it was present")
    rows_by_identity = {to_hashable(_drop_reserved(r)): _drop_reserved(r) for r in rows}
    return [dict(rows_by_identity[k]) for k, n in counts.items() for _ in range(n)]


def _to_signed_rows(counts: Counts, rows: Rows) -> Rows:
    rows_by_identity = {to_hashable(_drop_reserved(r)): _drop_reserved(r) for r in rows}
    return [rows_by_identity[k] | {COUNT: n} for k, n in counts.items() if n]


def _merge_increments(updates: Increment, base: Rows, delta: Rows) -> Rows:
    content: dict[Key, Row | None] = dict(_index_by_key(updates.key, base))
    for key, (discard, amounts) in _parse_amounts(updates, delta).items():
        old = None if discard else content.get(key)
        content[key] = _add_amounts(updates, old, amounts)
    return [_drop_reserved(r) for r in content.values() if r is not None]


def _chain_increments(updates: Increment, first: Rows, second: Rows) -> Rows:
    chained = _parse_amounts(updates, first)
    for key, (discard, amounts) in _parse_amounts(updates, second).items():
        before = (True, None) if discard else chained.get(key, (False, None))
        chained[key] = (before[0], _add_amounts(updates, before[1], amounts))
    rows_by_key = _index_by_key(updates.key, first + second)
    return [_build_amount_row(updates, rows_by_key[k], discard, row) for k, (discard, row) in chained.items()]


def _parse_amounts(updates: Increment, delta: Rows) -> dict[Key, Amounts]:
    """By key: whether to discard the old row, and the amounts; None if the row only discards."""
    return {
        k: (bool(r.get(DELETED)), None if all(r[c] is None for c in updates.columns) else _drop_reserved(r))
        for k, r in _index_by_key(updates.key, delta).items()
    }


def _add_amounts(updates: Increment, old: Row | None, amounts: Row | None) -> Row | None:
    if old is None or amounts is None:
        return old if amounts is None else amounts
    return old | {c: old[c] + amounts[c] for c in updates.columns}


def _build_amount_row(updates: Increment, like: Row, discard: bool, amounts: Row | None) -> Row:
    keys = {k: like[k] for k in updates.key}
    return keys | {c: amounts[c] if amounts else None for c in updates.columns} | {DELETED: discard}


def _select_upserts(delta: Rows) -> Rows:
    return [{c: v for c, v in r.items() if c != PATCH} for r in delta if not r.get(PATCH)]


def _apply_patches(updates: Patch, row: Row, delta: Rows) -> Row | None:
    """The row after the delta's patches; None if one removed it."""
    for patch in delta:
        if patch.get(PATCH) and _extract_key(updates.by, patch) == _extract_key(updates.by, row):
            return None if patch.get(DELETED) else row | {c: patch[c] for c in updates.columns}
    return row


def _chain_patches(updates: Patch, first: Rows, second: Rows) -> Rows:
    """Later patches win, but removed rows stay removed; later patches also apply to earlier upserts."""
    patches = _index_by_key(updates.by, [r for r in first if r.get(PATCH)])
    for key, patch in _index_by_key(updates.by, [r for r in second if r.get(PATCH)]).items():
        if not patches.get(key, {}).get(DELETED):
            patches[key] = patch
    upserts = {
        k: _patch_upsert(updates, r, second) for k, r in _index_by_key(updates.key, _select_upserts(first)).items()
    }
    rows = upserts | _index_by_key(updates.key, _select_upserts(second))
    return [*patches.values(), *(r | {PATCH: False} for r in rows.values())]


def _patch_upsert(updates: Patch, row: Row, delta: Rows) -> Row:
    """An upserted row after later patches; if a patch removed it, a deletion of its key."""
    if row.get(DELETED):
        return row
    after = _apply_patches(updates, row, delta)
    return {c: v if c in updates.key else None for c, v in row.items()} | {DELETED: True} if after is None else after


def _diff_by_key(updates: Upsert | Increment, before: Rows, after: Rows) -> Rows:
    """A changed key is replaced, a missing one deleted. Replacing is exact for every type, even for floats."""
    old, new = _index_by_key(updates.key, before), _index_by_key(updates.key, after)
    replaces = isinstance(updates, Increment)
    changed = [
        r | {DELETED: replaces and k in old} for k, r in new.items() if to_hashable(r) != to_hashable(old.get(k))
    ]
    deletions = [
        {c: r[c] if c in updates.key else None for c in r} | {DELETED: True} for k, r in old.items() if k not in new
    ]
    return changed + deletions


def apply_per_key(key: Sequence[str], function: Callable[[Rows, Rows], Rows], first: Rows, second: Rows) -> Rows:
    """The results of the function for each key, called with that key's rows of both sides."""
    sides: dict[Key, tuple[Rows, Rows]] = {_extract_key(key, r): ([], []) for r in first + second}
    for i, rows in enumerate((first, second)):
        for row in rows:
            sides[_extract_key(key, row)][i].append(row)
    return [row for pair in sides.values() for row in function(*pair)]


def _index_by_key(key: Sequence[str], rows: Rows) -> dict[Key, Row]:
    return {_extract_key(key, r): r for r in rows}


def _extract_key(key: Sequence[str], row: Row) -> Key:
    return tuple(to_hashable(row[k]) for k in key)


def _drop_reserved(row: Row) -> Row:
    return {k: v for k, v in row.items() if k not in RESERVED_COLUMNS}


def to_hashable(value: Any) -> Hashable:
    """A hashable equivalent with Spark's equality of group keys: NaN equals itself, -0.0 equals 0.0."""
    match value:
        case dict():
            return tuple((k, to_hashable(v)) for k, v in sorted(value.items()))
        case list() | tuple():
            return tuple(to_hashable(v) for v in value)
        case bytearray():
            return bytes(value)
        case float():
            return "NaN" if value != value else value + 0.0
        case _:
            return value  # type: ignore[no-any-return]
