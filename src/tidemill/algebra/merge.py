"""Merge, chain and diff of the merge kinds as operators: the definition that Spark and the driver execute.

Every kind is a reduction by key over rows tagged with the order of their blocks, the base first. Append needs no
reduction, and upserts replace the rows that they touch; for signed rows the key is the full row. If the change is
small, only the base rows whose keys it touches are reduced, and the rest of the base passes through.
`algebra.reference` has the same semantics on plain rows.
"""

from dataclasses import dataclass

from tidemill.algebra import operators as ops
from tidemill.algebra.expression import Expression, build_column, build_literal, quote_name, quote_text, to_expression
from tidemill.algebra.restrict import Pairs, exclude_rows, restrict_rows
from tidemill.algebra.states import cancel_signed_rows
from tidemill.model.change import COUNT, DELETED, PATCH, Append, Custom, Increment, Patch, Signed, Updates, Upsert
from tidemill.model.error_summary import OWN_MESSAGE
from tidemill.model.schema import Schema

_NUMBER = "_tidemill_n"
_ROW = "_tidemill_row"
_REMOVED = "_tidemill_gone"
_OLD, _NEW = "_tidemill_old", "_tidemill_new"
_PARTNER = "_tidemill_by"
_TRUE = build_literal("TRUE")

_ROWS_REMOVED = (
    "rows that were read before were removed from append channel {}, but a task that reads only new rows cannot "
    "process deletions; recompute its outputs from scratch: tidemill run FLOW --variant batch"
)
_NO_SUCH_ROW = "a signed delta deletes a row that is not there"

Names = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deltas:
    """The rows of consecutive deltas of one merge kind, with the number of their delta, from 1, in `ORDER`."""

    rows: ops.Operator
    updates: Updates
    content_schema: Schema
    count: int

    @property
    def schema(self) -> Schema:
        """The columns of a delta, without the order."""
        return self.updates.build_delta_schema(self.content_schema)

    @property
    def plain_rows(self) -> ops.Operator:
        return ops.select_columns(self.rows, self.schema.names)


def merge_deltas(content: ops.Operator, deltas: Deltas, *, is_small: bool) -> ops.Operator:
    """The content after the deltas; `is_small` if most of its rows are untouched and should not be grouped."""
    updates, names = deltas.updates, content.columns
    match updates:
        case Append():
            return ops.Union((content, deltas.plain_rows))
        case Upsert(key):
            untouched = exclude_rows(content, ops.select_columns(deltas.rows, key), ops.pair_columns(key))
            return ops.Union((untouched, drop_deletions(_pick_latest(deltas), names)))
        case Patch():
            return _merge_patches(content, deltas, updates)
    if not is_small:
        return _reduce_content(content, deltas)
    key = updates.key or names
    touched, pairs = ops.select_distinct(deltas.rows, key), ops.pair_columns(key)
    reduced = _reduce_content(restrict_rows(content, touched, pairs), deltas)
    return ops.Union((exclude_rows(content, touched, pairs), reduced))


def chain_deltas(deltas: Deltas) -> ops.Operator:
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
            return ops.CustomMerge(None, deltas.rows, updates, "chain", deltas.schema)


def diff_contents(
    updates: Updates, before: ops.Operator, after: ops.Operator, schema: Schema, channel: str
) -> ops.Operator:
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
            return ops.add_columns(_diff_by_key(Upsert(key), before, after), {PATCH: "FALSE"})
        case Custom():
            sides = ops.Union((number_rows(before, 1), number_rows(after, 2)))
            return ops.CustomMerge(sides, None, updates, "diff", updates.build_delta_schema(schema))


def sign_contents(before: ops.Operator, after: ops.Operator) -> ops.Operator:
    """The rows of `after` counted once each, and those of `before` counted -1."""
    return ops.Union((count_rows(after, 1), count_rows(before, -1)))


def sign_patch_rows(updates: Patch, before: ops.Operator, delta: ops.Operator) -> ops.Operator:
    """The signed rows of a patch delta, from the content before."""
    rows, names = number_rows(delta, 0), before.columns
    upserts = _select_upserts(rows)
    keys = ops.select_distinct(upserts, updates.key)
    patches = _collapse_patches(updates, rows)
    replaced = restrict_rows(before, keys, ops.pair_columns(updates.key))
    matching = restrict_rows(before, ops.select_columns(patches, updates.by), ops.pair_columns(updates.by))
    patched = exclude_rows(matching, keys, ops.pair_columns(updates.key))
    after = ops.Union((drop_deletions(upserts, names), _apply_patches(updates, patched, patches)))
    return sign_contents(ops.Union((replaced, patched)), after)


def count_rows(rows: ops.Operator, times: int) -> ops.Operator:
    return ops.add_columns(rows, {COUNT: build_literal(f"{times}L")})


def number_rows(rows: ops.Operator, number: int) -> ops.Operator:
    return ops.add_columns(rows, {ops.ORDER: str(number)})


def drop_deletions(rows: ops.Operator, names: Names) -> ops.Operator:
    return ops.select_columns(ops.filter_rows(rows, f"NOT COALESCE({DELETED}, FALSE)"), names)


