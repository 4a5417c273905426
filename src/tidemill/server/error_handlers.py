"""Errors as HTTP responses. Paths, addresses and statements of the server never appear in them."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tidemill.errors import BadInput, CatalogError, Collected, EngineError, NotFound, StorageError, TidemillError
from tidemill.wire.http_status import find_status
from tidemill.wire.refusals import Invalid, NoSuchMethod, TooLarge, TooManyFailures, Unidentified
from tidemill.wire.schemas import ErrorDocument

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

Responses = dict[int | str, dict[str, Any]]


def build_responses(*statuses: int) -> Responses:
    return {status: {"model": ErrorDocument, "description": _SAID[status]} for status in statuses}


def build_response_references(*statuses: int) -> Responses:
    """The same for a route whose success is no JSON: what is not said to be JSON is taken for what the success is."""
    schema = {"schema": {"$ref": f"#/components/schemas/{ErrorDocument.__name__}"}}
    return {s: {"description": _SAID[s], "content": {"application/json": schema}} for s in statuses}


log = logging.getLogger("tidemill.server")

_INSIDE: dict[type[TidemillError], str] = {
    CatalogError: "the catalog cannot be used just now; the server's log says why",
    StorageError: "the block store cannot be used just now; the server's log says why",
    EngineError: "Spark cannot be used just now; the server's log says why",
}
_FAULT = "something went wrong in Tidemill; the server's log says what"
_SHOWN = 5  # problems of one request that are told


class ErrorResponder:
    """Makes answers of errors for a project in a directory."""

    def __init__(self, directory: Path) -> None:
        self._paths = (f"{directory}/", str(directory), f"{tempfile.gettempdir()}/")

    def __call__(self, error: BaseException) -> JSONResponse:
        known = error if isinstance(error, TidemillError) else _translate_error(error)
        if known is None:
            log.error("%s: %s", type(error).__name__, error, exc_info=error)
            return _build_response(500, "TidemillError", _FAULT)
        status = find_status(type(known))
        if status >= 500:
            log.error("%s: %s", type(known).__name__, known)
        return _build_response(status, type(known).__name__, self._format_message(known), _build_headers(known))

    async def handle_error(self, _request: Request, error: Exception) -> JSONResponse:
        """As FastAPI calls it."""
        return self(error)

    def _format_message(self, error: TidemillError) -> str:
        inside = next((said for kind, said in _INSIDE.items() if isinstance(error, kind)), None)
        if inside is not None and not isinstance(error, Collected):
            return inside
        said = str(error)
        for path in self._paths:
            said = said.replace(path, "")
        return said


def _build_response(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # Names that callers send come back in messages, and may hold what is no UTF-8.
    sound = message.encode("utf-8", "replace").decode()
    return JSONResponse({"error": {"kind": kind, "message": sound}}, status, headers)


def _build_headers(error: TidemillError) -> dict[str, str] | None:
    match error:
        case TooManyFailures():
            return {"Retry-After": str(error.wait)}
        case Unidentified():
            return {"WWW-Authenticate": 'Bearer realm="tidemill"'}
        case NoSuchMethod():
            return {"Allow": error.allowed}
        case _:
            return None


def _translate_error(error: BaseException) -> TidemillError | None:
    """What the framework found wrong, as one of ours."""
    match error:
        case RequestValidationError() | WebSocketRequestValidationError():
            return Invalid("; ".join(_format_problem(p) for p in list(error.errors())[:_SHOWN]))
        case HTTPException(status_code=404):
            return NotFound("there is nothing at this address; the document at /api/v1/openapi.json lists what is")
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("Allow", "")
            return NoSuchMethod(f"this address knows {allowed or 'other methods'} only", allowed)
        case HTTPException(status_code=413):
            return TooLarge(error.detail)
        case HTTPException(status_code=400):
            return BadInput("the body cannot be read; send one JSON document")
        case _:
            return None


def _format_problem(problem: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}"
