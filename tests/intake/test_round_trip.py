"""Every valid table is loaded unchanged, and every invalid cell is reported with its position."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.intake.file_loader import FileLoader
from tests.intake.samples import (
    Sample,
    all_kinds,
    flat_kinds,
    make_not_null,
    samples,
    to_comparable,
    write_csv,
    write_json,
    write_parquet,
)

from tidemill.errors import BadInput
from tidemill.intake.loader import load_file
from tidemill.model.change import Append
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest

Write = Callable[[Path], None]


def check_round_trip(sample: Sample, name: str, write: Write) -> None:
    with tempfile.TemporaryDirectory() as folder:
        loader = FileLoader(Path(folder))
        write(loader.folder / name)
        result = load_file(loader.folder / name, LoadRequest(sample.schema, Append(), loader.out))
        assert result.rows == len(sample.rows)
        assert [to_comparable(row) for row in loader.read_stored()] == sample.expected_rows


def load_invalid_file(schema: Schema, name: str, write: Write) -> str:
    with tempfile.TemporaryDirectory() as folder:
        loader = FileLoader(Path(folder))
        write(loader.folder / name)
        with pytest.raises(BadInput) as error:
            load_file(loader.folder / name, LoadRequest(schema, Append(), loader.out))
        assert list(loader.out.iterdir()) == []
        return str(error.value)


@given(samples(flat_kinds))
def test_csv_is_loaded_unchanged(sample: Sample) -> None:
    check_round_trip(sample, "a.csv", lambda path: write_csv(path, sample.schema.names, sample.csv_cells()))


@given(samples(all_kinds))
def test_json_lines_are_loaded_unchanged(sample: Sample) -> None:
    check_round_trip(sample, "a.jsonl", lambda path: write_json(path, sample.schema.names, sample.json_cells()))


@given(samples(all_kinds))
def test_parquet_is_loaded_unchanged(sample: Sample) -> None:
    check_round_trip(sample, "a.parquet", lambda path: write_parquet(path, sample.schema, sample.rows))


@given(samples(flat_kinds, min_rows=1), st.data())
def test_an_invalid_cell_in_csv_is_reported(sample: Sample, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(sample.rows) - 1))
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    assume(sample.kinds[column].type != "string")
    cells = sample.csv_cells()
    cells[row][column] = "invalid!"
    message = load_invalid_file(sample.schema, "a.csv", lambda path: write_csv(path, sample.schema.names, cells))
    assert f"row {row + 1}, column {sample.schema.names[column]!r}" in message
    assert "invalid!" not in message


@given(samples(all_kinds, min_rows=1), st.data())
def test_an_invalid_cell_in_json_is_reported(sample: Sample, data: st.DataObject) -> None:
    row = data.draw(st.integers(0, len(sample.rows) - 1))
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    cells = sample.json_cells()
    cells[row][column] = '{"spoilt": [{}]}'
    message = load_invalid_file(sample.schema, "a.jsonl", lambda path: write_json(path, sample.schema.names, cells))
    assert f"row {row + 1}, column {sample.schema.names[column]!r}" in message


@given(samples(all_kinds, min_rows=1), st.data())
def test_a_null_in_a_not_null_column_of_parquet_is_reported(sample: Sample, data: st.DataObject) -> None:
    column = data.draw(st.integers(0, len(sample.kinds) - 1))
    nulls = [number for number, row in enumerate(sample.rows, start=1) if row[column] is None]
    assume(nulls)
    name = sample.schema.names[column]
    message = load_invalid_file(
        make_not_null(sample.schema, name), "a.parquet", lambda path: write_parquet(path, sample.schema, sample.rows)
    )
    assert f"row {nulls[0]} has NULL in column {name!r}, which is NOT NULL" in message
