"""Arrow tables of tasks are checked as Spark checks its frames when they are written as blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.acceptance.stateful import no_session

from tidemill.encoding.arrow_types import to_arrow_schema
from tidemill.errors import BadInput
from tidemill.model.block import BlockKind
from tidemill.model.change import Upsert
from tidemill.model.schema import Schema
from tidemill.ports.engine import EngineLimits, WriteTarget
from tidemill.spark.arrow import ArrowBlockIO, Session
from tidemill.spark.local_work import LocalWork

NAN = float("nan")
KEYS: list[tuple[str, Any, Any]] = [
    ("double", 0.0, -0.0),
    ("float", NAN, -NAN),
    ("array<double>", [1.0, NAN], [1.0, NAN]),
    ("struct<f: double, s: string>", {"f": 0.0, "s": "a"}, {"f": -0.0, "s": "a"}),
    ("string collate utf8_lcase", "a", "A"),
    ("int", 1, 1),
]


def write_keys(session: Session, kind: str, keys: list[Any], directory: Path) -> int | None:
    schema = Schema.from_ddl(f"k {kind}, n int")
    target = WriteTarget("t", BlockKind.DELTA, str(directory / "out"), schema, Upsert(("k",)))
    rows = pa.table({"k": pa.array(keys, to_arrow_schema(schema).field("k").type), "n": range(len(keys))})
    work = LocalWork(str, EngineLimits())
    ArrowBlockIO(session, work).write_delta(rows, target)
    work.close()
    return target.receipt.rows


@pytest.mark.parametrize(("kind", "first", "second"), KEYS, ids=[kind for kind, *_ in KEYS])
def test_keys_that_spark_takes_for_one_are_refused(
    spark: SparkSession, tmp_path: Path, kind: str, first: Any, second: Any
) -> None:
    with pytest.raises(BadInput, match="its key is k, but the result has 2 rows"):
        write_keys(lambda: spark, kind, [first, second], tmp_path)


def test_keys_that_arrow_can_tell_apart_need_no_spark(tmp_path: Path) -> None:
    assert write_keys(no_session, "string", ["a", "A", None], tmp_path) == 3


def test_different_float_and_nested_keys_are_written(spark: SparkSession, tmp_path: Path) -> None:
    assert write_keys(lambda: spark, "double", [0.0, 1.0, None, NAN], tmp_path / "floats") == 4
    assert write_keys(lambda: spark, "struct<f: double>", [{"f": 0.0}, {"f": None}, None], tmp_path / "structs") == 3
