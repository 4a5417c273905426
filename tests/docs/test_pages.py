"""Every page of the documentation does what it says: its files are written, its commands and fragments executed."""

from __future__ import annotations

import io
import json
import re
import runpy
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession
from tests.docs.pages import PAGES, ROOT, CodeBlock, Command, parse_commands, read_blocks

from tidemill.cli import main

SETTINGS = '[spark]\nmaster = "local[2]"\n\n[api]\nport = {port}\n'
RUN_BY_PROJECT = ("make", ".venv/bin/python")
"""Commands of a checkout, not of a project: the targets must exist."""


class PageProject:
    """A project directory in which one page is executed from top to bottom."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._servers: list[subprocess.Popen[bytes]] = []
        self._url = self._write_settings()
        monkeypatch.chdir(directory)
        monkeypatch.setenv("TIDEMILL_URL", self._url)

    def write_file(self, block: CodeBlock) -> None:
        path = self._directory / str(block.file_name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.content, encoding="utf-8")

    def run_command(self, command: Command) -> None:
        """Run one line; it must succeed."""
        match command.words:
            case ("cd", directory):
                self._monkeypatch.chdir(directory)
            case ("python", script):
                runpy.run_path(script, run_name="__main__")
            case ("tidemill", *arguments) if command.in_background:
                self._start_server(arguments)
            case ("tidemill", *arguments):
                self._run_tidemill(arguments, command.stdin)
            case (program, *arguments) if program in RUN_BY_PROJECT:
                assert program != "make" or f"\n{arguments[0]}:" in (ROOT / "Makefile").read_text()
                assert all((ROOT / word).exists() for word in arguments if word.startswith("tests/"))
            case words:
                pytest.fail(f"no rule to execute {' '.join(words)}")

    def close(self) -> None:
        for server in self._servers:
            server.kill()
            server.wait()

    def _write_settings(self) -> str:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        (self._directory / "tidemill.toml").write_text(SETTINGS.format(port=port))
        return f"http://127.0.0.1:{port}"

    def _run_tidemill(self, arguments: list[str], stdin: str | None) -> None:
        if stdin is not None:
            self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(Path(stdin).read_bytes())))
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 0, f"tidemill {' '.join(arguments)}"

    def _start_server(self, arguments: list[str]) -> None:
        program = f"from tidemill.cli import main; main({arguments!r})"
        log = self._directory / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen([sys.executable, "-c", program], stdout=output, stderr=output)
        self._servers.append(server)
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(transport=transport) as client:
            while True:
                assert server.poll() is None, log.read_text()
                try:
                    if client.get(f"{self._url}/healthz", timeout=60).status_code == 200:
                        return
                except httpx.TransportError:
                    continue


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PageProject]:
    opened = PageProject(tmp_path, monkeypatch)
    yield opened
    opened.close()


def has_example(page: Path) -> bool:
    return any(block.language == "sh" for block in read_blocks(page))


@pytest.mark.parametrize("page", [p for p in PAGES if has_example(p)], ids=lambda page: page.stem)
def test_commands_of_a_page_succeed(page: Path, project: PageProject, spark: SparkSession) -> None:
    for block in read_blocks(page):
        if block.file_name is not None:
            project.write_file(block)
        elif block.language == "sh":
            for command in parse_commands(block):
                project.run_command(command)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_fragments_of_a_page_are_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python fragments are executed after the page's workflow, but for those that need a server; JSON is parsed."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "visits.sql").write_text("SELECT user FROM clicks")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__file__": str(tmp_path / "workflow.py"), "__name__": "workflow"}
    for block in read_blocks(page):
        if block.language == "json":
            text = block.content if block.file_name else block.text
            for document in text.splitlines() if str(block.file_name).endswith(".jsonl") else [text]:
                json.loads(document)
        elif block.language == "python":
            code = compile(block.text, str(tmp_path / "workflow.py"), "exec")
            if not re.search(r"\bClient\(|Tidemill\.open", block.text):
                exec(code, namespace)


def test_every_task_page_has_an_example() -> None:
    tasks = {
        "concepts",
        "declare-tables",
        "write-tasks",
        "freshness-targets",
        "streams",
        "operate",
        "deploy",
        "api-reference",
    }
    assert tasks <= {page.stem for page in PAGES if has_example(page)}


def test_links_between_pages_exist() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
