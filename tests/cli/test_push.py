"""`push` and `subscribe` as processes, against a listening server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.mill import OPTIONS, ServedProject, serve_project

from tidemill.server.http_server import HttpListener

RUN = "from tidemill.cli import main; main()"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    with serve_project(tmp_path_factory.mktemp("shop"), options=replace(OPTIONS, stream_seconds=60.0)) as project:
        yield project


@pytest.fixture(scope="module")
def url(shop: ServedProject) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


def run(shop: ServedProject, url: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TIDEMILL_URL": url, "TIDEMILL_TOKEN": shop.tokens["owner"]}
    program = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(
        program, input=stdin, env=environment, capture_output=True, text=True, timeout=60, check=False
    )


def format_lines(*numbers: int) -> str:
    return "".join(json.dumps({"id": n, "word": "w"}) + "\n" for n in numbers)


@pytest.mark.long
def test_rows_that_are_pushed_twice_are_received_once(shop: ServedProject, url: str, tmp_path: Path) -> None:
    first = run(shop, url, "push", "orders", "--producer", "pipe", "--first", "1", "--json", stdin=format_lines(1, 2))
    assert (first.returncode, json.loads(first.stdout)) == (0, {"channel": "orders", "acknowledged": 2}), first.stderr
    again = run(shop, url, "push", "orders", "--producer", "pipe", "--first", "1", stdin="\n" + format_lines(1, 2, 3))
    assert again.stdout == "everything up to number 3 is in orders\n"
    offset_file = tmp_path / "offset"
    subscribe = ("subscribe", "orders", "--offset-file", str(offset_file), "--blocks", "1", "--columns", "id")
    outputs = [run(shop, url, *subscribe, "--after", "0"), run(shop, url, *subscribe)]
    assert [f.stdout for f in outputs] == ['{"id": 1}\n{"id": 2}\n', '{"id": 3}\n']
    assert offset_file.read_text() == "2\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("push", "nowhere"), 4, "no channel 'nowhere'"),
        (("push", "orders"), 5, "message 1: row 1"),
    ],
)
def test_errors_are_reported(
    shop: ServedProject, url: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    result = run(shop, url, *arguments, stdin='{"id": "x"}\n')
    assert (result.returncode, message in result.stderr) == (code, True), result.stderr
