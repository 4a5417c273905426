"""Errors as answers. Nothing of the server's inside shows: paths, addresses and statements stay in its log."""

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
from tidemill.wire.http_status import status_of
from tidemill.wire.refusals import Invalid, NoSuchMethod, TooLarge, TooManyFailures, Unidentified

log = logging.getLogger("tidemill.server")

_INSIDE: dict[type[TidemillError], str] = {
    CatalogError: "the catalog cannot be used just now; the server's log says why",
    StorageError: "the block store cannot be used just now; the server's log says why",
    EngineError: "Spark cannot be used just now; the server's log says why",
}
_FAULT = "something went wrong in Tidemill; the server's log says what"
_SHOWN = 5  # problems of one request that are told


class Answers:
    """Makes answers of errors for a project in a directory."""

    def __init__(self, directory: Path) -> None:
        self._paths = (f"{directory}/", str(directory), f"{tempfile.gettempdir()}/")

    def __call__(self, error: BaseException) -> JSONResponse:
        known = error if isinstance(error, TidemillError) else _known(error)
        if known is None:
            log.error("%s: %s", type(error).__name__, error, exc_info=error)
            return _answer(500, "TidemillError", _FAULT)
        status = status_of(type(known))
        if status >= 500:
            log.error("%s: %s", type(known).__name__, known)
        return _answer(status, type(known).__name__, self._message(known), _headers(known))

    async def handle(self, _request: Request, error: Exception) -> JSONResponse:
        """As FastAPI calls it."""
        return self(error)

    def _message(self, error: TidemillError) -> str:
        inside = next((said for kind, said in _INSIDE.items() if isinstance(error, kind)), None)
        if inside is not None and not isinstance(error, Collected):
            return inside
        said = str(error)
        for path in self._paths:
            said = said.replace(path, "")
        return said


def _answer(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    # Names that callers send come back in messages, and may hold what is no UTF-8.
    sound = message.encode("utf-8", "replace").decode()
    return JSONResponse({"error": {"kind": kind, "message": sound}}, status, headers)


def _headers(error: TidemillError) -> dict[str, str] | None:
    match error:
        case TooManyFailures():
            return {"Retry-After": str(error.wait)}
        case Unidentified():
            return {"WWW-Authenticate": 'Bearer realm="tidemill"'}
        case NoSuchMethod():
            return {"Allow": error.allowed}
        case _:
            return None


def _known(error: BaseException) -> TidemillError | None:
    """What the framework found wrong, as one of ours."""
    match error:
        case RequestValidationError() | WebSocketRequestValidationError():
            return Invalid("; ".join(_problem(p) for p in list(error.errors())[:_SHOWN]))
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


def _problem(problem: dict[str, Any]) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}"
