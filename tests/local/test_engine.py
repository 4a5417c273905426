"""Local execution on the driver computes the same results as Spark."""

from __future__ import annotations

import math
import os
import random
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    LongType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from tests.algebra.evaluate import evaluate_operator
from tests.oracle.test_derive import CHANNELS, World, deltas, trees

from tidemill.algebra import reference
from tidemill.algebra.expression import Expression, build_column, build_literal, to_expression
from tidemill.algebra.merge import pick_latest_rows
from tidemill.algebra.operators import (
    AggregateCall,
    Aggregation,
    Filter,
    Join,
    JoinKind,
    NamedExpression,
    Operator,
    Projection,
    Scan,
    ScanMode,
    SingleRow,
    StepReference,
    TopN,
    Union,
    repeat_rows,
    select_columns,
    walk_operators,
)
from tidemill.algebra.program import Program
from tidemill.local.batch import Batch, StoredRows, build_arrow_schema
from tidemill.local.engine import LocalDatabase, LocalEngine, ReadLeaf
from tidemill.local.values import Unsupported
from tidemill.model.change import Rows
from tidemill.spark.batches import collect_batch, create_frame

EXAMPLES = int(os.environ.get("TIDEMILL_EXAMPLES", "20"))

DATABASE = LocalDatabase(256 << 20, threads=1)


def execute(op: Operator, read_leaf: ReadLeaf) -> Batch | None:
    rows = LocalEngine(DATABASE, read_leaf).try_execute(op)
    return rows if isinstance(rows, Batch) else None


def evaluate_expression(expression: Expression, rows: Batch) -> Batch:
    """The values of an expression in the column `x`; raises `Unsupported`."""
    op = Projection(read_step("t", *rows.struct.names), (NamedExpression("x", expression),))
    result = LocalEngine(DATABASE, lambda o: rows if isinstance(o, StepReference) else None).try_execute(op)
    if isinstance(result, Unsupported):
        raise result
    return result


def build_batch(rows: Rows, **types: DataType) -> Batch:
    struct = StructType([StructField(name, kind) for name, kind in types.items()])
    return Batch(pa.Table.from_pylist(rows, build_arrow_schema(struct)), struct)


def infer_batch(rows: Rows, columns: tuple[str, ...]) -> Batch | None:
    """A batch of the rows, with the types of their values; None if it is not one of columns with distinct names."""
    types: dict[str, DataType] = {}
    if len({*columns}) < len(columns):
        return None
    for name in columns:
        value_types = {type(r[name]) for r in rows} - {type(None)}
        if not value_types <= {int} and value_types != {bool}:
            return None
        types[name] = BooleanType() if value_types == {bool} else LongType()
    return build_batch([{c: r[c] for c in columns} for r in rows], **types)


class CheckedWorld(World):
    """A world that also executes locally every operator it can, and compares the results."""

    local_results = 0

    def run(self, program: Program, old: dict[str, Rows], *, batch: bool) -> None:
        sources = self.sources(old)
        steps: dict[str, Rows] = {}

        def leaf(op: Operator) -> Batch | None:
            match op:
                case Scan():
                    return infer_batch(sources[op.channel, op.mode], op.columns)
                case StepReference():
                    return infer_batch(steps[op.step], op.columns)
            return None

        for name, op in [*program.steps.items(), *((name, op) for name, op in program.outputs.items() if op)]:
            for part in walk_operators(op):
                batch_result = execute(part, leaf)
                if batch_result is not None:
                    self.local_results += 1
                    assert batch_result.struct.names == list(part.columns)
                    assert reference.is_same_bag(
                        batch_result.table.to_pylist(), evaluate_operator(part, sources, steps)
                    ), part
            if name in program.steps:
                steps[name] = evaluate_operator(op, sources, steps)
        super().run(program, old, batch=batch)


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(trees(), st.data())
def test_operators_equal_the_reference(root: Operator, data: st.DataObject) -> None:
    world = CheckedWorld(root)
    for name in CHANNELS:
        world.contents[name] = reference.merge_rows(CHANNELS[name], [], deltas(name, [], data.draw))
    world.run(world.query.build_batch(), world.contents, batch=True)
    world.consumed = dict(world.contents)
    for name in CHANNELS:
        delta = deltas(name, world.contents[name], data.draw)
        world.contents[name] = reference.merge_rows(CHANNELS[name], world.contents[name], delta)
    world.refresh({*CHANNELS}, set())
    assert world.local_results


