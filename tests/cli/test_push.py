"""`push` and `follow` as processes, against a server that listens."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.server.mill import OPTIONS, Served, served

from tidemill.server.http_server import HttpListener

RUN = "from tidemill.cli import main; main()"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(tmp_path_factory.mktemp("shop"), options=replace(OPTIONS, stream_seconds=60.0)) as found:
        yield found


@pytest.fixture(scope="module")
def url(shop: Served) -> Iterator[str]:
    with HttpListener(shop.app, shop.access, port=0) as listener:
        yield listener.url


def run(shop: Served, url: str, *arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    known = {**os.environ, "TIDEMILL_URL": url, "TIDEMILL_TOKEN": shop.tokens["owner"]}
    program = [sys.executable, "-c", RUN, *arguments]
    return subprocess.run(program, input=given, env=known, capture_output=True, text=True, timeout=60, check=False)


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"id": n, "word": "w"}) + "\n" for n in numbers)


def test_what_is_piped_in_comes_out_and_twice_is_once(shop: Served, url: str, tmp_path: Path) -> None:
    first = run(shop, url, "push", "orders", "--producer", "pipe", "--first", "1", "--json", given=lines(1, 2))
    assert (first.returncode, json.loads(first.stdout)) == (0, {"channel": "orders", "acknowledged": 2}), first.stderr
    again = run(shop, url, "push", "orders", "--producer", "pipe", "--first", "1", given="\n" + lines(1, 2, 3))
    assert again.stdout == "everything up to number 3 is in orders\n"
    place = tmp_path / "place"
    follow = ("follow", "orders", "--position", str(place), "--blocks", "1", "--columns", "id")
    followed = [run(shop, url, *follow, "--after", "0"), run(shop, url, *follow)]
    assert [f.stdout for f in followed] == ['{"id": 1}\n{"id": 2}\n', '{"id": 3}\n']
    assert place.read_text() == "2\n"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("push", "nowhere"), 4, "no channel 'nowhere'"),
        (("push", "orders"), 5, "message 1: row 1"),
    ],
)
def test_what_goes_wrong_is_said(shop: Served, url: str, arguments: tuple[str, ...], code: int, said: str) -> None:
    ended = run(shop, url, *arguments, given='{"id": "x"}\n')
    assert (ended.returncode, said in ended.stderr) == (code, True), ended.stderr
