"""Custom kinds of updates, defined by a user's functions of each key's rows.

A delta needs one function that creates it, from two contents or from signed rows, and one function that applies it,
giving the content after or signed rows; the other functions of the kind are composed of these.
"""

from collections.abc import Callable, Sequence

from tidemill.algebra import reference
from tidemill.errors import WorkflowError
from tidemill.model.change import Custom, PerKey, Rows, Signed
from tidemill.model.location import find_caller
from tidemill.model.schema import Schema

Contract = Callable[[Rows], Rows]


def custom(
    key: str | Sequence[str],
    *,
    chain: PerKey,
    merge: PerKey | None = None,
    expand: PerKey | None = None,
    diff: PerKey | None = None,
    contract: Contract | None = None,
    delta: str | None = None,
) -> Custom:
    """A custom kind of updates; each function is called once per key with lists of rows.

    `merge(base, delta)` gives the content after, `expand(base, delta)` the signed rows; one of them is needed.
    `diff(before, after)` makes a delta of two contents, `contract(signed)` of signed rows; one of them is needed.
    `delta` is the schema of a delta, if its columns differ from the content's.
    """
    merge_key = merge if merge is not None else _merge_via_strong(expand)
    diff_key = diff if diff is not None else _diff_via_strong(contract)
    names = (key,) if isinstance(key, str) else tuple(key)
    schema = None if delta is None else _parse_delta_schema(delta)
    return Custom(names, merge_key, chain, diff_key, schema, expand, contract)


def _merge_via_strong(expand: PerKey | None) -> PerKey:
    """A merge function composed of an expansion to signed rows and their merge."""
    if expand is None:
        raise _build_error("apply", "merge(base, delta), the content after it, or expand(base, delta), its signed rows")
    return lambda base, delta: reference.merge_rows(Signed(), base, expand(base, delta))


def _diff_via_strong(contract: Contract | None) -> PerKey:
    """A diff function composed of the signed difference and its contraction; equal contents give an empty delta."""
    if contract is None:
        raise _build_error("create", "diff(before, after), from two contents, or contract(signed), from signed rows")

    def diff_key(before: Rows, after: Rows) -> Rows:
        signed = reference.diff_contents(Signed(), before, after)
        return contract(signed) if signed else []

    return diff_key


def _parse_delta_schema(ddl: str) -> Schema:
    try:
        return Schema.from_ddl(ddl)
    except ValueError as error:
        raise WorkflowError([f"{find_caller()}: the schema of a delta: {error}"]) from error


def _build_error(verb: str, options: str) -> WorkflowError:
    return WorkflowError([f"{find_caller()}: a custom delta needs a function to {verb} it: give {options}"])
