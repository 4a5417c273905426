"""Columns of small files, read once and kept within a limit."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from tidemill.local.batch import ColumnCache, StoredRows

TABLE = pa.table({"a": [1, 2, 3], "b": [4, 5, 6]})


def write_file(path: Path) -> str:
    pq.write_table(TABLE, path)
    return str(path)


def describe_rows(*paths: str, names: tuple[str, ...] = ("a", "b")) -> StoredRows:
    fields = [StructField(n, LongType()) for n in names] + [StructField("_order", IntegerType())]
    return StoredRows(tuple(enumerate(paths, 7)), StructType(fields), frozenset(names) & {"a", "b"}, "_order")


def test_a_file_is_read_once(tmp_path: Path) -> None:
    cache, path = ColumnCache(1_000_000), write_file(tmp_path / "1.parquet")
    first = cache.read_rows(describe_rows(path)).table
    Path(path).unlink()
    assert cache.read_rows(describe_rows(path)).table.equals(first)
    assert first.to_pydict() == {"a": [1, 2, 3], "b": [4, 5, 6], "_order": [7, 7, 7]}


def test_the_columns_read_first_are_dropped_beyond_the_limit(tmp_path: Path) -> None:
    cache = ColumnCache(5 * TABLE.nbytes // 2)
    paths = [write_file(tmp_path / f"{n}.parquet") for n in range(3)]
    for path in (paths[0], paths[1], paths[0], paths[2]):  # the second one was not used for longest
        cache.read_rows(describe_rows(path))
    for path in paths:
        Path(path).unlink()
    assert cache.read_rows(describe_rows(paths[0], paths[2])).table.num_rows == 6
    with pytest.raises(FileNotFoundError):
        cache.read_rows(describe_rows(paths[1]))


def test_a_table_larger_than_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache, path = ColumnCache(1), write_file(tmp_path / "1.parquet")
    assert cache.read_rows(describe_rows(path)).table.num_rows == 3
    Path(path).unlink()
    with pytest.raises(FileNotFoundError):
        cache.read_rows(describe_rows(path))


def test_columns_that_a_file_lacks_are_null(tmp_path: Path) -> None:
    rows = ColumnCache(1_000_000).read_rows(describe_rows(write_file(tmp_path / "1.parquet"), names=("a", "c")))
    assert rows.table.to_pydict() == {"a": [1, 2, 3], "c": [None] * 3, "_order": [7, 7, 7]}
    rows = ColumnCache(1_000_000).read_rows(describe_rows(str(tmp_path / "1.parquet"), names=("c",)))
    assert rows.table.to_pydict() == {"c": [None] * 3, "_order": [7, 7, 7]}
