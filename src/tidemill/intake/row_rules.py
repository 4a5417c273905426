"""Validation rules for the rows of a delta, beyond the types of their cells."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.model.change import COUNT, DELETED, Increment, Signed


def validate_rows(source: InputFile, layout: DeltaLayout, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """The batch as it is stored; raises `BadInput` about its first row that breaks a rule."""
    if DELETED in layout.defaults:
        i = batch.schema.get_field_index(DELETED)
        batch = batch.set_column(i, DELETED, batch.column(i).fill_null(False))
    _check_not_null(source, layout, batch, first_row)
    if isinstance(layout.updates, Signed):
        _check_counts(source, batch, first_row)
    if isinstance(layout.updates, Increment):
        _check_amounts(source, layout.updates, batch, first_row)
    return batch.cast(layout.arrow_schema)


def _check_not_null(source: InputFile, layout: DeltaLayout, batch: pa.RecordBatch, first_row: int) -> None:
    for field in layout.schema:
        if not field.nullable:
            is_invalid = batch.column(field.name).is_null()
            if layout.can_lack(field):
                is_invalid = pc.and_(is_invalid, pc.invert(batch.column(DELETED)))
            _raise_first(source, is_invalid, first_row, f"has NULL in column {field.name!r}, which is NOT NULL")


def _check_counts(source: InputFile, batch: pa.RecordBatch, first_row: int) -> None:
    is_invalid = pc.equal(batch.column(COUNT), 0)
    _raise_first(
        source,
        is_invalid,
        first_row,
        f"has 0 in column {COUNT!r}; expected the number of times to add the row or, below 0, to delete it",
    )


def _check_amounts(source: InputFile, updates: Increment, batch: pa.RecordBatch, first_row: int) -> None:
    """A row has all amounts; a pure deletion has none."""
    validity = [batch.column(name).is_valid() for name in updates.columns]
    deleted = batch.column(DELETED)
    for name, is_valid in zip(updates.columns, validity, strict=True):
        is_invalid = pc.invert(pc.or_(is_valid, deleted))
        _raise_first(
            source, is_invalid, first_row, f"has NULL in column {name!r}; only a deletion may omit the amount to add"
        )
        differs = pc.and_(deleted, pc.xor(is_valid, validity[0]))
        _raise_first(
            source,
            differs,
            first_row,
            f"is a deletion with some amounts only; give all of {', '.join(updates.columns)} or none",
        )


def _raise_first(source: InputFile, is_invalid: pa.Array, first_row: int, problem: str) -> None:
    i = pc.index(is_invalid, True).as_py()
    if i >= 0:
        raise source.build_row_error(first_row + i, problem)
