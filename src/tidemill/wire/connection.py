"""HTTP requests of the client: responses are typed documents, and rejections raise the server's errors."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from tidemill.wire.client_sockets import parse_refusal
from tidemill.wire.refusals import Unreachable

S = TypeVar("S", bound=BaseModel)

_PREFIX = "/api/v1"


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One message of a stream; without data it only gives the current position."""

    id: int | None
    data: str | None


class ApiConnection:
    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._no_read_timeout = httpx.Timeout(timeout, read=None)
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}{_PREFIX}/", headers=headers, timeout=timeout)

    def close(self) -> None:
        self._http.close()

    def get(self, document_type: type[S], *where: str | int, **params: Any) -> S:
        return self.request("GET", document_type, *where, params=params)

    def post(self, document_type: type[S], *where: str | int, **options: Any) -> S:
        return self.request("POST", document_type, *where, **options)

    def delete(self, *where: str | int) -> None:
        self._send_request("DELETE", where)

    def request(
        self,
        method: str,
        document_type: type[S],
        *where: str | int,
        params: Mapping[str, Any] | None = None,
        is_work: bool = False,
        **options: Any,
    ) -> S:
        """`is_work`: the response comes after the work is done, so there is no read timeout."""
        options["params"] = {name: value for name, value in (params or {}).items() if value is not None}
        if is_work:
            options["timeout"] = self._no_read_timeout
        response = self._send_request(method, where, **options)
        try:
            return document_type.model_validate_json(response.content)
        except ValidationError as error:
            raise Unreachable("the response is not from Tidemill, or from an incompatible version") from error

    def stream_events(self, after: int | None, *where: str | int) -> Iterator[ServerSentEvent]:
        """The messages of a stream until it ends, or breaks with `httpx.TransportError`."""
        headers = {"Accept": "text/event-stream"} | ({} if after is None else {"Last-Event-ID": str(after)})
        with self._http.stream("GET", _format_path(where), headers=headers) as response:
            if not response.is_success:
                response.read()
                raise parse_refusal(response.status_code, response.content)
            yield from _parse_events(response.iter_lines())

    def _send_request(self, method: str, path: tuple[str | int, ...], **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, _format_path(path), **options)
        except httpx.TransportError as error:
            raise to_unreachable(error) from error
        if not response.is_success:
            raise parse_refusal(response.status_code, response.content)
        return response


def to_unreachable(error: httpx.TransportError) -> Unreachable:
    reason = str(error) or type(error).__name__
    return Unreachable(f"the server does not answer: {reason}; check its address, and that it is running")


def _format_path(parts: tuple[str | int, ...]) -> str:
    """The parts as an escaped path.

    >>> _format_path(("channels", "../x", "rows"))
    'channels/..%2Fx/rows'
    """
    return "/".join(quote(str(part), safe="") for part in parts)


def _parse_events(lines: Iterable[str]) -> Iterator[ServerSentEvent]:
    """The complete messages. An incomplete message at the end of a broken stream is dropped: it is sent again.

    >>> list(_parse_events(["id: 7", "event: run.finished", "data: {}", "", ": ping", "", "id: 8", "data: {"]))
    [ServerSentEvent(id=7, data='{}')]
    """
    number: int | None = None
    data: list[str] = []
    for line in lines:
        name, _, value = line.partition(":")
        match name:
            case "id":
                number = int(value)
            case "data":
                data.append(value.removeprefix(" "))
            case "" if not line and (number is not None or data):
                yield ServerSentEvent(number, "\n".join(data) if data else None)
                number, data = None, []
