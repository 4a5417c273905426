"""Conversions between a base, a strong delta and a weak delta, on plain Python rows.

A strong delta consists of signed rows: `_count` says how often a row was added. A weak delta is a delta of the
channel's merge kind.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from tidemill.algebra import reference
from tidemill.algebra.reference import Row
from tidemill.model.change import COUNT, DELETED, PATCH, Append, Custom, Increment, Patch, Rows, Signed, Updates, Upsert

Encoding = Literal["base", "strong", "weak"]
Conversion = Callable[[Updates, Rows, Rows], Rows]
"""Parameters: the merge kind, the content before and the rows to convert."""


def convert_rows(rows: Rows, source: Encoding, to: Encoding, updates: Updates, base: Rows) -> Rows:
    """Rows in another encoding; `base` is the content that a delta changes, or that came before the one given.

    >>> convert_rows([{"k": 1, "v": 2, "_count": -1}], "strong", "weak", Upsert(("k",)), base=[])
    [{'k': 1, 'v': None, '_deleted': True}]
    """
    return rows if source == to else CONVERSIONS[source, to](updates, base, rows)


def _bases_to_strong(_: Updates, base: Rows, rows: Rows) -> Rows:
    return reference.diff_contents(Signed(), base, rows)


def _strong_to_base(_: Updates, base: Rows, rows: Rows) -> Rows:
    return reference.merge_rows(Signed(), base, rows)


def _weak_to_strong(updates: Updates, base: Rows, rows: Rows) -> Rows:
    match updates:
        case Append():
            return [r | {COUNT: 1} for r in rows]
        case Signed():
            return rows
        case Custom(expand=expand) if expand is not None:
            return reference.apply_per_key(updates.key, expand, base, rows)
        case _:
            return reference.diff_contents(Signed(), base, reference.merge_rows(updates, base, rows))


def _strong_to_weak(updates: Updates, base: Rows, rows: Rows) -> Rows:
    """The only conversion that needs no base, except for a custom kind without a `contract` function."""
    match updates:
        case Append():
            return reference.merge_rows(Signed(), [], rows)
        case Signed():
            return rows
        case Upsert():
            return _replace_by_key(updates.key, rows, reset=False)
        case Increment():
            return _replace_by_key(updates.key, rows, reset=True)
        case Patch():
            return [r | {PATCH: False} for r in _replace_by_key(updates.key, rows, reset=False)]
        case Custom(contract=contract) if contract is not None:
            return reference.apply_per_key(updates.key, lambda signed, _: contract(signed), rows, [])
        case Custom():
            return reference.diff_contents(updates, base, reference.merge_rows(Signed(), base, rows))


def _replace_by_key(key: Sequence[str], signed: Rows, *, reset: bool) -> Rows:
    """The added row of each key, or else its deletion. `reset`: an added row replaces the old values instead of adding
    to them.
    """

    def replace_key(rows: Rows, _: Rows) -> Rows:
        removed, inserted = ([_drop_count(r) for r in rows if (r[COUNT] > 0) is added] for added in (False, True))
        if inserted:
            return [r | {DELETED: reset and bool(removed)} for r in inserted]
        return [{c: v if c in key else None for c, v in r.items()} | {DELETED: True} for r in removed]

    return reference.apply_per_key(key, replace_key, signed, [])


def _drop_count(row: Row) -> Row:
    return {c: v for c, v in row.items() if c != COUNT}


CONVERSIONS: Mapping[tuple[Encoding, Encoding], Conversion] = {
    ("base", "strong"): _bases_to_strong,
    ("base", "weak"): reference.diff_contents,
    ("strong", "base"): _strong_to_base,
    ("strong", "weak"): _strong_to_weak,
    ("weak", "base"): reference.merge_rows,
    ("weak", "strong"): _weak_to_strong,
}
