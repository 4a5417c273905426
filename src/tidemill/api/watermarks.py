"""Watermarks: events that arrive out of order are passed on once no older ones are expected.

A channel's *watermark* is an event time before which all events have arrived. It is the newest event time minus the
allowed disorder, or is set by punctuation. Events up to the watermark are settled; younger ones are held; an event that
arrives after the watermark has passed it is late, and stored separately.

Data frames are transformed by their methods, so this module does not depend on Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WATERMARK = "_edge"
BEFORE = "_before"
"""Columns: the current watermark, and the previous one."""

Frames = dict[str, Any]


def build_watermark_function(at: str, disorder: float, punctuation: str | None) -> Callable[..., Frames]:
    """Build a task function over new and held rows; it returns the settled, the late, and the rows to hold.

    `punctuation` is a condition: an event that meets it guarantees that no older one will arrive.
    """
    tells = "" if punctuation is None else f" FILTER (WHERE {punctuation})"
    reached = f"max({at}){tells} - make_dt_interval(0, 0, 0, {disorder})"

    def apply_watermark(rows: Any, held: Any) -> Frames:
        edges = _compute_watermarks(rows, held, reached)
        arrived = rows.crossJoin(edges)
        late = f"{at} IS NULL OR {at} <= {BEFORE}"
        waiting = arrived.where(f"NOT coalesce({late}, false)").unionByName(
            held.where(f"{WATERMARK} IS NULL").drop(WATERMARK).crossJoin(edges)
        )
        past = f"{at} <= {WATERMARK}"
        still = waiting.where(f"NOT coalesce({past}, false)").selectExpr(
            *rows.columns, f"CAST(NULL AS timestamp) {WATERMARK}"
        )
        return {
            "settled": waiting.where(past).select(*rows.columns),
            "late": arrived.where(late).select(*rows.columns),
            "held": still.unionByName(
                edges.where(f"{WATERMARK} IS NOT NULL").select(WATERMARK), allowMissingColumns=True
            ),
        }

    return apply_watermark


def _compute_watermarks(rows: Any, held_rows: Any, reached: str) -> Any:
    """Return one row: the previous watermark, and the current one; it never decreases."""
    before = held_rows.selectExpr(f"max({WATERMARK}) AS {BEFORE}")
    now = rows.selectExpr(f"CAST({reached} AS timestamp) AS _reached")
    return before.crossJoin(now).selectExpr(BEFORE, f"greatest({BEFORE}, _reached) AS {WATERMARK}")
