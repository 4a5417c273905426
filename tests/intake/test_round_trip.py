"""Whatever can be written comes back as it was; whatever is spoilt is found where it is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.intake.inserting import Desk
from tests.intake.samples import (
    Sample,
    all_kinds,
    comparable,
    flat_kinds,
    not_null,
    samples,
    write_csv,
    write_json,
    write_parquet,
)

from tidemill.errors import BadInput
from tidemill.intake import load_file
from tidemill.model.change import Append
from tidemill.model.schema import Schema

Write = Callable[[Path], None]


def come_back(sample: Sample, name: str, write: Write) -> None:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        write(desk.folder / name)
        loaded = load_file(desk.folder / name, format=None, schema=sample.schema, updates=Append(), directory=desk.out)
        assert loaded.rows == len(sample.rows)
        assert [comparable(row) for row in desk.stored()] == sample.expected


def complaint(schema: Schema, name: str, write: Write) -> str:
    with tempfile.TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        write(desk.folder / name)
        with pytest.raises(BadInput) as caught:
            load_file(desk.folder / name, format=None, schema=schema, updates=Append(), directory=desk.out)
        assert list(desk.out.iterdir()) == []
        return str(caught.value)


@given(samples(flat_kinds))
def test_csv(sample: Sample) -> None:
    come_back(sample, "a.csv", lambda path: write_csv(path, sample.schema.names, sample.csv_cells()))


@given(samples(all_kinds))
def test_json_lines(sample: Sample) -> None:
    come_back(sample, "a.jsonl", lambda path: write_json(path, sample.schema.names, sample.json_cells()))


@given(samples(all_kinds))
def test_parquet(sample: Sample) -> None:
    come_back(sample, "a.parquet", lambda path: write_parquet(path, sample.schema, sample.rows))


@given(samples(flat_kinds, min_rows=1), st.data())
def test_a_spoilt_cell_in_csv(sample: Sample, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(sample.rows) - 1))
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    assume(sample.kinds[column].type != "string")
    cells = sample.csv_cells()
    cells[row][column] = "spoilt!"
    message = complaint(sample.schema, "a.csv", lambda path: write_csv(path, sample.schema.names, cells))
    assert f"row {row + 1}, column {sample.schema.names[column]!r}" in message
    assert "spoilt!" not in message


@given(samples(all_kinds, min_rows=1), st.data())
def test_a_spoilt_cell_in_json(sample: Sample, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(sample.rows) - 1))
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    cells = sample.json_cells()
    cells[row][column] = '{"spoilt": [{}]}'
    message = complaint(sample.schema, "a.jsonl", lambda path: write_json(path, sample.schema.names, cells))
    assert f"row {row + 1}, column {sample.schema.names[column]!r}" in message


@given(samples(all_kinds, min_rows=1), st.data())
def test_a_null_where_none_may_be_in_parquet(sample: Sample, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    nulls = [number for number, row in enumerate(sample.rows, start=1) if row[column] is None]
    assume(nulls)
    name = sample.schema.names[column]
    message = complaint(
        not_null(sample.schema, name), "a.parquet", lambda path: write_parquet(path, sample.schema, sample.rows)
    )
    assert f"row {nulls[0]} has NULL in column {name!r}, which is NOT NULL" in message
