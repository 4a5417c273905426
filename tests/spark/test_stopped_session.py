"""A task that stops the Spark session, which all runs share: only that run fails."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_task_that_stops_the_session_fails_alone(tmp_path: Path) -> None:
    program = Path(__file__).with_name("stopped_session.py")
    finished = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    report = json.loads(finished.stdout)
    line = 1 + next(n for n, text in enumerate(program.read_text().splitlines()) if text == "    session.stop()")
    for table in ("by_session", "by_context"):
        assert "the task stopped the Spark session" in report[table]["error"]
        assert f"({program}:" in report[table]["error"]
    assert f"{program}:{line}" in report["by_session"]["error"]
    assert report["is_same_session"]
    assert report["counts"] == "finished"
    assert report["in_another_way"]["attempts"] > 1, "a session that is lost is replaced"
    assert "Spark's session is gone" in report["in_another_way"]["error"]
    assert (report["counts_again"], report["is_healthy"]) == ("finished", True)
