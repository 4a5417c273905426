"""Errors as HTTP responses. They never contain paths, addresses, SQL statements or secrets of the server."""

import logging
import tempfile
from pathlib import Path
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError, WebSocketRequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from tidemill.errors import BadInput, CatalogError, EngineError, GarbageCollected, NotFound, StorageError, TidemillError
from tidemill.model.error_summary import summarize_error
from tidemill.model.redaction import NO_SECRETS, Redactor
from tidemill.wire.refusals import Invalid, NoSuchMethod, TooLarge, TooManyFailures, Unidentified, find_status
from tidemill.wire.schemas import ErrorDocument

_DESCRIPTIONS = {
    400: "The request body is invalid",
    401: "No valid token",
    403: "The caller is not allowed to do this",
    404: "There is no such name or number",
    409: "A concurrent change conflicts, or the current state does not allow this",
    410: "The data of that time is no longer stored",
    413: "The request is too large",
    415: "The format is not supported",
    421: "Not a name of this server",
    422: "A parameter, a setting or a workflow is invalid",
    429: "Too many wrong tokens",
    500: "An internal error of Tidemill",
    503: "The catalog, the block store or Spark is unavailable",
}

COMMON_STATUSES = (401, 403, 421, 422, 429, 500, 503)

Responses = dict[int | str, dict[str, Any]]


def build_responses(*statuses: int) -> Responses:
    return {status: {"model": ErrorDocument, "description": _DESCRIPTIONS[status]} for status in statuses}


def build_response_references(*statuses: int) -> Responses:
    """The same for a route whose success is not JSON, where the media type of errors must be given explicitly."""
    schema = {"schema": {"$ref": f"#/components/schemas/{ErrorDocument.__name__}"}}
    return {s: {"description": _DESCRIPTIONS[s], "content": {"application/json": schema}} for s in statuses}


log = logging.getLogger("tidemill.server")

_INTERNAL_MESSAGES: dict[type[TidemillError], str] = {
    CatalogError: "the catalog cannot be used just now; the server's log says why",
    StorageError: "the block store cannot be used just now; the server's log says why",
    EngineError: "Spark cannot be used just now; the server's log says why",
}
_INTERNAL_ERROR = "something went wrong in Tidemill; the server's log says what"
_MAX_PROBLEMS = 5  # problems of one request that are reported


class ErrorResponder:
    """Builds responses from errors, for a project in a directory."""

    def __init__(self, directory: Path, redactor: Redactor = NO_SECRETS) -> None:
        self._redactor = redactor
        self._paths = (f"{directory}/", str(directory), f"{tempfile.gettempdir()}/")

    def __call__(self, error: BaseException) -> JSONResponse:
        known = error if isinstance(error, TidemillError) else _translate_error(error)
        if known is None:
            log.error("%s", summarize_error(error), exc_info=error)
            return _build_response(500, "TidemillError", _INTERNAL_ERROR)
        status = find_status(type(known))
        if status >= 500:
            log.error("%s: %s", type(known).__name__, known)
        return _build_response(status, type(known).__name__, self._format_message(known), _build_headers(known))

    async def handle_error(self, _request: Request, error: Exception) -> JSONResponse:
        """The signature of a FastAPI exception handler."""
        return self(error)

    def _format_message(self, error: TidemillError) -> str:
        internal = next((message for kind, message in _INTERNAL_MESSAGES.items() if isinstance(error, kind)), None)
        if internal is not None and not isinstance(error, GarbageCollected):
            return internal
        message = self._redactor.summarize(error)
        for path in self._paths:
            message = message.replace(path, "")
        return message


def _build_response(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # Messages repeat names that callers sent, which may not be valid UTF-8.
    valid = message.encode("utf-8", "replace").decode()
    return JSONResponse({"error": {"kind": kind, "message": valid}}, status, headers)


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
    """The framework's error as one of Tidemill's; None if there is no equivalent."""
    match error:
        case RequestValidationError() | WebSocketRequestValidationError():
            problems = error.errors()[:_MAX_PROBLEMS]
            return Invalid("; ".join(f"{'.'.join(map(str, p['loc']))}: {p['msg']}" for p in problems))
        case HTTPException(status_code=404):
            return NotFound("there is no such address; the document at /api/v1/openapi.json lists all addresses")
        case HTTPException(status_code=405):
            allowed = (error.headers or {}).get("Allow", "")
            return NoSuchMethod(f"this address only supports {allowed or 'other methods'}", allowed)
        case HTTPException(status_code=413):
            return TooLarge(error.detail)
        case HTTPException(status_code=400):
            return BadInput("the body cannot be read; send one JSON document")
        case RecursionError():
            log.warning("a request is nested too deeply to be processed", exc_info=error)
            return BadInput("the request is nested too deeply to be processed; simplify its queries and documents")
        case _:
            return None
