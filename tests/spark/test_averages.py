"""Averages computed from sums and counts equal Spark's averages digit for digit."""

from __future__ import annotations

import random

import pytest
from pyspark.sql import SparkSession
from tests.marks import long

from tidemill.algebra.accumulators import decompose_aggregate
from tidemill.algebra.expression import to_expression
from tidemill.algebra.operators import AggregateCall


@pytest.mark.parametrize(
    ("precision", "scale"), [(12, 2), (27, 11), (33, 6), long(17, 0), long(27, 0), long(27, 4), long(28, 6)]
)
def test_an_average_is_rounded_once(spark: SparkSession, precision: int, scale: int) -> None:
    """Each group has one number and zeros; its average is just next to the midpoint of two representable values."""
    chance = random.Random(3)
    largest = 10 ** (min(precision, 12) - scale) - 1
    drawn = [(chance.randint(-largest, largest), chance.randint(1, 700)) for _ in range(20_000)]
    distance = {(v, n): abs(2 * (abs(v) * 10 ** (scale + 4) % n) - n) / n for v, n in drawn}
    nearest = sorted((d for d in distance if distance[d]), key=distance.__getitem__)[:50]
    groups = [(g, v, n) for g, (v, n) in enumerate(nearest)]
    spark.createDataFrame(groups, "g int, v bigint, n int").createOrReplaceTempView("averaged")
    average = AggregateCall("a", "avg", (to_expression("x"),), f"DECIMAL({precision}, {scale})")
    decomposition = decompose_aggregate(average)
    states = ", ".join(
        f"{f'CAST({call} AS {a.call.cast})' if a.call.cast else call} AS {a.name}"
        for a in decomposition.accumulators
        for call in [f"sum({a.call.arguments[0]})"]
    )
    rows = f"""SELECT g, CAST(IF(i = 1, v, 0) AS {average.type}) AS x
        FROM (SELECT g, v, explode(sequence(1, n)) AS i FROM averaged)"""
    group_query = f"SELECT g, avg(x) AS expected, {states} FROM ({rows}) GROUP BY g"
    both = spark.sql(f"SELECT g, expected, {decomposition.build_value('')} AS found FROM ({group_query})")
    assert len(decomposition.accumulators) == 2
    assert both.schema["found"].dataType == both.schema["expected"].dataType
    assert both.where("NOT found <=> expected").collect() == []
