"""Changes of a schema: which of them leave rows readable that were written before.

A reader gives old rows the new columns as NULL, leaves out those that are no longer there, and widens numbers. It
does nothing else to them, so that every other change is refused while there are such rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidemill.model.schema import Field, Schema

_WIDENS = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"},
    "SMALLINT": {"INT", "BIGINT", "FLOAT", "DOUBLE"},
    "INT": {"BIGINT", "DOUBLE"},
    "FLOAT": {"DOUBLE"},
    "DATE": {"TIMESTAMP_NTZ"},
}


def can_widen(have: str, want: str) -> bool:
    """Does every value of the one type fit into the other without loss?

    >>> can_widen("INT", "BIGINT"), can_widen("BIGINT", "INT"), can_widen("INT", "INT")
    (True, False, False)
    """
    return want in _WIDENS.get(have, ())


def can_read(have: Schema, want: Schema, key: Collection[str] = ()) -> bool:
    """Can rows that were written with one schema be read with the other?"""
    return not any(find_unreadable_changes(have, want, key))


def find_unreadable_changes(have: Schema, want: Schema, key: Collection[str] = ()) -> Iterator[str]:
    """What would have to change in rows that were written with the schema `have`, and cannot.

    >>> list(find_unreadable_changes(Schema.from_ddl("a string, b int"), Schema.from_ddl("a int, b bigint, c date")))
    ['column a from STRING to INT']
    """
    if have == want:
        return
    old = {f.name: f for f in have}
    spelt = {f.name.lower(): f.name for f in have}
    for field in want:
        before = old.get(field.name)
        if before is not None:
            yield from _find_field_changes(before, field, "key column" if field.name in key else "column")
        elif field.name.lower() in spelt:
            yield f"the spelling of column {spelt[field.name.lower()]} to {field.name}"
        elif not field.nullable:
            yield f"column {field.name} to NOT NULL"


def _find_field_changes(before: Field, after: Field, what: str) -> Iterator[str]:
    if before.type != after.type and (what == "key column" or not can_widen(before.type, after.type)):
        yield f"{what} {after.name} from {before.type} to {after.type}"
    if before.nullable and not after.nullable:
        yield f"{what} {after.name} to NOT NULL"
