"""Stages: a relation built by method calls, before the columns of its channels are known.

Each stage is a small SQL query over the stages before it, which are its tables `_0` and `_1`; so a method means what
the SQL text means, by the same translation. Only a user's function of groups has no text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from sqlglot import exp

from tidemill.algebra.dialect import parse, text_of
from tidemill.algebra.operators import Apply, Operator, Scan, rebuilt
from tidemill.algebra.sql import NotIncremental, Source, Translated, translate
from tidemill.algebra.typing import groupable
from tidemill.errors import WorkflowError
from tidemill.model.identity import code_identity
from tidemill.model.location import Location
from tidemill.model.schema import Schema

Inputs = Mapping[str, Translated]
"""What a stage is made of, under the names by which the user's expressions may call it."""

Rule = Callable[[Inputs], Iterator[str]]
"""What must hold of a stage's inputs; it gives the problems."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a channel."""

    channel: str
    location: Location


@dataclass(frozen=True, slots=True)
class Select:
    """A query over earlier stages: `_0`, `_1` in its text, each called by its name in the user's expressions."""

    query: str
    inputs: tuple[tuple[str, Stage], ...]
    location: Location
    rules: tuple[Rule, ...] = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Applied:
    """A user's function of the groups of an earlier stage."""

    input: tuple[str, Stage]
    keys: tuple[str, ...]
    function: Callable[..., Any]
    returns: Schema
    location: Location
    rules: tuple[Rule, ...] = field(default=(), compare=False)


Stage = Rows | Select | Applied


def channels_of(stage: Stage) -> tuple[str, ...]:
    """The channels that it reads, each once."""
    if isinstance(stage, Rows):
        return (stage.channel,)
    return tuple(dict.fromkeys(c for _, below in _inputs(stage) for c in channels_of(below)))


def resolve(stage: Stage, sources: Mapping[str, Source]) -> Translated:
    """The operators over channels of which this much is known.

    Raises `WorkflowError`, with the user's line, for a column that is not there, and `NotIncremental` as SQL does.
    """
    if isinstance(stage, Rows):
        return _scan(stage.channel, sources)
    inputs = [(name, resolve(below, sources)) for name, below in _inputs(stage)]
    problems = [f"{stage.location}: {p}" for rule in stage.rules for p in rule(dict(inputs))]
    if problems:
        raise WorkflowError(problems)
    below = [known for _, known in inputs]
    return _selected(stage, below) if isinstance(stage, Select) else _applied(stage, below[0])


def text_of_stage(stage: Stage, because: str) -> str:
    """All of it as one Spark SQL query, to be run in batch, and why; a function of groups has no text."""
    return text_of(_tree(stage, because))


def find_text(stage: Stage) -> str | None:
    """All of it as one Spark SQL query; None if a function of groups is part of it."""
    return None if _applies(stage) else text_of_stage(stage, "")


def _applies(stage: Stage) -> bool:
    return not isinstance(stage, Rows) and (
        isinstance(stage, Applied) or any(_applies(below) for _, below in stage.inputs)
    )


def _inputs(stage: Select | Applied) -> tuple[tuple[str, Stage], ...]:
    return stage.inputs if isinstance(stage, Select) else (stage.input,)


# -- operators ---------------------------------------------------------------------------------------------------


def _scan(channel: str, sources: Mapping[str, Source]) -> Translated:
    source = sources.get(channel)
    if source is None:
        raise NotIncremental(f"the columns of {channel} are not known before it is written; declare its schema")
    scan = Scan(channel, tuple(source.columns), keys=source.keys, append=source.append)
    return Translated(scan, source.columns)


def _selected(stage: Select, below: Sequence[Translated]) -> Translated:
    """The query's operators, with the inputs' in the place of the scans that stood for them."""
    known = {f"_{i}": b for i, b in enumerate(below)}
    sources = {n: Source({c: b.types.get(c, "") for c in b.root.columns}) for n, b in known.items()}
    found = translate(stage.query, sources)
    return Translated(_put(found.root, {n: b.root for n, b in known.items()}), found.types)


def _put(op: Operator, inputs: Mapping[str, Operator]) -> Operator:
    if isinstance(op, Scan):
        return inputs[op.channel]
    return rebuilt(op, lambda child: _put(child, inputs))


def _applied(stage: Applied, below: Translated) -> Translated:
    """Keys are spelled as their columns are: Spark tells columns of a pandas frame apart by case."""
    spelling = {c.lower(): c for c in below.root.columns}
    keys = tuple(spelling[k.lower()] for k in stage.keys)
    code = code_identity(stage.function)
    root = Apply(below.root, keys, stage.function, str(stage.returns), stage.returns.names, code)
    types = {k: below.types.get(k, "") for k in keys} | {f.name: f.type for f in stage.returns}
    return Translated(root, types)


