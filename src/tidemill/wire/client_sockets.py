"""WebSockets of the client: rejections raise the server's errors, and broken connections `ConnectionBroken`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias
from urllib.parse import quote, urlencode

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tidemill.errors import TidemillError
from tidemill.wire.refusals import Unreachable, build_error, find_status
from tidemill.wire.schemas import ErrorDetailDocument, ErrorDocument

Socket: TypeAlias = ClientConnection

_SERVER_ERROR = 500  # statuses from here on are server errors, which may be transient


class ConnectionBroken(Exception):
    """The connection broke or could not be opened: unacknowledged messages must be sent again."""


@contextmanager
def open_socket(
    url: str, token: str | None, timeout: float, *where: str, **params: str | list[str] | int | None
) -> Iterator[Socket]:
    """A WebSocket of the API at `url`; raises `ConnectionBroken` when it breaks."""
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        address = format_address(url, *where, **params)
        with connect(
            address, additional_headers=headers, open_timeout=timeout, compression=None, max_size=None, proxy=None
        ) as socket:
            yield socket
    except InvalidStatus as error:
        if error.response.status_code < _SERVER_ERROR:
            raise parse_refusal(error.response.status_code, bytes(error.response.body or b"")) from error
        raise ConnectionBroken(f"the response was {error.response.status_code}") from error
    except (ConnectionClosed, InvalidHandshake, OSError) as error:
        raise ConnectionBroken(str(error) or type(error).__name__) from error


def format_address(url: str, *where: str, **params: str | list[str] | int | None) -> str:
    """The WebSocket URL of a path of the API; parameters that are None are omitted.

    >>> format_address("http://127.0.0.1:8484/", "channels", "a/b", "push", producer="p", after=None)
    'ws://127.0.0.1:8484/api/v1/channels/a%2Fb/push?producer=p'
    """
    given_params = {name: value for name, value in params.items() if value is not None}
    path = "/".join(quote(part, safe="") for part in where)
    return f"ws{url.rstrip('/').removeprefix('http')}/api/v1/{path}?{urlencode(given_params, doseq=True)}"


def parse_refusal(status: int, body: bytes) -> TidemillError:
    """The error that a response of the server reports."""
    try:
        details = ErrorDocument.model_validate_json(body).error
    except ValidationError:
        return Unreachable(f"the response {status} is not from Tidemill; check the address")
    return build_error(details.kind, details.message)


def classify_refusal(details: ErrorDetailDocument, *transient: int) -> Exception:
    """The error that a message reports; `ConnectionBroken` for the server's errors and these statuses: try again."""
    error = build_error(details.kind, details.message)
    status = find_status(type(error))
    return ConnectionBroken(str(error)) if status >= _SERVER_ERROR or status in transient else error
