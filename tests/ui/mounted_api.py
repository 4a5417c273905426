"""Serves the API with the pages in this process, and prints the answers to some requests: `python -m … DIRECTORY`.

A separate process, because the pages can be mounted only once in each.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import httpx
from tests.server.mill import serve_project

from tidemill.cli.web import build_viewer
from tidemill.server.authentication import PREFIX
from tidemill.server.http_server import HttpListener
from tidemill.server.page_authentication import COOKIE, LOGOUT
from tidemill.ui.page import mount_pages

SOCKET_IO = "/_nicegui_ws/socket.io/?EIO=4&transport=polling"
OWN, FOREIGN = "own", "https://evil.example"
REQUESTS = (
    ("GET", "/api/v1/nothing", None),
    ("GET", "/api/nothing", None),
    ("DELETE", "/api/v1/channels", None),
    ("GET", "/runs", None),
    ("GET", SOCKET_IO, OWN),
    ("GET", SOCKET_IO, FOREIGN),
)


def main(directory: str) -> None:
    with serve_project(Path(directory)) as shop:
        identify_viewer = partial(build_viewer, shop.access)
        mount_pages(shop.app, shop.mill, identify_viewer, api_prefix=PREFIX, logout_path=LOGOUT)
        token = shop.tokens["viewer"]
        headers = {"Authorization": f"Bearer {token}", "Cookie": f"{COOKIE}={token}"}
        with HttpListener(shop.app, shop.access, port=0) as listener, httpx.Client(headers=headers) as client:
            for method, path, origin in REQUESTS:
                sent = {"Origin": listener.url if origin == OWN else origin} if origin else {}
                answer = client.request(method, f"{listener.url}{path}", headers=sent)
                print(json.dumps([method, path, origin, answer.status_code, answer.headers["content-type"]]))


if __name__ == "__main__":
    main(*sys.argv[1:])
