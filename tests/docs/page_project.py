"""A project directory in which the commands of a page or an example are executed."""

from __future__ import annotations

import io
import runpy
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from tests.docs.pages import ROOT, CodeBlock, Command

from tidemill.cli import main

SETTINGS = '\n[spark]\nmaster = "local[2]"\n\n[api]\nport = {port}\n'
RUN_BY_PROJECT = ("make", ".venv/bin/python")
"""Commands of a checkout, not of a project: the targets must exist."""


class PageProject:
    """Executes commands in a directory, with a free port in its settings; `url` is the address of its server."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._directory = directory
        self._monkeypatch = monkeypatch
        self._servers: list[subprocess.Popen[bytes]] = []
        self.url = self._write_settings()
        monkeypatch.chdir(directory)
        monkeypatch.setenv("TIDEMILL_URL", self.url)

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
        with (self._directory / "tidemill.toml").open("a") as settings:
            settings.write(SETTINGS.format(port=port))
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
                    if client.get(f"{self.url}/healthz", timeout=60).status_code == 200:
                        return
                except httpx.TransportError:
                    continue
