"""Merge, chain and diff of the merge kinds as operators: the definition that Spark and the driver execute.

Every kind is a reduction by key over rows tagged with the order of their blocks, the base first. Append needs no
reduction, and upserts replace the rows that they touch; for signed rows the key is the full row. If the change is
small, only the base rows whose keys it touches are reduced, and the rest of the base passes through.
`algebra.reference` has the same semantics on plain rows.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, quote_text, to_expression
from tidemill.algebra.operators import (
    ORDER,
    AggregateCall,
    Aggregation,
    CustomMerge,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Union,
    WindowFunction,
    add_columns,
    pair_columns,
    repeat_rows,
    select_columns,
    select_distinct,
)
from tidemill.algebra.restrict import Pairs, exclude_rows, restrict_rows
from tidemill.algebra.states import cancel_signed_rows
from tidemill.model.change import (
    COUNT,
    DELETED,
    PATCH,
    Append,
    Custom,
    Increment,
    Patch,
    Signed,
    Updates,
    Upsert,
)
from tidemill.model.schema import Schema

_NUMBER = "_tidemill_n"
_ROW = "_tidemill_row"
_REMOVED = "_tidemill_gone"
_OLD, _NEW = "_tidemill_old", "_tidemill_new"
_PARTNER = "_tidemill_by"

_ROWS_REMOVED = (
    "rows that were read before were removed from append channel {}, but a task that reads only new rows cannot "
    "process deletions; recompute its outputs from scratch: tidemill run FLOW --variant batch"
)
_NO_SUCH_ROW = "a signed delta deletes a row that is not there"

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deltas:
    """The rows of consecutive deltas of one merge kind, with the number of their delta, from 1, in `ORDER`."""

    rows: Operator
    updates: Updates
    content_schema: Schema
    count: int

    @property
    def schema(self) -> Schema:
        """The columns of a delta, without the order."""
        return self.updates.build_delta_schema(self.content_schema)

    @property
    def plain_rows(self) -> Operator:
        return select_columns(self.rows, self.schema.names)


def merge_deltas(content: Operator, deltas: Deltas, *, is_small: bool) -> Operator:
    """The content after the deltas; `is_small` if most of its rows are untouched and should not be grouped."""
    updates, names = deltas.updates, content.columns
    match updates:
        case Append():
            return Union((content, deltas.plain_rows))
        case Upsert(key):
            untouched = exclude_rows(content, select_columns(deltas.rows, key), pair_columns(key))
            return Union((untouched, drop_deletions(_pick_latest(deltas), names)))
        case Patch():
            return _merge_patches(content, deltas, updates)
    if not is_small:
        return _reduce_content(content, deltas)
    key = updates.key or names
    touched, pairs = select_distinct(deltas.rows, key), pair_columns(key)
    reduced = _reduce_content(restrict_rows(content, touched, pairs), deltas)
    return Union((exclude_rows(content, touched, pairs), reduced))


def chain_deltas(deltas: Deltas) -> Operator:
    """The single delta that has the effect of all deltas."""
    if deltas.count == 1:
        return deltas.plain_rows
    match deltas.updates:
        case Append():
            return deltas.plain_rows
        case Signed():
            return cancel_signed_rows(deltas.plain_rows)
        case Upsert():
            return _pick_latest(deltas)
        case Increment() as updates:
            return _sum_increments(deltas.rows, updates, deltas.schema)
        case Patch() as updates:
            return _chain_patches(deltas, updates)
        case Custom() as updates:
            return CustomMerge(None, deltas.rows, updates, "chain", deltas.schema)


def diff_contents(updates: Updates, before: Operator, after: Operator, schema: Schema, channel: str) -> Operator:
    """The delta that turns `before` into `after`, which are contents of the channel."""
    match updates:
        case Append():
            message = _ROWS_REMOVED.format(channel)
            return _repeat_counted(cancel_signed_rows(sign_contents(before, after)), after.columns, message)
        case Signed():
            return cancel_signed_rows(sign_contents(before, after))
        case Upsert() | Increment():
            return _diff_by_key(updates, before, after)
        case Patch(key):
            replaced = _diff_by_key(Upsert(key), before, after)
            return add_columns(replaced, NamedExpression(PATCH, build_literal("FALSE")))
        case Custom():
            sides = Union((number_rows(before, 1), number_rows(after, 2)))
            return CustomMerge(sides, None, updates, "diff", updates.build_delta_schema(schema))


def sign_contents(before: Operator, after: Operator) -> Operator:
    """The rows of `after` counted once each, and those of `before` counted -1."""
    return Union((count_rows(after, 1), count_rows(before, -1)))


def sign_patch_rows(updates: Patch, before: Operator, delta: Operator) -> Operator:
    """The signed rows of a patch delta, from the content before."""
    rows, names = number_rows(delta, 0), before.columns
    upserts = Filter(rows, _is_false(PATCH))
    keys = select_distinct(upserts, updates.key)
    patches = _collapse_patches(updates, rows)
    replaced = restrict_rows(before, keys, pair_columns(updates.key))
    matching = restrict_rows(before, select_columns(patches, updates.by), pair_columns(updates.by))
    patched = exclude_rows(matching, keys, pair_columns(updates.key))
    after = Union((drop_deletions(upserts, names), _apply_patches(updates, patched, patches)))
    return sign_contents(Union((replaced, patched)), after)


def count_rows(rows: Operator, times: int) -> Operator:
    return add_columns(rows, NamedExpression(COUNT, build_literal(f"{times}L")))


def number_rows(rows: Operator, number: int) -> Operator:
    return add_columns(rows, NamedExpression(ORDER, build_literal(str(number))))


def drop_deletions(rows: Operator, names: Names) -> Operator:
    """The rows that are not deletions, in these columns."""
    return select_columns(Filter(rows, _is_false(DELETED)), names)


def pick_latest_rows(rows: Operator, key: Names, order: str) -> Operator:
    """The last row of each key by the order column, which is dropped."""
    names = tuple(c for c in rows.columns if c != order)
    values = tuple(c for c in names if c not in key)
    latest = AggregateCall(_ROW, "max_by", (_build_struct(values), build_column(order)))
    return Projection(Aggregation(rows, key, (latest,)), tuple(_select_field(_ROW, n, values) for n in names))


def _pick_latest(deltas: Deltas) -> Operator:
    """The last row of each key."""
    return deltas.plain_rows if deltas.count == 1 else pick_latest_rows(deltas.rows, deltas.updates.key, ORDER)


def _reduce_content(content: Operator, deltas: Deltas) -> Operator:
    """The rows of the content and of the deltas, reduced to one content."""
    names = content.columns
    match deltas.updates:
        case Signed():
            counted = Union((count_rows(content, 1), deltas.plain_rows))
            return _repeat_counted(cancel_signed_rows(counted), names, _NO_SUCH_ROW)
        case Increment() as updates:
            marked = add_columns(content, NamedExpression(DELETED, build_literal("CAST(NULL AS BOOLEAN)")))
            summed = _sum_increments(Union((number_rows(marked, 0), deltas.rows)), updates, deltas.schema)
            exists = to_expression(f"{quote_name(updates.columns[0])} IS NOT NULL")
            return select_columns(Filter(summed, exists), names)
        case Custom() as updates:
            return CustomMerge(number_rows(content, 0), deltas.rows, updates, "merge", deltas.content_schema)
    raise AssertionError(f"{deltas.updates.name} channels need no reduction")


def _repeat_counted(rows: Operator, names: Names, message: str) -> Operator:
    """Each row repeated by its count; a negative count is an error, raised when the rows are read."""
    failure = f"CAST(RAISE_ERROR({quote_text(message)}) AS BOOLEAN)"
    checked = Filter(rows, to_expression(f"IF({COUNT} < 0, {failure}, TRUE)"))
    return select_columns(repeat_rows(checked, COUNT, _NUMBER), names)


def _sum_increments(rows: Operator, updates: Increment, schema: Schema) -> Operator:
    """For each key, whether it was reset, and the sum of its rows from the last reset on."""
    partition = ", ".join(map(quote_name, updates.key))
    reset = f"MAX(CASE WHEN {DELETED} THEN {ORDER} END) OVER (PARTITION BY {partition})"
    marked = WindowFunction(rows, updates.key, (NamedExpression(_NUMBER, to_expression(reset)),))
    relevant = Filter(marked, to_expression(f"COALESCE({ORDER} >= {_NUMBER}, TRUE)"))
    sums = (AggregateCall(c, "sum", (build_column(c),), cast=schema.get_field(c).type) for c in updates.columns)
    summed = Aggregation(relevant, updates.key, (*sums, AggregateCall(_NUMBER, "max", (build_column(_NUMBER),))))
    was_reset = NamedExpression(DELETED, to_expression(f"{_NUMBER} IS NOT NULL"))
    names = [n for n in rows.columns if n != ORDER]
    return Projection(summed, tuple(was_reset if n == DELETED else _select(n) for n in names))


def _diff_by_key(updates: Upsert | Increment, before: Operator, after: Operator) -> Operator:
    """A changed key is replaced, a missing one deleted. Replacing is exact for every type, even for floats."""
    key, names = updates.key, after.columns
    row = NamedExpression(_ROW, _build_struct(names))
    sides = Union(
        tuple(number_rows(Projection(rows, (*map(_select, key), row)), i) for i, rows in enumerate((before, after)))
    )
    rows_of_side = (to_expression(f"IF({ORDER} = {i}, {_ROW}, NULL)") for i in range(2))
    calls = (
        AggregateCall(name, "any_value", (side, build_literal("TRUE")))
        for name, side in zip((_OLD, _NEW), rows_of_side, strict=True)
    )
    changed = Filter(Aggregation(sides, key, tuple(calls)), to_expression(f"NOT ({_OLD} <=> {_NEW})"))
    deletion = f"{_OLD} IS NOT NULL" if isinstance(updates, Increment) else f"{_NEW} IS NULL"
    values = tuple(_select_field(_NEW, n, tuple(c for c in names if c not in key)) for n in names)
    return Projection(changed, (*values, NamedExpression(DELETED, to_expression(deletion))))


# -- patches -----------------------------------------------------------------------------------------------------


def _merge_patches(content: Operator, deltas: Deltas, updates: Patch) -> Operator:
    """The content after patches and upserts: two joins with the base, which is not grouped."""
    upserts = Filter(deltas.rows, _is_false(PATCH)) if deltas.count == 1 else _patch_upserts(deltas, updates)
    untouched = exclude_rows(content, select_columns(upserts, updates.key), pair_columns(updates.key))
    patched = _apply_patches(updates, untouched, _collapse_patches(updates, deltas.rows))
    return Union((patched, drop_deletions(upserts, content.columns)))


def _chain_patches(deltas: Deltas, updates: Patch) -> Operator:
    columns = {c: _build_field(_ROW, c) for c in updates.columns} | {b: build_column(b) for b in updates.by}
    columns |= {DELETED: build_column(_REMOVED), PATCH: build_literal("TRUE")}
    nulls = {f.name: build_literal(f"CAST(NULL AS {f.type})") for f in deltas.schema}
    patches = Projection(
        _collapse_patches(updates, deltas.rows),
        tuple(NamedExpression(n, columns.get(n, nulls[n])) for n in deltas.schema.names),
    )
    return Union((patches, _patch_upserts(deltas, updates)))


def _collapse_patches(updates: Patch, rows: Operator) -> Operator:
    """The combined patches of several deltas: the last values of each, or a removal if there was one."""
    calls = (
        AggregateCall(_ROW, "max_by", (_build_struct(updates.columns), build_column(ORDER))),
        AggregateCall(_REMOVED, "max", (_is_true(DELETED),)),
    )
    combined = Aggregation(Filter(rows, _is_true(PATCH)), updates.by, calls)
    values = NamedExpression(_ROW, to_expression(f"IF({_REMOVED}, NULL, {_ROW})"))
    return Projection(combined, (*map(_select, updates.by), values, _select(_REMOVED)))


def _apply_patches(updates: Patch, rows: Operator, patches: Operator) -> Operator:
    """The rows with the patches' values, without those that a patch removed."""
    joined = _join_partner(rows, patches, updates.by)
    kept = Filter(joined, _is_false(_REMOVED))
    patched = {
        c: to_expression(f"IF({_REMOVED} IS NULL, {quote_name(c)}, {_build_field(_ROW, c)})") for c in updates.columns
    }
    return Projection(kept, tuple(NamedExpression(n, patched.get(n, build_column(n))) for n in rows.columns))


