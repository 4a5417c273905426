"""Encoding of cells for JSON, CSV and tables; `insert` parses the first two."""

import base64
import datetime as dt
import json
import math
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from tidemill.model.schema import Field


def to_json(value: Any, kind: exp.DataType) -> Any:
    """A cell as JSON, without loss: values that JSON has no type for become strings.

    >>> to_json([("k", Decimal("1.10"))], Field("m", "MAP<STRING, DECIMAL(9, 2)>").data_type)
    {'k': '1.10'}
    """
    if value is None:
        return None
    match kind.this:
        case exp.DType.ARRAY:
            return [to_json(item, kind.expressions[0]) for item in value]
        case exp.DType.MAP:  # Arrow gives the entries as pairs
            key, item = kind.expressions
            return {to_text(k, key): to_json(v, item) for k, v in value}
        case exp.DType.STRUCT:
            return {field.name: to_json(value[field.name], field.kind) for field in kind.expressions}
        case _:
            return _to_json_scalar(value)


def to_text(value: Any, kind: exp.DataType) -> str:
    """A cell as a string.

    >>> to_text(True, Field("b", "BOOLEAN").data_type), to_text([1, None], Field("a", "ARRAY<INT>").data_type)
    ('true', '[1, null]')
    """
    encoded = to_json(value, kind)
    return encoded if isinstance(encoded, str) else json.dumps(encoded, ensure_ascii=False)


def format_csv_line(cells: Iterable[str | None]) -> str:
    """One line of CSV. NULL is an empty field, an empty string a pair of quotes, as `insert` distinguishes them.

    >>> format_csv_line(["1", None, "", "say 'a,b'"])
    '1,,"","say \\'a,b\\'"'
    """
    # The csv module cannot distinguish NULL and the empty string before Python 3.12.
    return ",".join("" if text is None else _quote_csv(text) for text in cells)


def _quote_csv(text: str) -> str:
    if text and not set(text) & set(',"\r\n'):
        return text
    return '"' + text.replace('"', '""') + '"'


def _to_json_scalar(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
        case dt.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case dt.date():
            return value.isoformat()
        case Decimal():
            return f"{value:f}"
        case bytes():
            return base64.b64encode(value).decode()
        case _:
            return value


def is_number(field: Field) -> bool:
    return field.data_type.this in exp.DataType.NUMERIC_TYPES
