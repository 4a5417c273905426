"""How a client asks: documents in typed shapes, refusals as the errors that they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from tidemill.errors import TidemillError
from tidemill.wire.http_status import build_error
from tidemill.wire.refusals import Unreachable
from tidemill.wire.schemas import ErrorDocument
from tidemill.wire.server_sent_events import ServerSentEvent, parse_events
from tidemill.wire.upload_client import UploadBody

S = TypeVar("S", bound=BaseModel)

_PREFIX = "/api/v1"


class ApiConnection:
    """To one server."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._timeout = timeout
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}{_PREFIX}/", headers=headers, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def get(self, shape: type[S], *where: str | int, **params: Any) -> S:
        wanted = {name: value for name, value in params.items() if value is not None}
        return _parse_response(shape, self._send_request("GET", where, params=wanted))

    def send_change(self, shape: type[S], method: str, *where: str | int, json: Any = None, **params: Any) -> S:
        return _parse_response(shape, self._send_request(method, where, json=json, params=params))

    def delete(self, *where: str | int) -> None:
        self._send_request("DELETE", where)

    def send_upload(
        self, shape: type[S], what: UploadBody, headers: dict[str, str], *where: str | int, **params: Any
    ) -> S:
        """An upload; its answer comes when all of it is inserted, however long that takes."""
        patient = httpx.Timeout(self._timeout, read=None)
        sent = {"content": what.content, "headers": what.headers | headers, "params": params, "timeout": patient}
        return _parse_response(shape, self._send_request("POST", where, **sent))

    def stream_events(self, after: int | None, *where: str | int) -> Iterator[ServerSentEvent]:
        """The messages of a stream until it ends, or breaks with `httpx.TransportError`."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        with self._http.stream("GET", _format_path(where), headers=headers) as answer:
            if not answer.is_success:
                answer.read()
                raise _parse_refusal(answer)
            yield from parse_events(answer.iter_lines())

    def _send_request(self, method: str, where: tuple[str | int, ...], **sent: Any) -> httpx.Response:
        answer = call_server(lambda: self._http.request(method, _format_path(where), **sent))
        if not answer.is_success:
            raise _parse_refusal(answer)
        return answer


def call_server(call: Callable[[], httpx.Response]) -> httpx.Response:
    try:
        return call()
    except httpx.TransportError as error:
        raise to_unreachable(error) from error


def to_unreachable(error: httpx.TransportError) -> Unreachable:
    said = str(error) or type(error).__name__
    return Unreachable(f"the server does not answer: {said}; check its address, and that it is up")


def _format_path(parts: tuple[str | int, ...]) -> str:
    """
    >>> _format_path(("channels", "../x", "rows"))
    'channels/..%2Fx/rows'
    """
    return "/".join(quote(str(part), safe="") for part in parts)


def _parse_response(shape: type[S], answer: httpx.Response) -> S:
    try:
        return shape.model_validate_json(answer.content)
    except ValidationError as error:
        raise Unreachable("what answers is no Tidemill, or one that this client does not know") from error


def _parse_refusal(answer: httpx.Response) -> TidemillError:
    try:
        said = ErrorDocument.model_validate_json(answer.content).error
    except ValidationError:
        return Unreachable(f"the answer was {answer.status_code}, without a word of Tidemill's; is this its address?")
    return build_error(said.kind, said.message)
