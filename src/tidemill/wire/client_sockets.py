"""Sockets as the client opens them: refusals are the errors that they are, and breaks are told apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias
from urllib.parse import quote, urlencode

from pydantic import ValidationError
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tidemill.errors import TidemillError
from tidemill.wire.http_status import error_of
from tidemill.wire.refusals import Unreachable
from tidemill.wire.schemas import Failed

Socket: TypeAlias = ClientConnection

_LATER = 500  # from this status on, it is the server's trouble and may pass


class Broken(Exception):
    """The connection broke or could not be made: what was not acknowledged is to be sent again."""


@contextmanager
def opened(
    url: str, token: str | None, timeout: float, *where: str, **params: str | list[str] | int | None
) -> Iterator[Socket]:
    """A socket of the API at `url`; raises `Broken` when it breaks."""
    try:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        address = address_of(url, *where, **params)
        with connect(
            address, additional_headers=headers, open_timeout=timeout, compression=None, max_size=None, proxy=None
        ) as socket:
            yield socket
    except InvalidStatus as error:
        if error.response.status_code < _LATER:
            raise _refusal(error) from error
        raise Broken(f"the answer was {error.response.status_code}") from error
    except (ConnectionClosed, InvalidHandshake, OSError) as error:
        raise Broken(str(error) or type(error).__name__) from error


def address_of(url: str, *where: str, **params: str | list[str] | int | None) -> str:
    """
    >>> address_of("http://127.0.0.1:8484/", "channels", "a/b", "push", producer="p", after=None)
    'ws://127.0.0.1:8484/api/v1/channels/a%2Fb/push?producer=p'
    """
    wanted = {name: value for name, value in params.items() if value is not None}
    path = "/".join(quote(part, safe="") for part in where)
    return f"ws{url.rstrip('/').removeprefix('http')}/api/v1/{path}?{urlencode(wanted, doseq=True)}"


def _refusal(error: InvalidStatus) -> TidemillError:
    try:
        said = Failed.model_validate_json(error.response.body or b"").error
    except ValidationError:
        return Unreachable(f"the answer was {error.response.status_code}, without a word of Tidemill's; is this it?")
    return error_of(said.kind, said.message)