ROWS = [
    {"a": 1, "b": 2, "p": True, "q": None, "s": "x", "f": 0.5, "d": date(1996, 2, 29), "m": Decimal("1.25")},
    {"a": None, "b": 2, "p": False, "q": True, "s": None, "f": None, "d": None, "m": None},
    {"a": 3, "b": None, "p": None, "q": False, "s": "y\nz", "f": -0.0, "d": date(1, 1, 1), "m": Decimal("-0.05")},
    {"a": -4, "b": -4, "p": None, "q": None, "s": "", "f": math.inf, "d": date(1995, 12, 31), "m": Decimal("999.99")},
]
TYPES = {
    "a": LongType(), "b": LongType(), "p": BooleanType(), "q": BooleanType(), "s": StringType(), "f": DoubleType(),
    "d": DateType(), "m": DecimalType(5, 2),
}  # fmt: skip
EXPRESSIONS = [
    "a", "1", "1L", "-1L", "-7", "2147483648", "'x'", "TRUE", "NULL", "CAST(NULL AS BOOLEAN)", "CAST(7 AS BIGINT)",
    "(a)", "a + 1", "a - b", "a * 2", "-a", "a = b", "a <> b", "a <=> b", "NOT (a <=> b)", "a IS NULL", "NOT s IS NULL",
    "a > 0", "a >= 3", "a < b", "a <= b", "s = 'x'", "s <> 'x'", "p AND q", "p OR q", "NOT p", "p <=> q", "p = q",
    "COALESCE(a, b, 0)", "COALESCE(a, 0) + COALESCE(b, 0)", "COALESCE(p, FALSE)", "COALESCE(NULL, s)",
    "IF(p, a, b)", "CASE WHEN p THEN a END", "CASE WHEN p THEN a WHEN q THEN b ELSE 0 END",
    "CASE WHEN a > 0 THEN NULL ELSE NULL END", "(COALESCE(a, 0) > 0) <> (COALESCE(b, 0) > 0)", "f", "COALESCE(f, NULL)",
    "s > 'x'", "s <= 'x'", "s < s", "p > q", "f > 0", "f > f", "f >= f", "f < a", "a < f", "f = a", "f + 1", "f * a",
    "a BETWEEN b AND 3", "s NOT BETWEEN 'a' AND s", "a IN (1, 3)", "a IN (1, NULL)", "s NOT IN ('x', 'z')", "a / 2",
    "f / 2", "a / b", "NULL IN (1)", "-f",
    "9007199254740993 IN (9007199254740992, f)", "9007199254740993 NOT IN (9007199254740992, -f)", "a BETWEEN b AND f",
    "f - f", "CAST(a AS INT)", "CAST(a AS DOUBLE)", "COALESCE(f, a)", "a % 3", "b % 3L", "IF(p, f, 0)", "-a % 2",
    "d = DATE '1996-02-29'", "d < CAST('1996-01-01' AS DATE)", "d BETWEEN DATE '1995-01-01' AND DATE '1996-12-31'",
    "EXTRACT(YEAR FROM d)", "s LIKE '%z'", "s NOT LIKE 'x%'", "s LIKE '_'", "SUBSTRING(s, 2, 1)", "SUBSTRING(s, 1, 9)",
    "SUBSTRING(s, 5, 2)", "CAST(9007199254740993 AS DOUBLE)", "CAST(-9223372036854775807 AS DOUBLE)",
    "STRUCT(a, s).s", "(STRUCT(a, p)).a + 1", "IF(a > 9, CAST(RAISE_ERROR('no') AS BOOLEAN), TRUE)",
    "0.05", "00.50", "100.00", "m + 1", "1 - m", "m * (1 - m)", "m * -1", "m * a", "m * 100",
    "m + 007", "m - 0.005", "a + m", "m = 1.25",
    "m BETWEEN 0.05 AND 2", "a > 0.5", "m > a", "COALESCE(m, 0)", "COALESCE(m, a)", "IF(p, m, 0.5)", "m <=> 1.250",
    "CASE WHEN p THEN m * (1 - m) ELSE 0 END", "CAST(m AS DECIMAL(5, 1))", "CAST(m AS DECIMAL(38, 6)) * m * m * m",
    "CAST(a AS DECIMAL(10, 0))", "CAST(m AS DECIMAL(38, 9)) + m", "m / 7", "m / 7.0", "100.00 * m / (m + 1)", "m / a",
    "a / m", "m % 2", "m % 0.3", "a % 1.5", "COALESCE(m, NULL)", "m IN (1, 1.25)", "m IS NULL",
    "CAST(f AS DOUBLE)", "CAST(s AS STRING)", "CAST(NULL AS DATE)", "f = f", "f <> f", "f <=> f",
]  # fmt: skip


