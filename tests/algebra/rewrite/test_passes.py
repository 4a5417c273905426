"""Every pass by an example: the operators or the query before it, and after it."""

from __future__ import annotations

import ast
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidemill
from tidemill.algebra import rewrite
from tidemill.algebra.describe import describe_operator
from tidemill.algebra.dialect import parse_query, to_sql
from tidemill.algebra.expression import to_expression
from tidemill.algebra.operators import (
    Aggregation,
    BlockScan,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    StepReference,
    Union,
    WindowFunction,
    select_columns,
)
from tidemill.algebra.program import Program
from tidemill.algebra.rewrite import passes
from tidemill.algebra.rewrite.expand_scans import RunContext
from tidemill.algebra.rewrite.fuse_steps import FusedProgram
from tidemill.algebra.sql.reading import TREE_PASSES, NotIncremental, check_constructs
from tidemill.model.schema import Schema

SCHEMA = Schema.from_ddl("k INT, v INT")
T = Scan("t", ("k", "v"))
BLOCKS = BlockScan(("file",), ("k", "v"), SCHEMA, SCHEMA, blocks=())
RUN = RunContext(lambda op: BLOCKS if isinstance(op, Scan) else op, lambda scan: True)
RANKED = WindowFunction(T, ("k",), (NamedExpression("r", to_expression("RANK() OVER (PARTITION BY k ORDER BY v)")),))
TABLES = {"t": ("k", "v"), "u": ("k", "s")}


def add_one(child: Operator, name: str) -> Operator:
    return Projection(child, (NamedExpression(name, to_expression(f"{child.columns[0]} + 1")),))


def build_program(rows: Operator, **steps: Operator) -> Program:
    return Program(steps, {"out": rows})


def describe(value: Operator | Program | FusedProgram | None) -> str:
    match value:
        case None:
            return "nothing"
        case Program():
            parts = {**value.steps, **value.outputs}
            return "\n".join(f"{name} = {describe(op)}" for name, op in parts.items())
        case FusedProgram():
            steps = [f"{name} = {describe(op)}" for name, op in value.steps.items()]
            slices = [f"{name} = {part}" for name, part in value.slices.items()]
            return "\n".join([*steps, *slices, *(f"{name} = {list(parts)}" for name, parts in value.outputs.items())])
        case _:
            return describe_operator(value)


EXAMPLES: list[tuple[Callable[..., Any], tuple[Any, ...], str, str]] = [
    (
        passes.narrow_windows,
        (Filter(RANKED, to_expression("r <= 2")),),
        """
filter `r` <= 2
  window by k: RANK() OVER (PARTITION BY `k` ORDER BY `v`) as r
    scan t new: k, v
""",
        """
window by k: RANK() OVER (PARTITION BY `k` ORDER BY `v`) as r where `r` <= 2
  scan t new: k, v
""",
    ),
    (
        passes.prune_operator,
        (add_one(T, "n"),),
        """
project `k` + 1 as n
  scan t new: k, v
""",
        """
project `k` + 1 as n
  scan t new: k
""",
    ),
    (
        passes.expand_scans,
        (build_program(T), RUN),
        """
out = scan t new: k, v
""",
        """
out = scan 0 blocks: k, v
""",
    ),
    (
        passes.prune_program,
        (build_program(select_columns(StepReference("s", ("k", "v")), ("k",)), s=T), RUN),
        """
s = scan t new: k, v
out = project k
  step s
""",
        """
s = scan t new: k
out = project k
  step s
""",
    ),
    (
        passes.inline_steps,
        (build_program(StepReference("s", ("k",)), s=Filter(BLOCKS, to_expression("v > 0"))), RUN),
        """
s = filter `v` > 0
  scan 0 blocks: k, v
out = step s
""",
        """
out = project k
  filter `v` > 0
    scan 0 blocks: k, v
""",
    ),
    (
        passes.fuse_steps,
        (
            build_program(
                add_one(StepReference("f", ("k",)), "n"),
                s=Aggregation(T, ("k", "v")),
                f=Filter(StepReference("s", ("k", "v")), to_expression("v > 0")),
            ),
            RUN,
        ),
        """
s = distinct k, v
  scan t new: k, v
f = filter `v` > 0
  step s
out = project `k` + 1 as n
  step f
""",
        """
s = project k, v, _fused2, CASE WHEN `_fused2` THEN `k` + 1 END as _fused3
  project k, v, COALESCE(`v` > 0, FALSE) as _fused2
    distinct k, v
      scan t new: k, v
f = StepSlice(step='s', conditions=('_fused2',), columns={'k': 'k', 'v': 'v'})
out = [StepSlice(step='s', conditions=('_fused2',), columns={'n': '_fused3'})]
""",
    ),
    (
        passes.remove_empty_steps,
        (
            Union(
                (
                    T,
                    StepReference("s", ("k", "v")),
                    Join(T, StepReference("s", ("j",)), JoinKind.SEMI, (("k", "j"),)),
                )
            ),
            {"s"},
        ),
        """
union
  scan t new: k, v
  step s
  semi join on k = j
    scan t new: k, v
    step s
""",
        """
scan t new: k, v
""",
    ),
    (
        passes.merge_projections,
        (select_columns(add_one(T, "n"), ("n",)),),
        """
project n
  project `k` + 1 as n
    scan t new: k, v
""",
        """
project `k` + 1 as n
  scan t new: k, v
""",
    ),
    (
        passes.restrict_joins,
        (Join(StepReference("s", ("j",)), Aggregation(BLOCKS, ("k",)), JoinKind.INNER, (("j", "k"),)),),
        """
inner join on j = k
  step s
  distinct k
    scan 0 blocks: k, v
""",
        """
inner join on j = k
  step s
  distinct k
    semi join on k <=> j
      scan 0 blocks: k, v
      project j
        step s
""",
    ),
]


