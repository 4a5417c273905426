"""Incremental programs against recomputation, on plain Python rows: random queries, random histories.

This tests the algebra itself; `test_queries.py` runs the same programs on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.algebra.evaluate import evaluate_operator

from tidemill.algebra import reference
from tidemill.algebra.expression import Expression, build_column, to_expression
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Explode,
    Filter,
    GroupedMap,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    TopN,
    Union,
    WindowFunction,
    rename_columns,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import DeclaredQuery, Program
from tidemill.algebra.properties import find_keys
from tidemill.algebra.rewrite.expand_scans import RunContext
from tidemill.algebra.rewrite.fuse_steps import FusedProgram, StepSlice
from tidemill.algebra.rewrite.passes import rewrite_program
from tidemill.model.change import COUNT, DELETED, Append, Rows, Signed, Updates, Upsert

EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "75"))

CHANNELS: dict[str, Updates] = {"appended": Append(), "signed": Signed(), "keyed": Upsert(("k",))}
COLUMNS = ("k", "v", "w")

small = st.one_of(st.none(), st.integers(0, 3))
row = st.fixed_dictionaries(dict.fromkeys(COLUMNS, small))


def list_calls(op: Operator) -> list[AggregateCall]:
    return [call for part in walk_operators(op) if isinstance(part, Aggregation) for call in part.calls]


def some(options: list[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(options), max_size=2, unique=True)


class Trees:
    """Draws random operators over the three channels. Every column has a unique name."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self.draw = draw
        self.names = 0

    def fresh(self) -> str:
        self.names += 1
        return f"c{self.names}"

    def tree(self, depth: int) -> Operator:
        kinds = [self.scan] if depth == 0 else [*self.inner, self.scan]
        return self.draw(st.sampled_from(kinds))(depth - 1)

    @property
    def inner(self) -> list[Callable[[int], Operator]]:
        return [
            self.project, self.filter, self.union, self.join, self.join, self.group, self.group, self.distinct,
            self.window, self.top, self.explode, self.apply, self.aggregate_all, self.many_to_one, self.join_on_key,
        ]  # fmt: skip

    def scan(self, depth: int) -> Operator:
        name = self.draw(st.sampled_from(sorted(CHANNELS)))
        updates = CHANNELS[name]
        scan = Scan(name, COLUMNS, keys=updates.key, append_only=isinstance(updates, Append))
        return rename_columns(scan, {c: self.fresh() for c in COLUMNS})

    def one_of(self, op: Operator) -> str:
        return str(self.draw(st.sampled_from(op.columns)))

    def some_of(self, op: Operator, least: int = 1) -> tuple[str, ...]:
        return tuple(self.draw(st.lists(st.sampled_from(op.columns), min_size=least, max_size=2, unique=True)))

    def project(self, depth: int) -> Operator:
        child = self.tree(depth)
        sums = NamedExpression(self.fresh(), to_expression(f"{self.one_of(child)} + COALESCE({self.one_of(child)}, 1)"))
        return Projection(child, (*self.pick(child).items, sums))

    def pick(self, child: Operator, likely: tuple[str, ...] = ()) -> Projection:
        """Some columns, under other names."""
        columns = [*child.columns, *likely * 3]
        names = self.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=4, unique=True))
        return Projection(child, tuple(NamedExpression(self.fresh(), build_column(c)) for c in names))

    def filter(self, depth: int) -> Operator:
        child = self.tree(depth)
        return Filter(child, to_expression(f"{self.one_of(child)} > 0 OR {self.one_of(child)} IS NULL"))

    def union(self, depth: int) -> Operator:
        parts = [self.tree(depth) for _ in range(2)]
        width = min(len(p.columns) for p in parts)
        names = [self.fresh() for _ in range(width)]
        return Union(tuple(rename_columns(p, dict(zip(p.columns, names, strict=False))) for p in parts))

    def join(self, depth: int) -> Operator:
        left, right = self.tree(depth), self.tree(depth)
        right = rename_columns(right, {c: self.fresh() for c in right.columns})
        kind = self.draw(st.sampled_from(list(JoinKind)))
        keys = tuple((self.one_of(left), self.one_of(right)) for _ in range(self.draw(st.integers(1, 2))))
        if self.draw(st.integers(0, 9)) == 0:
            keys = ()
        condition = None
        if self.draw(st.booleans()):
            condition = to_expression(f"{self.one_of(left)} <= {self.one_of(right)}")
        return Join(left, right, kind, tuple(dict.fromkeys(keys)), condition, null_safe=self.draw(st.booleans()))

    def tree_with_key(self, depth: int) -> Operator:
        """Rows with a key."""
        kinds = [self.scan_with_key, self.scan_with_key, *([self.group, self.join_on_key] if depth > 0 else [])]
        op = self.draw(st.sampled_from(kinds))(depth - 1)
        return op if find_keys(op) else self.scan_with_key()

    def scan_with_key(self, _: int = 0) -> Operator:
        return rename_columns(Scan("keyed", COLUMNS, keys=("k",)), {c: self.fresh() for c in COLUMNS})

    def join_on_key(self, depth: int) -> Operator:
        """Some columns of a join with at most one partner for each left row, whose key may be one of either side."""
        left, right = self.tree_with_key(depth), self.tree_with_key(depth)
        right = rename_columns(right, {c: self.fresh() for c in right.columns})
        key = self.draw(st.sampled_from(find_keys(right)))
        on = tuple((self.draw(st.sampled_from([*left.columns, *find_keys(left)[0]])), c) for c in key)
        kind = self.draw(st.sampled_from([JoinKind.INNER, JoinKind.INNER, JoinKind.LEFT]))
        return self.pick(Join(left, right, kind, on, null_safe=self.draw(st.booleans())), key)

    def many_to_one(self, depth: int) -> Operator:
        """Rows with a key, joined to a relation with one row for each value of another column."""
        left = self.scan_with_key()
        child = self.tree(depth)
        keys = self.some_of(child)[:1]
        right = Aggregation(child, keys, self.aggregates(child))
        kind = self.draw(st.sampled_from([JoinKind.INNER, JoinKind.LEFT]))
        names = {c: self.fresh() for c in right.columns}
        on = ((left.columns[1], names[keys[0]]),)
        joined = Join(left, rename_columns(right, names), kind, on, null_safe=self.draw(st.booleans()))
        items = tuple(NamedExpression(self.fresh(), build_column(c)) for c in joined.columns)
        partner = self.draw(st.sampled_from(sorted(names.values())))
        texts = [f"{partner} IS NULL", f"COALESCE({partner}, {on[0][0]}, 7)"]
        return Projection(
            joined, (*items, *(NamedExpression(self.fresh(), to_expression(t)) for t in self.draw(some(texts))))
        )

    def group(self, depth: int) -> Operator:
        child = self.tree(depth)
        keys = self.some_of(child)
        return Aggregation(child, keys, self.aggregates(child))

    def aggregates(self, child: Operator) -> tuple[AggregateCall, ...]:
        function = st.sampled_from(["count", "count", "sum", "sum", "avg", "min", "max", "bool_or", "median", "rows"])
        drawn = self.draw(st.lists(function, min_size=1, max_size=3))
        return tuple(self.aggregate(f, child) for f in drawn)

    def aggregate(self, function: str, child: Operator) -> AggregateCall:
        name = self.fresh()
        if function == "rows":
            return AggregateCall(name, "count")
        text = f"{self.one_of(child)} > 1" if function == "bool_or" else self.one_of(child)
        kind = self.draw(st.sampled_from(["INT", "INT", ""])) if function in ("sum", "avg") else ""
        if any(call.function in ("avg", "median") for call in list_calls(child)):
            kind = ""  # it may be a fraction
        return AggregateCall(name, function, (to_expression(text),), kind)

    def aggregate_all(self, depth: int) -> Operator:
        """An aggregate of all rows: one row, also for empty input."""
        child = self.tree(depth)
        total = self.fresh()
        keyed = Projection(
            child, (*select_columns(child, child.columns).items, NamedExpression(total + "k", to_expression("0")))
        )
        grouped = Aggregation(keyed, (total + "k",), (AggregateCall(total, "count"),))
        one = Join(SingleRow(), grouped, JoinKind.LEFT, (("_one", total + "k"),))
        return Projection(one, (NamedExpression(self.fresh(), to_expression(f"COALESCE({total}, 0)")),))

    def distinct(self, depth: int) -> Operator:
        child = self.tree(depth)
        return Aggregation(child, self.some_of(child))

    def window(self, depth: int) -> Operator:
        child = self.tree(depth)
        partition = self.some_of(child, least=0)
        order = ", ".join(f"{c} DESC" for c in child.columns)
        text = f"ROW_NUMBER() OVER (ORDER BY {order})"
        if partition:
            text = f"ROW_NUMBER() OVER (PARTITION BY {', '.join(partition)} ORDER BY {order})"
        rank = self.fresh()
        keep = to_expression(f"{rank} <= {self.draw(st.integers(1, 2))}") if self.draw(st.booleans()) else None
        return WindowFunction(child, partition, (NamedExpression(rank, to_expression(text)),), keep)

    def top(self, depth: int) -> Operator:
        child = self.tree(depth)
        return TopN(child, tuple(to_expression(c) for c in child.columns), self.draw(st.integers(1, 3)))

    def explode(self, depth: int) -> Operator:
        child = self.tree(depth)
        times = f"EXPLODE(ARRAY_REPEAT({self.one_of(child)}, COALESCE({self.one_of(child)}, 0) % 3))"
        return Explode(child, to_expression(times), (self.fresh(),), self.draw(st.booleans()))

    def apply(self, depth: int) -> Operator:
        child = self.tree(depth)
        keys = self.some_of(child)
        first = child.columns[0]

        def spread(rows: Rows) -> list[tuple[Any, ...]]:
            values = [r[first] for r in rows if r[first] is not None]
            return [(len(rows), max(values, default=None))]

        return GroupedMap(child, keys, spread, "", (self.fresh(), self.fresh()), "spread")


