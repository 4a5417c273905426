"""A server process on a new project, the page of it in a browser, and the browser's errors."""

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
class ProjectServer:
    """A project, the server that runs on it, and a browser."""

    project: Path
    url: str
    browser: Browser
    errors: list[str] = field(default_factory=list)

    @contextmanager
    def open_project(self) -> Iterator[Tidemill]:
        """Open the project as the command line does; the server learns of changes from the catalog."""
        with Tidemill.open(self.project) as mill:
            yield mill

    @contextmanager
    def page(self, path: str = "/", *, width: int = 1280, viewer: str | None = None) -> Iterator[Page]:
        """Open a page in a new browser profile and check that it causes no browser error.

        No error in the console, no violation of the security policy, and no request to any other server.
        """
        context = self.browser.new_context(
            viewport={"width": width, "height": 844},
            extra_http_headers={"x-viewer": viewer} if viewer else {},
            reduced_motion="reduce",
        )
        page = context.new_page()
        page.on("console", self._record_message)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", self._record_request)
        try:
            self.go(page, path)
            yield page
        finally:
            context.close()
            errors, self.errors = self.errors, []
        assert errors == []

    def go(self, page: Page, path: str) -> None:
        """Open a page and wait until it is connected."""
        page.goto(self.url + path)
        expect(page.locator("#content")).to_be_visible()
        page.wait_for_function("window.did_handshake === true")

    def insert_data(self) -> None:
        """Insert cities, then orders of which some are large."""
        cities, orders = self.project / "cities.csv", self.project / "orders.csv"
        cities.write_text("city,country\n" + "".join(f"city{i},land{i % 2}\n" for i in range(4)))
        orders.write_text("id,city,amount\n" + "".join(f"{i},city{i % 4},{i * 30 % 200}\n" for i in range(20)))
        with self.open_project() as mill:
            mill.insert("cities", cities)
            mill.insert("orders", orders)

    @property
    def failure_file(self) -> Path:
        """While this file exists, `large_orders` fails."""
        return self.project / "broken"

    def _record_message(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.errors.append(message.text)

    def _record_request(self, request: Request) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.errors.append(f"requested {request.url} from another server")


@contextmanager
def start_project_server(project: Path, browser: Browser, part: str = "all") -> Iterator[ProjectServer]:
    """Start a server on a project without registered workflows."""
    (project / SETTINGS_FILE).touch()
    shutil.copy(shop.__file__, project / "workflow.py")
    with start_process(project, part) as (server, line):
        yield ProjectServer(project, f"http://127.0.0.1:{int(line)}", browser)
        _stop(server)


@contextmanager
def start_worker(project: Path) -> Iterator[subprocess.Popen[str]]:
    """A server that executes runs and serves no page."""
    with start_process(project, "work") as (server, _):
        yield server


@contextmanager
def start_process(project: Path, part: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process, and the line that it prints when it is ready."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "TIDEMILL"))}
    command = [sys.executable, "-m", "tests.ui.site", str(project), "plain", part]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=ROOT, env=environment, text=True, **pipes) as server:
        assert server.stdout is not None
        yield server, server.stdout.readline()


def _stop(server: subprocess.Popen[str]) -> None:
    assert server.stdin is not None
    server.stdin.close()
    assert server.wait(30) == 0