def _patch_upserts(deltas: Deltas, updates: Patch) -> Operator:
    """The newest upsert of each key, with later patches applied."""
    rows, names = deltas.rows, deltas.schema.names
    upserts = add_columns(Filter(rows, _is_false(PATCH)), NamedExpression(_NUMBER, build_column(ORDER)))
    latest = pick_latest_rows(upserts, updates.key, ORDER)
    patches = Projection(
        Filter(rows, _is_true(PATCH)),
        (
            *_rename_partners(updates.by),
            NamedExpression(_ROW, _build_struct(updates.columns)),
            NamedExpression(_REMOVED, _is_true(DELETED)),
            _select(ORDER),
        ),
    )
    is_later = to_expression(f"{ORDER} > {_NUMBER}")
    later = Join(latest, patches, JoinKind.INNER, _pair_partners(updates.by), is_later, null_safe=True)
    calls = (
        AggregateCall(_ROW, "max_by", (build_column(_ROW), build_column(ORDER))),
        AggregateCall(_REMOVED, "max", (build_column(_REMOVED),)),
    )
    joined = _join_partner(latest, Aggregation(later, updates.key, calls), updates.key)
    removed, deleted = f"COALESCE({_REMOVED}, FALSE)", f"COALESCE({DELETED}, FALSE)"
    values: dict[str, str] = {}
    for name in names:
        if name not in updates.key:
            values[name] = f"IF({removed} AND NOT {deleted}, NULL, {quote_name(name)})"
        if name in updates.columns:
            is_patched = f"NOT COALESCE({_REMOVED}, TRUE) AND NOT {deleted}"
            values[name] = f"IF({is_patched}, {_build_field(_ROW, name)}, {values[name]})"
    values |= {DELETED: f"{deleted} OR {removed}", PATCH: PATCH}
    return Projection(
        joined,
        tuple(NamedExpression(n, to_expression(values[n])) if n in values else _select(n) for n in names),
    )