@st.composite
def trees(draw: Any) -> Operator:
    generator = Trees(draw)
    if draw(st.integers(0, 1)) == 0:
        return draw(st.sampled_from([generator.many_to_one, generator.join_on_key]))(draw(st.integers(0, 1)))
    return generator.tree(draw(st.integers(1, 3)))


def deltas(name: str, content: Rows, draw: Any) -> Rows:
    """A random delta that is legal on the content."""
    added = draw(st.lists(row, max_size=4))
    removed = draw(st.lists(st.sampled_from(content), max_size=6, unique_by=id)) if content else []
    match CHANNELS[name]:
        case Append():
            return list(added)
        case Signed():
            again = draw(st.lists(st.sampled_from(removed), max_size=2)) if removed else []
            signed = [r | {COUNT: 1} for r in added + again] + [r | {COUNT: -1} for r in removed]
            return reference.chain_deltas(Signed(), signed, [])
        case _:
            rows = {r["k"]: r | {DELETED: False} for r in added}
            deletions = {r["k"]: r | {DELETED: True} for r in removed}
            return list((deletions | rows).values())


def evaluate_fused(program: FusedProgram, sources: dict[tuple[str, ScanMode], Rows]) -> dict[str, Rows]:
    """The outputs of a fused program."""
    steps: dict[str, Rows] = {}

    def rows_of(piece: StepSlice | Operator) -> Rows:
        if not isinstance(piece, StepSlice):
            return evaluate_operator(piece, sources, steps)
        rows = [r for r in steps[piece.step] if all(r[k] for k in piece.conditions)]
        return [{name: r[origin] for name, origin in piece.columns.items()} for r in rows]

    for name, op in program.steps.items():
        steps[name] = evaluate_operator(op, sources, steps)
        steps |= {n: rows_of(p) for n, p in program.slices.items() if p.step == name}
    return {channel: [r for p in pieces for r in rows_of(p)] for channel, pieces in program.outputs.items()}


