"""Rules for the rows of a delta, beyond the types of their cells: amounts, counts, and each key once."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidemill.intake.delta_layout import DeltaLayout
from tidemill.intake.input_file import InputFile
from tidemill.model.change import COUNT, DELETED, Increment, Signed, Updates, Upsert


def validate_rows(source: InputFile, layout: DeltaLayout, batch: pa.RecordBatch, first_row: int) -> pa.RecordBatch:
    """The batch as it is stored; raises `BadInput` about its first row that breaks a rule."""
    if DELETED in layout.defaults:
        i = batch.schema.get_field_index(DELETED)
        batch = batch.set_column(i, DELETED, batch.column(i).fill_null(False))
    _check_not_null(source, layout, batch, first_row)
    if isinstance(layout.updates, Signed):
        problem = f"has 0 in column {COUNT!r}; expected the number of times to add the row or, below 0, to delete it"
        _raise_first(source, pc.equal(batch.column(COUNT), 0), first_row, problem)
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


def _check_amounts(source: InputFile, updates: Increment, batch: pa.RecordBatch, first_row: int) -> None:
    """A row has all amounts; a pure deletion has none."""
    validity = [batch.column(name).is_valid() for name in updates.columns]
    deleted = batch.column(DELETED)
    for name, is_valid in zip(updates.columns, validity, strict=True):
        is_invalid = pc.invert(pc.or_(is_valid, deleted))
        problem = f"has NULL in column {name!r}; only a deletion may omit the amount to add"
        _raise_first(source, is_invalid, first_row, problem)
        differs = pc.and_(deleted, pc.xor(is_valid, validity[0]))
        problem = f"is a deletion with some amounts only; give all of {', '.join(updates.columns)} or none"
        _raise_first(source, differs, first_row, problem)


def _raise_first(source: InputFile, is_invalid: pa.Array, first_row: int, problem: str) -> None:
    i = pc.index(is_invalid, True).as_py()
    if i >= 0:
        raise source.build_row_error(first_row + i, problem)


class DuplicateKeyDetector:
    """Stores a hash of eight bytes per row; only rows with equal hashes are read again and compared."""

    def __init__(self, updates: Updates) -> None:
        self._names = updates.key if isinstance(updates, Upsert | Increment) else ()
        self._hashes: list[pa.Array] = []

    def add_batch(self, batch: pa.RecordBatch) -> None:
        if self._names:
            self._hashes.append(pa.array(map(hash, extract_keys(batch, self._names)), pa.int64()))

    def check_duplicates(self, source: InputFile, paths: Sequence[Path]) -> None:
        """Raise `BadInput` if two rows of the written files have the same key."""
        counts = pc.value_counts(pa.chunked_array(self._hashes, pa.int64()))
        suspects = set(counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist())
        if not suspects:
            return
        row_by_key: dict[tuple[Any, ...], int] = {}
        for row, key in enumerate(_read_keys(paths, self._names), start=1):
            if hash(key) in suspects:
                first = row_by_key.setdefault(key, row)
                if first != row:
                    names = ", ".join(self._names)
                    raise source.build_row_error(
                        row, f"has the same key as row {first} ({names}); a file may hold each key once"
                    )


def _read_keys(paths: Iterable[Path], names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=list(names)):
                yield from extract_keys(batch, names)


def extract_keys(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(_to_comparable(batch.column(name)) for name in names), strict=True)


def _to_comparable(column: pa.Array) -> list[Any]:
    """Values that are equal in Python if and only if they are equal in Spark, where NaN equals itself."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.string()).to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = column.to_pylist()
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        return [_freeze_value(value) for value in values]
    return values


def _freeze_value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_freeze_value(v) for v in value)
    if isinstance(value, dict):
        return tuple(_freeze_value(v) for v in value.values())
    return "NaN" if value != value else value
