"""Watermarks: events that arrive out of order are passed on once no older ones are expected.

A channel's *watermark* is an event time before which all events have arrived. It is the newest event time minus the
allowed delay, or is set by punctuation. Events up to the watermark are complete; younger ones are pending; an event
that arrives after the watermark has passed it is late, and stored separately.

Data frames are transformed by their methods, so this module does not depend on Spark.
"""

from collections.abc import Callable
from typing import Any

WATERMARK = "_edge"
"""The column of the current watermark. Stored blocks of pending events have it under this name."""

BEFORE = "_before"
"""The column of the previous watermark."""

Frames = dict[str, Any]


def build_watermark_function(at: str, delay: float, punctuation: str | None) -> Callable[..., Frames]:
    """Build a task function over new and pending rows; it returns the complete, the late and the pending rows.

    `punctuation` is a condition: an event that meets it guarantees that no older one will arrive.
    """
    condition = "" if punctuation is None else f" FILTER (WHERE {punctuation})"
    newest = f"max({at}){condition} - make_dt_interval(0, 0, 0, {delay})"

    def apply_watermark(rows: Any, pending: Any) -> Frames:
        watermarks = _compute_watermarks(rows, pending, newest)
        arrived = rows.crossJoin(watermarks)
        late = f"{at} IS NULL OR {at} <= {BEFORE}"
        waiting = arrived.where(f"NOT coalesce({late}, false)").unionByName(
            pending.where(f"{WATERMARK} IS NULL").drop(WATERMARK).crossJoin(watermarks)
        )
        past = f"{at} <= {WATERMARK}"
        still_pending = waiting.where(f"NOT coalesce({past}, false)").selectExpr(
            *rows.columns, f"CAST(NULL AS timestamp) {WATERMARK}"
        )
        watermark = watermarks.where(f"{WATERMARK} IS NOT NULL").select(WATERMARK)
        return {
            "complete": waiting.where(past).select(*rows.columns),
            "late": arrived.where(late).select(*rows.columns),
            "pending": still_pending.unionByName(watermark, allowMissingColumns=True),
        }

    return apply_watermark


def _compute_watermarks(rows: Any, pending: Any, newest: str) -> Any:
    """Return one row: the previous watermark, and the current one; it never decreases."""
    before = pending.selectExpr(f"max({WATERMARK}) AS {BEFORE}")
    now = rows.selectExpr(f"CAST({newest} AS timestamp) AS _newest")
    return before.crossJoin(now).selectExpr(BEFORE, f"greatest({BEFORE}, _newest) AS {WATERMARK}")
