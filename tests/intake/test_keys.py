"""Duplicate keys in one file are rejected."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.intake.file_loader import FileLoader

from tidemill.intake import parquet_file, row_rules
from tidemill.model.change import Append, Increment, Signed, Updates, Upsert


@pytest.mark.parametrize("updates", [Upsert(("k",)), Increment(("k",), ("n",))])
def test_both_rows_and_the_key_are_named(loader: FileLoader, updates: Updates) -> None:
    message = loader.expect_error("a.csv", "k,n\nx,1\ny,2\nz,3\ny,4\nx,5\n", "k string, n int", updates)
    assert "row 4 has the same key as row 2 (k); a file may hold each key once" in message


@pytest.mark.parametrize("updates", [Append(), Signed()])
def test_without_a_key_rows_may_repeat(loader: FileLoader, updates: Updates) -> None:
    assert len(loader.rows("a.csv", "k\n1\n1\n", "k int", updates)) == 2


def test_keys_may_have_several_columns(loader: FileLoader) -> None:
    ddl, updates = "a int, b string, c int", Upsert(("a", "b"))
    assert len(loader.rows("a.csv", "a,b,c\n1,x,1\n1,y,1\n2,x,1\n,x,1\n1,,1\n", ddl, updates)) == 5
    (loader.out / "part-00000.parquet").unlink()
    message = loader.expect_error("a.csv", "a,b,c\n1,x,1\n2,x,1\n1,x,2\n", ddl, updates)
    assert "row 3 has the same key as row 1 (a, b)" in message


@pytest.mark.parametrize(
    ("type", "first", "second"),
    [
        ("string", "null", "null"),
        ("double", "NaN", "NaN"),
        ("double", "0.0", "-0.0"),
        ("decimal(5,2)", "1.5", "1.50"),
        ("timestamp", '"2024-01-31T12:00:00Z"', '"2024-01-31T13:00:00+01:00"'),
        ("date", '"2024-01-31"', '"2024-01-31"'),
        ("binary", '"AA=="', '"AA=="'),
        ("array<double>", "[1.0, NaN]", "[1, NaN]"),
        ("struct<x: int, y: array<string>>", '{"x": 1, "y": ["a"]}', '{"y": ["a"], "x": 1}'),
    ],
)
def test_keys_are_compared_like_in_spark(loader: FileLoader, type: str, first: str, second: str) -> None:
    message = loader.expect_error("a.jsonl", f'{{"k": {first}}}\n{{"k": {second}}}\n', f"k {type}", Upsert(("k",)))
    assert "row 2 has the same key as row 1" in message


def test_different_keys_with_equal_hashes_are_accepted(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_rules, "hash", lambda _: 7, raising=False)
    assert len(loader.rows("a.csv", "k\n1\n2\n3\n", "k int", Upsert(("k",)))) == 3


def test_duplicate_keys_are_found_across_batches(loader: FileLoader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_file, "_BATCH_ROWS", 10)
    path = loader.folder / "a.parquet"
    pa.parquet.write_table(pa.table({"k": [*range(95), 3]}), path)
    assert "row 96 has the same key as row 4 (k)" in loader.expect_rejection(path, "k bigint", Upsert(("k",)))
