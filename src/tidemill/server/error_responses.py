"""Which answers a route declares that are no success."""

from __future__ import annotations

from typing import Any

from tidemill.wire.schemas import Failed

_SAID = {
    400: "What was sent cannot be used",
    401: "No token that can be used",
    403: "The caller may not do this",
    404: "Nothing has this name or number",
    409: "Somebody else changed this first, or it cannot be changed now",
    410: "What was there then is no longer kept",
    413: "More than is taken",
    415: "No format that is read",
    421: "Not a name of this server",
    422: "A parameter, a setting or a workflow cannot be used",
    429: "Too many wrong tokens",
    500: "A fault in Tidemill",
    503: "The catalog, the block store or Spark cannot be used just now",
}

ANYWHERE = (401, 403, 421, 422, 429, 500, 503)

Answers = dict[int | str, dict[str, Any]]


def answers(*statuses: int) -> Answers:
    return {status: {"model": Failed, "description": _SAID[status]} for status in statuses}


def referred(*statuses: int) -> Answers:
    """The same for a route whose success is no JSON: what is not said to be JSON is taken for what the success is."""
    schema = {"schema": {"$ref": f"#/components/schemas/{Failed.__name__}"}}
    return {s: {"description": _SAID[s], "content": {"application/json": schema}} for s in statuses}
