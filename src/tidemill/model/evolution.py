"""Schema evolution: which schema changes leave existing rows readable.

A reader fills new columns of old rows with NULL, drops removed columns, and widens numbers. It makes no other
conversion, so that every other change is rejected while such rows exist.
"""

from collections.abc import Collection, Iterator

from tidemill.model.schema import Field, Schema

_WIDENS = {
    "TINYINT": {"SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE"},
    "SMALLINT": {"INT", "BIGINT", "FLOAT", "DOUBLE"},
    "INT": {"BIGINT", "DOUBLE"},
    "FLOAT": {"DOUBLE"},
    "DATE": {"TIMESTAMP_NTZ"},
}


def can_widen(before: str, after: str) -> bool:
    """Whether every value of type `before` fits into type `after` without loss.

    >>> can_widen("INT", "BIGINT"), can_widen("BIGINT", "INT"), can_widen("INT", "INT")
    (True, False, False)
    """
    return after in _WIDENS.get(before, ())


def find_type_changes(before: Schema, after: Schema) -> list[str]:
    """The columns whose values a reader would have to convert.

    >>> find_type_changes(Schema.from_ddl("a string, b int"), Schema.from_ddl("a int not null, b bigint not null"))
    ['column a from STRING to INT']
    """
    types = {f.name: f.type for f in before}
    changed = [f for f in after if types.get(f.name, f.type) != f.type and not can_widen(types[f.name], f.type)]
    return [f"column {f.name} from {types[f.name]} to {f.type}" for f in changed]


def can_read(before: Schema, after: Schema, key: Collection[str] = ()) -> bool:
    """Whether rows written with schema `before` can be read with schema `after`."""
    return not any(find_unreadable_changes(before, after, key))


def find_unreadable_changes(old: Schema, after: Schema, key: Collection[str] = ()) -> Iterator[str]:
    """The changes from schema `before` to `after` that make existing rows unreadable.

    >>> list(find_unreadable_changes(Schema.from_ddl("a string, b int"), Schema.from_ddl("a int, b bigint, c date")))
    ['column a from STRING to INT']
    """
    if old == after:
        return
    old_fields = {f.name: f for f in old}
    old_spellings = {f.name.lower(): f.name for f in old}
    for field in after:
        before = old_fields.get(field.name)
        if before is not None:
            yield from _find_field_changes(before, field, "key column" if field.name in key else "column")
        elif field.name.lower() in old_spellings:
            yield f"the spelling of column {old_spellings[field.name.lower()]} to {field.name}"
        elif not field.nullable:
            yield f"column {field.name} to NOT NULL"


def _find_field_changes(before: Field, after: Field, noun: str) -> Iterator[str]:
    if before.type != after.type and (noun == "key column" or not can_widen(before.type, after.type)):
        yield f"{noun} {after.name} from {before.type} to {after.type}"
    if before.nullable and not after.nullable:
        yield f"{noun} {after.name} to NOT NULL"
