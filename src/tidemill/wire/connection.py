"""HTTP requests of the client: responses are typed documents, and rejections raise the server's errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from tidemill.wire.client_sockets import parse_refusal
from tidemill.wire.refusals import Unreachable
from tidemill.wire.server_sent_events import ServerSentEvent, parse_events
from tidemill.wire.upload_client import UploadBody

S = TypeVar("S", bound=BaseModel)

_PREFIX = "/api/v1"


class ApiConnection:
    """An HTTP connection to one server."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._no_read_timeout = httpx.Timeout(timeout, read=None)
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}{_PREFIX}/", headers=headers, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def get(self, document_type: type[S], *where: str | int, **params: Any) -> S:
        given_params = {name: value for name, value in params.items() if value is not None}
        return _parse_response(document_type, self._send_request("GET", where, params=given_params))

    def post_document(self, document_type: type[S], *where: str | int, json: Any = None, **params: Any) -> S:
        return _parse_response(document_type, self._send_request("POST", where, json=json, params=params))

    def post_work(self, document_type: type[S], *where: str | int, **params: Any) -> S:
        """Request work; the response comes after it is done, so there is no read timeout."""
        given_params = {name: value for name, value in params.items() if value is not None}
        options = {"params": given_params, "timeout": self._no_read_timeout}
        return _parse_response(document_type, self._send_request("POST", where, **options))

    def put_document(self, document_type: type[S], *where: str | int, json: Any) -> S:
        return _parse_response(document_type, self._send_request("PUT", where, json=json))

    def delete_document(self, document_type: type[S], *where: str | int) -> S:
        """Delete something whose last state the server returns."""
        return _parse_response(document_type, self._send_request("DELETE", where))

    def delete(self, *where: str | int) -> None:
        self._send_request("DELETE", where)

    def send_upload(
        self, document_type: type[S], body: UploadBody, headers: dict[str, str], *where: str | int, **params: Any
    ) -> S:
        """Send an upload; the response comes after the insert is committed, so there is no read timeout."""
        request = {
            "content": body.content,
            "headers": body.headers | headers,
            "params": params,
            "timeout": self._no_read_timeout,
        }
        return _parse_response(document_type, self._send_request("POST", where, **request))

    def stream_events(self, after: int | None, *where: str | int) -> Iterator[ServerSentEvent]:
        """The messages of a stream until it ends, or breaks with `httpx.TransportError`."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        with self._http.stream("GET", _format_path(where), headers=headers) as response:
            if not response.is_success:
                response.read()
                raise parse_refusal(response.status_code, response.content)
            yield from parse_events(response.iter_lines())

    def _send_request(self, method: str, path: tuple[str | int, ...], **options: Any) -> httpx.Response:
        response = call_server(lambda: self._http.request(method, _format_path(path), **options))
        if not response.is_success:
            raise parse_refusal(response.status_code, response.content)
        return response


def call_server(call: Callable[[], httpx.Response]) -> httpx.Response:
    try:
        return call()
    except httpx.TransportError as error:
        raise to_unreachable(error) from error


def to_unreachable(error: httpx.TransportError) -> Unreachable:
    reason = str(error) or type(error).__name__
    return Unreachable(f"the server does not answer: {reason}; check its address, and that it is running")


def _format_path(parts: tuple[str | int, ...]) -> str:
    """The parts as an escaped path.

    >>> _format_path(("channels", "../x", "rows"))
    'channels/..%2Fx/rows'
    """
    return "/".join(quote(str(part), safe="") for part in parts)


def _parse_response(shape: type[S], response: httpx.Response) -> S:
    try:
        return shape.model_validate_json(response.content)
    except ValidationError as error:
        raise Unreachable("the response is not from Tidemill, or from an incompatible version") from error
