"""Tables in memory are loaded like files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidemill.errors import BadInput
from tidemill.intake.memory_tables import is_table, load_table
from tidemill.model.change import Append, Updates, Upsert
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest

SCHEMA = Schema.from_ddl("id int NOT NULL, word string, amount double, on date, at timestamp")
DAY = dt.date(2026, 5, 1)
NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
ROWS = [
    {"id": 1, "word": "one", "amount": 1.5, "on": DAY, "at": NOON},
    {"id": 2, "word": None, "amount": None, "on": None, "at": None},
]


def load_rows(
    data: Any, directory: Path, schema: Schema = SCHEMA, updates: Updates | None = None
) -> list[dict[str, Any]]:
    assert is_table(data)
    load_table(data, Path(), LoadRequest(schema, updates or Append(), directory, format="parquet"))
    rows: list[dict[str, Any]] = pq.read_table(directory).to_pylist()
    return rows


@pytest.mark.parametrize("make", [list, pd.DataFrame, pa.Table.from_pylist, pa.RecordBatch.from_pylist])
def test_tables_of_every_kind_are_loaded(tmp_path: Path, make: Any) -> None:
    assert load_rows(make(ROWS), tmp_path) == ROWS


def test_pandas_integers_are_converted_if_their_values_fit(tmp_path: Path) -> None:
    schema = Schema.from_ddl("id int, n bigint")
    frame = pd.DataFrame({"id": [1, None], "n": [1, 2]})  # floats, and 64 bits
    assert load_rows(frame, tmp_path, schema) == [{"id": 1, "n": 1}, {"id": None, "n": 2}]
    for values in ([2**40], [1.5]):
        with pytest.raises(BadInput, match=r"the table does not fit the channel.*Nothing was inserted"):
            load_rows(pd.DataFrame({"id": values, "n": [1]}), tmp_path, schema)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pd.DataFrame({"id": [1], "wrod": ["x"]}), "wrod"),
        ([{"id": 1, "wrod": "x"}], "wrod"),
        (pd.DataFrame({"id": ["x"]}), "the table: column 'id' is"),
        (pd.DataFrame({"id": [None]}), "the table: row 1 has NULL in column 'id'"),
        ([{"id": "x"}], "the table does not fit"),
        (pd.DataFrame({"id": [1, "x"]}), "the table does not fit"),
    ],
)
def test_invalid_columns_are_rejected_by_name(tmp_path: Path, data: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message) as error:
        load_rows(data, tmp_path, Schema.from_ddl("id int NOT NULL"))
    assert "tidemill-insert" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_upserts_may_delete_rows(tmp_path: Path) -> None:
    schema = Schema.from_ddl("id int NOT NULL, word string")
    rows = load_rows([{"id": 1, "word": "a"}, {"id": 2, "_deleted": True}], tmp_path, schema, Upsert(("id",)))
    assert [(r["id"], r["_deleted"]) for r in rows] == [(1, False), (2, True)]


def test_other_objects_are_no_tables() -> None:
    assert not any(is_table(data) for data in ("orders.csv", Path("x"), {"id": 1}, [1, 2], iter([]), object()))