@pytest.mark.parametrize(("rewrite", "arguments", "before", "after"), EXAMPLES, ids=[e[0].__name__ for e in EXAMPLES])
def test_a_pass_rewrites_its_example(
    rewrite: Callable[..., Any], arguments: tuple[Any, ...], before: str, after: str
) -> None:
    assert describe(arguments[0]) == before.strip()
    assert describe(rewrite(*arguments)) == after.strip()


TREE_EXAMPLES = {
    "check_constructs": ("SELECT k FROM t", "SELECT k FROM t"),
    "select_using_columns": (
        "SELECT max(v) AS m FROM t JOIN u USING (k) HAVING max(k) > 1",
        "SELECT MAX(v) AS m, k AS `_using k` FROM t JOIN u USING (k) HAVING MAX(k) > 1",
    ),
    "qualify_columns": ("SELECT v FROM t AS x", "SELECT x.v AS v FROM t AS x"),
    "restore_using_columns": (
        "SELECT MAX(t.v) AS m, t.k AS `_using k` FROM t JOIN u ON t.k = u.k HAVING MAX(k) > 1",
        "SELECT MAX(t.v) AS m FROM t JOIN u ON t.k = u.k HAVING MAX(t.k) > 1",
    ),
    "inline_named_windows": (
        "SELECT rank() OVER w AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY v)",
        "SELECT RANK() OVER (PARTITION BY k ORDER BY v) AS r FROM t WINDOW w AS (PARTITION BY k ORDER BY v)",
    ),
    "name_struct_fields": (
        "SELECT struct(t.k, struct(t.v, 1) AS s) AS x FROM t",
        "SELECT NAMED_STRUCT('k', t.k, 's', NAMED_STRUCT('v', t.v, 'col2', 1)) AS x FROM t",
    ),
    "flatten_columns": ("SELECT t.v + (t.s).f AS n FROM t", "SELECT `t.v` + (`t.s`).f AS n FROM t"),
}


@pytest.mark.parametrize("rewrite", TREE_PASSES, ids=lambda rewrite: rewrite.__name__)
def test_a_pass_rewrites_its_query(rewrite: Callable[..., Any]) -> None:
    before, after = TREE_EXAMPLES[rewrite.__name__]
    assert to_sql(rewrite(parse_query(before), TABLES)) == after


def test_a_construct_without_translation_is_refused() -> None:
    with pytest.raises(NotIncremental, match="GROUP BY ALL is only supported in batch"):
        check_constructs(parse_query("SELECT k, count(*) FROM t GROUP BY ALL"), TABLES)  # type: ignore[arg-type]


def test_every_pass_of_the_room_is_listed_and_has_an_example() -> None:
    listed = {
        p.__name__: p.__module__.rpartition(".")[2]
        for p in (
            *passes.QUERY_PASSES,
            *passes.PROGRAM_PASSES,
            *passes.STEP_PASSES,
            *passes.STATEMENT_PASSES,
            *passes.LOCAL_STATEMENT_PASSES,
        )
    }
    assert {m.name for m in pkgutil.iter_modules(rewrite.__path__)} - {"passes"} == set(listed.values())
    assert [example[0].__name__ for example in EXAMPLES] == list(listed)


def test_passes_run_only_from_their_tuples() -> None:
    """Other modules import the functions that run the tuples, and the types, but no pass."""
    source = Path(tidemill.__file__).parent
    names = {example[0].__name__ for example in EXAMPLES}
    imported = {
        (path.relative_to(source).as_posix(), alias.name)
        for path in source.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidemill.algebra.rewrite.")
        for alias in node.names
        if alias.name in names
    }
    assert {path for path, _ in imported} == {"algebra/rewrite/passes.py"}