def _join_partner(rows: Operator, partners: Operator, key: Names) -> Operator:
    """The rows, each with the columns of the partner that has the same key, if any; NULL is a key like any other."""
    others = (_select(c) for c in partners.columns if c not in key)
    renamed = Projection(partners, (*_rename_partners(key), *others))
    return Join(rows, renamed, JoinKind.LEFT, _pair_partners(key), null_safe=True)


def _rename_partners(key: Names) -> tuple[NamedExpression, ...]:
    return tuple(NamedExpression(f"{_PARTNER}{i}", build_column(name)) for i, name in enumerate(key))


def _pair_partners(key: Names) -> Pairs:
    return tuple((name, f"{_PARTNER}{i}") for i, name in enumerate(key))


# -- expressions -------------------------------------------------------------------------------------------------


def _select(name: str) -> NamedExpression:
    return NamedExpression(name, build_column(name))


def _build_struct(names: Names) -> Expression:
    return to_expression(f"STRUCT({', '.join(map(quote_name, names))})")


def _build_field(struct: str, name: str) -> Expression:
    return Expression(f"{quote_name(struct)}.{quote_name(name)}", frozenset([struct]))


def _select_field(struct: str, name: str, names: Names) -> NamedExpression:
    """A field of a struct, if it is among these; else the column of that name."""
    return NamedExpression(name, _build_field(struct, name)) if name in names else _select(name)


def _is_true(name: str) -> Expression:
    return to_expression(f"COALESCE({quote_name(name)}, FALSE)")


def _is_false(name: str) -> Expression:
    return to_expression(f"NOT COALESCE({quote_name(name)}, FALSE)")