# -- text --------------------------------------------------------------------------------------------------------


def _tree(stage: Stage, because: str) -> exp.Expr:
    match stage:
        case Rows():
            return exp.select("*").from_(exp.to_identifier(stage.channel, quoted=True))
        case Select():
            return _with_inputs(parse(stage.query), stage, because)
        case Applied():
            why = f"apply() needs a table that can be kept incrementally, and this cannot: {because}"
            raise WorkflowError([f"{stage.location}: {why}"])


def _with_inputs(query: exp.Expr, stage: Select, because: str) -> exp.Expr:
    below = {f"_{i}": s for i, (_, s) in enumerate(stage.inputs)}
    for table in [t for t in query.find_all(exp.Table) if t.name in below]:
        alias = exp.TableAlias(this=exp.to_identifier(table.alias, quoted=True))
        table.replace(exp.Subquery(this=_tree(below[table.name], because), alias=alias))
    return query


# -- rules -------------------------------------------------------------------------------------------------------


def knows(tree: exp.Expr) -> Rule:
    """Every column that the expression names is there, and on one side alone."""

    def rule(inputs: Inputs) -> Iterator[str]:
        for found in tree.find_all(exp.Column):
            parts = [p.name for p in found.parts]
            owner = next((n for n in inputs if n.lower() == parts[0].lower()), None) if len(parts) > 1 else None
            name = parts[0] if owner is None else parts[1]
            among = list(inputs) if owner is None else [owner]
            if not isinstance(found.parts[0 if owner is None else 1], exp.Star):
                yield from _lookup(name, among, inputs)

    return rule


def _lookup(name: str, among: Sequence[str], inputs: Inputs) -> Iterator[str]:
    having = [n for n in among if _has(inputs[n], name)]
    if not having:
        yield missing(name, among, inputs)
    if len(having) > 1:
        yield f"column {name!r} is on both sides; write {' or '.join(f'{n}.{name}' for n in having)}"


def missing(name: str, among: Sequence[str], inputs: Inputs) -> str:
    columns = [c for n in among for c in inputs[n].root.columns]
    close = get_close_matches(name, columns, n=1)
    hint = f"did you mean {close[0]!r}? " if close else ""
    there = "; ".join(f"{n} has {', '.join(inputs[n].root.columns)}" for n in among)
    return f"there is no column {name!r}; {hint}{there}"


def shares(names: Sequence[str]) -> Rule:
    """Both sides have these columns, and no others in common: each column of a join has a name of its own."""

    def rule(inputs: Inputs) -> Iterator[str]:
        yield from (missing(c, [n], inputs) for c in names for n in inputs if not _has(inputs[n], c))
        left, right = ([c.lower() for c in known.root.columns] for known in inputs.values())
        for column in [c for c in left if c in right and c not in {n.lower() for n in names}]:
            yield f"both sides have a column {column!r}; join on it, or select() one of them under another name"

    return rule


def has(names: Sequence[str]) -> Rule:
    """Every input has these columns."""
    return lambda inputs: (missing(c, [n], inputs) for c in names for n in inputs if not _has(inputs[n], c))


def lacks(names: Sequence[str]) -> Rule:
    """These names are free for new columns."""

    def rule(inputs: Inputs) -> Iterator[str]:
        for name, known in inputs.items():
            yield from (f"{name} has a column {c!r} already; choose another name" for c in names if _has(known, c))

    return rule


def comparable(names: Sequence[str] | None = None) -> Rule:
    """None of these columns (of all, if none are given) holds maps, which Spark cannot compare."""

    def rule(inputs: Inputs) -> Iterator[str]:
        wanted = None if names is None else {n.lower() for n in names}
        for name, known in inputs.items():
            for column in known.root.columns:
                if (wanted is None or column.lower() in wanted) and not groupable(known.types.get(column, "")):
                    yield f"column {column!r} of {name} holds maps, which Spark cannot compare; select() what you need"

    return rule


def same_columns(inputs: Inputs) -> Iterator[str]:
    """Columns are matched by position, so the same names in another order are a mistake."""
    left, right = ([c.lower() for c in known.root.columns] for known in inputs.values())
    shown = " and ".join(", ".join(known.root.columns) for known in inputs.values())
    if len(left) != len(right):
        yield f"the sides have different numbers of columns: {shown}"
    elif left != right and sorted(left) == sorted(right):
        yield f"columns are matched by position, but the sides have them in another order: {shown}; select() them"


def _has(known: Translated, name: str) -> bool:
    return name.lower() in {c.lower() for c in known.root.columns}
