"""Inserted in-memory tables: pandas, Arrow, or lists of rows."""

import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as pt

from tidemill.encoding.arrow_types import to_arrow_type
from tidemill.errors import BadInput
from tidemill.intake.loader import load_file
from tidemill.model.block import BlockKind
from tidemill.model.schema import Schema
from tidemill.ports.storage import LoadRequest, LoadResult
from tidemill.processes.scratch import open_scratch

_NAME = "the table"


def is_table(data: object) -> bool:
    """Whether it is a pandas DataFrame, an Arrow table, or a list of rows, each a mapping from names to values."""
    if isinstance(data, list | tuple):
        return all(isinstance(row, Mapping) for row in data)
    return isinstance(data, pa.Table | pa.RecordBatch) or _is_pandas(data)


def _is_pandas(data: object) -> bool:
    """Whether it is a pandas DataFrame; pandas need not be imported to know that it is none."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(data, pandas.DataFrame)


def load_table(data: Any, _path: Path, request: LoadRequest) -> LoadResult:
    """Write the rows of a table as a block, by the rules for Parquet files.

    Integers may have a wider type than the channel's if the values fit: pandas uses 64 bits by default, and floats
    where a value is missing.
    """
    is_base = request.kind is BlockKind.BASE
    target = request.schema if is_base else request.updates.build_delta_schema(request.schema)
    with tempfile.TemporaryDirectory(dir=open_scratch().path) as temporary:
        path = Path(temporary, "rows.parquet")
        pq.write_table(_to_arrow(data, target), path)
        try:
            return load_file(path, request)
        except BadInput as error:
            raise BadInput(str(error).replace(str(path), _NAME)) from None


def _to_arrow(data: Any, target: Schema) -> pa.Table:
    try:
        if isinstance(data, list | tuple):
            return _from_rows(data, target)
        if _is_pandas(data):
            data = pa.Table.from_pandas(data, preserve_index=False)
        table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
        return table.cast(pa.schema([_narrow_field(f, target) for f in table.schema]))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise _build_error(type(error).__name__) from error


def _from_rows(rows: Sequence[Mapping[str, Any]], target: Schema) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row)) or list(target.names)
    types = {f.name: to_arrow_type(f.data_type) for f in target}
    columns = [pa.array([row.get(name) for row in rows], types.get(name)) for name in names]
    return pa.Table.from_arrays(columns, names=names)


def _narrow_field(field: pa.Field, target: Schema) -> pa.Field:
    if field.name in target:
        kind = to_arrow_type(target.get_field(field.name).data_type)
        if pt.is_integer(kind) and (pt.is_integer(field.type) or pt.is_floating(field.type)):
            return field.with_type(kind)
    return field


def _build_error(reason: str) -> BadInput:
    return BadInput(
        f"{_NAME} does not fit the channel: a column has values of mixed types, or values that its type in the "
        f"channel cannot represent ({reason}); give each column one type, e.g. with astype. Nothing was inserted"
    )
