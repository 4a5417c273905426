"""What must hold of the rows of a delta, beyond the types of their cells."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.model.change import COUNT, DELETED, Increment, Signed


def validate_rows(source: InputFile, layout: DeltaLayout, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """The batch as it is stored, or `BadInput` about its first row that breaks a rule."""
    if DELETED in layout.defaults:
        at = batch.schema.get_field_index(DELETED)
        batch = batch.set_column(at, DELETED, batch.column(at).fill_null(False))
    _check_not_null(source, layout, batch, first_row)
    if isinstance(layout.updates, Signed):
        _check_counts(source, batch, first_row)
    if isinstance(layout.updates, Increment):
        _check_amounts(source, layout.updates, batch, first_row)
    return batch.cast(layout.arrow_schema)


def _check_not_null(source: InputFile, layout: DeltaLayout, batch: pa.RecordBatch, first_row: int) -> None:
    for field in layout.schema:
        if not field.nullable:
            wrong = batch.column(field.name).is_null()
            if layout.can_lack(field):
                wrong = pc.and_(wrong, pc.invert(batch.column(DELETED)))
            _raise_first(source, wrong, first_row, f"has NULL in column {field.name!r}, which is NOT NULL")


def _check_counts(source: InputFile, batch: pa.RecordBatch, first_row: int) -> None:
    wrong = pc.equal(batch.column(COUNT), 0)
    _raise_first(
        source, wrong, first_row, f"has 0 in column {COUNT!r}; expected how often the row is added or, below 0, deleted"
    )


def _check_amounts(source: InputFile, updates: Increment, batch: pa.RecordBatch, first_row: int) -> None:
    """All amounts are given, or none on a pure deletion."""
    given = [batch.column(name).is_valid() for name in updates.columns]
    deleted = batch.column(DELETED)
    for name, one in zip(updates.columns, given, strict=True):
        wrong = pc.invert(pc.or_(one, deleted))
        _raise_first(
            source, wrong, first_row, f"has NULL in column {name!r}; only a deletion may lack the amount to add"
        )
        differs = pc.and_(deleted, pc.xor(one, given[0]))
        _raise_first(
            source,
            differs,
            first_row,
            f"is a deletion with some amounts only; give all of {', '.join(updates.columns)} or none",
        )


def _raise_first(source: InputFile, wrong: pa.Array, first_row: int, problem: str) -> None:
    at = pc.index(wrong, True).as_py()
    if at >= 0:
        raise source.build_row_error(first_row + at, problem)