def test_expressions_equal_sparks(spark: SparkSession) -> None:
    rows = build_batch(ROWS, **TYPES)
    frame = spark.createDataFrame(rows.table, rows.struct).selectExpr(
        *(f"{t} AS c{i}" for i, t in enumerate(EXPRESSIONS))
    )
    expected = frame.toArrow()
    for i, text in enumerate(EXPRESSIONS):
        result = evaluate_expression(to_expression(text), rows)
        values = result.table.column("x")
        assert repr(values.to_pylist()) == repr(expected.column(f"c{i}").to_pylist()), text
        assert result.struct["x"].dataType == frame.schema[f"c{i}"].dataType, text
        assert values.type == expected.schema.field(f"c{i}").type, text


@pytest.mark.parametrize(
    "text",
    [
        "f = 0.0",
        "m = f",
        "m IN (1, f)",
        "m * f",
        "m * 2L",
        "CAST(m AS DOUBLE)",
        "CAST(m AS INT)",
        "CAST(f AS DECIMAL(9, 2))",
        "s LIKE s",
        "s LIKE 'a' ESCAPE '/'",
        "SUBSTRING(s, 0, 2)",
        "SUBSTRING(s, -2, 2)",
        "d = '1996-02-29'",
        "CAST('1996-2-9' AS DATE)",
        "CAST('1995-02-29' AS DATE)",
        "EXTRACT(MONTH FROM d)",
        "m / 0",
        "IF(a > 0, CAST(RAISE_ERROR('positive') AS BOOLEAN), TRUE)",
        "COALESCE(CAST(m AS DECIMAL(38, 2)), CAST(m AS DECIMAL(38, 9)))",
        "s / b",
        "a DIV b",
        "upper(s)",
        r"s = 'a\nb'",
        "a = s",
        "CAST(f AS INT)",
        "f % 2",
        "a > s",
        "no",
    ],
)
def test_unsupported_expressions_are_passed_to_spark(text: str) -> None:
    with pytest.raises(Unsupported):
        evaluate_expression(to_expression(text), build_batch(ROWS, **TYPES))


def test_types_do_not_depend_on_the_rows() -> None:
    some, none = build_batch(ROWS, **TYPES), build_batch([], **TYPES)
    for text in EXPRESSIONS:
        assert (
            evaluate_expression(to_expression(text), some).struct
            == evaluate_expression(to_expression(text), none).struct
        ), text


def run_locally(op: Operator, **steps: Batch) -> list[dict[str, Any]] | None:
    result = execute(op, lambda o: steps[o.step].select_columns(o.columns) if isinstance(o, StepReference) else None)
    return None if result is None else result.table.to_pylist()


def read_step(step: str, *columns: str) -> StepReference:
    return StepReference(step, columns)


def test_sums_that_overflow_are_passed_to_spark() -> None:
    total = Aggregation(read_step("t", "k", "n"), ("k",), (AggregateCall("total", "sum", (build_column("n"),)),))
    types: dict[str, DataType] = {"k": LongType(), "n": LongType()}
    fitting, wide = [{"k": 1, "n": 1 << 61}] * 3, [{"k": 1, "n": 1 << 62}] * 2
    assert run_locally(total, t=build_batch(fitting, **types)) == [{"k": 1, "total": 3 << 61}]
    assert run_locally(total, t=build_batch(wide, **types)) is None


def test_numbers_that_overflow_are_passed_to_spark() -> None:
    with pytest.raises(Unsupported):
        evaluate_expression(to_expression("n + 1"), build_batch([{"n": (1 << 63) - 1}], n=LongType()))
    rows = build_batch([{"n": (1 << 63) - 1}], n=LongType())
    assert (
        run_locally(
            Aggregation(read_step("t", "n"), ("n",), (AggregateCall("m", "max", (to_expression("n + 1"),)),)), t=rows
        )
        is None
    )


@pytest.mark.parametrize(
    "text",
    [
        "CAST(a * 100 AS DECIMAL(3, 1))",
        "CAST(a AS DECIMAL(38, 0)) * 9999999999 * 9999999999 * 9999999999 * 9999999999",
        "a % 0",
        "a / 0",
        "CAST(a * 4611686018427387904 AS INT)",
    ],
)
def test_values_that_do_not_fit_their_type_are_passed_to_spark(text: str) -> None:
    with pytest.raises(Unsupported) as problem:
        evaluate_expression(to_expression(text), build_batch([{"a": 4711}], a=LongType()))
    assert "4711" not in str(problem.value)