def pick_latest_rows(rows: ops.Operator, key: Names, order: str) -> ops.Operator:
    """The last row of each key by the order column, which is dropped."""
    names = tuple(c for c in rows.columns if c != order)
    values = tuple(c for c in names if c not in key)
    latest = ops.AggregateCall(_ROW, "max_by", (_build_struct(values), build_column(order)))
    fields = {n: _build_field(_ROW, n) if n in values else build_column(n) for n in names}
    return ops.Projection(ops.Aggregation(rows, key, (latest,)), ops.name_values(fields))


def _pick_latest(deltas: Deltas) -> ops.Operator:
    return deltas.plain_rows if deltas.count == 1 else pick_latest_rows(deltas.rows, deltas.updates.key, ops.ORDER)


def _reduce_content(content: ops.Operator, deltas: Deltas) -> ops.Operator:
    """The rows of the content and of the deltas, reduced to one content."""
    names = content.columns
    match deltas.updates:
        case Signed():
            counted = ops.Union((count_rows(content, 1), deltas.plain_rows))
            return _repeat_counted(cancel_signed_rows(counted), names, _NO_SUCH_ROW)
        case Increment() as updates:
            marked = ops.add_columns(content, {DELETED: "CAST(NULL AS BOOLEAN)"})
            summed = _sum_increments(ops.Union((number_rows(marked, 0), deltas.rows)), updates, deltas.schema)
            return ops.select_columns(ops.filter_rows(summed, f"{quote_name(updates.columns[0])} IS NOT NULL"), names)
        case Custom() as updates:
            return ops.CustomMerge(number_rows(content, 0), deltas.rows, updates, "merge", deltas.content_schema)
    raise AssertionError(f"{deltas.updates.name} channels need no reduction")


def _repeat_counted(rows: ops.Operator, names: Names, message: str) -> ops.Operator:
    """Each row repeated by its count; a negative count is an error, raised when the rows are read."""
    failure = f"CAST(RAISE_ERROR({quote_text(OWN_MESSAGE + message)}) AS BOOLEAN)"
    checked = ops.filter_rows(rows, f"IF({COUNT} < 0, {failure}, TRUE)")
    return ops.select_columns(ops.repeat_rows(checked, COUNT, _NUMBER), names)


def _sum_increments(rows: ops.Operator, updates: Increment, schema: Schema) -> ops.Operator:
    """For each key, whether it was reset, and the sum of its rows from the last reset on."""
    partition = ", ".join(map(quote_name, updates.key))
    reset = f"MAX(CASE WHEN {DELETED} THEN {ops.ORDER} END) OVER (PARTITION BY {partition})"
    marked = ops.WindowFunction(rows, updates.key, ops.name_values({_NUMBER: reset}))
    relevant = ops.filter_rows(marked, f"COALESCE({ops.ORDER} >= {_NUMBER}, TRUE)")
    sums = (ops.AggregateCall(c, "sum", (build_column(c),), cast=schema.get_field(c).type) for c in updates.columns)
    newest_reset = ops.AggregateCall(_NUMBER, "max", (build_column(_NUMBER),))
    summed = ops.Aggregation(relevant, updates.key, (*sums, newest_reset))
    values = {n: f"{_NUMBER} IS NOT NULL" if n == DELETED else build_column(n) for n in rows.columns if n != ops.ORDER}
    return ops.Projection(summed, ops.name_values(values))


def _diff_by_key(updates: Upsert | Increment, before: ops.Operator, after: ops.Operator) -> ops.Operator:
    """A changed key is replaced, a missing one deleted. Replacing is exact for every type, even for floats."""
    key, names = updates.key, after.columns
    rows = (ops.select_columns(side, key, {_ROW: _build_struct(names)}) for side in (before, after))
    sides = ops.Union(tuple(number_rows(side, i) for i, side in enumerate(rows)))
    calls = (
        ops.AggregateCall(name, "any_value", (to_expression(f"IF({ops.ORDER} = {i}, {_ROW}, NULL)"), _TRUE))
        for i, name in enumerate((_OLD, _NEW))
    )
    changed = ops.filter_rows(ops.Aggregation(sides, key, tuple(calls)), f"NOT ({_OLD} <=> {_NEW})")
    deletion = f"{_OLD} IS NOT NULL" if isinstance(updates, Increment) else f"{_NEW} IS NULL"
    values = {n: build_column(n) if n in key else _build_field(_NEW, n) for n in names}
    return ops.Projection(changed, ops.name_values({**values, DELETED: deletion}))


def _merge_patches(content: ops.Operator, deltas: Deltas, updates: Patch) -> ops.Operator:
    """The content after patches and upserts: two joins with the base, which is not grouped."""
    upserts = _select_upserts(deltas.rows) if deltas.count == 1 else _patch_upserts(deltas, updates)
    untouched = exclude_rows(content, ops.select_columns(upserts, updates.key), ops.pair_columns(updates.key))
    patched = _apply_patches(updates, untouched, _collapse_patches(updates, deltas.rows))
    return ops.Union((patched, drop_deletions(upserts, content.columns)))