class World:
    """The channels' contents, and a query refreshed incrementally up to the consumed contents."""

    def __init__(self, root: Operator) -> None:
        self.query = DeclaredQuery("result", root)
        self.contents: dict[str, Rows] = {name: [] for name in CHANNELS}
        self.consumed: dict[str, Rows] = {}
        self.results: dict[str, Rows] = {}

    def sources(self, old: dict[str, Rows]) -> dict[tuple[str, ScanMode], Rows]:
        sources: dict[tuple[str, ScanMode], Rows] = {}
        for name, updates in CHANNELS.items():
            sources[name, ScanMode.OLD], sources[name, ScanMode.NEW] = old[name], self.contents[name]
            sources[name, ScanMode.CHANGE] = reference.diff_contents(Signed(), old[name], self.contents[name])
            if updates.key:
                sources[name, ScanMode.TOUCHED] = reference.diff_contents(updates, old[name], self.contents[name])
        return sources | {(name, ScanMode.OLD): rows for name, rows in self.results.items()}

    def run(self, program: Program, old: dict[str, Rows], *, batch: bool) -> None:
        sources = self.sources(old)
        steps: dict[str, Rows] = {}
        for name, op in program.steps.items():
            steps[name] = evaluate_operator(op, sources, steps)
        outputs = program.outputs.items()
        written = {channel: evaluate_operator(op, sources, steps) if op else [] for channel, op in outputs}
        fused = rewrite_program(program, RunContext(lambda op: op, lambda _: True))
        for name, rows in evaluate_fused(fused, sources).items():
            assert sorted(map(repr, rows)) == sorted(map(repr, written[name])), f"pruned and fused: {name}"
        updates = {s.channel: s.updates for s in self.query.build_states().values()} | {"result": self.query.updates}
        for name, rows in written.items():
            self.results[name] = rows if batch else reference.merge_rows(updates[name], self.results[name], rows)

    def refresh(self, changed: set[str], unread: set[str]) -> None:
        self.run(self.query.build_incremental(changed, unread), self.consumed, batch=False)
        self.consumed |= {name: rows for name, rows in self.contents.items() if name not in unread}

    def read_consumed(self) -> dict[tuple[str, ScanMode], Rows]:
        return {(name, ScanMode.NEW): rows for name, rows in self.consumed.items()}

    def recompute(self) -> Rows:
        return evaluate_operator(self.query.root, self.read_consumed())


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), st.data())
def test_incremental_refresh_equals_recomputation(root: Operator, data: st.DataObject) -> None:
    world = World(root)
    for name in CHANNELS:
        world.contents[name] = reference.merge_rows(CHANNELS[name], [], deltas(name, [], data.draw))
    world.run(world.query.build_batch(), world.contents, batch=True)
    world.consumed = dict(world.contents)
    assert reference.is_same_bag(world.results["result"], world.recompute()), "batch"
    behind: set[str] = set()
    for step in range(data.draw(st.integers(1, 3))):
        changed = data.draw(st.sets(st.sampled_from(sorted(CHANNELS)), min_size=1))
        for name in sorted(changed):
            delta = deltas(name, world.contents[name], data.draw)
            world.contents[name] = reference.merge_rows(CHANNELS[name], world.contents[name], delta)
        unread = (
            data.draw(st.sets(st.sampled_from(sorted(CHANNELS)), max_size=2)) if data.draw(st.booleans()) else set()
        )
        world.refresh(changed | behind, unread)
        behind = (behind | changed) & unread
        expected = world.recompute()
        assert reference.is_same_bag(world.results["result"], expected), (step, world.results["result"], expected)
        for op, state in world.query.build_states().items():
            expected_state = evaluate_operator(state.build_state(op.child), world.read_consumed())  # type: ignore[union-attr]
            assert reference.is_same_bag(world.results[state.channel], expected_state), (step, state)


