"""Stages: a relation built by method calls, before the columns of its channels are known.

Each stage is a small SQL query over the previous stages, which are its tables `_0` and `_1`; so a method has the
semantics of the SQL text, by the same translation. Only a user's group function has no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, ClassVar

from sqlglot import exp

from tidemill.algebra.dialect import parse_query, to_sql
from tidemill.algebra.operators import GroupedMap
from tidemill.algebra.sql import TypedRelation, find_source, translate_query
from tidemill.algebra.typing import is_groupable
from tidemill.errors import WorkflowError
from tidemill.model.identity import compute_code_identity
from tidemill.model.location import SourceLocation
from tidemill.model.schema import Schema

Inputs = Mapping[str, TypedRelation]
"""The inputs of a stage, by the names under which the user's expressions refer to them."""

Rule = Callable[[Inputs], Iterator[str]]
"""A check of a stage's inputs; it yields the problems."""


@dataclass(frozen=True, slots=True)
class ChannelStage:
    """The rows of a channel."""

    channel: str
    location: SourceLocation

    inputs: ClassVar[tuple[tuple[str, Stage], ...]] = ()


@dataclass(frozen=True, slots=True)
class SelectStage:
    """A query over earlier stages: `_0`, `_1` in its text, each with the name that the user's expressions use."""

    query: str
    inputs: tuple[tuple[str, Stage], ...]
    location: SourceLocation
    rules: tuple[Rule, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class ApplyStage:
    """A user's function of the groups of an earlier stage, its only input."""

    inputs: tuple[tuple[str, Stage]]
    keys: tuple[str, ...]
    function: Callable[..., Any] = field(hash=False)
    returns: Schema
    location: SourceLocation
    rules: tuple[Rule, ...] = field(default=(), compare=False)


Stage = ChannelStage | SelectStage | ApplyStage


def list_channels(stage: Stage) -> tuple[str, ...]:
    if isinstance(stage, ChannelStage):
        return (stage.channel,)
    return tuple(dict.fromkeys(c for _, below in stage.inputs for c in list_channels(below)))


def resolve_stage(stage: Stage, sources: Mapping[str, TypedRelation]) -> TypedRelation:
    """The operators of a stage; raises `WorkflowError` for a missing column, and `NotIncremental`."""
    if isinstance(stage, ChannelStage):
        return find_source(stage.channel, sources)
    inputs = [(name, resolve_stage(below, sources)) for name, below in stage.inputs]
    problems = [f"{stage.location}: {p}" for rule in stage.rules for p in rule(dict(inputs))]
    if problems:
        raise WorkflowError(problems)
    if isinstance(stage, SelectStage):
        return translate_query(stage.query, {f"_{i}": below for i, (_, below) in enumerate(inputs)})
    return _apply_function(stage, inputs[0][1])


def find_apply(stage: Stage) -> ApplyStage | None:
    if isinstance(stage, ApplyStage):
        return stage
    return next((found for _, below in stage.inputs if (found := find_apply(below)) is not None), None)


def stage_to_sql(stage: Stage) -> str:
    """A stage without a group function as one Spark SQL query."""
    return to_sql(_build_tree(stage))


def _build_tree(stage: Stage) -> exp.Expr:
    if isinstance(stage, ChannelStage):
        return exp.select("*").from_(exp.to_identifier(stage.channel, quoted=True))
    assert isinstance(stage, SelectStage)
    query = parse_query(stage.query)
    below = {f"_{i}": s for i, (_, s) in enumerate(stage.inputs)}
    for table in [t for t in query.find_all(exp.Table) if t.name in below]:
        alias = exp.TableAlias(this=exp.to_identifier(table.alias, quoted=True))
        table.replace(exp.Subquery(this=_build_tree(below[table.name]), alias=alias))
    return query


def _apply_function(stage: ApplyStage, below: TypedRelation) -> TypedRelation:
    """Keys are spelled like their columns, because columns of a pandas frame are case-sensitive."""
    spelling = {c.lower(): c for c in below.columns}
    keys = tuple(spelling[k.lower()] for k in stage.keys)
    code = compute_code_identity(stage.function)
    root = GroupedMap(below.op, keys, stage.function, str(stage.returns), stage.returns.names, code)
    types = {k: below.types.get(k, "") for k in keys} | {f.name: f.type for f in stage.returns}
    return TypedRelation(root, types)


def check_known(trees: Sequence[exp.Expr], inputs: Inputs) -> Iterator[str]:
    """Every column that the expressions name exists, and on one side only."""
    for column in (c for tree in trees for c in tree.find_all(exp.Column)):
        first, *fields = column.parts
        owner = next((n for n in inputs if fields and n.lower() == first.name.lower()), None)
        part, candidates = (first, list(inputs)) if owner is None else (fields[0], [owner])
        owners = [n for n in candidates if _has_column(inputs[n], part.name)]
        if not owners and not isinstance(part, exp.Star):
            yield _describe_missing(part.name, candidates, inputs)
        if len(owners) > 1:
            yield f"column {part.name!r} is on both sides; write {' or '.join(f'{n}.{part.name}' for n in owners)}"


def check_columns(names: Sequence[str], inputs: Inputs) -> Iterator[str]:
    return (_describe_missing(c, [n], inputs) for c in names for n in inputs if not _has_column(inputs[n], c))


def _describe_missing(name: str, candidates: Sequence[str], inputs: Inputs) -> str:
    columns = [c for n in candidates for c in inputs[n].columns]
    matches = get_close_matches(name, columns, n=1)
    hint = f"did you mean {matches[0]!r}? " if matches else ""
    available = "; ".join(f"{n} has {', '.join(inputs[n].columns)}" for n in candidates)
    return f"there is no column {name!r}; {hint}{available}"


def check_shared(names: Sequence[str], inputs: Inputs) -> Iterator[str]:
    """Both sides have these columns, and no others in common: the columns of a join have distinct names."""
    yield from check_columns(names, inputs)
    left, right = ([c.lower() for c in known.columns] for known in inputs.values())
    for column in [c for c in left if c in right and c not in {n.lower() for n in names}]:
        yield f"both sides have a column {column!r}; join on it, or select() one of them under another name"


def check_free(names: Sequence[str], inputs: Inputs) -> Iterator[str]:
    """No input has a column of these names yet."""
    taken = ((n, c) for n, known in inputs.items() for c in names if _has_column(known, c))
    return (f"{n} has a column {c!r} already; choose another name" for n, c in taken)


def check_comparable(names: Sequence[str] | None, inputs: Inputs) -> Iterator[str]:
    """None of these columns (of all columns, if None) holds maps, which Spark cannot compare."""
    selected = None if names is None else {n.lower() for n in names}
    for name, known in inputs.items():
        for column in known.columns:
            if (selected is None or column.lower() in selected) and not is_groupable(known.types.get(column, "")):
                yield f"column {column!r} of {name} holds maps, which Spark cannot compare; select() what you need"


def check_same_columns(inputs: Inputs) -> Iterator[str]:
    """Columns are matched by position, so the same names in a different order are a mistake."""
    left, right = ([c.lower() for c in known.columns] for known in inputs.values())
    columns = " and ".join(", ".join(known.columns) for known in inputs.values())
    if len(left) != len(right):
        yield f"the sides have different numbers of columns: {columns}"
    elif left != right and sorted(left) == sorted(right):
        yield f"columns are matched by position, but the sides have them in another order: {columns}; select() them"


def _has_column(known: TypedRelation, name: str) -> bool:
    return name.lower() in {c.lower() for c in known.columns}