def _chain_patches(deltas: Deltas, updates: Patch) -> ops.Operator:
    columns: dict[str, Expression | str] = {f.name: f"CAST(NULL AS {f.type})" for f in deltas.schema}
    columns |= {c: _build_field(_ROW, c) for c in updates.columns} | {b: build_column(b) for b in updates.by}
    columns |= {DELETED: _REMOVED, PATCH: "TRUE"}
    patches = ops.Projection(_collapse_patches(updates, deltas.rows), ops.name_values(columns))
    return ops.Union((patches, _patch_upserts(deltas, updates)))


def _collapse_patches(updates: Patch, rows: ops.Operator) -> ops.Operator:
    """The combined patches of several deltas: the last values of each, or a removal if there was one."""
    calls = (
        ops.AggregateCall(_ROW, "max_by", (_build_struct(updates.columns), build_column(ops.ORDER))),
        ops.AggregateCall(_REMOVED, "max", (to_expression(f"COALESCE({DELETED}, FALSE)"),)),
    )
    combined = ops.Aggregation(_select_patches(rows), updates.by, calls)
    return ops.select_columns(combined, updates.by, {_ROW: f"IF({_REMOVED}, NULL, {_ROW})", _REMOVED: _REMOVED})


def _apply_patches(updates: Patch, rows: ops.Operator, patches: ops.Operator) -> ops.Operator:
    """The rows with the patches' values, without those that a patch removed."""
    kept = ops.filter_rows(_join_partner(rows, patches, updates.by), f"NOT COALESCE({_REMOVED}, FALSE)")
    patched = {c: f"IF({_REMOVED} IS NULL, {quote_name(c)}, {_build_field(_ROW, c)})" for c in updates.columns}
    return ops.Projection(kept, ops.name_values({n: patched.get(n) or build_column(n) for n in rows.columns}))


def _patch_upserts(deltas: Deltas, updates: Patch) -> ops.Operator:
    """The newest upsert of each key, with later patches applied."""
    upserts = ops.add_columns(_select_upserts(deltas.rows), {_NUMBER: ops.ORDER})
    latest = pick_latest_rows(upserts, updates.key, ops.ORDER)
    items: dict[str, Expression | str] = {partner: build_column(name) for name, partner in _pair_partners(updates.by)}
    items |= {_ROW: _build_struct(updates.columns), _REMOVED: f"COALESCE({DELETED}, FALSE)", ops.ORDER: ops.ORDER}
    patches = ops.Projection(_select_patches(deltas.rows), ops.name_values(items))
    is_later = to_expression(f"{ops.ORDER} > {_NUMBER}")
    later = ops.Join(latest, patches, ops.JoinKind.INNER, _pair_partners(updates.by), is_later, null_safe=True)
    calls = (
        ops.AggregateCall(_ROW, "max_by", (build_column(_ROW), build_column(ops.ORDER))),
        ops.AggregateCall(_REMOVED, "max", (build_column(_REMOVED),)),
    )
    joined = _join_partner(latest, ops.Aggregation(later, updates.key, calls), updates.key)
    removed, deleted = f"COALESCE({_REMOVED}, FALSE)", f"COALESCE({DELETED}, FALSE)"
    is_patched = f"NOT COALESCE({_REMOVED}, TRUE) AND NOT {deleted}"
    items = {}
    for name in deltas.schema.names:
        items[name] = build_column(name)
        if name not in updates.key:
            items[name] = f"IF({removed} AND NOT {deleted}, NULL, {quote_name(name)})"
        if name in updates.columns:
            items[name] = f"IF({is_patched}, {_build_field(_ROW, name)}, {items[name]})"
    items |= {DELETED: f"{deleted} OR {removed}", PATCH: PATCH}
    return ops.Projection(joined, ops.name_values(items))


def _select_upserts(rows: ops.Operator) -> ops.Operator:
    return ops.filter_rows(rows, f"NOT COALESCE({PATCH}, FALSE)")


def _select_patches(rows: ops.Operator) -> ops.Operator:
    return ops.filter_rows(rows, f"COALESCE({PATCH}, FALSE)")


def _join_partner(rows: ops.Operator, partners: ops.Operator, key: Names) -> ops.Operator:
    """The rows, each with the columns of the partner that has the same key, if any; NULL is a key like any other."""
    names = {c: c for c in partners.columns} | dict(_pair_partners(key))
    renamed = ops.rename_columns(partners, names)
    return ops.Join(rows, renamed, ops.JoinKind.LEFT, _pair_partners(key), null_safe=True)


def _pair_partners(key: Names) -> Pairs:
    return tuple((name, f"{_PARTNER}{i}") for i, name in enumerate(key))


def _build_struct(names: Names) -> Expression:
    return to_expression(f"STRUCT({', '.join(map(quote_name, names))})")


def _build_field(struct: str, name: str) -> Expression:
    return Expression(f"{quote_name(struct)}.{quote_name(name)}", frozenset([struct]))
