"""The page in a browser: a server of its own on a project of its own, and what the browser complains of."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, expect
from tests.ui import shop

from tidemill.app.settings import SETTINGS_FILE
from tidemill.app.wiring import Tidemill

ROOT = Path(__file__).parents[2]
NODES = 7
"""Cards of the shop's graph: two inputs, four tables, and a task that writes two of them."""


@dataclass
class House:
    """A project, the server on it, and a browser that looks at it."""

    project: Path
    url: str
    browser: Browser
    complaints: list[str] = field(default_factory=list)

    @contextmanager
    def opened(self) -> Iterator[Tidemill]:
        """The same project, as the command line opens it: what happens there the server learns from the catalog."""
        with Tidemill.open(self.project) as mill:
            yield mill

    @contextmanager
    def page(self, path: str = "/", *, width: int = 1280, viewer: str | None = None) -> Iterator[Page]:
        """A page of a fresh browser profile, on which nothing may go wrong meanwhile.

        No error in the console, no violation of the policy, and nothing asked of any other server.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": 844},
            extra_http_headers={"x-viewer": viewer} if viewer else {},
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._asked)
        try:
            self.go(page, path)
            yield page
        finally:
            context.close()
            said, self.complaints = self.complaints, []
        assert said == []

    def go(self, page: Page, path: str) -> None:
        """Open a page, and wait until it is live."""
        page.goto(self.url + path)
        expect(page.locator("#content")).to_be_visible()
        page.wait_for_function("window.did_handshake === true")

    def feed(self) -> None:
        """Cities, then orders: some large, some not."""
        cities, orders = self.project / "cities.csv", self.project / "orders.csv"
        cities.write_text("city,country\n" + "".join(f"city{i},land{i % 2}\n" for i in range(4)))
        orders.write_text("id,city,amount\n" + "".join(f"{i},city{i % 4},{i * 30 % 200}\n" for i in range(20)))
        with self.opened() as mill:
            mill.insert("cities", cities)
            mill.insert("orders", orders)

    @property
    def broken(self) -> Path:
        """While this file is there, `large_orders` fails."""
        return self.project / "broken"

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.complaints.append(f"asked the network for {request.url}")


@contextmanager
def house(project: Path, browser: Browser, part: str = "all") -> Iterator[House]:
    """A house in which nothing is registered yet."""
    (project / SETTINGS_FILE).touch()
    shutil.copy(shop.__file__, project / "workflow.py")
    with process(project, part) as (server, said):
        yield House(project, f"http://127.0.0.1:{int(said)}", browser)
        _end(server)


@contextmanager
def worker(project: Path) -> Iterator[subprocess.Popen[str]]:
    """Executes runs, and shows nothing."""
    with process(project, "work") as (server, _):
        yield server


@contextmanager
def process(project: Path, part: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server's process, and the line that it prints once it serves."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "TIDEMILL"))}
    command = [sys.executable, "-m", "tests.ui.site", str(project), "plain", part]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        yield server, server.stdout.readline()


def _end(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(30) == 0
