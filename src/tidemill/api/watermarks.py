"""Trailing edges: events that come out of order, let through once nothing older is to be expected.

A channel's *trailing edge* is a moment of event time: whatever happened before it has arrived. It is so long before the
newest event as events may be out of order, or where punctuation puts it. Events up to the edge are settled; younger
ones are held; an event that comes after the edge has passed it is late, and kept apart.

Frames are worked on by their own methods, so this knows no Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

EDGE = "_edge"
BEFORE = "_before"
"""Columns: where the edge is now, and where it was."""

Frames = dict[str, Any]


def build_watermark_function(at: str, disorder: float, punctuation: str | None) -> Callable[..., Frames]:
    """A task over what is new and what is held; it gives what is settled, what is late, and what is held from now on.

    `punctuation` is a condition: an event that fulfils it says that nothing older than itself will come.
    """
    tells = "" if punctuation is None else f" FILTER (WHERE {punctuation})"
    reached = f"max({at}){tells} - make_dt_interval(0, 0, 0, {disorder})"

    def apply_watermark(rows: Any, held: Any) -> Frames:
        edges = _compute_watermarks(rows, held, reached)
        arrived = rows.crossJoin(edges)
        late = f"{at} IS NULL OR {at} <= {BEFORE}"
        waiting = arrived.where(f"NOT coalesce({late}, false)").unionByName(
            held.where(f"{EDGE} IS NULL").drop(EDGE).crossJoin(edges)
        )
        past = f"{at} <= {EDGE}"
        still = waiting.where(f"NOT coalesce({past}, false)").selectExpr(
            *rows.columns, f"CAST(NULL AS timestamp) {EDGE}"
        )
        return {
            "settled": waiting.where(past).select(*rows.columns),
            "late": arrived.where(late).select(*rows.columns),
            "held": still.unionByName(edges.where(f"{EDGE} IS NOT NULL").select(EDGE), allowMissingColumns=True),
        }

    return apply_watermark


def _compute_watermarks(rows: Any, held: Any, reached: str) -> Any:
    """One row: where the edge was, and where it is; it never goes back."""
    before = held.selectExpr(f"max({EDGE}) AS {BEFORE}")
    now = rows.selectExpr(f"CAST({reached} AS timestamp) AS _reached")
    return before.crossJoin(now).selectExpr(BEFORE, f"greatest({BEFORE}, _reached) AS {EDGE}")
