"""Beside the pages, the API answers wrong paths and methods itself, and pages accept updates of their origin only."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.ui.mounted_api import FOREIGN, OWN, SOCKET_IO
from tests.ui.project_server import ROOT


@pytest.mark.long
def test_the_api_answers_beside_the_pages(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.ui.mounted_api", str(tmp_path)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    answers = {
        (method, path, origin): rest for method, path, origin, *rest in map(json.loads, result.stdout.splitlines())
    }
    assert answers["GET", "/api/v1/nothing", None] == [404, "application/json"]
    assert answers["GET", "/api/nothing", None] == [404, "application/json"]
    assert answers["DELETE", "/api/v1/channels", None] == [405, "application/json"]
    assert answers["GET", "/runs", None] == [200, "text/html; charset=utf-8"]
    assert answers["GET", SOCKET_IO, OWN][0] == 200
    assert answers["GET", SOCKET_IO, FOREIGN][0] == 400