@pytest.mark.parametrize("keys", [(), (("a", "d"),)], ids=["no keys", "keys"])
@pytest.mark.parametrize("condition", [None, to_expression("b <= e")], ids=["no condition", "condition"])
@pytest.mark.parametrize("new_rows", [[], [{"k": 0, "v": 1, "w": 2}]], ids=["nothing", "a partner"])
def test_a_semi_join_of_append_only_channels_adds_only_rows_without_a_previous_match(
    keys: tuple[tuple[str, str], ...], condition: Expression | None, new_rows: Rows
) -> None:
    """Its result is append-only: no row may be added that would have to be deleted later."""
    scan = Scan("appended", COLUMNS, append_only=True)
    left, right = (rename_columns(scan, dict(zip(COLUMNS, names, strict=True))) for names in ("abc", "def"))
    world = World(Join(left, right, JoinKind.SEMI, keys, condition))
    world.contents["appended"] = [{"k": 0, "v": 1, "w": 1}, {"k": 1, "v": None, "w": 1}]
    world.run(world.query.build_batch(), world.contents, batch=True)
    world.consumed = dict(world.contents)
    world.contents["appended"] = world.contents["appended"] + new_rows
    world.refresh({"appended"}, set())
    assert reference.is_same_bag(world.results["result"], world.recompute())
