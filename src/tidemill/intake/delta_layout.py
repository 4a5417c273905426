"""The columns that a file must have to be a delta of a channel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tidemill.encoding.arrow_types import to_arrow_field, to_arrow_type
from tidemill.intake.input_file import InputFile
from tidemill.model.change import COUNT, DELETED, Custom, Increment, Updates, Upsert
from tidemill.model.schema import Field, Schema

_DEFAULTS: Mapping[str, object] = {COUNT: 1, DELETED: False}


@dataclass(frozen=True, slots=True)
class DeltaLayout:
    """The columns of a delta in order, and which of them a file may omit."""

    schema: Schema
    updates: Updates
    defaults: Mapping[str, object]  # by the columns that a file may omit

    @classmethod
    def from_schema(cls, schema: Schema, updates: Updates) -> DeltaLayout:
        delta = updates.build_delta_schema(schema)
        added = () if isinstance(updates, Custom) else tuple(n for n in delta.names if n not in schema)
        return cls(delta, updates, {name: _DEFAULTS[name] for name in added})

    @property
    def arrow_schema(self) -> pa.Schema:
        """The schema of the Parquet files. A deletion needs only its key, so other columns are always nullable."""
        return pa.schema([to_arrow_field(replace(f, nullable=f.nullable or self.can_lack(f))) for f in self.schema])

    def can_lack(self, field: Field) -> bool:
        """Whether the column's value is ignored in deletions."""
        return isinstance(self.updates, Upsert | Increment) and field.name not in self.updates.key

    def check_names(self, source: InputFile, names: Sequence[str]) -> None:
        duplicates = [name for name, count in Counter(names).items() if count > 1]
        missing = [name for name in self.schema.names if name not in names and name not in self.defaults]
        extra = [name for name in names if name not in self.schema]
        if duplicates:
            raise source.build_error(f"column {duplicates[0]!r} occurs twice; name each column once")
        if missing:
            raise source.build_error(f"{_format_columns(missing)} missing; it has {shorten_names(names)}")
        if extra:
            raise source.build_error(f"{_format_columns(extra)} unknown; expected {', '.join(self.schema.names)}")

    def build_batch(self, columns: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """All columns in order, with defaults for those that the file omits."""
        arrays = [columns[f.name] if f.name in columns else self._fill_default(f, rows) for f in self.schema]
        return pa.record_batch(
            arrays, schema=pa.schema([to_arrow_field(replace(f, nullable=True)) for f in self.schema])
        )

    def _fill_default(self, field: Field, rows: int) -> pa.Array:
        return pa.repeat(pa.scalar(self.defaults[field.name], to_arrow_type(field.data_type)), rows)


def _format_columns(names: Sequence[str]) -> str:
    return f"column {shorten_names(names)} is" if len(names) == 1 else f"columns {shorten_names(names)} are"


_MAX_NAMES, _MAX_NAME = 50, 200  # names in a message, and characters of one: a file may have millions


def shorten_names(names: Sequence[str]) -> str:
    """The names, or the first of them, for a message.

    >>> shorten_names(["a", "b"]), len(shorten_names(["x" * 1000] * 1000))
    ('a, b', 10108)
    """
    shown = ", ".join(name[:_MAX_NAME] for name in names[:_MAX_NAMES])
    return shown if len(names) <= _MAX_NAMES else f"{shown}, and more"