FLOATS = [{"f": f} for f in (0.0, -0.0, math.nan, -math.nan, math.inf, 0.5, None)]


@pytest.mark.parametrize("kind", [DoubleType(), FloatType()])
def test_floats_as_keys_equal_sparks(spark: SparkSession, kind: DataType) -> None:
    rows = build_batch(FLOATS, f=kind)
    group = Aggregation(read_step("t", "f"), ("f",), (AggregateCall("n", "sum", (build_literal("1L"),)),))
    assert format_rows(run_locally(group, t=rows)) == ["0.0 2", "0.5 1", "None 1", "inf 1", "nan 2"]
    create_frame(spark, rows.table, rows.struct).createOrReplaceTempView("floats")
    expected_groups = spark.sql("SELECT f, count(*) AS n FROM floats GROUP BY f").toArrow().to_pylist()
    assert format_rows(run_locally(group, t=rows)) == format_rows(expected_groups)
    other = Batch(rows.table.rename_columns(["g"]), StructType([StructField("g", kind)]))
    for null_safe, sign in ((True, "<=>"), (False, "=")):
        join = Join(read_step("t", "f"), read_step("u", "g"), JoinKind.INNER, (("f", "g"),), null_safe=null_safe)
        pairs = spark.sql(f"SELECT a.f, b.f AS g FROM floats a JOIN floats b ON a.f {sign} b.f").toArrow().to_pylist()
        assert format_rows(run_locally(join, t=rows, u=other)) == format_rows(pairs)


