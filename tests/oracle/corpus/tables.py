"""The tables that the corpus's queries read, and their rows in three steps."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from tests.oracle.queries.histories import Input, Insert, Step

from tidemill.model.change import Append, Signed, Upsert

INPUTS = (
    Input(
        "t",
        "id int, k int, g string, v int, d double, m decimal(8, 2), ts timestamp, day date, tags array<string>, "
        "st struct<a: int, b: string>, ok boolean",
        Signed(),
    ),
    Input("u", "k int, g string, w int, x double", Upsert(("k",))),
    Input("c", "k int, v bigint, note string, _order1 int", Append()),
)
NAN = float("nan")


def _t(
    id: int,
    k: int | None,
    g: str | None,
    v: int | None,
    d: float | None,
    m: str | None,
    minutes: int | None,
    tags: list[str | None] | None,
    a: int | None,
    ok: bool | None,
    count: int = 1,
) -> dict[str, Any]:
    at = None if minutes is None else dt.datetime(2024, 2, 28, 23, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)
    return {
        "id": id,
        "k": k,
        "g": g,
        "v": v,
        "d": d,
        "m": None if m is None else Decimal(m),
        "ts": at,
        "day": None if at is None else at.date(),
        "tags": tags,
        "st": None if a is None else {"a": a, "b": f"b{a}"},
        "ok": ok,
        "_count": count,
    }


def _u(k: int, g: str | None, w: int | None, x: float | None, deleted: bool = False) -> dict[str, Any]:
    return {"k": k, "g": g, "w": w, "x": x, "_deleted": deleted}


def _c(k: int | None, v: int | None, note: str | None, order: int) -> dict[str, Any]:
    return {"k": k, "v": v, "note": note, "_order1": order}


_FIRST = [
    _t(1, 1, "a", 10, 0.5, "1.50", 0, ["x", "y"], 1, True),
    _t(2, 1, "a", 20, -0.0, "2.25", 3, ["y"], 2, False),
    _t(3, 2, "b", None, 0.0, None, 20, [], None, None),
    _t(4, None, "b", 5, NAN, "0.10", 61, None, 1, True),
    _t(5, 3, None, 7, 2.5, "9.99", None, ["z", None], 3, False),
]

HISTORY: tuple[Step, ...] = (
    (
        Insert("t", _FIRST),
        Insert("u", [_u(1, "a", 100, 1.0), _u(2, "b", None, NAN), _u(5, "e", 500, 0.0)]),
        Insert("c", [_c(1, 4, "First note", 1), _c(2, None, None, 2), _c(None, 9, "it's", 3)]),
    ),
    (
        Insert(
            "t",
            [
                _t(2, 1, "a", 20, -0.0, "2.25", 3, ["y"], 2, False, -1),
                _t(2, 1, "c", 25, NAN, "2.50", 4, ["y", "x"], 2, True),
                _t(6, 5, "e", 1, -0.0, "3.00", 125, ["q"], 5, None),
                _t(1, 1, "a", 10, 0.5, "1.50", 0, ["x", "y"], 1, True),
            ],
        ),
        Insert("u", [_u(2, "b", 200, -0.0), _u(1, "a", 100, 1.0, True), _u(3, None, 300, NAN)]),
        Insert("c", [_c(3, 4, "late", 4), _c(1, 6, "FIRST note", 5)]),
    ),
    (
        Insert("t", [{**row, "_count": -1} for row in _FIRST if row["id"] != 2]),
        Insert("u", [_u(5, "e", 500, 0.0, True)]),
        Insert("c", [_c(5, 0, "", 6)]),
    ),
    (Insert("u", [_u(4, "b", 25, 0.5), _u(6, "c", 4, -0.0)]),),
)
"""A first insert; changes of every kind, with NaN and negative zero, that delete most rows and the last rows of groups;
a change of one table only."""