VALUES: dict[DataType, list[Any]] = {
    LongType(): [3, -1, None],
    DoubleType(): [0.5, -0.5, math.nan, -math.inf, None],
    FloatType(): [0.5, -0.5, -2.5, math.inf, None],
    StringType(): ["b", "é", "", "a", None],
    BinaryType(): [b"b", b"\xff", b"", None],
    BooleanType(): [True, False, None],
    DecimalType(9, 2): [Decimal("1.10"), Decimal("-2.50"), None],
    DateType(): [date(2024, 2, 29), date(1969, 1, 1), None],
    TimestampType(): [datetime(2024, 2, 29, tzinfo=UTC), datetime(1969, 1, 1, tzinfo=UTC), None],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_values_are_ordered_as_in_spark(spark: SparkSession, kind: DataType) -> None:
    pairs = [{"k": i % 3, "a": a, "b": b} for i, (a, b) in enumerate(product(VALUES[kind], repeat=2))]
    rows = build_batch([*pairs, {"k": 9, "a": None, "b": None}], k=LongType(), a=kind, b=kind)
    create_frame(spark, rows.table, rows.struct).createOrReplaceTempView("values")
    aggregates = tuple(AggregateCall(f"{f}_{c}", f, (build_column(c),)) for f in ("min", "max") for c in "ab")
    group = Aggregation(read_step("t", "k", "a", "b"), ("k",), aggregates)
    texts = ", ".join(f"{f.function}({f.arguments[0].text}) AS {f.name}" for f in aggregates)
    assert format_rows(run_locally(group, t=rows)) == format_rows(
        spark.sql(f"SELECT k, {texts} FROM values GROUP BY k").toArrow().to_pylist()
    )
    for sign in ("<", "<=", ">", ">="):
        expected = spark.sql(f"SELECT a {sign} b AS c FROM values").toArrow().column("c").to_pylist()
        assert evaluate_expression(to_expression(f"a {sign} b"), rows).table.column("x").to_pylist() == expected


def format_rows(rows: list[dict[str, Any]] | None) -> list[str]:
    assert rows is not None
    return sorted(" ".join(map(str, row.values())) for row in rows)


def sort_rows(rows: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
    assert rows is not None
    return sorted(rows, key=lambda row: str([*row.values()]))


SMALL = st.integers(-1, 1) | st.none()
CONDITIONS = [None, "a > c", "NOT b = d", "COALESCE(b, 0) <= COALESCE(d, 0)"]


@given(
    left=st.lists(st.fixed_dictionaries({"a": SMALL, "b": SMALL}), max_size=4),
    right=st.lists(st.fixed_dictionaries({"c": SMALL, "d": SMALL}), max_size=4),
    keys=st.sampled_from([(), (("a", "c"),), (("a", "c"), ("b", "d"))]),
    condition=st.sampled_from(CONDITIONS),
    null_safe=st.booleans(),
)
@settings(max_examples=4 * EXAMPLES)
@pytest.mark.parametrize("kind", JoinKind)
def test_joins_equal_the_reference(
    kind: JoinKind, left: Rows, right: Rows, keys: tuple[tuple[str, str], ...], condition: str | None, null_safe: bool
) -> None:
    rows = {"t": build_batch(left, a=LongType(), b=LongType()), "u": build_batch(right, c=LongType(), d=LongType())}
    parsed_condition = None if condition is None else to_expression(condition)
    join = Join(read_step("t", "a", "b"), read_step("u", "c", "d"), kind, keys, parsed_condition, null_safe)
    result = run_locally(join, **rows)
    assert result is not None
    assert reference.is_same_bag(result, evaluate_operator(join, {}, {"t": left, "u": right}))


def test_a_non_null_column_becomes_nullable_after_an_outer_join(spark: SparkSession) -> None:
    counts = collect_batch(spark.sql("SELECT 1L AS b, count(*) AS n FROM range(3)"))
    assert counts is not None
    join = Join(read_step("t", "a"), read_step("u", "b", "n"), JoinKind.LEFT, (("a", "b"),))
    steps = {"t": build_batch([{"a": 1}, {"a": 2}], a=LongType()), "u": counts}
    joined = execute(join, lambda o: steps[o.step].select_columns(o.columns) if isinstance(o, StepReference) else None)
    assert joined is not None
    frame = create_frame(spark, joined.table, joined.struct)
    rows = frame.selectExpr("a", "coalesce(n, 0) AS n", "n IS NULL AS none").toArrow().to_pylist()
    assert rows == [{"a": 1, "n": 3, "none": False}, {"a": 2, "n": 0, "none": True}]


def test_results_that_exceed_the_memory_are_passed_to_spark() -> None:
    rows = build_batch([{"a": i} for i in range(3_000)], a=LongType())
    others = Batch(rows.table.rename_columns(["b"]), StructType([StructField("b", LongType())]))
    cross = Join(read_step("t", "a"), read_step("u", "b"), JoinKind.INNER)
    small = LocalDatabase(64 << 20)
    steps = {"t": rows, "u": others}
    problem = LocalEngine(small, lambda o: steps[o.step] if isinstance(o, StepReference) else None).try_execute(cross)
    assert isinstance(problem, Unsupported)
    small.close()


@pytest.mark.parametrize("kind", [StringType(), DecimalType(9, 2), DateType(), BinaryType(), BooleanType()])
def test_null_equals_null_in_keys_of_every_type(kind: DataType) -> None:
    values = {
        StringType(): "",
        DecimalType(9, 2): Decimal(0),
        DateType(): date(1970, 1, 1),
        BinaryType(): b"",
        BooleanType(): False,
    }
    left, right = (build_batch([{n: None}, {n: values[kind]}], **{n: kind}) for n in "ab")
    join = Join(read_step("t", "a"), read_step("u", "b"), JoinKind.INNER, (("a", "b"),), null_safe=True)
    result = run_locally(join, t=left, u=right)
    assert result is not None
    assert reference.is_same_bag(result, [{"a": None, "b": None}, {"a": values[kind], "b": values[kind]}])


def test_the_single_row_is_available_locally() -> None:
    assert run_locally(
        Join(SingleRow(), read_step("t", "a"), JoinKind.INNER), t=build_batch([{"a": 5}], a=LongType())
    ) == [{"_one": 0, "a": 5}]


def test_the_latest_row_of_each_key_is_picked() -> None:
    rows = [
        {"k": 1, "v": "a", "n": 0},
        {"k": 1, "v": None, "n": 2},
        {"k": 1, "v": "b", "n": 1},
        {"k": None, "v": "c", "n": 1},
    ]
    result = run_locally(
        pick_latest_rows(read_step("t", "k", "v", "n"), ("k",), "n"),
        t=build_batch(rows, k=LongType(), v=StringType(), n=LongType()),
    )
    assert result is not None
    assert reference.is_same_bag(result, [{"k": 1, "v": None}, {"k": None, "v": "c"}])


def test_count_counts_rows_and_non_null_values() -> None:
    rows = build_batch([{"k": 1, "v": None}, {"k": 1, "v": "a"}, {"k": 2, "v": None}], k=LongType(), v=StringType())
    counts = (
        AggregateCall("n", "count"),
        AggregateCall("vs", "count", (build_column("v"),)),
        AggregateCall("both", "count", (build_column("k"), build_column("v"))),
    )
    result = run_locally(Aggregation(read_step("t", "k", "v"), ("k",), counts), t=rows)
    assert sort_rows(result) == [{"k": 1, "n": 2, "vs": 1, "both": 1}, {"k": 2, "n": 1, "vs": 0, "both": 0}]


def test_any_value_ignores_nulls() -> None:
    rows = build_batch([{"k": 1, "v": None}, {"k": 1, "v": "a"}, {"k": 2, "v": None}], k=LongType(), v=StringType())
    any_of = Aggregation(
        read_step("t", "k", "v"), ("k",), (AggregateCall("v", "any_value", (build_column("v"), build_literal("TRUE"))),)
    )
    assert sort_rows(run_locally(any_of, t=rows)) == [{"k": 1, "v": "a"}, {"k": 2, "v": None}]
    first = Aggregation(read_step("t", "k", "v"), ("k",), (AggregateCall("v", "any_value", (build_column("v"),)),))
    assert run_locally(first, t=rows) is None


def test_a_union_has_the_common_type() -> None:
    both = Union((read_step("t", "v"), read_step("u", "v")))
    assert run_locally(
        both, t=build_batch([{"v": None}], v=NullType()), u=build_batch([{"v": "a"}], v=StringType())
    ) == [
        {"v": None},
        {"v": "a"},
    ]
    assert (
        run_locally(both, t=build_batch([{"v": 1}], v=LongType()), u=build_batch([{"v": "a"}], v=StringType())) is None
    )


def test_changes_of_growing_channels_are_counted_run_locally() -> None:
    """Ensures that the comparison covers something: distinct rows of an append-only channel need no Spark."""
    scan = Scan("appended", ("k", "v", "w"), append_only=True)
    world = CheckedWorld(Aggregation(scan, ("k",)))
    world.contents["appended"] = [{"k": 1, "v": 1, "w": 1}]
    world.run(world.query.build_batch(), world.contents, batch=True)
    world.consumed, before = dict(world.contents), world.local_results
    world.contents["appended"] = [*world.contents["appended"], {"k": 2, "v": 1, "w": 1}]
    world.refresh({"appended"}, set())
    program = world.query.build_incremental({"appended"}, set())
    assert world.local_results - before == sum(len(list(walk_operators(op))) for op in program.steps.values()) + sum(
        len(list(walk_operators(op))) for op in program.outputs.values() if op
    )
    assert ScanMode.CHANGE in {
        o.mode for op in program.steps.values() for o in walk_operators(op) if isinstance(o, Scan)
    }


DECIMALS = [(5, 2), (12, 2), (15, 0), (20, 10), (27, 4), (38, 0), (38, 6), (38, 18), (38, 38)]


@pytest.mark.parametrize("left", DECIMALS)
def test_decimals_equal_sparks_digit_for_digit(spark: SparkSession, left: tuple[int, int]) -> None:
    chance = random.Random(repr(left))
    for right in DECIMALS:
        types = {"a": DecimalType(*left), "b": DecimalType(*right)}
        rows = build_batch(
            [{name: draw_decimal(chance, kind) for name, kind in types.items()} for _ in range(60)], **types
        )
        texts = {"a + b": "try_add(a, b)", "a - b": "try_subtract(a, b)", "a * b": "try_multiply(a, b)"}
        texts |= {"a / b": "try_divide(a, b)", "a < b": "a < b", "COALESCE(a, b)": "COALESCE(a, b)"}
        texts |= {"CAST(a AS DECIMAL(30, 3))": "TRY_CAST(a AS DECIMAL(30, 3))"}
        if left[0] - left[1] + right[1] <= 38:  # Spark may fail otherwise
            texts["a % b"] = "try_mod(a, b)"
        frame = spark.createDataFrame(rows.table, rows.struct).selectExpr(*(f"{t} AS `{n}`" for n, t in texts.items()))
        expected = frame.toArrow()
        for text in texts:
            with suppress(Unsupported):
                result = evaluate_expression(to_expression(text), rows)
                assert result.struct["x"].dataType == frame.schema[text].dataType, (text, types)
                assert result.table.column("x").to_pylist() == expected.column(text).to_pylist(), (text, types)


def draw_decimal(chance: random.Random, kind: DecimalType) -> Decimal | None:
    """A number that mostly has few digits: results of long ones do not fit."""
    digits = chance.randint(0, min(kind.precision, chance.choice([3, 9, 38])))
    value = Decimal(chance.randint(-(10**digits), 10**digits) or 1).scaleb(-kind.scale, Context(prec=60))
    fits = abs(value.scaleb(kind.scale, Context(prec=60))) < 10**kind.precision
    return value if fits and chance.random() < 0.9 else None


ORDERS = ["x", "x DESC", "x ASC NULLS LAST", "x DESC NULLS FIRST", "n DESC, x", "x, n", "n % 2, x DESC"]


@pytest.mark.parametrize("kind", [LongType(), StringType(), DoubleType(), DateType(), DecimalType(5, 2), BooleanType()])
def test_top_n_equals_sparks(spark: SparkSession, kind: DataType) -> None:
    values: dict[str, list[Any]] = {
        "bigint": [3, None, -1, 3, 8],
        "string": ["b", None, "", "ä", "B"],
        "double": [0.5, None, math.nan, -0.0, -math.inf],
        "date": [date(2024, 2, 29), None, date(1, 1, 1), date(2024, 3, 1), date(2024, 2, 29)],
        "decimal(5,2)": [Decimal("1.10"), None, Decimal("-1.00"), Decimal("1.09"), Decimal("1.10")],
        "boolean": [True, None, False, True, False],
    }
    column = values[kind.simpleString()]
    rows = build_batch([{"x": x, "n": n} for n, x in enumerate(column)], x=kind, n=LongType())
    spark.createDataFrame(rows.table, rows.struct).createOrReplaceTempView("ranked")
    for text in ORDERS:
        order = tuple(Expression(t.strip(), frozenset("xn")) for t in text.split(","))
        for skip in (0, 2):
            expected = spark.sql(f"SELECT * FROM ranked ORDER BY {text} LIMIT 3 OFFSET {skip}").toArrow().to_pylist()
            result = run_locally(TopN(read_step("t", "x", "n"), order, 3, skip), t=rows)
            assert result is not None
            assert repr([r["x"] for r in result]) == repr([r["x"] for r in expected]), (text, skip)


def test_rows_are_repeated() -> None:
    rows = build_batch(
        [{"a": 1, "n": 2}, {"a": 2, "n": 0}, {"a": 3, "n": None}, {"a": 4, "n": -1}], a=LongType(), n=LongType()
    )
    assert run_locally(repeat_rows(read_step("t", "a", "n"), "n", "_x"), t=rows) == [{"a": 1, "n": 2, "_x": 0}] * 2


UNCHANGED: dict[str, tuple[DataType, list[Any]]] = {
    "timestamps": (
        TimestampType(),
        [datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC), None],
    ),
    "texts": (StringType(), ["a\0b", "\U0001f600", "", None]),
    "bytes": (BinaryType(), [b"\x00\xff", b"", None]),
    "arrays": (ArrayType(LongType()), [[1, None], [], None]),
    "structs": (StructType([StructField("x y", LongType())]), [{"x y": 1}, {"x y": None}, None]),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_values_pass_unchanged(spark: SparkSession, name: str) -> None:
    kind, values = UNCHANGED[name]
    rows = build_batch([{"k": i, "v": v} for i, v in enumerate(values)], k=LongType(), v=kind)
    join = Join(read_step("t", "k", "v"), read_step("u", "j"), JoinKind.INNER, (("k", "j"),))
    keys = build_batch([{"j": i} for i in range(len(values))], j=LongType())
    result = run_locally(join, t=rows, u=keys)
    assert result is not None
    assert [r["v"] for r in sorted(result, key=lambda r: r["k"])] == rows.table.column("v").to_pylist()
    assert (
        create_frame(spark, rows.table, rows.struct).toArrow().column("v").to_pylist()
        == rows.table.column("v").to_pylist()
    )


def test_names_that_differ_in_case_are_different_columns() -> None:
    rows = build_batch([{"a": 1, "A": 2}], a=LongType(), A=LongType())
    swapped = Projection(
        read_step("t", "a", "A"), (NamedExpression("A", build_column("a")), NamedExpression("a", build_column("A")))
    )
    assert run_locally(swapped, t=rows) == [{"A": 1, "a": 2}]


def test_files_are_read_by_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "part's.parquet"
    pq.write_table(pa.table({"Key": [1, 2, None], "v.w": ["a", "b", "c"]}), path)
    struct = StructType([StructField("Key", LongType()), StructField("v.w", StringType())])
    keys = build_batch([{"k": 2}, {"k": None}], k=LongType())

    def read_leaf(op: Operator) -> Batch | StoredRows | None:
        match op:
            case Scan():
                return StoredRows(((1, str(path)),), struct, frozenset(struct.names))
            case StepReference():
                return keys
        return None

    found = Join(Scan("c", ("Key", "v.w")), read_step("t", "k"), JoinKind.SEMI, (("Key", "k"),), null_safe=True)
    rows = LocalEngine(DATABASE, read_leaf).try_execute(found)
    assert isinstance(rows, Batch)
    assert rows.table.sort_by("v.w").to_pylist() == [{"Key": 2, "v.w": "b"}, {"Key": None, "v.w": "c"}]


def test_operators_without_a_translation_are_passed_to_spark() -> None:
    problem = LocalEngine(DATABASE, lambda op: None).try_execute(Scan("c", ("a",)))
    assert isinstance(problem, Unsupported)
    assert "Scan" in str(problem)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_corrupt_files_are_passed_to_spark(tmp_path: Path, codec: str) -> None:
    """Spark verifies checksums and reports the file; DuckDB would return wrong rows."""
    path = tmp_path / "part.parquet"
    table = pa.table({"k": list(range(100_000)), "s": [f"text {i % 100}" for i in range(100_000)]})
    pq.write_table(table, path, compression=codec, write_page_checksum=True, row_group_size=30_000)
    struct = StructType([StructField("k", LongType())])
    total = Aggregation(Scan("c", ("k",)), ("k",))

    def execute(path: Path) -> Batch | Unsupported:
        return LocalEngine(
            DATABASE,
            lambda op: StoredRows(((1, str(path)),), struct, frozenset(struct.names)) if isinstance(op, Scan) else None,
        ).try_execute(total)

    assert isinstance(execute(path), Batch)
    chunk = pq.read_metadata(path).row_group(1).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset + chunk.total_compressed_size - 10] ^= 0x10
    corrupt = path.with_name("corrupt.parquet")
    corrupt.write_bytes(content)
    problem = execute(corrupt)
    assert isinstance(problem, Unsupported)
    assert "checksum" in str(problem)


FLOAT_VALUES = [
    [-0.0, math.nan, 0.0],
    [1.0, math.nan, 2.0],
    [math.nan, -math.nan],
    [math.inf, -math.inf, None],
]
FLOAT_CONDITIONS = [f"{f} {sign} {value}" for f in ("f", "(o).f") for sign in ("=", "<>", "<", "<=", ">", ">=", "<=>")
                    for value in ("0", "1", "5", "f")]  # fmt: skip


@pytest.mark.parametrize("values", FLOAT_VALUES, ids=str)
@pytest.mark.parametrize("is_stored", [True, False], ids=["stored", "in memory"])
def test_filters_and_extremes_of_floats_do_not_trust_statistics(
    spark: SparkSession, values: list[float | None], is_stored: bool, tmp_path: Path
) -> None:
    struct = StructType(
        [StructField("f", DoubleType()), StructField("o", StructType([StructField("f", DoubleType())]))]
    )
    table = pa.Table.from_pylist([{"f": f, "o": {"f": f}} for f in values], build_arrow_schema(struct))
    pq.write_table(table, tmp_path / "floats.parquet")
    stored = StoredRows(((0, str(tmp_path / "floats.parquet")),), struct, frozenset(struct.names))
    leaf = stored if is_stored else Batch(table, struct)
    scan = read_step("t", "f", "o")
    create_frame(spark, table, struct).createOrReplaceTempView("floats")
    spark_rows = spark.sql(
        f"SELECT {', '.join(f'collect_list(IF({c}, f, NULL)) AS c{i}' for i, c in enumerate(FLOAT_CONDITIONS))},"
        " max(f) AS high, min(f) AS low FROM floats"
    ).first()
    assert spark_rows is not None

    def read_leaf(op: Operator) -> Batch | StoredRows | None:
        return leaf if isinstance(op, StepReference) else None

    for i, condition in enumerate(FLOAT_CONDITIONS):
        found = execute(select_columns(Filter(scan, to_expression(condition)), ("f",)), read_leaf)
        assert found is not None, condition
        kept = [f for f in found.table.column("f").to_pylist() if f is not None]
        assert sorted(map(str, kept)) == sorted(map(str, spark_rows[f"c{i}"])), condition
    calls = tuple(AggregateCall(name, name, (build_column("f"),)) for name in ("max", "min"))
    keyed = Projection(scan, (NamedExpression("k", build_literal("1")), NamedExpression("f", build_column("f"))))
    extremes = execute(Aggregation(keyed, ("k",), calls), read_leaf)
    assert extremes is not None
    assert [str(extremes.table.column(name)[0].as_py() or 0.0) for name in ("max", "min")] == [
        str(spark_rows[name] or 0.0) for name in ("high", "low")
    ]
